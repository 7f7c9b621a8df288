"""Whether a reader model answers rightly from what is shown: ``python -m benchmarks.answers FILE...``, see README.md."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import anyio

from benchmarks.answers import figures, models
from benchmarks.answers.cases import FALSE_PREMISE, FALSE_PREMISE_CATEGORIES, Case, read_cases, write_cases
from benchmarks.answers.contexts import Choice, collect
from benchmarks.answers.converters import CONVERTERS, convert
from benchmarks.embedders import EMBEDDERS
from benchmarks.hosting import CONTEXT_TOKENS

CASES = Path("bench-results", "answers.jsonl")


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
        # The contexts are kept even if a model fails later.
        write_cases(options.out, cases)
    if options.evidence:
        print(figures.evidence_report(cases))
        return
    print(figures.answer_report(_judged(cases, options)))


def _judged(cases: list[Case], options: argparse.Namespace) -> list[Case]:
    # Some sets have questions without an answer; no judge could decide about them.
    decidable = [case for case in cases if case.answer or case.kind == FALSE_PREMISE]
    unread = any(case.reply is None for case in decidable)
    if options.reader or unread:
        reader = models.make_reader(options.reader or models.BEST_LINE)
        decidable = models.read(decidable, reader, options.parallel)
        write_cases(options.out, decidable)
    judges = [models.make_judge(name) for name in options.judge or [models.CONTAINMENT, models.OVERLAP]]
    judged = models.judge(decidable, judges, options.parallel)
    write_cases(options.out, judged)
    return judged


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
    parser.add_argument("--out", type=Path, default=CASES, help=f"keep the cases in this file (default: {CASES})")
    parser.add_argument("--evidence", action="store_true", help="no model: how much of the gold evidence is shown")
    parser.add_argument("--reader", metavar="MODEL", help="a model as litellm names it (default: best-line, scripted)")
    parser.add_argument(
        "--judge",
        action="append",
        metavar="MODEL",
        help="a model as litellm names it, or containment or overlap (default: these two); give it twice for two judges",
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
