"""The blocks of a context beside the window: each whole, or as much of it as a number of tokens has room for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from layerlore.memory.documents.document_text import render_block
from layerlore.memory.documents.working_memory import WorkingMemoryDocument, render_readable
from layerlore.memory.parts.tokens import CUT_MARK, TokenCounter
from layerlore.memory.text.blocks import wrap_block
from layerlore.memory.text.quotation import Tag, quote_line
from layerlore.memory.work import attempts
from layerlore.memory.work.plan_answers import OpenWorkAnswer
from layerlore.memory.work.plan_rules import OPEN
from layerlore.memory.work.plan_text import find_current_step, render_lines, render_open
from layerlore.storage.core.records import Plan
from layerlore.storage.work.attempts import AttemptPage

BlockName = Literal[
    "user-profile",
    "observations",
    "summary",
    "session-memory",
    "current-task",
    "plan",
    "previous-attempts",
    "open-work",
    "memory",
]

OPEN_WORK = "Suspended runs, this conversation's first, and unfinished plans of others, changed last first."

# A block and what stands between it and the next.
_BETWEEN = 2


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """A block as it is in the context, its tokens, and what of it is missing ("": nothing)."""

    name: BlockName
    text: str
    tokens: int
    missing: str = ""


@dataclass(frozen=True, slots=True)
class ContextPiece:
    """A block that has something to say. ``fit`` gives it with at most so many tokens of its own text, and what is
    missing then; an empty text where nothing fits."""

    name: BlockName
    text: str
    tokens: int
    fit: Callable[[int], tuple[str, str]]

    def within(self, most: int, counter: TokenCounter) -> ShownBlock:
        """The block in at most so many tokens; empty where not even a word of it fits."""
        if self.text and self.tokens <= most:
            return ShownBlock(self.name, self.text, self.tokens)
        text, missing = self.fit(most - _BETWEEN)
        return ShownBlock(self.name, text, count_cost(counter, text), missing)


def count_cost(counter: TokenCounter, text: str) -> int:
    """Count the tokens that a block takes of the budget."""
    return counter.known(text) + _BETWEEN if text else 0


def make_piece(
    name: BlockName, text: str, counter: TokenCounter, fit: Callable[[int], tuple[str, str]]
) -> ContextPiece:
    """Make a piece of a whole block, its tokens counted."""
    return ContextPiece(name, text, count_cost(counter, text), fit)


def make_document_piece(
    document: WorkingMemoryDocument, name: Literal["user-profile", "session-memory"], counter: TokenCounter
) -> ContextPiece:
    """A working memory document as a block, cut at its end with a mark."""
    assert document.changed is not None
    readable = render_readable(document)

    def fit(most: int) -> tuple[str, str]:
        def shown(text: str) -> str:
            return render_block(document, text=text)

        return _cut(readable, shown, most, counter), f"words of {name}"

    return make_piece(name, render_block(document), counter, fit)


def make_plan_piece(plan: Plan, counter: TokenCounter) -> ContextPiece:
    """The plan as a block; where it is too long, its goal, its phase and the steps that matter most."""
    description = "The plan of this conversation's work."

    def shown(text: str) -> str:
        return wrap_block("plan", text, description)

    lines = render_lines(plan)

    def fit(most: int) -> tuple[str, str]:
        kept = _choose_plan_lines(plan, lines, lambda text: counter.text(shown(text)) <= most)
        if kept:
            return shown("\n".join(kept)), "steps of the plan"
        return _cut("\n".join(lines[:2]), shown, most, counter), "steps of the plan"

    return make_piece("plan", shown("\n".join(lines)), counter, fit)


def _choose_plan_lines(plan: Plan, lines: Sequence[str], fits: Callable[[str], bool]) -> list[str]:
    """The lines of a plan that fit, in its order: goal and phase, the step that is next, the open steps, then the
    others, the newest first."""
    head = len(lines) - len(plan["steps"]) if plan["steps"] else len(lines)
    current = find_current_step(plan)
    places = range(len(lines) - head)

    def rank(place: int) -> tuple[bool, bool, int]:
        step = plan["steps"][place]
        is_open = step["status"] in OPEN
        return step is not current, not is_open, place if is_open else -place

    order = [*range(head), *(head + place for place in sorted(places, key=rank))]
    for kept in range(len(order), head - 1, -1):
        chosen = [lines[place] for place in sorted(order[:kept])]
        if fits("\n".join(chosen)):
            return chosen
    return []


def make_attempts_piece(logged: AttemptPage, counter: TokenCounter) -> ContextPiece:
    """The attempts as a block, by task, the newest where not all fit."""
    newest = sorted(logged.attempts, key=lambda attempt: (attempt.created_at, attempt.attempt))
    rows = [
        f"{quote_line(attempt.task_key)}: {line}"
        for attempt, line in zip(newest, attempts.render_attempts(newest), strict=True)
    ]
    text, _ = _newest_lines("previous-attempts", rows, "What was tried before, newest last.", None, counter)

    def fit(most: int) -> tuple[str, str]:
        shown, kept = _newest_lines("previous-attempts", rows, "What was tried before, newest last.", most, counter)
        return shown, f"{logged.total - kept} earlier attempts"

    return make_piece("previous-attempts", text, counter, fit)


def make_open_work_piece(found: OpenWorkAnswer, counter: TokenCounter) -> ContextPiece:
    """What is open as a block, its first lines where not all fits."""
    lines = render_open(found)

    def fit(most: int) -> tuple[str, str]:
        kept = len(lines)
        while kept and counter.text(wrap_open_work(lines[:kept])) > most:
            kept -= 1
        return wrap_open_work(lines[:kept]), f"{len(lines) - kept} lines of open-work"

    return make_piece("open-work", wrap_open_work(lines), counter, fit)


def wrap_open_work(lines: Sequence[str]) -> str:
    """The lines of ``render_open`` as a block; empty without any."""
    return wrap_block("open-work", "\n".join(lines), OPEN_WORK) if lines else ""


def make_task_piece(current_task: str | None, next_step: str | None, counter: TokenCounter) -> ContextPiece:
    """The current task and the next step as a block, as the observer noted them."""
    rows = [("Current task", current_task), ("Suggested next step", next_step)]
    text = "\n".join(f"{name}: {quote_line(value)}" for name, value in rows if value)

    def shown(text: str) -> str:
        return wrap_block("current-task", text, "What was being done, as it was last noted.")

    def fit(most: int) -> tuple[str, str]:
        return _cut(text, shown, most, counter), "words of current-task"

    return make_piece("current-task", shown(text), counter, fit)


def _newest_lines(
    tag: Tag, rows: Sequence[str], description: str, most: int | None, counter: TokenCounter
) -> tuple[str, int]:
    """A block of the last lines that fit, and how many those are; empty where none does."""
    kept = len(rows)
    while kept:
        text = wrap_block(tag, "\n".join(rows[-kept:]), description)
        if most is None or counter.text(text) <= most:
            return text, kept
        kept -= 1
    return "", 0


def _cut(text: str, shown: Callable[[str], str], most: int, counter: TokenCounter) -> str:
    """The block with the beginning of a text that fits, and a mark; empty where not a word of it does."""
    left = most - counter.known(shown(CUT_MARK))
    while left > 0 and (beginning := counter.cut_words(text, left)):
        made = shown(beginning + CUT_MARK)
        over = counter.text(made) - most
        if over <= 0:
            return made
        left -= over
    return ""
