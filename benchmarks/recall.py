"""How much of the evidence recall_memory finds: ``python -m benchmarks.recall FILE...``, see README.md."""

import argparse
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from benchmarks import absent, scores
from benchmarks.absent import Answered
from benchmarks.asking import Vectors, ask, load, vectors_complete
from benchmarks.baselines import Baselines
from benchmarks.conversations import Conversation, read_set
from benchmarks.embedders import EMBEDDER_SETTING, EMBEDDERS, chosen, default_sure
from benchmarks.metrics import percentile
from benchmarks.scores import Outcome, outcome
from benchmarks.servers import Connection, ours, over_stdio
from benchmarks.tables import write_json
from layerlore.memory.embedding.port import Embedder

OURS = "layerlore"
# Long enough for every turn of the sets: what is measured is recall, not the limit of a message's length.
LONGEST_TEXT_BYTES = 1024 * 1024
# On a busy machine, too, every question is to be embedded.
PATIENCE_MS = 10_000


@dataclass(slots=True)
class Tally:
    """What a set came to: outcomes by system, how relevant the answers were, what was loaded, and the times."""

    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    real: list[Answered] = field(default_factory=list)
    absent: list[Answered] = field(default_factory=list)
    messages: int = 0
    load_seconds: float = 0.0
    vectors: list[Vectors] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    cut: int = 0
    lexical_only: int = 0

    def add(self, found: Mapping[str, Outcome]) -> None:
        for system, result in found.items():
            self.outcomes.setdefault(system, []).append(result)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    report = anyio.run(_measure, options)
    write_json(options.json, report)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a conversation set")
    parser.add_argument("--database", default="", help="postgresql://...; without it a new SQLite file")
    parser.add_argument("--embedder", default="use", help=f"{EMBEDDERS} (default: use)")
    parser.add_argument("--absent", type=int, default=absent.QUESTIONS, help="questions never answered (default: 200)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--apart", nargs="*", default=["5"], metavar="CATEGORY", help="not in the overall figures (default: 5)"
    )
    return parser


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    report = {}
    embedder = chosen(options.embedder)
    with tempfile.TemporaryDirectory(prefix="layerlore-recall-") as folder:
        for path in options.files:
            tally = await _run_set(read_set(path), Path(folder), embedder, options)
            report[path.stem] = _figures(tally, options.apart, default_sure(embedder))
            print(f"\n## {path.stem}\n\n{_shown(report[path.stem])}", flush=True)
    return report


async def _run_set(
    conversations: Sequence[Conversation], folder: Path, embedder: Embedder | None, options: argparse.Namespace
) -> Tally:
    """One server for each conversation, which is all that its resource holds; they share one store."""
    run = uuid.uuid4().hex[:8]  # a database may hold an earlier run
    tally = Tally()
    foreign = absent.drawn(conversations, options.apart, most=options.absent)
    for conversation in conversations:
        launch = ours(
            folder,
            resource=f"{conversation.id}-{run}",
            database=options.database,
            LIMITS__MESSAGE_TEXT_BYTES=str(LONGEST_TEXT_BYTES),
            EMBEDDING__QUERY_PATIENCE_MS=str(PATIENCE_MS),
            **{EMBEDDER_SETTING: options.embedder},
        )
        async with over_stdio(launch) as connection:
            tally.load_seconds += await load(connection, conversation.threads)
            tally.messages += conversation.message_count
            # Both embed the same messages at the same time, the server and this process.
            baselines = await anyio.to_thread.run_sync(Baselines, conversation, embedder)
            tally.vectors.append(await vectors_complete(connection))
            await _ask(connection, conversation, tally, options.apart)
            for text in foreign.get(conversation.id, []):
                answer = await ask(connection, text, limit=1)
                tally.absent.append(Answered(answer.relevance))
        for question in conversation.questions:
            found = baselines.found(question.text)
            tally.add({system: outcome(question, ids) for system, ids in found.items()})
        baselines.close()
    return tally


async def _ask(connection: Connection, conversation: Conversation, tally: Tally, apart: Sequence[str]) -> None:
    for question in conversation.questions:
        answer = await ask(connection, question.text, limit=max(scores.DEPTHS))
        result = outcome(question, answer.ids)
        tally.add({OURS: result})
        tally.seconds.append(answer.seconds)
        tally.cut += answer.cut
        tally.lexical_only += answer.lexical_only
        if question.category not in apart:
            tally.real.append(Answered(answer.relevance, result.recall[10]))


def _figures(tally: Tally, apart: Sequence[str], floor: float) -> dict[str, Any]:
    vectors = tally.vectors
    return {
        "systems": {system: scores.by_category(found, apart) for system, found in tally.outcomes.items()},
        "absent": absent.curve(tally.real, tally.absent, floor) if tally.absent else [],
        "absent_questions": len(tally.absent),
        "conversations": len(vectors),
        "messages": tally.messages,
        "load_seconds": tally.load_seconds,
        "model": next((each.model for each in vectors), ""),
        "vectors": sum(each.total for each in vectors),
        "vector_seconds": sum(each.seconds for each in vectors),
        "question_ms": {name: percentile(tally.seconds, share) * 1000 for name, share in (("p50", 0.5), ("p95", 0.95))},
        "cut_answers": tally.cut,
        "lexical_only_answers": tally.lexical_only,
    }


def _shown(figures: dict[str, Any]) -> str:
    request = figures["question_ms"]
    lines = [
        scores.shown(figures["systems"]),
        f"{figures['conversations']} conversations, {figures['messages']:,} messages loaded in "
        f"{figures['load_seconds']:.2f} s ({figures['messages'] / figures['load_seconds']:,.0f} a second); "
        f"a question: p50 {request['p50']:.2f} ms, p95 {request['p95']:.2f} ms; answers cut: {figures['cut_answers']}",
        _vectors_shown(figures),
    ]
    if figures["absent"]:
        lines.append(absent.shown(figures["absent"], figures["absent_questions"]))
    return "\n\n".join(lines)


def _vectors_shown(figures: dict[str, Any]) -> str:
    if not figures["model"]:
        return "No embedder: words alone."
    return (
        f"{figures['vectors']:,} vectors of {figures['model']}, complete {figures['vector_seconds']:.1f} s after the "
        f"last message; answers by words alone: {figures['lexical_only_answers']}"
    )


if __name__ == "__main__":
    main()
