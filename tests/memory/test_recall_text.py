"""What was recalled, as text: blocks, what a long hit shows, and what the last line says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.hit_blocks import blocks_of, told_apart
from layerlore.memory.reading import CUT_MARK
from layerlore.memory.recall import Hit, Parts, Recalled
from layerlore.memory.recall_text import NOTHING, PREAMBLE, as_json, as_text, excerpt
from layerlore.memory.tokens import load_counter
from layerlore.storage.records import Message

COUNTER = load_counter()
NOW = 1_700_000_000_000
DAY = 86_400_000
FILLER = "lorem ipsum dolor sit amet " * 60
PARTS = Parts(0, 0.9, 1.5, 0.8, 0.1, 0.4, 0.62, 0.0, 0.0, 0.2, 1.0, ("tea",), ("green",))


def message(seq: int, thread: str = "main", said_at: int = NOW) -> Message:
    parts = [{"type": "text", "text": f"line {seq}"}]
    return Message(thread, seq, f"id{seq}", "user", None, parts, {}, 2, "x", said_at, said_at, 1)


def hit(seq: int, thread: str = "main", score: float = 0.5, *, said_at: int = NOW) -> Hit:
    before = [message(at, thread) for at in (seq - 2, seq - 1) if at > 0]
    return Hit(message(seq, thread, said_at), score, PARTS, before, [message(seq + 1, thread)])


def text_of(recalled: Recalled, *, max_tokens: int = 2000, explain: bool = False) -> list[str]:
    return as_text(recalled, COUNTER, now=NOW, detail="low", max_tokens=max_tokens, explain=explain).splitlines()


def test_hits_whose_neighbours_overlap_or_touch_share_a_block() -> None:
    lines = text_of(Recalled([hit(7, score=0.9), hit(20, score=0.8), hit(3, score=0.7), hit(3, "other", 0.6)]))
    assert lines[0] == PREAMBLE
    assert lines[1] == "1, 3. thread main, 2023-11-14 (today), score 0.90, 0.70"
    marks = ["", "", "> ", "", "", "", "> ", ""]
    assert lines[2:10] == [f"   {mark}#{seq} user: line {seq}" for seq, mark in enumerate(marks, 1)]
    assert lines[10].startswith("2. thread main")
    assert lines[15].startswith("4. thread other")
    assert lines[-1] == "[4 hits; signals: lexical]"


def test_a_hit_of_another_day_than_its_block_says_so() -> None:
    lines = text_of(Recalled([hit(7), hit(6, said_at=NOW - 40 * DAY)]))
    assert "   > #6 [2023-10-05] user: line 6" in lines
    assert "   > #7 user: line 7" in lines


@given(st.lists(st.tuples(st.integers(1, 30), st.sampled_from("ab")), unique=True, max_size=12))
def test_every_hit_and_neighbour_is_told_once_and_blocks_lie_apart(places: list[tuple[int, str]]) -> None:
    hits = [hit(seq, thread) for seq, thread in places]
    told = {(each.thread_id, each.seq) for one in hits for each in (*one.before, one.message, *one.after)}
    blocks = blocks_of(hits)
    in_blocks = [(each.thread_id, each.seq) for block in blocks for each in block.messages]
    apart = [(each.thread_id, each.seq) for one in told_apart(hits) for each in (*one.before, one.message, *one.after)]
    assert sorted(in_blocks) == sorted(told) == sorted(apart)
    assert sorted(number for block in blocks for number, _ in block.hits) == list(range(1, len(hits) + 1))
    assert [block.hits[0][0] for block in blocks] == sorted(block.hits[0][0] for block in blocks)
    for block in blocks:
        seqs = [each.seq for each in block.messages]
        assert seqs == list(range(seqs[0], seqs[-1] + 1))
        assert (block.messages[0].thread_id, seqs[0] - 1) not in told


def test_hits_with_a_hole_between_them_keep_their_neighbours_in_order() -> None:
    """A deleted message leaves a hole in the seqs."""
    one = Hit(message(5), 0.9, PARTS, [message(1), message(2)], [message(9)])
    assert [[each.seq for each in block.messages] for block in blocks_of([one])] == [[1, 2, 5, 9]]


def test_nothing_relevant_says_what_was_held_back_and_degraded() -> None:
    assert text_of(Recalled([])) == [NOTHING]
    held = Recalled([], ("tea",), ("lexical", "semantic"), (), 3)
    assert text_of(held) == [NOTHING, "[held back as not relevant enough: 3; signals: lexical, semantic]"]
    degraded = Recalled([], ("tea",), ("lexical",), ("the embedder is still loading",))
    assert text_of(degraded) == [NOTHING, "[signals: lexical; degraded: the embedder is still loading]"]
    answer = as_json(held, COUNTER, now=NOW, detail="low", max_tokens=1500)
    assert answer == {"hits": [], "signals": ["lexical", "semantic"], "held_back": 3}


def test_the_last_line_says_what_served() -> None:
    recalled = Recalled([hit(1)], ("tea",), ("lexical", "semantic"), ("some messages have no vector yet",), 2)
    assert text_of(recalled)[-1] == (
        "[1 hit; held back as not relevant enough: 2; signals: lexical, semantic; "
        "degraded: some messages have no vector yet]"
    )


def test_explained_hits_show_their_parts() -> None:
    lines = text_of(Recalled([hit(1)]), explain=True)
    assert lines[-2] == (
        "   hit 1 (#1): relevance 0.90 of query 1, ranking 1.50 = lexical 0.80 (tea) + context 0.10 (green) + "
        "semantic 0.40 (cosine 0.62) + speaker 0.00 + role 0.00 + session 0.20"
    )
    answer = as_json(Recalled([hit(1)], ("tea",)), COUNTER, now=NOW, detail="low", max_tokens=1500, explain=True)
    assert answer["words"] == ["tea"]
    assert answer["hits"][0]["parts"]["cosine"] == 0.62
    plain = as_json(Recalled([hit(1)], ("tea",)), COUNTER, now=NOW, detail="low", max_tokens=1500)
    assert "parts" not in plain["hits"][0]
    assert plain["hits"][0]["score"] == 0.5


@pytest.mark.parametrize("most", [100, 200, 400, 800])
def test_as_many_hits_are_shown_as_the_budget_holds(most: int) -> None:
    recalled = Recalled([hit(10 * number) for number in range(1, 30)])
    lines = text_of(recalled, max_tokens=most)
    shown = sum("> #" in line for line in lines)
    assert 0 < shown < 29
    assert COUNTER.text("\n".join(lines)) <= most
    assert f"cut to max_tokens: {29 - shown} more do not fit" in lines[-1] or "hit 1 is shortened" in lines[-1]
    answer = as_json(recalled, COUNTER, now=NOW, detail="low", max_tokens=most)
    assert "cut" in answer
    assert answer["hits"]


def test_an_excerpt_is_where_the_words_are() -> None:
    shown = excerpt(FILLER + "the ferries leave Graz at nine " + FILLER, ["ferry", "graz"], 200)
    assert "ferries leave Graz" in shown
    assert shown.startswith("… ")
    assert shown.endswith(CUT_MARK)


def test_an_excerpt_without_a_word_is_the_beginning() -> None:
    assert excerpt(FILLER, ["zebra"], 100) == FILLER[:100] + CUT_MARK


@given(st.text(min_size=20, max_size=400), st.lists(st.text(min_size=1, max_size=8), max_size=4), st.integers(5, 19))
def test_an_excerpt_is_a_piece_of_the_text_of_the_length_asked_for(text: str, sought: list[str], most: int) -> None:
    shown = excerpt(text, sought, most)
    inner = shown.removeprefix("… ") if not text.startswith(shown[:most]) else shown
    assert inner.removesuffix(CUT_MARK)[:most] in text
    assert len(shown) <= most + len("… ") + len(CUT_MARK)
