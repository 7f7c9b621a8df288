"""Whether recall understands other languages: ``python -m benchmarks.multilingual``, see README.md."""

import argparse
import random
import tempfile
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from benchmarks.asking import ask, load, vectors_complete
from benchmarks.conversations import Json
from benchmarks.embedders import EMBEDDER_SETTING, EMBEDDERS, chosen, default_sure
from benchmarks.metrics import mean
from benchmarks.multilingual_facts import LANGUAGES
from benchmarks.servers import ours, over_stdio
from benchmarks.tables import figure, table, verdict, write_json

GOAL = 0.9
DEPTH = 3
HEADER = (
    *("language", "same hit@1", "same hit@3", "question abroad hit@1", "question abroad hit@3"),
    *("store abroad hit@1", "store abroad hit@3"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in one language about a fact in another (or the same): the fact's rank, 0 if not among the first
    three, and how relevant the answer is."""

    question: str
    fact: str
    rank: int
    relevance: float

    @property
    def same(self) -> bool:
        return self.question == self.fact


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    report = anyio.run(_measure, options)
    write_json(options.json, report)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.multilingual", description=__doc__)
    parser.add_argument("--languages", nargs="+", choices=list(LANGUAGES), default=list(LANGUAGES), metavar="LANGUAGE")
    parser.add_argument("--database", default="", help="postgresql://...; without it a new SQLite file")
    parser.add_argument("--embedder", default="use", help=f"{EMBEDDERS} (default: use)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    request: list[Asked] = []
    run = uuid.uuid4().hex[:8]
    with tempfile.TemporaryDirectory(prefix="layerlore-multilingual-") as folder:
        for name in options.languages:
            launch = ours(
                Path(folder),
                resource=f"{name}-{run}",
                database=options.database,
                **{EMBEDDER_SETTING: options.embedder},
            )
            async with over_stdio(launch) as connection:
                await load(connection, [("said", stored(name))])
                await vectors_complete(connection)
                for language in options.languages:
                    for number, question in enumerate(LANGUAGES[language].questions):
                        answer = await ask(connection, question, limit=DEPTH)
                        request.append(Asked(language, name, rank_of(f"{name}-{number}", answer.ids), answer.relevance))
    report = _figures(request, options.languages, default_sure(chosen(options.embedder)))
    print(_shown(report, request, options.languages))
    return report


def stored(name: str) -> list[Json]:
    """The facts of one language among what else was said in all of them, in an order that is always the same."""
    messages = [_message(f"{name}-{number}", fact) for number, fact in enumerate(LANGUAGES[name].facts)]
    for other, language in LANGUAGES.items():
        messages += [_message(f"{other}-other-{number}", text) for number, text in enumerate(language.others)]
    random.Random(name).shuffle(messages)
    return messages


def _message(name: str, text: str) -> Json:
    return {"id": name, "role": "user", "content": text, "created_at": "2025-03-03T12:00:00Z"}


def rank_of(wanted: str, found: Sequence[str]) -> int:
    """From 1; 0 where it is not found."""
    return found.index(wanted) + 1 if wanted in found else 0


def hit(depth: int, request: Iterable[Asked]) -> float:
    """The share of questions whose fact is among the first ``depth`` hits."""
    return mean(float(0 < each.rank <= depth) for each in request)


def _figures(request: Sequence[Asked], languages: Sequence[str], floor: float) -> dict[str, Any]:
    same, cross = [each for each in request if each.same], [each for each in request if not each.same]
    rules: dict[str, Callable[[Asked, str], bool]] = {
        "same": lambda each, name: each.same and each.fact == name,
        "question_abroad": lambda each, name: not each.same and each.fact == name,
        "store_abroad": lambda each, name: not each.same and each.question == name,
    }

    def hits(name: str, rule: Callable[[Asked, str], bool]) -> dict[str, float]:
        chosen_ = [each for each in request if rule(each, name)]
        return {f"hit@{depth}": hit(depth, chosen_) for depth in (1, DEPTH)}

    return {
        "languages": {name: {label: hits(name, rule) for label, rule in rules.items()} for name in languages},
        "overall": {
            label: {
                "questions": len(some),
                **{f"hit@{depth}": hit(depth, some) for depth in (1, DEPTH)},
                "nothing_at_default_sure": mean(float(each.relevance < floor) for each in some),
            }
            for label, some in (("same language", same), ("across languages", cross), ("all", request))
        },
        "floor": floor,
    }


def _shown(report: dict[str, Any], request: Sequence[Asked], languages: Sequence[str]) -> str:
    rows = [
        [name, *(figure(found[f"hit@{depth}"]) for found in sides.values() for depth in (1, DEPTH))]
        for name, sides in report["languages"].items()
    ]
    totals = [
        [
            label,
            f"{found['questions']:,}",
            *(figure(found[f"hit@{depth}"]) for depth in (1, DEPTH)),
            f">= {GOAL}",
            verdict(found[f"hit@{DEPTH}"] >= GOAL) if found["questions"] else "-",
            f"{figure(found['nothing_at_default_sure'] * 100, 1)} %",
        ]
        for label, found in report["overall"].items()
    ]
    pairs = [
        [question, *(figure(hit(DEPTH, _pair(request, question, fact))) for fact in languages)]
        for question in languages
    ]
    overall = ("", "questions", "hit@1", "hit@3", "expected hit@3", "verdict", "nothing at the default floor")
    return "\n\n".join(
        [
            table(HEADER, rows),
            f"hit@3 by the question's language (down) and the store's (across)\n\n{table(('', *languages), pairs)}",
            table(overall, totals),
        ]
    )


def _pair(request: Sequence[Asked], question: str, fact: str) -> list[Asked]:
    return [each for each in request if (each.question, each.fact) == (question, fact)]


if __name__ == "__main__":
    main()
