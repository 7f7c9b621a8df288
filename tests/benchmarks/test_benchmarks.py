"""Each benchmark runs end to end on little input and prints what it promises; its figures are right."""

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # the benchmarks belong to the repository and are not installed

from benchmarks.call_rounds import Contender, RawCommits, alternate  # noqa: E402
from benchmarks.conversations import batches, read_set  # noqa: E402
from benchmarks.durability import amiss  # noqa: E402
from benchmarks.kill_trials import Kills, kill_figures  # noqa: E402
from benchmarks.metrics import gaps, mean, median, percentile, recall_at, reciprocal_rank  # noqa: E402
from benchmarks.sample_text import SampleText  # noqa: E402
from benchmarks.stored import Stored  # noqa: E402
from benchmarks.tables import table, write_json  # noqa: E402

PATIENCE = 120.0

SET = [
    {
        "id": "first",
        "speakers": ["Ann", "Bob"],
        "sessions": [
            {
                "id": "one",
                "date": "2024-05-01T10:00:00",
                "turns": [
                    {"id": "1", "speaker": "Ann", "text": "The zebra drank lemonade.", "caption": ""},
                    {"id": "2", "speaker": "Bob", "text": "My bicycle has a flat tyre.", "caption": "a red bicycle"},
                ],
            },
            {
                "id": "two",
                "date": "2024-05-02T10:00:00",
                "turns": [{"id": "3", "speaker": "Ann", "role": "assistant", "text": "Understood.", "caption": ""}],
            },
        ],
        "questions": [
            {"question": "Who saw a zebra?", "category": "1", "answer": "Ann", "evidence": ["1"]},
            {"question": "Which bicycle?", "category": "1", "answer": "Bob's", "evidence": ["2", "3"]},
            {"question": "Any giraffe?", "category": "5", "answer": "none", "evidence": ["3"]},
            {"question": "Without evidence?", "category": "2", "answer": "", "evidence": []},
        ],
    },
    {
        "id": "second",
        "speakers": ["Cem"],
        "sessions": [
            {
                "id": "one",
                "date": "2024-06-01T10:00:00",
                "turns": [
                    {"id": "1", "speaker": "Cem", "text": "A zebra and a bicycle.", "date": "2024-06-01T11:00:00"}
                ],
            }
        ],
        "questions": [{"question": "Where is the zebra?", "category": "2", "answer": "here", "evidence": ["1"]}],
    },
]


@dataclass
class Run:
    """A benchmark that was started, and the files that its output and its figures go to."""

    started: "subprocess.Popen[bytes]"
    printed: Path
    figures: Path

    def result(self) -> tuple[str, Any]:
        """What it printed, and its figures; it must end well."""
        code = self.started.wait(PATIENCE)
        printed = self.printed.read_text()
        assert code == 0, printed
        return printed, json.loads(self.figures.read_text())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Run]]:
    """All three at once: most of their time is the starting of servers."""
    folder = tmp_path_factory.mktemp("benchmarks")
    (folder / "set.json").write_text(json.dumps(SET))
    few = ["--rounds", "1", "--calls", "2", "--starts", "1", "--mixed-rounds", "1", "--mixed-calls", "3"]
    started = {
        "recall": _start(folder, "recall", str(folder / "set.json")),
        "calls": _start(folder, "calls", "--sizes", "20", *few, "--folder", str(folder)),
        "durability": _start(
            folder, "durability", "--trials", "2", "--processes", "2", "--tasks", "2", "--seconds", "0.5"
        ),
    }
    yield started
    for run in started.values():
        run.started.kill()
        run.started.wait()


def _start(folder: Path, name: str, *arguments: str) -> Run:
    printed, figures = folder / f"{name}.txt", folder / f"{name}.json"
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments, "--json", str(figures)]
    with printed.open("wb") as output:
        started = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    return Run(started, printed, figures)


def rows(printed: str) -> list[list[str]]:
    """The cells of every line of a table."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in printed.splitlines() if line[:1] == "|"]


def test_recall_prints_how_much_of_the_evidence_was_found_by_category(runs: dict[str, Run]) -> None:
    printed, figures = runs["recall"].result()
    found = {row[0]: row[1:] for row in rows(printed)}
    # The second question of category 1 has two turns as evidence, and shares a word with one of them.
    assert found["1"] == ["2", "0.750", "0.750", "0.750", "0.750", "1.000"]
    assert found["2"] == ["1", "1.000", "1.000", "1.000", "1.000", "1.000"]
    assert found["overall"] == ["3", "0.833", "0.833", "0.833", "0.833", "1.000"]
    assert figures["set"]["overall"]["recall@5"] == pytest.approx(5 / 6)


def test_recall_keeps_adversarial_questions_out_of_the_overall_figures(runs: dict[str, Run]) -> None:
    printed, figures = runs["recall"].result()
    found = {row[0]: row[1:] for row in rows(printed)}
    assert found["5 (adversarial, reported apart)"] == ["1", *["0.000"] * 5]
    assert set(figures["set"]["categories"]) == {"1", "2"}


def test_recall_says_what_was_loaded_and_how_long_a_question_took(runs: dict[str, Run]) -> None:
    printed, figures = runs["recall"].result()
    assert "2 conversations, 4 messages loaded in" in printed
    assert "answers cut: 0" in printed
    assert 0 < figures["set"]["question_ms"]["p50"] <= figures["set"]["question_ms"]["p95"]


def test_calls_prints_each_call_on_each_transport_beside_the_no_op_call(runs: dict[str, Run]) -> None:
    printed, figures = runs["calls"].result()
    found = [row for row in rows(printed) if row[0] in ("stdio", "http")]
    assert [row[:3] for row in found] == [
        [transport, "20", call] for transport in ("stdio", "http") for call in ("get", "recall", "add")
    ]
    assert {row[-1] for row in found} <= {"hold", "miss", "-"}
    for call in figures["calls"]:
        assert call["ours"]["p50_ms"] > 0
        assert call["no-op"]["p50_ms"] > 0
    assert all(call["commit"]["p50_ms"] > 0 for call in figures["calls"] if call["call"] == "add")


def test_calls_prints_starts_and_memory_and_calls_of_eight_clients(runs: dict[str, Run]) -> None:
    printed, figures = runs["calls"].result()
    assert [row[0] for row in rows(printed) if row[0] in ("memstrata", "no-op")] == ["memstrata", "no-op"] * 2
    assert "Ours / no-op: initialize" in printed
    assert "Resident memory over stdio" in printed
    start = figures["starts"]["memstrata"]
    assert 0 < start["initialize"] < start["tools"] < start["first_call"]
    assert figures["mixed"]["memstrata"]["per_second"] > 0
    assert figures["resident_mb"] > 0


def test_durability_counts_kills_and_finds_every_acknowledged_message_again(runs: dict[str, Run]) -> None:
    printed, figures = runs["durability"].result()
    kills = figures["kill -9"]
    assert kills["kills"] == 2
    assert 2 <= kills["acknowledged"] <= kills["sent"]
    assert [kills[name] for name in ("lost", "stored twice", "breaks in the order", "errors")] == [0, 0, 0, 0]
    assert kills["integrity problems"] == 0
    assert "Nothing was lost" in printed


def test_durability_runs_several_processes_and_prints_their_latencies(runs: dict[str, Run]) -> None:
    printed, figures = runs["durability"].result()
    shared = figures["several processes"]
    assert shared["acknowledged"] > 0
    assert [shared[name] for name in ("lost", "stored but unacknowledged", "breaks in the order")] == [0, 0, 0]
    assert shared["add: p50 ms"] <= shared["add: p99 ms"] <= shared["add: max ms"]
    assert "2 processes x 2 tasks" in printed


def test_what_was_acknowledged_and_is_not_stored_counts_as_lost() -> None:
    kills = Kills(trials=1, sent=["a", "b", "c", "d"], acknowledged=["a", "b"], errors=[])
    figures = kill_figures(kills, Stored(ids=["a", "c", "c"], broken={"thread": [2]}), ["a broken page"])
    expected = {
        "kills": 1,
        "sent": 4,
        "acknowledged": 2,
        "lost": 1,
        "committed but unacknowledged": 1,
        "stored twice": 1,
        "breaks in the order": 1,
        "integrity problems": 1,
        "errors": 0,
    }
    assert figures == expected
    assert amiss({"kill -9": figures}) == [
        f"kill -9: {name}" for name in ("lost", "stored twice", "breaks in the order", "integrity problems")
    ]


def test_a_database_without_an_integrity_check_is_not_amiss() -> None:
    kills = Kills(trials=1, sent=["a"], acknowledged=["a"], errors=[])
    figures = kill_figures(kills, Stored(ids=["a"], broken={}), None)
    assert figures["integrity problems"] is None
    assert amiss({"kill -9": figures}) == []


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


def test_gaps_are_numbers_that_are_missing_or_come_again() -> None:
    assert gaps([3, 1, 2]) == []
    assert gaps([]) == []
    assert gaps([2, 3]) == [1]
    assert gaps([1, 2, 2, 5]) == [2, 3, 4]


def test_a_set_is_read_as_threads_of_messages_with_ids_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "set.json"
    file.write_text(json.dumps(SET))
    first, second = read_set(file)
    (one, messages), (two, replies) = first.threads
    assert (one, two) == ("first/one", "first/two")
    assert messages[1] == {
        "id": "first/2",
        "role": "user",
        "name": "Bob",
        "content": "My bicycle has a flat tyre.",
        "created_at": "2024-05-01T10:00:00",
        "metadata": {"caption": "a red bicycle"},
    }
    assert "metadata" not in messages[0]
    assert replies[0]["role"] == "assistant"
    assert second.threads[0][1][0]["created_at"] == "2024-06-01T11:00:00"
    assert [question.evidence for question in first.questions] == [{"first/1"}, {"first/2", "first/3"}, {"first/3"}]
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
