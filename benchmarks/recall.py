"""How much of the evidence recall_memory finds: ``python -m benchmarks.recall FILE...``, see README.md."""

import argparse
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from benchmarks.conversations import Conversation, batches, read_set
from benchmarks.metrics import mean, percentile, recall_at, reciprocal_rank
from benchmarks.servers import Connection, ours, over_stdio
from benchmarks.tables import figure, table, write_json

DEPTHS = (1, 5, 10, 20)
MAX_TOKENS = 20_000
# Long enough for every turn of the sets: what is measured is recall, not the limit of a message's length.
LONGEST_TEXT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one question went: scores 0 to 1 by depth, the reciprocal rank, and how long the call took."""

    category: str
    recall: dict[int, float]
    reciprocal_rank: float
    seconds: float
    cut: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    messages: int
    seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    report = anyio.run(_measure, options)
    write_json(options.json, report)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a conversation set")
    parser.add_argument("--database", default="", help="postgresql://...; without it a new SQLite file")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--apart", nargs="*", default=["5"], metavar="CATEGORY", help="not in the overall figures (default: 5)"
    )
    return parser


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    report = {}
    with tempfile.TemporaryDirectory(prefix="memstrata-recall-") as folder:
        for path in options.files:
            loaded, outcomes = await _run_set(read_set(path), Path(folder), options.database)
            report[path.stem] = _figures(loaded, outcomes, options.apart)
            print(f"\n## {path.stem}\n\n{_shown(report[path.stem])}", flush=True)
    return report


async def _run_set(
    conversations: Sequence[Conversation], folder: Path, database: str
) -> tuple[list[Loaded], list[Outcome]]:
    """One server for each conversation, which is all that its resource holds; they share one store."""
    run = uuid.uuid4().hex[:8]  # a database may hold an earlier run
    loaded, outcomes = [], []
    for conversation in conversations:
        launch = ours(
            folder,
            resource=f"{conversation.id}-{run}",
            database=database,
            LIMITS__MESSAGE_TEXT_BYTES=str(LONGEST_TEXT_BYTES),
        )
        async with over_stdio(launch) as connection:
            loaded.append(await _load(connection, conversation))
            outcomes += await _ask(connection, conversation)
    return loaded, outcomes


async def _load(connection: Connection, conversation: Conversation) -> Loaded:
    await connection.call("memory_status")  # the database is open
    began = time.perf_counter()
    for thread, messages in conversation.threads:
        for batch in batches(messages):
            await connection.call("add_messages", thread_id=thread, messages=batch)
    return Loaded(conversation.message_count, time.perf_counter() - began)


async def _ask(connection: Connection, conversation: Conversation) -> list[Outcome]:
    outcomes = []
    for question in conversation.questions:
        began = time.perf_counter()
        answer = await connection.call(
            "recall_memory",
            query=question.text,
            limit=max(DEPTHS),
            neighbours=False,
            max_tokens=MAX_TOKENS,
            format="json",
        )
        seconds = time.perf_counter() - began
        found = [hit["id"] for hit in answer["hits"]]
        outcomes.append(
            Outcome(
                question.category,
                {k: recall_at(k, found, question.evidence) for k in DEPTHS},
                reciprocal_rank(found, question.evidence),
                seconds,
                "cut" in answer,
            )
        )
    return outcomes


def _figures(loaded: Sequence[Loaded], outcomes: Sequence[Outcome], apart: Sequence[str]) -> dict[str, Any]:
    categories = sorted({outcome.category for outcome in outcomes})
    seconds = [outcome.seconds for outcome in outcomes]
    messages, load_seconds = sum(each.messages for each in loaded), sum(each.seconds for each in loaded)
    return {
        "overall": _scores([outcome for outcome in outcomes if outcome.category not in apart]),
        "categories": {
            name: _scores([each for each in outcomes if each.category == name])
            for name in categories
            if name not in apart
        },
        "apart": {
            name: _scores([each for each in outcomes if each.category == name]) for name in categories if name in apart
        },
        "conversations": len(loaded),
        "messages": messages,
        "load_seconds": load_seconds,
        "question_ms": {"p50": percentile(seconds, 0.5) * 1000, "p95": percentile(seconds, 0.95) * 1000},
        "cut_answers": sum(outcome.cut for outcome in outcomes),
    }


def _scores(outcomes: Sequence[Outcome]) -> dict[str, float]:
    return {
        "questions": len(outcomes),
        **{f"recall@{k}": mean(outcome.recall[k] for outcome in outcomes) for k in DEPTHS},
        "MRR": mean(outcome.reciprocal_rank for outcome in outcomes),
    }


def _shown(figures: dict[str, Any]) -> str:
    header = ["category", "questions", *(f"recall@{k}" for k in DEPTHS), "MRR"]
    rows = [_row(name, scores) for name, scores in figures["categories"].items()]
    rows.append(_row("overall", figures["overall"]))
    rows += [_row(f"{name} (adversarial, reported apart)", scores) for name, scores in figures["apart"].items()]
    rate = figures["messages"] / figures["load_seconds"]
    asked = figures["question_ms"]
    return (
        f"{table(header, rows)}\n\n"
        f"{figures['conversations']} conversations, {figures['messages']:,} messages loaded in "
        f"{figures['load_seconds']:.2f} s ({rate:,.0f} a second); "
        f"a question: p50 {asked['p50']:.2f} ms, p95 {asked['p95']:.2f} ms; answers cut: {figures['cut_answers']}"
    )


def _row(name: str, scores: dict[str, float]) -> list[str]:
    return [name, f"{scores['questions']:,}", *(figure(value, 3) for value in list(scores.values())[1:])]


if __name__ == "__main__":
    main()
