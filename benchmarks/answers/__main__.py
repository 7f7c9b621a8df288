"""Whether a reader model answers rightly from what is shown: ``python -m benchmarks.answers FILE...``, see README.md."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio

from benchmarks import chart
from benchmarks.answers import figures, models
from benchmarks.answers.cases import FALSE_PREMISE_CATEGORIES, Case, read_cases, write_cases
from benchmarks.answers.contexts import Choice, collect
from benchmarks.answers.converters import CONVERTERS, convert
from benchmarks.embedders import EMBEDDERS
from benchmarks.hosting import CONTEXT_TOKENS

CASES = Path("bench-results", "answers.jsonl")
PLOT_TITLE = "Right answers against tokens"
PROGRESS_CASES = 100


def main(arguments: Sequence[str] | None = None) -> None:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.convert:
        convert(options.convert, options.files, options.out)
        return
    if bool(options.files) == bool(options.read_again):
        parser.error("name conversation sets, or files of cases after --from")
    if options.read_again:
        cases = read_cases(options.read_again)
    else:
        cases = anyio.run(collect, options.files, _choice(options))
        # The contexts are kept even if the run is stopped later.
        write_cases(options.out, cases)
    if options.evidence:
        print(figures.evidence_report(cases))
        return
    cases = _answered(cases, options)
    plot = options.out.with_suffix(".svg")
    plot.write_text(chart.drawn(PLOT_TITLE, "share of right answers", figures.panels(cases)), encoding="utf-8")
    print(f"{figures.answer_report(cases)}\n\nPlot: {plot}")


def _answered(cases: list[Case], options: argparse.Namespace) -> list[Case]:
    """The cases with replies and verdicts, which are kept in the file that ``--out`` names."""
    unread = all(case.reply is None for case in cases)
    reader = options.reader or (models.BEST_LINE if unread else None)
    if not options.missing:
        cases = [_without_answers(case, replies=reader is not None) for case in cases]
    judges = {name: models.make_judge(name) for name in options.judge or [models.CONTAINMENT, models.OVERLAP]}
    asked = models.answered(cases, models.make_reader(reader) if reader else None, judges, options.parallel)
    answered = list(cases)
    try:
        for at, case in enumerate(asked):
            answered[at] = case
            if (at + 1) % PROGRESS_CASES == 0:
                print(f"{at + 1:,} of {len(cases):,} cases are answered", file=sys.stderr, flush=True)
    finally:
        # A run that is stopped keeps what it has; --missing goes on from there.
        write_cases(options.out, answered)
    return answered


def _without_answers(case: Case, *, replies: bool) -> Case:
    if replies:
        case = replace(case, reply=None, reader_tokens=0)
    return replace(case, verdicts={}, judge_tokens=0)


def _choice(options: argparse.Namespace) -> Choice:
    return Choice(
        rooms=options.context,
        conversations=options.conversations,
        questions=options.questions,
        absent=options.absent,
        false_premise=options.false_premise,
        embedder=options.embedder,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answers", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="a conversation set")
    parser.add_argument("--from", dest="read_again", nargs="+", type=Path, metavar="FILE", help="cases of earlier runs")
    parser.add_argument(
        "--out", type=Path, default=CASES, help=f"keep the cases in this file, and a plot beside it (default: {CASES})"
    )
    parser.add_argument("--evidence", action="store_true", help="no model: how much of the gold evidence is shown")
    parser.add_argument("--reader", metavar="MODEL", help="a model as litellm names it (default: best-line, scripted)")
    parser.add_argument(
        "--judge",
        action="append",
        metavar="MODEL",
        help="a model as litellm names it, or containment or overlap (default: these two); give it twice for two judges",
    )
    parser.add_argument(
        "--missing", action="store_true", help="with --from: ask only for the replies and verdicts that are missing"
    )
    parser.add_argument("--parallel", type=int, default=4, help="calls of a model at a time (default: 4)")
    parser.add_argument(
        "--context", nargs="*", type=int, default=[CONTEXT_TOKENS], metavar="TOKENS", help="rooms of get_context"
    )
    parser.add_argument("--conversations", type=int, metavar="N", help="only the first N of each set")
    parser.add_argument("--questions", type=int, metavar="N", help="only N of each conversation, drawn by a seed")
    parser.add_argument("--absent", type=int, default=20, help="questions of other conversations (default: 20 a set)")
    parser.add_argument(
        "--false-premise", nargs="*", default=list(FALSE_PREMISE_CATEGORIES), metavar="CATEGORY", help="such categories"
    )
    parser.add_argument("--embedder", default="use", help=f"{EMBEDDERS} (default: use)")
    parser.add_argument("--convert", choices=list(CONVERTERS), help="turn a published FILE into a set, in --out")
    return parser


if __name__ == "__main__":
    main()
