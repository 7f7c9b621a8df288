"""The benchmark of truth: its cases are what they claim to be, and its figures and exit code follow from the answers."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.servers import Connection
from benchmarks.truth import __main__ as truth
from benchmarks.truth import first_minute, quotations
from benchmarks.truth.cases import Sample, message, pairs_of, read_json, read_toml
from benchmarks.truth.figures import Figure, as_json, missed, summary
from benchmarks.truth.memory_client import Memory, is_nothing, shows
from layerlore.memory.recall.recall_text import NOTHING

LANGUAGES = {"en", "de", "fr", "es", "tr", "zh", "ar"}
ALLOWED_ROLES = {
    "user_assertion": {"user"},
    "user_accepted_assistant_proposal": {"user"},
    "verified_assistant_finding": {"user", "assistant"},
}


def figure_of(*cases: bool, expected: float | None = None, unwanted: bool = False) -> Figure:
    counted = Figure("part", "figure", expected, unwanted)
    for number, is_true in enumerate(cases):
        counted.add(is_true, f"case {number}")
    return counted


def test_a_figure_is_the_share_of_its_cases_and_lists_those_that_came_out_wrong() -> None:
    kept = figure_of(True, False, True, expected=0.6)
    assert kept.share == pytest.approx(2 / 3)
    assert (kept.holds, kept.misses) == (True, ["case 1"])
    hidden = figure_of(True, False, expected=0.0, unwanted=True)
    assert (hidden.holds, hidden.misses) == (False, ["case 0"])
    assert missed([kept, hidden]) == [hidden]


def test_a_small_sample_may_have_one_more_miss_unless_none_may_be_wrong() -> None:
    nearly = figure_of(*[True] * 15, False, expected=0.95)
    assert nearly.holds is False
    nearly.spare = 1
    assert nearly.holds is True
    false = figure_of(True, *[False] * 11, expected=0.03, unwanted=True)
    false.spare = 1
    assert false.holds is True
    for all_right in (figure_of(True, False, expected=1.0), figure_of(True, expected=0.0, unwanted=True)):
        all_right.spare = 1
        assert all_right.holds is False


def test_nothing_is_expected_of_a_figure_without_a_bound_or_without_cases() -> None:
    assert figure_of(False).holds is None
    assert figure_of(expected=1.0).holds is None
    assert missed([figure_of(False), figure_of(expected=1.0)]) == []


def test_the_table_and_the_json_say_what_was_expected() -> None:
    hidden = figure_of(True, False, expected=0.0, unwanted=True)
    (line,) = summary([hidden]).splitlines()[2:]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "part",
        "figure",
        "0.500",
        "1 of 2",
        "at most 0.00",
        "miss",
    ]
    (written,) = as_json([hidden])
    assert (written["share"], written["bound"], written["verdict"]) == (0.5, "at most 0.00", "miss")


def test_a_sample_takes_its_share_of_each_kind_in_order_and_the_same_for_the_same_seed() -> None:
    numbers = list(range(40))
    drawn = Sample(0.2, seed=7).of(numbers, kind=lambda number: number // 10)
    assert drawn == sorted(drawn)
    assert [len([number for number in drawn if number // 10 == kind]) for kind in range(4)] == [2, 2, 2, 2]
    assert Sample(0.2, seed=7).of(numbers, kind=lambda number: number // 10) == drawn
    assert Sample(0.01).of(numbers) != []
    assert Sample().of(numbers) == numbers


def test_the_first_minute_has_twelve_questions_in_each_of_seven_languages() -> None:
    stores = first_minute.read_stores()
    assert {store.language for store in stores} == LANGUAGES
    for language in LANGUAGES:
        assert sum(len(store.questions) for store in stores if store.language == language) >= 12
    assert all(1 <= len(store.messages) <= 3 for store in stores)


def test_each_answer_of_the_first_minute_stands_in_a_message_and_never_in_the_question() -> None:
    for store in first_minute.read_stores():
        for question in store.questions:
            assert any(question.answer in text for text in store.messages), question
            assert question.answer not in question.text


def test_each_answer_of_the_small_stores_stands_in_the_message_that_is_named() -> None:
    for store in read_toml("small_stores")["stores"]:
        assert len(store["messages"]) == 20
        assert store["never"]
        for needed, question, answer in store["questions"]:
            assert answer in store["messages"][needed - 1], question
            assert answer not in question


def test_each_answer_of_daily_use_was_stored_and_stands_in_no_question() -> None:
    for store in read_json("daily_use"):
        stored = json.dumps(store["calls"], ensure_ascii=False)
        for question, texts in store["questions"]:
            for text in texts:
                assert text in stored, question
                assert text not in question
    assert sum(len(store["questions"]) for store in read_json("daily_use")) >= 40


def test_there_are_100_different_and_60_equal_pairs_and_no_sentence_contains_its_opposite() -> None:
    different = [pair for _, pair in pairs_of("different_facts")]
    assert len(different) == len(set(different)) == 100
    assert [pair for pair in different if pair[0] in pair[1] or pair[1] in pair[0]] == []
    assert len(pairs_of("equal_facts")) == 60


def test_there_are_60_pairs_of_each_kind_of_contradiction_and_30_of_each_kind_of_correction() -> None:
    contradictions, corrections = read_toml("contradictions"), read_toml("corrections")
    assert [len(contradictions[kind]) for kind in ("other", "same")] == [60, 60]
    assert [len(corrections[kind]) for kind in ("clean", "unrelated")] == [30, 30]
    assert all(case["beside"] for case in corrections["clean"])


def test_100_entries_are_faithful_and_at_least_60_invented_and_each_is_quoted_as_its_kind_says() -> None:
    kinds: dict[str, int] = {}
    for conversation in quotations.read_conversations():
        said = [message(text) for text in conversation.messages]
        for claim in conversation.claims:
            kinds[claim.kind] = kinds.get(claim.kind, 0) + 1
            allowed = ALLOWED_ROLES[claim.label]
            for quote in claim.quotes:
                roles = {each["role"] for each in said if quote in each["content"]}
                assert bool(roles) is (claim.kind != "invented_quotes"), claim
                assert bool(roles & allowed) is (claim.kind not in ("invented_quotes", "wrong_roles")), claim
            if claim.kind == "twisted":
                assert claim.unproven in claim.content, claim
                assert claim.unproven not in " ".join(claim.quotes), claim
    assert kinds.pop("faithful") == 100
    assert sum(kinds.values()) >= 60


def test_an_answer_shows_a_text_whatever_its_white_space_and_says_when_nothing_is_remembered() -> None:
    assert shows("- user: The  valve\n  is open.", "The valve is open.")
    assert not shows("The PATH is set.", "path")
    assert is_nothing(NOTHING)
    assert not is_nothing("1 hit")


class StandIn:
    """A connection that answers every call alike and keeps the arguments of the last one."""

    def __init__(self, **answer: Any) -> None:
        self.answer = {"id": "new", "status": "kept", "source": "caller", **answer}
        self.sent: dict[str, Any] = {}

    async def call(self, _: str, **arguments: Any) -> Any:
        self.sent = arguments
        return self.answer


def remembering(schemas: dict[str, Any], **answer: Any) -> tuple[Memory, StandIn]:
    """A memory whose remember takes the arguments of these schemas."""
    connection = StandIn(**answer)
    memory = Memory(cast("Connection", connection))
    memory.tools = {"remember": schemas}
    return memory, connection


@pytest.mark.anyio
async def test_arguments_have_the_names_and_forms_that_the_server_takes() -> None:
    listed = {"evidence": {"anyOf": [{"type": "string"}, {"type": "array"}]}, "replaces": {"type": "string"}}
    newer, sent = remembering(listed)
    await newer.remember("A note.", replaces="old", quotes=["one", "two"])
    assert sent.sent == {"content": "A note.", "replaces": "old", "evidence": ["one", "two"]}
    older, sent = remembering({"evidence": {"type": "string"}, "entry_id": {"type": "string"}})
    await older.remember("A note.", replaces="old", quotes=["one", "two"])
    assert sent.sent == {"content": "A note.", "entry_id": "old", "evidence": "one"}


@pytest.mark.anyio
async def test_a_note_names_what_it_hides_contradicts_and_leaves_unproven_by_ids_or_objects() -> None:
    replaced = [{"id": "old", "content": "It was so."}]
    memory, _ = remembering({}, replaced=replaced, superseded=["older"], contradicts=["other"], unproven=["Bosch"])
    note = await memory.remember("A note.")
    assert (note.hidden, note.contradicts, note.unproven) == (["older", "old"], ["other"], ["Bosch"])
    memory, _ = remembering({}, unproven="it was kept without its kind")
    assert (await memory.remember("A note.")).unproven == []


def test_the_exit_code_is_1_only_if_a_check_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def measure(_: Path, __: Sample) -> list[Figure]:
        return [figure_of(False, expected=1.0)]

    monkeypatch.setattr(truth, "PARTS", {"equal": measure})
    written = tmp_path / "truth.json"
    assert truth.main(["--parts", "equal"]) == 0
    assert truth.main(["--parts", "equal", "--check", "--misses", "--json", str(written)]) == 1
    assert json.loads(written.read_text(encoding="utf-8"))["figures"][0]["verdict"] == "miss"
    printed = capsys.readouterr().out
    assert "- case 0" in printed
    assert "Not as expected: part, figure" in printed


def test_pairs_are_remembered_through_a_client_and_a_sentence_said_again_is_recognised(tmp_path: Path) -> None:
    written = tmp_path / "truth.json"
    truth.main(["--quick", "--parts", "equal", "--json", str(written)])
    figures = {each["name"]: each for each in json.loads(written.read_text(encoding="utf-8"))["figures"]}
    assert figures["recognised: said again"]["share"] == 1.0
    assert figures["recognised"]["cases"] >= 7


@pytest.mark.soak
def test_every_part_counts_cases_in_a_quick_run(tmp_path: Path) -> None:
    written = tmp_path / "truth.json"
    truth.main(["--quick", "--json", str(written)])
    figures = json.loads(written.read_text(encoding="utf-8"))["figures"]
    assert len({each["part"] for each in figures}) == len(truth.PARTS)
    assert all(each["cases"] for each in figures)
