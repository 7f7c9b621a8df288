"""What was recalled, as text and as JSON: its lines, what the first and the last line say, and how it is cut."""

import re
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.parts.tokens import CUT_MARK, load_counter
from layerlore.memory.recall.hit_lines import BEST
from layerlore.memory.recall.recall_text import (
    NOTHING,
    NOTHING_YET,
    PREAMBLE,
    UNSURE,
    render_json,
    render_text,
    separate_neighbours,
)
from layerlore.memory.recall.results import Hit, RecallResult, ScoreParts
from layerlore.storage.core.records import Message
from layerlore.storage.derived.entries import PLACE

COUNTER = load_counter()
NOW = 1_700_000_000_000
DAY = 86_400_000
FILLER = "lorem ipsum dolor sit amet " * 60
PARTS = ScoreParts(
    0,
    0.9,
    1.5,
    {"lexical": 0.8, "context": 0.1, "semantic": 0.4, "speaker": 0.0, "session": 0.2},
    0.62,
    1.0,
    ("tea",),
    ("green",),
)


def message(seq: int, thread: str = "main", said_at: int = NOW) -> Message:
    parts = [{"type": "text", "text": f"line {seq}"}]
    return Message(thread, seq, f"id{seq}", "user", None, parts, {}, 2, "x", said_at, said_at, 1)


def hit(seq: int, thread: str = "main", score: float = 0.5, *, said_at: int = NOW) -> Hit:
    before = [message(at, thread) for at in (seq - 2, seq - 1) if at > 0]
    return Hit(message(seq, thread, said_at), score, lambda: PARTS, before, [message(seq + 1, thread)])


def text_of(recalled: RecallResult, *, max_tokens: int = 2000, explain: bool = False) -> list[str]:
    return render_text(recalled, COUNTER, now=NOW, detail="low", max_tokens=max_tokens, explain=explain).splitlines()


MARKS = {7: BEST, 20: BEST, 8: BEST}


def test_every_hit_and_neighbour_is_a_line_under_its_thread_and_day() -> None:
    lines = text_of(RecallResult([hit(7, score=0.9), hit(20, score=0.8), hit(8, score=0.7), hit(3, "other", 0.6)]))
    assert lines == [
        PREAMBLE,
        "[thread main, 2023-11-14]",
        *[f"{MARKS.get(seq, '  ')}#{seq} user: line {seq}" for seq in (5, 6, 7, 8, 9, 18, 19, 20, 21)],
        "[thread other, 2023-11-14]",
        *[f"{'' if seq == 3 else '  '}#{seq} user: line {seq}" for seq in (1, 2, 3, 4)],
        "[4 hits; signals: lexical; today: 2023-11-14]",
    ]


def test_lines_stand_in_time_order_and_another_day_of_a_thread_has_a_head_of_its_own() -> None:
    lines = text_of(RecallResult([replace(hit(7), before=[], after=[]), hit(6, said_at=NOW - 40 * DAY)]))
    assert lines[1:4] == ["[thread main, 2023-10-05]", "#6 user: line 6", "[same thread, 2023-11-14]"]
    assert lines[4:-1] == ["  #4 user: line 4", "  #5 user: line 5", "#7 user: line 7"]


def test_all_lines_stand_in_time_order_and_the_best_are_marked() -> None:
    hits = [replace(hit(at, said_at=NOW - at * DAY), before=[], after=[]) for at in range(1, 200)]
    lines = text_of(RecallResult(hits), max_tokens=4000)
    assert [line for line in lines if line.startswith(BEST)] == [f"{BEST}#{at} user: line {at}" for at in (3, 2, 1)]
    days = [line[-11:-1] for line in lines[1:-1] if line.startswith("[")]
    assert len(days) > 50
    assert days == sorted(days)


def test_a_score_is_shown_only_where_it_is_explained() -> None:
    one = RecallResult([hit(1, score=0.87)])
    assert "0.87" not in "".join(text_of(one))
    assert "0.87" in "".join(text_of(one, explain=True))


def test_hits_that_are_not_sure_are_called_that() -> None:
    unsure = RecallResult([replace(hit(10 * at), before=[], after=[]) for at in range(1, 5)], confidence="unsure")
    lines = text_of(unsure)
    assert lines[:2] == [PREAMBLE, UNSURE]
    assert [line for line in lines if "#" in line] == [
        f"{BEST if at < 4 else ''}#{at}0 user: line {at}0" for at in range(1, 5)
    ]
    assert lines[-1].startswith("[4 hits; ")
    answer = render_json(unsure, COUNTER, now=NOW, detail="low", max_tokens=9000)
    assert (answer["confidence"], len(answer["hits"])) == ("unsure", 4)


def test_a_text_that_a_speaker_says_again_to_the_letter_is_shown_once() -> None:
    texts = ["Ana reports to Ben", "Ana reports\nto Ben", "Ben reports to Ana", "PATH is set", "path is set"]
    said = [replace(message(at), parts=[{"type": "text", "text": text}]) for at, text in enumerate(texts, 1)]
    others = [replace(said[0], seq=9, name="Bo")]
    lines = text_of(RecallResult([Hit(each, 1 / at, lambda: PARTS) for at, each in enumerate([*said, *others], 1)]))
    shown = sorted(int(re.sub(r"^(?:\* )?#(\d+) .*", r"\1", line)) for line in lines[2:-1])
    assert shown == [1, 3, 4, 5, 9]


@given(st.lists(st.tuples(st.integers(1, 30), st.sampled_from("ab")), unique=True, max_size=12))
def test_every_hit_and_neighbour_is_told_once(places: list[tuple[int, str]]) -> None:
    hits = [hit(seq, thread) for seq, thread in places]
    hits = [replace(one, message=replace(one.message, name=one.message.thread_id)) for one in hits]
    told = {(each.thread_id, each.seq) for one in hits for each in (*one.before, one.message, *one.after)}
    thread, shown, marked = "", [], []
    for line in text_of(RecallResult(hits), max_tokens=9000)[1:-1]:
        head = re.match(r"\[thread (\w+), ", line)
        thread = head[1] if head else thread
        if number := re.match(r"(  |\* )?#(\d+) ", line):
            shown.append((thread, int(number[2])))
            marked += [] if number[1] == "  " else [shown[-1]]
    apart = [
        (each.thread_id, each.seq)
        for one in separate_neighbours(hits)
        for each in (*one.before, one.message, *one.after)
    ]
    assert sorted(shown) == sorted(told) == sorted(apart)
    assert sorted(marked) == sorted((thread, seq) for seq, thread in places)


def test_nothing_relevant_says_what_was_held_back() -> None:
    assert text_of(RecallResult([])) == [NOTHING]
    held = RecallResult([], ("tea",), ("lexical", "semantic"), (), 3, confidence="nothing")
    assert text_of(held) == [NOTHING, "[held back below the floor: 3; signals: lexical, semantic]"]
    answer = render_json(held, COUNTER, now=NOW, detail="low", max_tokens=1500)
    assert answer == {"hits": [], "signals": ["lexical", "semantic"], "held_back": 3}


def test_the_last_line_says_what_served() -> None:
    recalled = RecallResult([hit(1)], ("tea",), ("lexical", "semantic"), (), 2)
    assert text_of(recalled)[-1] == (
        "[1 hit; held back below the floor: 2; signals: lexical, semantic; today: 2023-11-14]"
    )


def test_the_first_line_says_what_was_degraded() -> None:
    degraded = RecallResult([hit(1)], ("tea",), ("lexical",), ("the embedder is loading", "some are missing"))
    assert text_of(degraded)[0] == f"{PREAMBLE} [degraded: the embedder is loading; some are missing]"
    answer = render_json(degraded, COUNTER, now=NOW, detail="low", max_tokens=1500)
    assert next(iter(answer)) == "degraded"


def test_nothing_relevant_is_not_said_while_vectors_are_still_to_come() -> None:
    degraded = RecallResult([], ("tea",), ("lexical",), ("the embedder is loading",))
    said = text_of(degraded)
    assert said == [f"{NOTHING_YET} [degraded: the embedder is loading]", "[signals: lexical]"]
    assert "nothing relevant" not in " ".join(said).lower()


def test_explained_hits_show_their_parts() -> None:
    lines = text_of(RecallResult([hit(1)]), explain=True)
    assert lines[-3] == (
        "   hit 1: score 0.50, relevance 0.90 of query 1, ranking 1.50 = lexical 0.80 (tea) + context 0.10 (green) + "
        "semantic 0.40 (cosine 0.62) + session 0.20"
    )
    answer = render_json(
        RecallResult([hit(1)], ("tea",)), COUNTER, now=NOW, detail="low", max_tokens=1500, explain=True
    )
    assert answer["words"] == ["tea"]
    assert answer["hits"][0]["parts"]["cosine"] == 0.62
    plain = render_json(RecallResult([hit(1)], ("tea",)), COUNTER, now=NOW, detail="low", max_tokens=1500)
    assert "parts" not in plain["hits"][0]
    assert plain["hits"][0]["score"] == 0.5


SOURCES = [{"thread_id": "main", "seq": seq, "label": "user_assertion"} for seq in range(1, 6)]


def entry(kind: dict[str, str], trust: str, sources: int) -> Hit:
    said = {**kind, "origin": "remembered", "trust": trust, "sources": SOURCES[:sources]}
    return Hit(replace(message(1, PLACE + "e1"), id="e1", metadata=said), 0.5, lambda: PARTS)


@pytest.mark.parametrize(
    ("shown", "source"),
    [
        (entry({"kind": "fact"}, "user", 1), "fact; user's words in thread main #1"),
        (entry({}, "tool", 2), "tool's words in thread main #1, thread main #2"),
        (entry({}, "user", 5), "user's words in thread main #1, thread main #2 and 3 more"),
        (entry({"kind": "fact"}, "assistant", 0), "fact; kept as an assistant's own word"),
    ],
)
def test_an_entry_is_shown_with_its_kind_and_whose_word_it_is(shown: Hit, source: str) -> None:
    assert text_of(RecallResult([shown]))[1:-1] == [f"[entry e1, 2023-11-14; {source}] line 1"]


def test_an_entry_has_its_kind_its_place_and_its_sources_in_json() -> None:
    both = RecallResult([entry({"kind": "fact"}, "user", 1), entry({}, "user", 1)])
    first, second = render_json(both, COUNTER, now=NOW, detail="low", max_tokens=1500)["hits"]
    rest = {"origin": "remembered", "trust": "user", "sources": SOURCES[:1], "age": "today", "score": 0.5}
    plain = {"kind": "entry", "id": "e1", "text": "line 1", "said_at": "2023-11-14T22:13:20.000Z", **rest}
    assert (first, second) == ({**plain, "about": "fact"}, plain)


def test_a_hit_is_not_explained_unless_asked_for() -> None:
    answer = render_text(RecallResult([hit(1)]), COUNTER, now=NOW, detail="low", max_tokens=2000)
    assert "relevance" not in answer


def test_a_hit_without_words_or_a_vector_is_explained_without_them() -> None:
    bare = replace(PARTS, added={"speaker": 0.3}, words=(), context_words=(), cosine=None)
    lines = text_of(RecallResult([replace(hit(1), explain=lambda: bare)]), explain=True)
    assert lines[-3].endswith("ranking 1.50 = speaker 0.30")


def test_the_parts_of_a_score_have_four_decimals() -> None:
    signals = ("lexical", "context", "semantic", "speaker", "session")
    numbers = ("relevance", "ranking", "cosine", "recency")
    exact = replace(PARTS, **dict.fromkeys(numbers, 0.123456), added=dict.fromkeys(signals, 0.123456))
    recalled = RecallResult([replace(hit(1), explain=lambda: exact)], ("tea",))
    answer = render_json(recalled, COUNTER, now=NOW, detail="low", max_tokens=1500, explain=True)
    assert answer["hits"][0]["parts"] == {
        "query": 1,
        **dict.fromkeys((*numbers, *signals), 0.1235),
        "words": ["tea"],
        "context_words": ["green"],
    }


@pytest.mark.parametrize("detail", ["low", "high"])
def test_neighbours_on_both_sides_are_cut_unless_the_detail_is_high(detail: Literal["low", "high"]) -> None:
    long = replace(message(1), parts=[{"type": "text", "text": FILLER}])
    one = Hit(message(2), 0.5, lambda: PARTS, [long], [replace(long, seq=3)])
    (found,) = render_json(RecallResult([one]), COUNTER, now=NOW, detail=detail, max_tokens=9000)["hits"]
    (before,), (after,) = found["before"], found["after"]
    assert after["text"].endswith(CUT_MARK) is (detail == "low")
    assert before["text"].startswith("… ") is (detail == "low")


@pytest.mark.parametrize("most", [100, 200, 400, 800])
def test_as_many_hits_are_shown_as_the_budget_holds(most: int) -> None:
    recalled = RecallResult([hit(10 * number, score=1 / number) for number in range(1, 60)])
    lines = text_of(recalled, max_tokens=most)
    shown = sum(line.startswith(("#", "* #")) for line in lines)
    assert 0 < shown < 59
    assert most - 50 < COUNTER.text("\n".join(lines)) <= most
    assert lines[-1].startswith(f"[{shown} of 59 hits fit in max_tokens; ")
    answer = render_json(recalled, COUNTER, now=NOW, detail="low", max_tokens=most)
    assert "cut" in answer
    assert answer["hits"]
