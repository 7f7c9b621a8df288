"""What a model is shown of what was said, as a host lives with it: ``python -m benchmarks.lived FILE...``, see README.md."""

import argparse
import shutil
import sys
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from benchmarks import absent, chart, lived_figures
from benchmarks.asking import load, vectors_complete
from benchmarks.conversations import Conversation, Question, drawn_questions, read_set
from benchmarks.embedders import EMBEDDER_SETTING, EMBEDDERS
from benchmarks.hosting import (
    AFTER,
    BEFORE,
    DEFAULT_ROOMS,
    NO_ANSWER,
    NOT_SURE,
    Host,
    Judge,
    Place,
    Rooms,
    Tally,
    as_messages,
)
from benchmarks.plain_lines import PlainLines
from benchmarks.recall import LONGEST_TEXT_BYTES
from benchmarks.servers import Launch, in_process, ours, over_stdio
from benchmarks.tables import write_json
from layerlore.memory.parts.tokens import TokenCounter, load_counter

ROOMS = (600, 1_500, 4_000, 8_000)
PLOT = Path("bench-results", "lived.svg")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    report = anyio.run(_measure, options)
    write_json(options.json, report)
    options.plot.parent.mkdir(parents=True, exist_ok=True)
    plot = chart.drawn("Evidence shown against tokens", "share of the evidence shown", lived_figures.panels(report))
    options.plot.write_text(plot, encoding="utf-8")
    print(f"\n{lived_figures.summary(report)}\n\nPlot: {options.plot}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lived", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a conversation set")
    parser.add_argument("--conversations", type=int, metavar="N", help="only the first N of each set")
    parser.add_argument("--questions", type=int, metavar="N", help="only N of each conversation, drawn by a seed")
    parser.add_argument("--absent", type=int, default=absent.QUESTIONS, help="questions never answered (default: 200)")
    parser.add_argument("--quick", action="store_true", help='defaults and 4,000 tokens only, answers "not sure" only')
    parser.add_argument("--in-process", action="store_true", help="the server in this process, without stdio")
    parser.add_argument("--database", default="", help="postgresql://...; without it a new SQLite file")
    parser.add_argument("--embedder", default="use", help=f"{EMBEDDERS} (default: use)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--plot", type=Path, default=PLOT, help=f"draw the figures into this file (default: {PLOT})")
    parser.add_argument(
        "--apart", nargs="*", default=["5"], metavar="CATEGORY", help="questions not asked (default: 5)"
    )
    return parser


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    report = {}
    counter = load_counter()
    for path in options.files:
        conversations = [_chosen(each, options) for each in read_set(path)]
        foreign = absent.drawn(conversations, options.apart, most=options.absent)
        tally = Tally()
        for conversation in conversations[: options.conversations]:
            with tempfile.TemporaryDirectory(prefix="layerlore-lived-") as folder:
                lived = _Lived(conversation, foreign.get(conversation.id, []), Path(folder), tally, counter, options)
                await lived.run()
            print(f"{path.stem}: {conversation.id} is done", file=sys.stderr, flush=True)
        report[path.stem] = lived_figures.figures(tally)
        print(f"\n## {path.stem}\n\n{lived_figures.shown(report[path.stem])}", flush=True)
    return report


def _chosen(conversation: Conversation, options: argparse.Namespace) -> Conversation:
    """With the questions that are asked, in their order."""
    questions = [question for question in conversation.questions if question.category not in options.apart]
    return replace(conversation, questions=drawn_questions(questions, options.questions))


class _Lived:
    """One conversation: a store that holds it, and a life on a copy of it for each kind of answers."""

    def __init__(
        self,
        conversation: Conversation,
        foreign: list[str],
        folder: Path,
        tally: Tally,
        counter: TokenCounter,
        options: argparse.Namespace,
    ) -> None:
        self._conversation = conversation
        self._foreign = foreign
        self._folder = folder
        self._tally = tally
        self._counter = counter
        self._options = options
        self._rooms = DEFAULT_ROOMS if options.quick else Rooms(ROOMS, ROOMS)
        self._run = uuid.uuid4().hex[:8]  # a database may hold an earlier run
        self._judge = Judge(conversation, counter)

    async def run(self) -> None:
        loaded = self._launch(BEFORE)
        async with self._connected(loaded) as connection:
            await load(connection, self._conversation.threads)
            await vectors_complete(connection)
            host = Host(connection, self._questions, "", self._judge, self._tally)
            await host.ask_before(self._rooms)
            await host.ask_absent(self._foreign, BEFORE)
        self._add_lines(BEFORE, "", [])
        if not self._options.quick:
            await self._live(NO_ANSWER, DEFAULT_ROOMS)
        said = await self._live(NOT_SURE, self._rooms)
        self._add_lines(AFTER, NOT_SURE, said)

    @property
    def _questions(self) -> list[Question]:
        return self._conversation.questions

    async def _live(self, answers: str, rooms: Rooms) -> list[str]:
        """Returns what was stored."""
        launch = self._launch(answers)
        if not self._options.database:
            shutil.copytree(self._folder / BEFORE, self._folder / answers, dirs_exist_ok=True)
        async with self._connected(launch) as connection:
            if self._options.database:
                await load(connection, self._conversation.threads)
            await vectors_complete(connection)
            host = Host(connection, self._questions, answers, self._judge, self._tally)
            await host.live()
            await host.ask_after(rooms)
            await host.ask_absent(self._foreign, AFTER, answers)
        return host.said

    def _launch(self, name: str) -> Launch:
        """A file can be copied with all that it holds, its resource among it; a database cannot."""
        (self._folder / name).mkdir(exist_ok=True)
        parts = [self._conversation.id, self._run, *([name] if self._options.database else [])]
        return ours(
            self._folder / name,
            resource="-".join(parts).replace(" ", "-"),
            database=self._options.database,
            LIMITS__MESSAGE_TEXT_BYTES=str(LONGEST_TEXT_BYTES),
            **{EMBEDDER_SETTING: self._options.embedder},
        )

    def _connected(self, launch: Launch) -> Any:
        return in_process(launch) if self._options.in_process else over_stdio(launch)

    def _add_lines(self, stage: str, answers: str, said: list[str]) -> None:
        """What the lines alone show, of the conversation and what was stored since."""
        lines = PlainLines(self._conversation, self._counter, as_messages(said, datetime.now(UTC).isoformat()))
        newest = lines.newest(ROOMS)
        for question in self._questions:
            systems = {lived_figures.BM25_LINES: lines.best(question.text, ROOMS), lived_figures.NEWEST: newest}
            for system, texts in systems.items():
                for room, text in zip(ROOMS, texts, strict=True):
                    self._tally.add(Place(system, stage, answers, room), self._judge.result(question, text))
        lines.close()


if __name__ == "__main__":
    main()
