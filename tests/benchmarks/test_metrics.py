"""What is computed from measurements is right."""

import json
import math
from pathlib import Path

import pytest

from benchmarks.call_rounds import Contender, RawCommits, alternate
from benchmarks.conversations import batches, read_set
from benchmarks.metrics import mean, median, ndcg_at, percentile, recall_at, reciprocal_rank
from benchmarks.sample_text import SampleText
from benchmarks.tables import table, write_json


@pytest.mark.parametrize(
    ("k", "found", "evidence", "share"),
    [
        (1, ["a", "b"], {"a"}, 1.0),
        (1, ["b", "a"], {"a"}, 0.0),
        (2, ["b", "a"], {"a"}, 1.0),
        (5, ["a", "x", "c"], {"a", "b", "c", "d"}, 0.5),
        (2, ["x", "x", "a"], {"a"}, 1.0),  # a result that comes again takes no place
        (20, [], {"a"}, 0.0),
    ],
)
def test_recall_at_k_is_the_share_of_the_evidence_among_the_first_k(
    k: int, found: list[str], evidence: set[str], share: float
) -> None:
    assert recall_at(k, found, evidence) == share


@pytest.mark.parametrize(
    ("found", "evidence", "rank"),
    [
        (["a", "b"], {"a"}, 1.0),
        (["x", "b", "a"], {"a", "b"}, 0.5),
        (["x", "x", "y", "a"], {"a"}, 1 / 3),
        (["x"], {"a"}, 0.0),
        ([], {"a"}, 0.0),
    ],
)
def test_the_reciprocal_rank_is_that_of_the_first_evidence(found: list[str], evidence: set[str], rank: float) -> None:
    assert reciprocal_rank(found, evidence) == rank


@pytest.mark.parametrize(
    ("found", "evidence", "gained"),
    [
        (["a", "b"], {"a", "b"}, 1.0),
        (["b", "a", "a"], {"a", "b", "c"}, (1 + 1 / math.log2(3)) / (1 + 1 / math.log2(3) + 1 / 2)),
        (["x", "a"], {"a"}, 1 / math.log2(3)),
        (["x", "x", "a"], {"a"}, 1 / math.log2(3)),
        (["x", "y", "a"], {"a"}, 0.0),  # too late
        ([], {"a"}, 0.0),
    ],
)
def test_ndcg_counts_evidence_less_the_later_it_comes(found: list[str], evidence: set[str], gained: float) -> None:
    assert ndcg_at(2 if "y" in found else 10, found, evidence) == pytest.approx(gained)


def test_ndcg_is_full_when_more_evidence_than_fits_fills_the_first_places() -> None:
    assert ndcg_at(2, ["a", "b"], {"a", "b", "c", "d"}) == 1.0


def test_percentiles_lie_between_their_neighbours() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0, 2.0], 0.5) == 1.5
    assert percentile(range(101), 0.95) == 95
    assert percentile([0.0, 10.0], 0.95) == pytest.approx(9.5)
    assert percentile([7.0], 0.99) == 7.0
    assert (percentile([4.0, 9.0], 0), percentile([4.0, 9.0], 1)) == (4.0, 9.0)
    assert math.isnan(percentile([], 0.5))


def test_means_and_medians() -> None:
    assert mean([1, 2, 6]) == 3
    assert median([1, 2, 6]) == 2
    assert math.isnan(mean([]))


def test_a_set_is_read_as_threads_of_messages_with_ids_of_their_own(conversation_set: Path) -> None:
    first, second = read_set(conversation_set)
    (one, messages), (two, replies) = first.threads
    assert (one, two) == ("first/one", "first/two")
    assert messages[1] == {
        "id": "first/2",
        "role": "user",
        "name": "Bob",
        "content": "My bicycle has a flat tyre.",
        "created_at": "2024-05-01T10:00:00",
        "images": [{"type": "image", "caption": "a red bicycle"}],
    }
    assert "images" not in messages[0]
    assert replies[0]["role"] == "assistant"
    assert second.threads[0][1][0]["created_at"] == "2024-06-01T11:00:00"
    assert [question.evidence for question in first.questions] == [{"first/1"}, {"first/2"}, {"first/3"}]
    assert first.message_count == 3


def test_batches_hold_a_hundred_messages_and_not_too_much_text() -> None:
    short = [{"content": str(number)} for number in range(250)]
    assert [len(batch) for batch in batches(short)] == [100, 100, 50]
    assert [message for batch in batches(short) for message in batch] == short
    long = [{"content": "x" * 300_000}] * 3
    assert [len(batch) for batch in batches(long)] == [1, 1, 1]
    assert list(batches([])) == []


def test_sample_text_is_the_same_for_the_same_seed() -> None:
    assert SampleText(3).message() == SampleText(3).message()
    assert SampleText(3).message() != SampleText(4).message()


@pytest.mark.anyio
async def test_rounds_alternate_and_time_every_call(tmp_path: Path) -> None:
    order: list[str] = []

    def calling(name: str) -> Contender:
        async def call() -> None:
            order.append(name)

        return Contender(call)

    timed = await alternate({"a": calling("a"), "b": calling("b")}, rounds=2, calls=3)
    assert order[-12:] == [*"aaa", *"bbb", *"bbb", *"aaa"]
    assert [len(each.seconds) for each in timed.values()] == [6, 6]


@pytest.mark.anyio
async def test_a_raw_commit_is_in_the_file(tmp_path: Path) -> None:
    first = RawCommits(tmp_path / "raw.db")
    await first.commit("kept")
    first.close()
    assert b"kept" in (tmp_path / "raw.db").read_bytes()


def test_tables_line_up() -> None:
    assert table(("name", "p50"), [("add", "1.25"), ("recall", "10.00")]).splitlines() == [
        "| name   |   p50 |",
        "| ------ | ----: |",
        "| add    |  1.25 |",
        "| recall | 10.00 |",
    ]


def test_a_figure_that_there_is_not_is_null_in_json(tmp_path: Path) -> None:
    write_json(tmp_path / "figures.json", {"a": [1.5, math.nan]})
    assert json.loads((tmp_path / "figures.json").read_text()) == {"a": [1.5, None]}
