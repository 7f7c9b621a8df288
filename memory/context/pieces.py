"""The blocks of a context beside the window: each whole, or as much of it as a number of tokens has room for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from layerlore.memory import attempts
from layerlore.memory.blocks import block
from layerlore.memory.context.noted import Noted
from layerlore.memory.memory_block import as_block
from layerlore.memory.plan_text import current_step, lines, phase_line, step_line
from layerlore.memory.quoting import Tag, quoted_line
from layerlore.memory.reading import CUT_MARK
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.working_memory import Document, readable
from layerlore.memory.working_memory_text import rendered
from layerlore.storage.attempts import AttemptPage
from layerlore.storage.records import Json

Name = Literal[
    "user-profile",
    "observations",
    "summary",
    "session-memory",
    "current-task",
    "plan",
    "previous-attempts",
    "memory",
]

# Its tags, its description and the lines that head its days, at most.
_OBSERVATIONS_FRAME = 120
# A block and what stands between it and the next.
_BETWEEN = 2


@dataclass(frozen=True, slots=True)
class Shown:
    """A block as it is in the context, its tokens, and what of it is missing ("": nothing)."""

    name: Name
    text: str
    tokens: int
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A block that has something to say. ``fit`` gives it with at most so many tokens of its own text, and what is
    missing then; an empty text where nothing fits."""

    name: Name
    text: str
    tokens: int
    fit: Callable[[int], tuple[str, str]]

    def within(self, most: int, counter: TokenCounter) -> Shown:
        """The block in at most so many tokens; empty where not even a word of it fits."""
        if self.text and self.tokens <= most:
            return Shown(self.name, self.text, self.tokens)
        text, missing = self.fit(most - _BETWEEN)
        return Shown(self.name, text, cost(counter, text), missing)


def cost(counter: TokenCounter, text: str) -> int:
    """What a block takes of the budget."""
    return counter.known(text) + _BETWEEN if text else 0


def piece(name: Name, text: str, counter: TokenCounter, fit: Callable[[int], tuple[str, str]]) -> Piece:
    return Piece(name, text, cost(counter, text), fit)


def of_document(document: Document, name: Literal["user-profile", "session-memory"], counter: TokenCounter) -> Piece:
    """A working memory document, cut at its end with a mark."""
    assert document.changed is not None
    changed, told = document.changed, readable(document)
    # Cut, it is text, whatever its format is.
    as_text = replace(document, rules=replace(document.rules, format="text", schema=None))

    def fit(most: int) -> tuple[str, str]:
        def shown(text: str) -> str:
            return rendered(replace(as_text, changed=replace(changed, content=text)))

        return _cut(told, shown, most, counter), f"words of {name}"

    return piece(name, rendered(document), counter, fit)


def of_plan(plan: Json, counter: TokenCounter) -> Piece:
    """The plan; where it is too long, its goal, phase and the step that is next."""
    description = "The plan of this conversation's work."

    def shown(text: str) -> str:
        return block("plan", text, description)

    def fit(most: int) -> tuple[str, str]:
        step = current_step(plan)
        short = [*lines({**plan, "steps": []})[:1], phase_line(plan), *([step_line(step)] if step else [])]
        return _cut("\n".join(short), shown, most, counter), "steps of the plan"

    return piece("plan", shown("\n".join(lines(plan))), counter, fit)


def of_attempts(logged: AttemptPage, counter: TokenCounter) -> Piece:
    """What was tried, by task, the newest where not all fit."""
    newest = sorted(logged.attempts, key=lambda attempt: (attempt.created_at, attempt.attempt))
    told = [
        f"{quoted_line(attempt.task_key)}: {line}" for attempt, line in zip(newest, attempts.lines(newest), strict=True)
    ]
    text, _ = _newest_lines("previous-attempts", told, "What was tried before, newest last.", None, counter)

    def fit(most: int) -> tuple[str, str]:
        shown, kept = _newest_lines("previous-attempts", told, "What was tried before, newest last.", most, counter)
        return shown, f"{logged.total - kept} earlier attempts"

    return piece("previous-attempts", text, counter, fit)


def of_observations(noted: Noted, counter: TokenCounter) -> Piece:
    """The active observations; where they are too many, the newest and the critical ones."""

    def fit(most: int) -> tuple[str, str]:
        text = noted.block(counter, most)
        return text, "older observations" if cost(counter, text) < noted.tokens else ""

    # Laid out only for the room that there is: all of them may be far too many.
    return Piece("observations", "", noted.tokens + _OBSERVATIONS_FRAME, fit)


def of_task(current_task: str | None, next_step: str | None, counter: TokenCounter) -> Piece:
    """What the observer found that is being done, and what comes next."""
    told = [("Current task", current_task), ("Suggested next step", next_step)]
    text = "\n".join(f"{name}: {quoted_line(value)}" for name, value in told if value)

    def shown(text: str) -> str:
        return block("current-task", text, "What was being done, as it was last noted.")

    def fit(most: int) -> tuple[str, str]:
        return _cut(text, shown, most, counter), "words of current-task"

    return piece("current-task", shown(text), counter, fit)


def of_entries(lines: Sequence[str], counter: TokenCounter) -> Piece:
    """Recalled entries, newest first, as many as fit."""

    def fit(most: int) -> tuple[str, str]:
        kept = list(lines)
        while kept and counter.text(as_block(kept)) > most:
            kept.pop()
        return as_block(kept), f"{len(lines) - len(kept)} older memories"

    return piece("memory", as_block(lines), counter, fit)


def _newest_lines(
    tag: Tag, told: Sequence[str], description: str, most: int | None, counter: TokenCounter
) -> tuple[str, int]:
    """A block of the last lines that fit, and how many those are; empty where none does."""
    kept = len(told)
    while kept:
        text = block(tag, "\n".join(told[-kept:]), description)
        if most is None or counter.text(text) <= most:
            return text, kept
        kept = kept // 2 if kept > 8 else kept - 1
    return "", 0


def _cut(text: str, shown: Callable[[str], str], most: int, counter: TokenCounter) -> str:
    """The block with the beginning of a text that fits, and a mark; empty where not a word of it does."""
    left = most - counter.known(shown(CUT_MARK))
    while left > 0 and (beginning := counter.cut(text, left)):
        made = shown(beginning + CUT_MARK)
        over = counter.text(made) - most
        if over <= 0:
            return made
        left -= over
    return ""
