"""What a server bears: ``python -m benchmarks.load``, see README.md.

Without a part it measures the throughput of a mix of calls; ``--overload``, ``--minutes`` and ``--million`` measure these
instead.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.embedders import EMBEDDERS
from benchmarks.load.fleet import Stores, opened_stores
from benchmarks.load.million import measure_million
from benchmarks.load.mix import DEFAULT_MIX, parse_mix
from benchmarks.load.overload import measure_overload
from benchmarks.load.soak import measure_soak
from benchmarks.load.throughput import measure_throughput
from benchmarks.tables import write_json

_QUICK = {
    "clients": 3,
    "seconds": 1.0,
    "rounds": 1,
    "messages": 40,
    "overload_clients": 30,
    "overload_seconds": 3.0,
    "minutes": 0.1,
    "million": 60,
    "in_scope": 20,
    "recall_rounds": 1,
    "embedder": "none",
}
"""What ``--quick`` measures."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if something that must hold does not."""
    options = _parser().parse_args(arguments)
    if options.quick:
        vars(options).update(_QUICK)
    with opened_stores(options.folder) as stores:
        report = asyncio.run(_measure(stores, options))
    write_json(options.json, report)
    faults = [fault for part in report.values() for found in part for fault in found.get("faults", ())]
    for fault in faults:
        print(f"Amiss: {fault}")
    return 1 if faults else 0


async def _measure(stores: Stores, options: argparse.Namespace) -> dict[str, Any]:
    report: dict[str, Any] = {}
    if options.quick or not (options.overload or options.minutes or options.million):
        report["throughput"] = await measure_throughput(stores, options)
    if options.quick or options.overload:
        report["overload"] = await measure_overload(stores, options)
    if options.quick or options.minutes:
        report["soak"] = await measure_soak(stores, options)
    if options.quick or options.million:
        report["million"] = await measure_million(stores, options)
    return report


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--transports", nargs="+", choices=["stdio", "http"], default=["stdio", "http"])
    parser.add_argument("--databases", nargs="+", choices=["sqlite", "postgres"], default=["sqlite", "postgres"])
    parser.add_argument("--replicas", nargs="+", type=int, default=[1, 2], help="servers on one store (default: 1 2)")
    parser.add_argument("--workers", type=int, default=1, help="processes of each HTTP server (default: 1)")
    parser.add_argument("--clients", type=int, default=8, help="clients at once (default: 8)")
    parser.add_argument("--mix", type=parse_mix, default=DEFAULT_MIX, help="default: add=4,recall=3,memory=1,get=2")
    parser.add_argument("--messages", type=int, default=1_000, help="messages in scope at first (default: 1,000)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each round (default: 5)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each server (default: 3)")
    parser.add_argument("--embedder", default="use", help=f"{EMBEDDERS} (default: use)")
    parser.add_argument("--overload", action="store_true", help="5 times what the server bears, over HTTP")
    parser.add_argument("--overload-clients", type=int, default=900, help="clients then (default: 900)")
    parser.add_argument("--overload-seconds", type=float, default=20.0, help="how long (default: 20)")
    parser.add_argument("--minutes", type=float, default=0.0, help="a long run of so many minutes")
    parser.add_argument(
        "--million",
        nargs="?",
        type=int,
        const=1_000_000,
        default=0,
        metavar="MESSAGES",
        help="recall in a store of so many messages (1,000,000) of others, beside a small one",
    )
    parser.add_argument("--in-scope", type=int, default=10_000, help="messages in scope then (default: 10,000)")
    parser.add_argument("--recall-rounds", type=int, default=20, help="rounds of 10 recalls then (default: 20)")
    parser.add_argument("--quick", action="store_true", help="all of it on very little input")
    parser.add_argument("--folder", type=Path, help="put the stores here: on the disk to be measured")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
