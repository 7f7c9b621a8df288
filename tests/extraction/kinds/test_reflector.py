"""Fewer observations take the place of many: what is critical stays, each has one fate, and a bad answer changes nothing."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_chat import ScriptedChat

from layerlore.extraction.kinds.kind import AnswerRefused
from layerlore.extraction.kinds.reflector import Reflection, read_reflection
from layerlore.memory.settings.note_settings import ObservationRules
from layerlore.storage.core.records import Json
from layerlore.storage.core.transaction import Database
from layerlore.storage.derived import observations
from layerlore.storage.derived.observations import MARKERS, Observation

from ..talking import Talk, note, noting, words
from ..talking import given as told_to

RULES = ObservationRules(message_tokens=1000, reflect_tokens=300)


def row(id_: int, marker: str = "info", parent: int | None = None, text: str = "", model: str = "m") -> Observation:
    return Observation(
        id_,
        marker,
        text or f"note {id_}",
        0,
        None,
        id_,
        id_,
        10,
        parent,
        "active",
        None,
        "user",
        0,
        id_,
        model,
        "p",
        0,  # type: ignore[arg-type]
    )


def merge(*ids: Any, marker: str = "important", text: str = "all in one") -> Json:
    return {"supersedes": list(ids), "marker": marker, "text": text, "refers_to": None}


def read(merges: Sequence[Json], drop: Sequence[Any], rows: Sequence[Observation]) -> Reflection:
    return read_reflection({"merge": list(merges), "drop": list(drop)}, rows)


ROWS = [row(1), row(2, "critical"), row(3, "important"), row(4, parent=3), row(5, "completion"), row(6, "critical", 5)]


def test_ids_that_are_invented_are_ignored() -> None:
    made = read([merge(1, 99, "3", None, True)], [77, 5], ROWS)
    assert [merged.supersedes for merged in made.merges] == [(1,)]
    assert made.drops == {5}


def test_a_critical_note_is_never_dropped_and_what_it_is_merged_into_is_critical() -> None:
    assert read([], [1, 2, 6], ROWS).drops == {1}
    (merged,) = read([merge(1, 2, marker="info")], [], ROWS).merges
    assert (merged.supersedes, merged.marker) == ((1, 2), "critical")


def test_each_note_has_one_fate_the_first_merge_then_a_later_one_then_a_drop() -> None:
    made = read([merge(1, 3), merge(3, 5, text="two"), merge(1, text="three")], [1, 3, 4, 5], ROWS)
    assert [merged.supersedes for merged in made.merges] == [(1, 3, 4), (5,)]
    assert made.drops == frozenset()


def test_what_is_under_a_note_goes_with_it_unless_it_is_critical() -> None:
    assert read([], [3, 5], ROWS).drops == {3, 4, 5}
    assert [merged.supersedes for merged in read([merge(3, 5)], [], ROWS).merges] == [(3, 4, 5)]


@pytest.mark.parametrize(
    ("merges", "drop"),
    [([], []), ([merge(99)], [98]), ([], [2, 6]), ([merge(1, text="  ")], []), ([merge()], [])],
    ids=["empty", "invented", "critical only", "no text", "no ids"],
)
def test_an_answer_that_changes_nothing_is_refused(merges: list[Json], drop: list[int]) -> None:
    with pytest.raises(AnswerRefused, match="nothing would change"):
        read(merges, drop, ROWS)


def test_an_answer_that_repeats_itself_or_has_another_form_is_refused() -> None:
    with pytest.raises(AnswerRefused, match="same text"):
        read([merge(1, text="x"), merge(3, text="x")], [], ROWS)
    with pytest.raises(AnswerRefused, match="repeats itself"):
        read([merge(1, text="again and " * 60)], [], ROWS)
    for answer in ({"merge": "all"}, {"merge": [7]}, {"merge": [{"supersedes": [1]}]}):
        with pytest.raises(AnswerRefused, match="must be"):
            read_reflection(answer, ROWS)


def test_extracts_that_are_only_info_go_when_a_reflection_passes_them_over() -> None:
    rows = [row(1, model="extractive"), row(2, "important", model="extractive"), row(3), row(4)]
    assert read([merge(3, 4)], [], rows).drops == {1}


ids = st.lists(st.integers(0, 12), max_size=8)
answers = st.tuples(st.lists(ids, max_size=4), ids)
kept_rows = st.lists(st.tuples(st.sampled_from(MARKERS), st.none() | st.integers(1, 6)), min_size=1, max_size=10)


@settings(max_examples=300, deadline=None)
@given(answers, kept_rows)
def test_whatever_is_answered_no_note_has_two_fates_and_no_critical_one_is_lost(
    answer: tuple[list[list[int]], list[int]], made: list[tuple[str, int | None]]
) -> None:
    rows = [
        row(id_, marker, parent if parent is not None and parent < id_ else None)
        for id_, (marker, parent) in enumerate(made, 1)
    ]
    by_id = {each.observation_id: each for each in rows}
    merges = [merge(*named, text=f"text {place}") for place, named in enumerate(answer[0])]
    try:
        found = read(merges, answer[1], rows)
    except AnswerRefused:
        return
    fates = [id_ for merged in found.merges for id_ in merged.supersedes] + sorted(found.drops)
    assert len(fates) == len(set(fates))
    assert set(fates) <= by_id.keys()
    assert fates
    assert not [id_ for id_ in found.drops if by_id[id_].marker == "critical"]
    for merged in found.merges:
        assert merged.marker == "critical" or all(by_id[id_].marker != "critical" for id_ in merged.supersedes)


class Reflecting:
    """A thread whose observations are too many."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk

    @classmethod
    async def begin(cls, database: Database, rules: ObservationRules = RULES) -> "Reflecting":
        talk = Talk.on(database, rules)
        long = " ".join(["said"] * 20)
        talk.chat = ScriptedChat(
            observe=lambda material: noting(
                *(
                    note(f"{each['text'].partition(':')[0]} {long} {each['seq']}", each["seq"], each["seq"])
                    for each in told_to(material)["messages"]
                )
            )
        )
        for number in range(1, 23):
            await talk.say(words(f"m{number}"))
            await talk.work("observe")
        return cls(talk)


pytestmark = pytest.mark.anyio


async def test_too_many_observations_are_reflected_upon_and_the_old_rows_stay(database: Database) -> None:
    talk = (await Reflecting.begin(database)).talk
    before = await talk.rows()
    assert sum(each.tokens for each in before) >= RULES.reflect_tokens
    first, *rest = [each.observation_id for each in before]
    talk.chat.tell("reflect", {"merge": [merge(*rest, text="much was said")], "drop": [first]})
    assert await talk.work("reflect") == ["reflect"]
    (now,) = await talk.rows()
    assert (now.text, now.level, now.model, now.prompt) == ("much was said", 1, "scripted/one", "reflect/2")
    assert (now.from_seq, now.to_seq, now.trust, now.batch) == (2, before[-1].to_seq, "user", before[-1].batch)
    assert {each.observation_id for each in await talk.rows("superseded")} == set(rest)
    assert {each.superseded_by for each in await talk.rows("superseded")} == {now.observation_id}
    assert [each.observation_id for each in await talk.rows("dropped")] == [first]
    assert "reflect" not in await talk.waiting()


async def test_a_larger_answer_and_one_that_is_still_too_long_are_failed_attempts_at_growing_levels(
    database: Database,
) -> None:
    talk = (await Reflecting.begin(database)).talk
    before = await talk.rows()
    rows = [each.observation_id for each in before]
    larger = {"merge": [merge(rows[0], text=" ".join(f"w{n}" for n in range(300)))], "drop": []}
    longer = {"merge": [], "drop": [rows[0]]}
    talk.chat.tell("reflect", larger, longer, {"merge": [], "drop": []}, longer)
    ended = await talk.work("reflect")
    assert [each.partition(":")[0] for each in ended] == ["reflect refused"] * 3 + ["reflect"]
    # The fourth, at the last level, is taken as it is, smaller but too long, and nothing loops.
    assert len(await talk.rows()) == len(before) - 1
    told = [material.instructions for material in talk.chat.of("reflect")]
    assert len(set(told)) == 4
    assert "reflect" not in await talk.waiting()


async def test_after_four_failed_attempts_it_is_given_up_until_the_next_activation(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    talk = (await Reflecting.begin(database)).talk
    before = await talk.rows()
    talk.chat.tell("reflect", {"merge": [], "drop": []})
    ended = await talk.work("reflect")
    assert ([each.partition(":")[0] for each in ended], len(talk.chat.of("reflect"))) == (
        ["reflect refused"] * 4 + ["reflect"],
        4,
    )
    assert "they stay as they are" in caplog.text
    assert await talk.rows() == before
    for number in range(20):
        await talk.say(words(f"n{number}"))
        await talk.work("observe")
    assert (await talk.waiting())["reflect"] == "due"


async def test_a_reflection_on_notes_that_changed_meanwhile_is_not_stored(database: Database) -> None:
    talk = (await Reflecting.begin(database)).talk
    rows = await talk.rows()
    everything = {"merge": [merge(*(each.observation_id for each in rows), text="told m1")], "drop": []}
    talk.chat.tell("reflect", everything)
    claim = await talk.claim("reflect")
    assert claim is not None
    talk.chat.hold()
    async with anyio.create_task_group() as tasks:
        ended: list[str] = []

        async def attempt() -> None:
            ended.append(await talk.attempt(claim))

        tasks.start_soon(attempt)
        await talk.chat.begun.wait()
        uid = (await talk.found()).thread_uid
        await talk.engine.database.write(observations.changed, talk.scope, uid, [1], now=talk.now)
        talk.chat.release()
    assert ended == ["reflect stale"]
    assert "told m1" not in await talk.texts("active", "superseded", "dropped")
    gone = {each.observation_id for each in rows if each.batch == rows[0].batch}
    assert [each.observation_id for each in await talk.rows()] == [
        each.observation_id for each in rows if each.observation_id not in gone
    ]


async def test_a_reflection_goes_with_a_message_it_was_made_from_and_the_rest_comes_back(database: Database) -> None:
    talk = (await Reflecting.begin(database, RULES.model_copy(update={"stand_in": 10}))).talk
    rows = await talk.rows()
    talk.chat.tell("reflect", {"merge": [merge(*(each.observation_id for each in rows), text="told all")], "drop": []})
    assert await talk.work("reflect") == ["reflect"]
    uid = (await talk.found()).thread_uid
    await talk.engine.database.write(observations.changed, talk.scope, uid, [1], now=talk.now)
    kept = [each for each in rows if each.batch != rows[0].batch]
    assert await talk.rows() == kept
    assert await talk.rows("superseded") == []
    talk.now += 1
    assert set(await talk.work("digest")) == {"digest"}
    again = await talk.rows()
    assert [each for each in again if each.model != "extractive"] == kept
    assert all(each.to_seq <= rows[0].batch for each in again if each.model == "extractive")


async def test_without_a_model_far_too_many_lose_the_oldest_of_the_least_and_nothing_critical(
    database: Database,
) -> None:
    rules = RULES.model_copy(update={"reflect_tokens": 200})
    talk = (await Reflecting.begin(database, rules)).talk
    before = await talk.rows()
    assert sum(each.tokens for each in before) >= rules.reflect_stand_in_tokens
    talk.now += 60_000
    assert "digest" in await talk.work("digest")
    after = await talk.rows()
    assert sum(each.tokens for each in after) <= rules.reflect_tokens / 2
    assert after == before[-len(after) :]
