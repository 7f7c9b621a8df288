"""What get_context costs however long a thread is, and how much of it a prompt cache can reuse: ``python -m
benchmarks.context``, see README.md."""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from benchmarks.call_rounds import Contender, alternate
from benchmarks.filling import Pool, Store, opened
from benchmarks.prompt_caches import ROOMS, measure_prefixes, render_prefixes
from benchmarks.sample_text import SampleText
from benchmarks.servers import Launch, noop, ours, over_stdio
from benchmarks.tables import figure, table, verdict, write_json
from benchmarks.toolwork_threads import WORKLOADS
from benchmarks.turns import converse
from layerlore.memory.context.context import get_context
from layerlore.memory.context.material import ContextRequest, gather_context
from layerlore.memory.settings.context_settings import ContextRules
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Row, Tx

THREAD = "thread"
OWN_MS = 2.0
# A store that is filled at once would be observed for minutes while calls are timed. Memories cost a recall more, and
# are others every turn.
_PUT_OFF = {"OBSERVATION__MESSAGE_TOKENS": "2000000", "OBSERVATION__STAND_IN": "10", "CONTEXT__MEMORY": "false"}
GROWTH = 1.5
HEADER = (
    *("messages", "p50 ms", "p95 ms", "CPU ms", "no-op p50", "ratio p50", "page of 20 p50"),
    *("statements ms", "own ms", "expected", "verdict"),
)
CACHE_HEADER = ("window", "contexts", "reusable", "lost", "messages in the last")
POLICIES: dict[str, dict[str, Any] | None] = {
    "observed (default)": None,
    "messages, threshold 60 to 20": {"limit": "messages", "trim": "threshold", "threshold": 60, "target": 20},
    "messages, continuous 20": {"limit": "messages"},
    "tokens, 2000": {"limit": "tokens"},
}


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    write_json(options.json, anyio.run(_measure, options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.context", description=__doc__)
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=[100, 1_000, 10_000, 100_000], help="messages in the thread"
    )
    parser.add_argument("--rounds", type=int, default=20, help="rounds of each call (default: 20)")
    parser.add_argument("--calls", type=int, default=20, help="calls a round (default: 20)")
    parser.add_argument("--turns", type=int, default=200, help="turns of the conversation (default: 200; 0: none)")
    parser.add_argument(
        "--workload",
        action="append",
        choices=[workload.name for workload in WORKLOADS],
        help="a conversation with large results of tools; several times (default: none)",
    )
    parser.add_argument("--rooms", nargs="+", type=int, default=list(ROOMS), help="tokens of its contexts")
    parser.add_argument("--folder", type=Path, help="put the store here: on the disk to be measured")
    parser.add_argument("--database", default="", help="postgresql://...; without it a new SQLite file")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="layerlore-context-", dir=options.folder) as name:
        folder = Path(name)
        report: dict[str, Any] = {"calls": await _calls(options, folder)}
        if options.turns:
            report["reuse"] = await _reuse(options, folder)
    for workload in WORKLOADS:
        if workload.name in (options.workload or ()):
            found = await measure_prefixes(workload, seed=1, rooms=options.rooms)
            print(f"\n## Prompt caches: {workload.name}\n\n{render_prefixes(found)}", flush=True)
            report[workload.name] = {f"{shape} {room}": each.share for (shape, room), each in found.items()}
    return report


def _resource(folder: Path, size: int | str) -> str:
    return f"{folder.name}-{size}"


def _launch(options: argparse.Namespace, folder: Path, size: int | str) -> Launch:
    settings = {"EMBEDDING__EMBEDDER": "none", **_PUT_OFF}
    return ours(folder, resource=_resource(folder, size), database=options.database, **settings)


async def _calls(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    pool, own = Pool(None), {}
    async with opened(folder, options.database, None) as store:
        for size in options.sizes:
            await store.fill(_resource(folder, size), THREAD, pool.drawn(size))
        for size in options.sizes:
            own[size] = await _own(store, _resource(folder, size), options.rounds * options.calls)
    figures = []
    for size in options.sizes:
        async with over_stdio(_launch(options, folder, size)) as our, over_stdio(noop(folder)) as idle:
            text = SampleText(1)

            async def context(connection: Any = our) -> None:
                await connection.call("get_context", thread_id=THREAD)

            async def page(connection: Any = our) -> None:
                await connection.call("get_messages", thread_id=THREAD, limit=20)

            async def nothing(connection: Any = idle, text: SampleText = text) -> None:
                await connection.call("noop", text=text.text())

            contenders = {
                "context": Contender(context, our.server),
                "page": Contender(page, our.server),
                "no-op": Contender(nothing, idle.server),
            }
            timed = await alternate(contenders, rounds=options.rounds, calls=options.calls)
            found = {
                name: {"p50_ms": it.ms(0.5), "p95_ms": it.ms(0.95), "cpu_ms": it.cpu_ms_per_call}
                for name, it in timed.items()
            }
            figures.append({"messages": size, **found, "statements_ms": own[size][0], "own_ms": own[size][1]})
    _print_calls(figures)
    return figures


def _print_calls(figures: list[dict[str, Any]]) -> None:
    rows = []
    for each in figures:
        mine, idle = each["context"], each["no-op"]
        values = [mine["p50_ms"], mine["p95_ms"], mine["cpu_ms"], idle["p50_ms"], mine["p50_ms"] / idle["p50_ms"]]
        values += [each["page"]["p50_ms"], each["statements_ms"], each["own_ms"]]
        held = verdict(each["own_ms"] <= OWN_MS)
        rows.append([f"{each['messages']:,}", *map(figure, values), f"own {OWN_MS:g} ms", held])
    print(f"## get_context over stdio, 8,000 tokens\n\n{table(HEADER, rows)}")
    by_size = {each["messages"]: each["context"]["p50_ms"] / each["no-op"]["p50_ms"] for each in figures}
    if 1_000 in by_size and max(by_size) > 1_000:
        growth = by_size[max(by_size)] / by_size[1_000]
        print(
            f"\nFrom 1,000 to {max(by_size):,} messages: {growth:.2f}x; expected {GROWTH}x: {verdict(growth <= GROWTH)}"
        )


class _TimedTx:
    """A transaction that adds up how long its statements take."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.backend = tx.backend
        self.seconds = 0.0

    async def one(self, *statement: Any, **values: Any) -> Row | None:
        began = time.perf_counter()
        try:
            return await self._tx.one(*statement, **values)
        finally:
            self.seconds += time.perf_counter() - began

    async def scalar(self, *statement: Any, **values: Any) -> Any:
        began = time.perf_counter()
        try:
            return await self._tx.scalar(*statement, **values)
        finally:
            self.seconds += time.perf_counter() - began

    async def scalars(self, *statement: Any, **values: Any) -> list[Any]:
        began = time.perf_counter()
        try:
            return await self._tx.scalars(*statement, **values)
        finally:
            self.seconds += time.perf_counter() - began

    async def all(self, *statement: Any, **values: Any) -> Sequence[Row]:
        began = time.perf_counter()
        try:
            return await self._tx.all(*statement, **values)
        finally:
            self.seconds += time.perf_counter() - began

    async def each(self, *statement: Any, **values: Any) -> None:
        began = time.perf_counter()
        try:
            await self._tx.each(*statement, **values)
        finally:
            self.seconds += time.perf_counter() - began


async def _own(store: Store, resource: str, calls: int) -> tuple[float, float]:
    """Milliseconds of a context's statements, and of everything else of ours around them: medians, in this process."""
    scope = Scope(LOCAL_TENANT, "default", resource)
    engine = replace(store.engine, context=ContextRules(memory=False))
    statements, whole = [], []

    async def read(tx: Any, scope: Scope) -> float:
        timed = _TimedTx(tx)
        await gather_context(timed, scope, engine, ContextRequest(THREAD, 8000, engine.now()))  # type: ignore[arg-type]
        return timed.seconds

    for _ in range(calls):
        statements.append(await engine.database.read(read, scope))
        began = time.perf_counter()
        await get_context(engine, scope, THREAD, query="", max_tokens=8000, format="text")
        whole.append(time.perf_counter() - began)
    read_ms, whole_ms = (sorted(times)[len(times) // 2] * 1000 for times in (statements, whole))
    return read_ms, whole_ms - read_ms


async def _reuse(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    rows = []
    async with over_stdio(_launch(options, folder, "turns")) as our:
        for number, (name, policy) in enumerate(POLICIES.items()):
            thread = f"thread-{number}"
            if policy is not None:
                await our.call("update_thread", thread_id=thread, window=policy)
            reuse = await converse(our.call, thread, options.turns, keep=True)
            last = reuse.contexts[-1].count("\n") + 1
            figures[name] = {"share": reuse.share, "lost": reuse.lost, "contexts": len(reuse.contexts)}
            rows.append([name, str(len(reuse.contexts)), f"{reuse.share:.0%}", str(reuse.lost), str(last)])
    print(f"\n## What a prompt cache could reuse, {options.turns} turns\n\n{table(CACHE_HEADER, rows)}")
    return figures


if __name__ == "__main__":
    main()
