"""Measure whether a memory shows what is true and loses nothing: ``python -m benchmarks.truth``, see README.md."""

import argparse
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio

from benchmarks.tables import write_json
from benchmarks.truth import corrections, daily_use, facts, first_minute, quotations, small_stores
from benchmarks.truth.cases import Sample
from benchmarks.truth.figures import Figure, as_json, missed, summary

Measure = Callable[[Path, Sample], Awaitable[list[Figure]]]
PARTS: dict[str, Measure] = {
    "first_minute": first_minute.measure,
    "small_stores": small_stores.measure,
    "different": facts.measure_different,
    "equal": facts.measure_equal,
    "contradictions": facts.measure_contradictions,
    "evidence": quotations.measure,
    "evidence_jobs": quotations.measure_jobs,
    "corrections": corrections.measure,
    "daily_use": daily_use.measure,
}
QUICK_SHARE = 0.2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts and print one table. Returns the exit code: 1 if ``--check`` is given and a figure misses."""
    options = _parser().parse_args(arguments)
    sample = Sample(QUICK_SHARE, options.seed) if options.quick else Sample()
    figures = anyio.run(_measure, options.parts, sample)
    if options.quick:
        # One of 16 cases is more than the 5 % that may be wrong of all.
        for each in figures:
            each.spare = 1
    print(f"\n{summary(figures)}")
    if options.misses:
        _print_misses(figures)
    write_json(options.json, {"figures": as_json(figures)})
    failed = missed(figures)
    if failed:
        print("\nNot as expected: " + "; ".join(f"{each.part}, {each.name}" for each in failed))
    return 1 if options.check and failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.truth", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="only these")
    parser.add_argument("--quick", action="store_true", help="a fifth of the cases, drawn by the seed")
    parser.add_argument("--seed", type=int, default=1, help="draws the cases of a quick run (default: 1)")
    parser.add_argument("--check", action="store_true", help="end with 1 if a figure is not as expected")
    parser.add_argument("--misses", action="store_true", help="list the cases that came out wrong")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


async def _measure(parts: Sequence[str], sample: Sample) -> list[Figure]:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="layerlore-truth-", ignore_cleanup_errors=True) as name:
        for part in parts:
            began = time.perf_counter()
            figures += await PARTS[part](Path(name), sample)
            print(f"{part}: {time.perf_counter() - began:.1f} s", flush=True)
    return figures


def _print_misses(figures: Sequence[Figure]) -> None:
    """Print each case once, under the first figure that it speaks against."""
    printed: set[tuple[str, str]] = set()
    for each in figures:
        new = [case for case in each.misses if (each.part, case) not in printed]
        printed.update((each.part, case) for case in new)
        if new:
            print(f"\n{each.part}, {each.name}:")
            print("\n".join(f"- {case}" for case in new))


if __name__ == "__main__":
    sys.exit(main())
