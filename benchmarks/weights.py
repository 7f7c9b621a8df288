"""Fits what each signal of the ranking weighs: ``python -m benchmarks.weights FILE...``, see README.md."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import numpy as np

from benchmarks.conversations import read_set
from benchmarks.embedders import EMBEDDERS
from benchmarks.metrics import mean
from benchmarks.ranking_cases import Case, Cases, read_cases
from benchmarks.tables import figure, table
from layerlore.memory.recall.ranking import Floats

# The signals that are fitted, and the formula that the fit begins from and is held to where the cases say little.
PRIOR = {
    "lexical": 4.7,
    "context": 4.7,
    "semantic": 2.4,
    "speaker": 1.9,
    "role": 1.4,
    "session": 1.4,
    "asks": 0.0,
    "empty": 0.0,
    "same": 0.0,
    "answers": 0.0,
    "answered": 6.0,
    "followed": 0.0,
}
# Two of the three sets have no assistant, and no stored question is answered: what they say of these is an accident.
FIXED = frozenset({"role", "answered"})
DEPTHS = (5, 10, 20, 32, 50)
_ROWS = 60
_STEPS = 200
_RATE = 0.1
_HOLD = 0.01
# A larger weight decides the same, and is an accident of few cases.
_LARGEST = 12.0


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    anyio.run(_fit, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.weights", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a conversation set")
    parser.add_argument("--embedder", default="use", help=f"{EMBEDDERS} (default: use)")
    parser.add_argument(
        "--apart", nargs="*", default=["5"], metavar="CATEGORY", help="neither fitted nor measured (default: 5)"
    )
    return parser


async def _fit(options: argparse.Namespace) -> None:
    sets = [await read_cases(path.stem, read_set(path), options.embedder, options.apart) for path in options.files]
    rows = []
    for left_out in sets:
        others = [each for each in sets if each is not left_out] or sets
        fitted, prior = fit(others), PRIOR
        for label, cases in (("clean", left_out.clean), ("questions stored", left_out.lived)):
            rows.append([left_out.name, label, "begun from", *_measured(cases, prior)])
            rows.append([left_out.name, label, "fitted on the others", *_measured(cases, fitted)])
    print(table(("set left out", "store", "weights", *(f"recall@{depth}" for depth in DEPTHS)), rows))
    print("\nFitted on all:\n")
    for name, weight in fit(sets).items():
        print(f'    "{name}": {weight:.2f},')


def fit(sets: Sequence[Cases]) -> dict[str, float]:
    """The weights under which the evidence of the cases is likeliest: of each question's messages the odds are those
    of a softmax. Each set counts the same, with and without stored questions."""
    names = tuple(PRIOR)
    signals, evidence, question, counts = _stack([cases for each in sets for cases in (each.clean, each.lived)], names)
    centre, spread = signals.mean(axis=0), signals.std(axis=0) + 1e-6
    scaled = (signals - centre) / spread
    starts = np.flatnonzero(np.concatenate(([True], question[1:] != question[:-1])))
    free = np.array([name not in FIXED for name in names], np.float64)
    begun = np.array(list(PRIOR.values())) * spread
    weights, first, second = begun.copy(), np.zeros(len(names)), np.zeros(len(names))
    for step in range(1, _STEPS + 1):
        scores = scaled @ weights
        odds = np.exp(scores - np.maximum.reduceat(scores, starts)[question])
        odds /= np.add.reduceat(odds, starts)[question]
        slope = (scaled.T @ ((odds - evidence) * counts[question]) + _HOLD * (weights - begun)) * free
        # Adam (Kingma and Ba 2015).
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        weights = weights - _RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        weights = np.clip(weights, -_LARGEST * spread, _LARGEST * spread)
    return dict(zip(names, (weights / spread).tolist(), strict=True))


def _stack(
    groups: Sequence[Sequence[Case]], names: Sequence[str]
) -> tuple[Floats, Floats, np.ndarray[tuple[int], np.dtype[np.int64]], Floats]:
    """The rows of all cases that can teach, each row's share of the evidence and its question, and what each question
    counts."""
    signals: list[Floats] = []
    shares: list[Floats] = []
    counts: list[float] = []
    for cases in groups:
        teaching = [case for case in cases if case.evidence[:_ROWS].any()]
        for case in teaching:
            columns = [case.names.index(name) for name in names]
            signals.append(case.signals[:_ROWS, columns])
            found = case.evidence[:_ROWS].astype(np.float64)
            shares.append(found / found.sum())
            counts.append(1 / len(teaching) / len(groups))
    question = np.repeat(np.arange(len(signals)), [len(each) for each in signals])
    return np.concatenate(signals), np.concatenate(shares), question, np.array(counts)


def _measured(cases: Sequence[Case], weights: dict[str, float]) -> list[str]:
    """Recall at each depth, of the questions that have an answer."""
    real = [case for case in cases if case.category]
    return [figure(mean(_share(case, weights, depth) for case in real), 3) for depth in DEPTHS]


def _share(case: Case, weights: dict[str, float], depth: int) -> float:
    scores: Callable[[str], Floats] = lambda name: case.signals[:, case.names.index(name)]  # noqa: E731
    total = sum((weight * scores(name) for name, weight in weights.items()), np.zeros(len(case.evidence)))
    return float(case.evidence[np.argsort(-total, kind="stable")[:depth]].sum()) / max(case.wanted, 1)


if __name__ == "__main__":
    main()
