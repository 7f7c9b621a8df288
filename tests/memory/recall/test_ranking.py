"""Ranking: pure, independent of how the rows came, and monotone in each signal."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layerlore.memory.embedding.relevance import LEADERS, Calibration, RelevanceEvidence
from layerlore.memory.recall.candidates import GatheredCandidates, VectorSpace
from layerlore.memory.recall.ranking import (
    Floats,
    Pool,
    Question,
    Ranking,
    Signals,
    compute_idf,
    compute_recency,
    compute_row_recency,
    measure_signals,
    pick_best,
    rank_rows,
    sum_weights,
)
from layerlore.memory.recall.results import judge
from layerlore.memory.settings.context_settings import RecallRules
from layerlore.storage.core.index_rows import IndexedRow

RULES = RecallRules()
WORDS = ("beach", "caroline", "violin")
WEIGHTS = (1.0, 0.5, 2.0)
POSTINGS = st.dictionaries(
    st.text("abc", min_size=1, max_size=3), st.lists(st.integers(1, 40), unique=True, max_size=40), max_size=6
)


@dataclass(frozen=True)
class Said:
    """A row of the index as a test describes it: what of WORDS it has, and its cosine (None: no vector)."""

    seq: int
    has: tuple[bool, ...] = (False,) * len(WORDS)
    cosine: float | None = 0.0
    thread: str = "t"
    chunk: int = 0
    role: str = "user"
    speaker: str | None = None
    chars: int = 100
    session: int = 1
    said_at: int = 0
    asks: int = 0
    empty: int = 0
    content_words: int = 10
    candidate: bool = True
    recency: float = 1.0

    @property
    def row_id(self) -> int:
        return self.seq * 10 + self.chunk + 1000 * ord(self.thread)

    def row(self) -> IndexedRow:
        return IndexedRow(
            *(self.row_id, self.thread, self.seq, self.chunk, self.role, self.speaker, self.said_at, self.chars),
            *(self.session, self.asks, self.empty, self.content_words),
        )


def has(*words: str) -> tuple[bool, ...]:
    return tuple(word in words for word in WORDS)


def question_of(rows: Sequence[Said], *, squeezed: bool = False) -> Question:
    return Question(
        WORDS,
        np.array(WEIGHTS),
        np.array([row.has for row in rows], np.bool_).reshape(len(rows), len(WORDS)).T,
        np.array([math.nan if row.cosine is None else row.cosine for row in rows]),
        squeezed=squeezed,
    )


def ranked(rows: Sequence[Said], *, rules: RecallRules = RULES, squeezed: bool = False) -> Ranking:
    candidates = np.array([row.candidate for row in rows], np.bool_)
    pool = Pool.from_rows([row.row() for row in rows])
    return rank_rows(pool, candidates, question_of(rows, squeezed=squeezed), rules, recency_of(rows))


def signals(rows: Sequence[Said], *, squeezed: bool = False) -> Signals:
    candidates = np.array([row.candidate for row in rows], np.bool_)
    pool = Pool.from_rows([row.row() for row in rows])
    return measure_signals(pool, candidates, question_of(rows, squeezed=squeezed), RULES)


def signal(name: str, rows: Sequence[Said], *, squeezed: bool = False) -> list[float]:
    return signals(rows, squeezed=squeezed).by_name[name].tolist()


def recency_of(rows: Sequence[Said]) -> Floats:
    return np.array([row.recency for row in rows], np.float64)


def order(rows: Sequence[Said], rules: RecallRules = RULES) -> list[int]:
    """The seqs, best first."""
    return [rows[at].seq for at in ranked(rows, rules=rules).order]


def scores(rows: Sequence[Said]) -> dict[int, float]:
    """The score of each row's message, by row id of its best chunk."""
    found = ranked(rows)
    return {rows[at].row_id: float(score) for at, score in zip(found.order, found.scores, strict=True)}


ROWS = st.lists(
    st.builds(
        Said,
        seq=st.integers(1, 8),
        has=st.tuples(*(st.booleans() for _ in WORDS)),
        cosine=st.none() | st.floats(-1, 1),
        thread=st.sampled_from("tu"),
        chunk=st.integers(0, 1),
        role=st.sampled_from(["user", "assistant"]),
        speaker=st.sampled_from([None, "Caroline", "Melanie"]),
        chars=st.sampled_from([50, 320, 321]),
        session=st.integers(1, 2),
        said_at=st.integers(0, 3),
        candidate=st.booleans(),
        recency=st.floats(0.5, 1),
    ),
    unique_by=lambda row: row.row_id,
    max_size=10,
)


@given(count=st.integers(0, 1000), rows=st.integers(0, 1000))
def test_rarer_words_weigh_more_and_none_weighs_nothing(count: int, rows: int) -> None:
    assert compute_idf(count, rows) > 0
    assert compute_idf(count + 1, rows) <= compute_idf(count, rows)
    assert math.isfinite(compute_idf(count, rows))


@given(postings=POSTINGS, shuffled=st.randoms())
def test_a_row_sums_what_its_words_weigh_in_whatever_order_they_come(
    postings: dict[str, list[int]], shuffled: object
) -> None:
    weights = {word: compute_idf(len(rows), 50) for word, rows in postings.items()}
    items = [(word, np.array(sorted(rows), np.int64)) for word, rows in postings.items()]
    row_ids, sums = sum_weights(dict(items), weights)
    assert row_ids.tolist() == sorted({row for rows in postings.values() for row in rows})
    for row, total in zip(row_ids.tolist(), sums.tolist(), strict=True):
        assert total == pytest.approx(sum(weights[word] for word, rows in postings.items() if row in rows))
    shuffled.shuffle(items)  # type: ignore[attr-defined]
    again, same = sum_weights(dict(items), weights)
    assert again.tolist() == row_ids.tolist()
    assert same.tolist() == sums.tolist()


def test_the_weight_of_a_word_is_that_of_bm25() -> None:
    assert compute_idf(1, 10) == pytest.approx(math.log(1 + 9.5 / 1.5))
    assert compute_idf(10, 4) == pytest.approx(math.log(1 + 0.5 / 10.5))


@example(scores={1: 0.1, 2: 0.5, 3: 1.0}, count=2)
@given(scores=st.dictionaries(st.integers(1, 40), st.sampled_from([0.1, 0.5, 0.7, 1.0])), count=st.integers(0, 25))
def test_the_best_come_first_and_of_equal_ones_the_newest(scores: dict[int, float], count: int) -> None:
    ordered = [row for row, _ in sorted(scores.items(), key=lambda row: (-row[1], -row[0]))]
    row_ids = np.array(list(scores), np.int64)
    assert pick_best(row_ids, np.array(list(scores.values()), np.float64), count).tolist() == ordered[:count]


@given(rows=ROWS, shuffled=st.randoms())
def test_the_order_of_rows_changes_nothing(rows: list[Said], shuffled: object) -> None:
    mixed = list(rows)
    shuffled.shuffle(mixed)  # type: ignore[attr-defined]
    assert scores(mixed) == scores(rows)
    assert list(scores(mixed)) == list(scores(rows))


@given(rows=ROWS, squeezed=st.booleans())
def test_scores_are_finite_positive_and_descend_and_each_message_has_one(rows: list[Said], squeezed: bool) -> None:
    found, measured = ranked(rows, squeezed=squeezed), signals(rows, squeezed=squeezed)
    values = found.scores.tolist()
    assert all(0 < value < 100 for value in values)
    assert values == sorted(values, reverse=True)
    places = [(rows[at].thread, rows[at].seq) for at in found.order]
    assert len(set(places)) == len(places)
    assert all(rows[at].candidate for at in found.order)
    by_name = measured.by_name
    for part in (by_name["lexical"] + by_name["context"], by_name["semantic"], found.coverage):
        assert all(0 <= value <= 1 + 1e-9 for value in part[[at for at, row in enumerate(rows) if row.candidate]])


@given(rows=ROWS, pick=st.integers(0, 9), word=st.integers(0, len(WORDS) - 1), cosine=st.floats(0, 1))
@example(
    # The first one has a word. The second is as good as without a meaning, also beside one that has some.
    rows=[
        Said(1, has("caroline"), 0.0, recency=0.5),
        Said(2, cosine=1e-151, speaker="Caroline", session=2),
    ],
    pick=0,
    word=1,
    cosine=0.1,
)
def test_more_of_a_signal_never_lowers_a_rank(rows: list[Said], pick: int, word: int, cosine: float) -> None:
    """Messages of one chunk without a context, since a word also speaks for its neighbours there. A row that gets its
    first vector is left out: before, words alone ranked it."""
    alone = [replace(row, chunk=0, seq=10 * number, chars=50) for number, row in enumerate(rows, 1)]
    if not alone:
        return
    at = pick % len(alone)
    row = replace(alone[at], candidate=True)
    better = [
        replace(row, has=tuple(True if number == word else value for number, value in enumerate(row.has))),
        replace(row, cosine=None if row.cosine is None else max(row.cosine, cosine)),
        replace(row, recency=1.0),
        replace(row, said_at=row.said_at + 1),
    ]
    for more in better:
        before = order([*alone[:at], row, *alone[at + 1 :]])
        after = order([*alone[:at], more, *alone[at + 1 :]])
        if row.seq in before:
            assert after.index(row.seq) <= before.index(row.seq)


@given(rows=ROWS)
def test_a_message_without_a_vector_is_ranked_at_least_where_words_alone_rank_it(rows: list[Said]) -> None:
    alone = [replace(row, chunk=0, seq=10 * number) for number, row in enumerate(rows, 1)]
    by_words = order([replace(row, cosine=None) for row in alone])
    ranked = order(alone)
    if any(row.cosine is not None for row in alone):
        for row in alone:
            if row.cosine is None and row.seq in by_words:
                assert ranked.index(row.seq) <= by_words.index(row.seq)


def test_a_word_of_the_context_counts_half_for_a_short_message_among_short_ones() -> None:
    hit, reply = Said(1, has("violin"), 0.0), Said(2, cosine=0.0, candidate=True)
    found = signals([hit, reply])
    assert found.by_name["lexical"].tolist() == [1.0, 0.0]
    assert found.by_name["context"].tolist() == [0.0, 0.5]
    assert found.context_has[:, 1].tolist() == list(has("violin"))
    for other in (
        replace(reply, chars=321),
        replace(reply, seq=4),
        replace(reply, thread="u"),
        replace(reply, chunk=1),
    ):
        expected = 0.5 if other.chunk else 0.0
        assert signal("context", [hit, other])[1] == expected
    assert signal("context", [replace(hit, chars=321), reply])[1] == 0


@pytest.mark.parametrize(("seq", "counts"), [(7, False), (8, True), (9, True), (10, False), (11, True), (12, False)])
def test_the_context_is_two_messages_before_and_one_after(seq: int, counts: bool) -> None:
    """The violin is at ``seq``, the message it is context of at 10."""
    rows = [Said(10, cosine=None)] + ([Said(seq, has("violin"), None)] if seq != 10 else [])
    assert bool(signal("context", rows)[0]) is counts


def test_names_and_dates_are_no_context() -> None:
    rows = [Said(1, has("caroline"), speaker="Caroline Smith"), Said(2)]
    assert not any(signal("context", rows))
    assert any(signal("context", [replace(rows[0], speaker="Melanie"), rows[1]]))
    with_another = [replace(rows[0], has=has("caroline", "violin")), rows[1]]
    assert ranked(with_another).context_has.tolist() == [[False, False], [False, False], [False, True]]


def test_there_is_no_context_where_an_assistant_speaks() -> None:
    rows = [Said(1, has("violin")), Said(2), Said(3, role="assistant", candidate=False)]
    assert not any(signal("context", rows))
    chosen = np.array([True, False, False])
    assert Pool.from_rows([row.row() for row in rows]).extend_to_context(chosen).tolist() == [True, False, False]


def test_messages_whose_context_has_a_candidate_become_candidates() -> None:
    rows = [Said(seq) for seq in range(1, 8)] + [Said(5, chunk=1)]
    chosen = np.array([row.seq == 4 for row in rows])
    reached = Pool.from_rows([row.row() for row in rows]).extend_to_context(chosen)
    assert [row.row_id for row, found in zip(rows, reached, strict=True) if found] == [
        row.row_id for row in rows if row.seq in (3, 4, 5, 6) and row.chunk == 0
    ]


def test_what_the_one_named_speaker_said_comes_first_and_two_names_favour_nobody() -> None:
    caroline = Said(1, has("beach"), speaker="Caroline")
    melanie = Said(2, has("beach"), speaker="Melanie")
    assert order([caroline, melanie]) == [1, 2]
    assert order([caroline, replace(melanie, speaker="Caroline Violin")]) == [2, 1]


def test_a_speaker_whose_name_is_written_in_two_ways_is_one_speaker() -> None:
    rows = [
        Said(1, has("beach"), speaker="Caroline"),
        Said(2, has("beach"), speaker="CAROLINE "),
        Said(3, has("beach")),
    ]
    assert order(rows) == [2, 1, 3]


def test_what_the_user_said_counts_more_than_the_assistant_and_only_there() -> None:
    user, assistant = Said(1, has("beach")), Said(9, has("beach"), role="assistant")
    assert order([user, assistant]) == [1, 9]
    assert order([user, replace(assistant, thread="u", session=2)]) == [9, 1]


def test_a_session_shares_in_its_best_message() -> None:
    rows = [Said(1, has("violin")), Said(20, has("beach"), session=1), Said(30, has("beach"), session=2)]
    assert order(rows) == [1, 20, 30]
    assert order([replace(rows[0], candidate=False), *rows[1:]]) == [30, 20]


def test_a_message_counts_with_its_best_chunk() -> None:
    rows = [Said(1, chunk=0, chars=1500), Said(1, has("violin"), chunk=1, chars=1500), Said(9, has("beach"))]
    found = ranked(rows)
    assert [rows[at].chunk for at in found.order] == [1, 0]
    both = ranked([replace(rows[0], has=has("beach")), *rows[1:]])
    assert [rows[at].row_id for at in both.order] == [rows[1].row_id, rows[2].row_id]


def test_cosines_count_as_a_share_of_the_best_or_of_their_range_where_they_are_squeezed() -> None:
    rows = [Said(1, cosine=0.9), Said(9, cosine=0.8), Said(18, cosine=0.7), Said(27, cosine=None, has=has("beach"))]
    assert signal("semantic", rows) == pytest.approx([1.0, 8 / 9, 7 / 9, 0])
    assert signal("semantic", rows, squeezed=True) == pytest.approx([1.0, 0.5, 0, 0])


def test_a_stray_word_does_not_count_as_much_as_the_whole_query() -> None:
    rows = [Said(1, has("caroline"), 0.0), Said(9, cosine=0.6)]
    assert signal("lexical", rows)[0] == pytest.approx(0.5 / (0.5 * sum(WEIGHTS)))
    assert order(rows) == [9, 1]


def test_a_short_question_and_what_says_nothing_come_after_what_tells() -> None:
    tells, asks = Said(1, has("violin"), 0.5), Said(9, has("violin", "beach"), 0.9, asks=100, content_words=2)
    assert order([tells, asks]) == [1, 9]
    assert order([tells, replace(asks, asks=0)]) == [9, 1]
    assert order([tells, replace(asks, asks=0, empty=100, has=has("violin"), cosine=0.6)]) == [1, 9]


def test_a_question_is_no_measure_for_what_tells() -> None:
    rows = [Said(1, has("violin"), 0.4), Said(9, has(*WORDS), 1.0, asks=100, content_words=3)]
    assert signal("lexical", rows)[0] == pytest.approx(signal("lexical", rows[:1])[0])
    assert signal("semantic", rows)[0] == pytest.approx(1.0)


def test_a_long_question_tells_what_it_is_about() -> None:
    rows = [Said(1, has("beach"), 0.5), Said(9, has("violin", "beach"), 0.6, asks=100, content_words=40)]
    assert order(rows) == [9, 1]
    assert signal("asks", rows)[1] == 0


def test_what_answered_the_same_question_stands_for_it() -> None:
    request = Said(1, has(*WORDS), 1.0, asks=100, content_words=3)
    answer = Said(2, cosine=0.0, role="assistant", content_words=2, candidate=False)
    other = Said(30, has("beach"), 0.3, session=3)
    assert sorted(order([request, answer, other])) == [2, 30]
    full = replace(answer, has=has(*WORDS), cosine=1.0, candidate=True, content_words=9)
    assert len(set(ranked([request, full, other]).scores.tolist())) == 1
    assert order([request, replace(answer, empty=100), other]) == [30]
    assert order([replace(request, candidate=False), answer, other]) == [30]
    assert order([request]) == []


def test_what_nothing_speaks_for_is_not_found() -> None:
    assert order([Said(1, has("violin"), None), Said(9, cosine=None), Said(18, cosine=-0.5)]) == [1]
    assert order([]) == []


def test_ties_go_to_what_was_said_last_then_to_the_newest_row() -> None:
    rows = [Said(seq, has("beach"), thread=name) for seq, name in ((1, "t"), (9, "t"), (1, "u"))]
    assert [rows[at].row_id for at in ranked(rows).order] == sorted((row.row_id for row in rows), reverse=True)
    first = [replace(rows[0], said_at=5), *rows[1:]]
    assert ranked(first).order[0] == 0


def test_an_entry_counts_half_after_its_half_life_and_never_less_than_the_floor() -> None:
    rules = RULES.model_copy(update={"recency_floor": 0.3})
    factors = compute_recency(np.array([0.0, 180.0, 90.0, 1e9, -5.0]), rules)
    assert factors == pytest.approx([1, 0.5, 0.5**0.5, 0.3, 1])


def test_only_entries_grow_old() -> None:
    pool = Pool.from_rows([Said(1).row(), Said(2, thread="u", role="entry").row()])
    assert compute_row_recency(pool, 180 * 86_400_000, RULES).tolist() == pytest.approx([1, 0.5])


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=5))
def test_an_older_entry_never_counts_more(ages: list[float]) -> None:
    factors = compute_recency(np.sort(np.array(ages)), RULES).tolist()
    assert factors == sorted(factors, reverse=True)
    assert all(RULES.recency_floor <= factor <= 1 for factor in factors)


def test_an_old_exact_match_stays_ahead_of_new_noise_in_one_list() -> None:
    old, noise = Said(1, has("violin", "beach"), 0.5, recency=0.5), Said(9, has("caroline"), 0.1, session=2)
    assert order([old, noise]) == [1, 9]
    assert order([replace(old, has=noise.has, cosine=0.1), noise]) == [9, 1]


def test_the_leaders_alone_speak_for_a_query_and_the_floor_itself_passes() -> None:
    """By words alone the last row is no leader, however near its vector."""
    rows = [Said(10 * number, has("violin"), cosine=-0.1 * number) for number in range(1, LEADERS + 1)]
    rows.append(Said(900, has("beach"), cosine=0.9))
    seen: list[RelevanceEvidence] = []

    class Seeing(Calibration):
        def relevance(self, evidence: RelevanceEvidence) -> float:
            seen.append(evidence)
            return 0.5

    cosines = np.array([row.cosine for row in rows], np.float64)
    held = np.array([row.has for row in rows], np.bool_).T
    question = Question(WORDS, np.array(WEIGHTS), held, cosines, semantic_weight=0)
    every = np.ones(len(rows), np.bool_)
    indexed = [row.row() for row in rows]
    gathered = GatheredCandidates(
        indexed, Pool.from_rows(indexed), (every,), every, (question,), (RelevanceEvidence(),), unembedded=False
    )
    space = VectorSpace("told", 0.5, False, Seeing(()))
    verdict = judge(gathered, 0, space, RULES.model_copy(update={"floor": 0.5}), now=0)
    assert (verdict.embedded, verdict.relevance, verdict.confidence) == (True, 0.5, "sure")
    (evidence,) = seen
    assert (evidence.cosine, evidence.coverage) == (0.0, pytest.approx(2 / 3.5))
    near = replace(question, cosines=np.abs(cosines))
    judge(replace(gathered, questions=(near,)), 0, space, RULES, now=0)
    assert seen[1].cosine == pytest.approx(0.1 * LEADERS)


@pytest.mark.parametrize(("relevance", "confidence"), [(0.001, "nothing"), (0.01, "unsure"), (0.9, "sure")])
def test_without_a_common_word_an_answer_must_be_near_in_meaning(relevance: float, confidence: str) -> None:
    class Constant(Calibration):
        def relevance(self, evidence: RelevanceEvidence) -> float:
            return relevance

    indexed = [Said(at, cosine=0.1 * at).row() for at in range(1, 4)]
    held = np.zeros((len(WORDS), len(indexed)), np.bool_)
    cosines = np.array([0.1, 0.2, 0.3])
    question = Question(WORDS, np.array(WEIGHTS), held, cosines)
    every = np.ones(len(indexed), np.bool_)
    gathered = GatheredCandidates(
        indexed, Pool.from_rows(indexed), (every,), every, (question,), (RelevanceEvidence(rows=100),), unembedded=False
    )
    space = VectorSpace("stub", 0.5, False, Constant(()))
    assert judge(gathered, 0, space, RULES, now=0).confidence == confidence
