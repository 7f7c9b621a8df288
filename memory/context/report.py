"""What a context says of itself: each block with its tokens, and what was left out."""

from dataclasses import dataclass

from layerlore.memory.context.message_lines import OVERHEAD
from layerlore.memory.context.pieces import Shown
from layerlore.memory.context.placing import Gathered
from layerlore.memory.quoting import TAGS, escaped
from layerlore.storage.records import Json, Message


@dataclass(frozen=True, slots=True)
class Report:
    """The blocks with their tokens in the order of the context, and in words what was left out or cut. The tokens are
    the most that a block can take: a model is given that many or a few less."""

    tokens: int
    blocks: tuple[tuple[str, int], ...]
    left_out: tuple[str, ...]
    note: str


def report_of(gathered: Gathered, summary: Shown | None) -> Report:
    laid = gathered.laid_window
    messages = {"predefined-messages": laid.predefined, "conversation": laid.before, "current-turn": laid.turn}
    tokens = {name: _cost(some) for name, some in messages.items() if some}
    pieces = [*gathered.shown, *([summary] if summary else [])]
    tokens |= {each.name: each.tokens for each in pieces if each.text}
    blocks = tuple((name, tokens[name]) for name in TAGS if name in tokens)
    missing = gathered.left_out.messages
    left_out = (
        *([f"{missing:,} earlier message{'' if missing == 1 else 's'}{_told(gathered)}"] if missing else []),
        *([f"words of {_numbers(gathered.shortened)}"] if gathered.shortened else []),
        *(each.missing if each.text else f"all of {each.name}" for each in pieces if each.missing),
    )
    return Report(sum(tokens.values()), blocks, left_out, gathered.note)


def _told(gathered: Gathered) -> str:
    observed = gathered.left_out.observed
    return f" (told by observations up to #{observed})" if observed else ""


def _cost(messages: tuple[Message, ...]) -> int:
    return sum(message.tokens + OVERHEAD for message in messages)


def _numbers(seqs: tuple[int, ...]) -> str:
    shown = ", ".join(f"#{seq}" for seq in seqs[:5] if seq > 0) or "predefined-messages"
    return shown + (f" and {len(seqs) - 5} more" if len(seqs) > 5 else "")


def as_line(report: Report, thread_id: str, max_tokens: int) -> str:
    """The last line of a context in text."""
    blocks = ", ".join(f"{name} {tokens:,}" for name, tokens in report.blocks) or "nothing is kept yet"
    said = [
        f"context of thread {escaped(thread_id)!r}: about {report.tokens:,} of {max_tokens:,} tokens: {blocks}",
        *([f"left out: {', '.join(report.left_out)}"] if report.left_out else []),
        *([f"note: {report.note}"] if report.note else []),
    ]
    return f"[{'; '.join(said)}]"


def as_json(report: Report, gathered: Gathered, max_tokens: int) -> Json:
    """The same for programs, with the thread and the kind of its window."""
    return {
        "thread_id": gathered.thread_id,
        "window": gathered.policy.limit,
        "tokens": report.tokens,
        "max_tokens": max_tokens,
        "blocks": [{"block": name, "tokens": tokens} for name, tokens in report.blocks],
        **({"left_out": list(report.left_out)} if report.left_out else {}),
        **({"note": report.note} if report.note else {}),
    }
