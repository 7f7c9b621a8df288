"""A context as text for a model and as JSON for a program, with a report of each block's tokens and of what was left
out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from layerlore.memory.context.context_answers import ContextBlock, ContextBlocks, ContextMessage, ContextReportAnswer
from layerlore.memory.context.material import count_messages
from layerlore.memory.context.message_lines import render_message
from layerlore.memory.context.placement import PlacedContext
from layerlore.memory.rules.ages import iso, name_days
from layerlore.memory.rules.answer_keys import order_keys
from layerlore.memory.shapes.layout import ContextLayout
from layerlore.memory.text.blocks import mark_degraded, wrap_block
from layerlore.memory.text.quotation import TAGS, Tag, escape_tags
from layerlore.storage.core.records import Message

NEW = "nothing was said in this thread yet"
NOTHING_FITS = "nothing that is remembered fits the query"

_FRAMES: dict[Tag, str] = {
    "predefined-messages": "Messages that the operator put before every conversation.",
    "conversation": "The conversation, as it was said",
    "current-turn": "The newest message of the user, and what came after it.",
}


@dataclass(frozen=True, slots=True)
class ContextReport:
    """The blocks with their tokens in the order of the context, and in words what was left out or cut. The tokens are
    the most that a block can take: a model is given that many or a few less. ``degraded``: why memories may be
    missing."""

    tokens: int
    blocks: tuple[tuple[str, int], ...]
    left_out: tuple[str, ...]
    note: str
    degraded: tuple[str, ...]


def render_text(
    laid: ContextLayout,
    report: ContextReport,
    closing: str,
    render: Callable[[Message], str] = render_message,
) -> str:
    """Render the blocks in their order, and the closing line; before them, if need be, what is degraded. ``render`` makes a
    message's lines, or has them from before."""

    def show(tag: Tag, messages: Sequence[Message]) -> list[str]:
        lines = "\n".join(map(render, messages))
        return [wrap_block(tag, lines, _describe(tag, messages))] if messages else []

    return "\n".join(
        [
            *([mark_degraded(report.degraded)] if report.degraded else []),
            *show("predefined-messages", laid.predefined),
            *laid.stable,
            *show("conversation", laid.before),
            *laid.volatile,
            *show("current-turn", laid.turn),
            closing,
        ]
    )


def _describe(tag: Tag, messages: Sequence[Message]) -> str:
    """What the block is; of the conversation the days, since no line says when it was said, and *tomorrow* may be over."""
    days = f" {name_days([each.said_at for each in messages])}." if tag == "conversation" else ""
    return f"{_FRAMES[tag]}{days}"


def render_json(placed: PlacedContext) -> ContextBlocks:
    """Render every block under its name, in the context's order: texts as a model is given them, messages with their
    parts."""
    laid = placed.lay_out()
    found: dict[str, ContextBlock] = {}
    for each in placed.blocks:
        if each.text:
            found[each.name] = {"block": each.name, "text": each.text}
    for name, some in _list_messages(laid).items():
        if some:
            found[name] = {"block": name, "messages": [_entry(message) for message in some]}
    return {"blocks": [found[name] for name in TAGS if name in found]}


def _list_messages(laid: ContextLayout) -> dict[Tag, tuple[Message, ...]]:
    return {"predefined-messages": laid.predefined, "conversation": laid.before, "current-turn": laid.turn}


def _entry(message: Message) -> ContextMessage:
    entry: ContextMessage = {"role": message.role, "parts": message.parts}
    if message.name:
        entry["name"] = message.name
    if message.seq > 0:
        entry["id"] = message.id
        entry["seq"] = message.seq
        entry["said_at"] = iso(message.said_at)
    return order_keys(ContextMessage, entry)


def make_report(placed: PlacedContext) -> ContextReport:
    """Count the tokens of each block, and describe what was left out or cut."""
    tokens = {name: count_messages(some) for name, some in _list_messages(placed.lay_out()).items() if some}
    tokens |= {each.name: each.tokens for each in placed.blocks if each.text}
    blocks = tuple((name, tokens[name]) for name in TAGS if name in tokens)
    left_out: list[str] = []
    newer = placed.missing_behind
    if earlier := placed.missing - newer:
        left_out.append(f"{_count_some(earlier, 'earlier')}{_describe_observed(placed)}")
    if newer:
        left_out.append(_count_some(newer, "newer"))
    if placed.shortened:
        left_out.append(f"words of {_name_seqs(placed.shortened)}")
    left_out += [each.missing if each.text else f"all of {each.name}" for each in placed.blocks if each.missing]
    notes = [placed.material.note, *([_describe_new(placed)] if placed.is_new else [])]
    note = "; ".join(filter(None, notes))
    return ContextReport(sum(tokens.values()), blocks, tuple(left_out), note, placed.material.recalled.degraded)


def _count_some(count: int, which: str) -> str:
    return f"{count:,} {which} message{'' if count == 1 else 's'}"


def _describe_new(placed: PlacedContext) -> str:
    """Say why nothing of the conversation is told, and how more can be."""
    if not placed.material.recalled.sought:
        return f"{NEW}; with the user's message as query, what is remembered about it is told"
    told = any(each.name == "memory" for each in placed.blocks)
    return NEW if told or placed.material.recalled.degraded else f"{NEW}, and {NOTHING_FITS}"


def _describe_observed(placed: PlacedContext) -> str:
    observed = placed.material.observed
    return f" (told by observations up to #{observed})" if observed else ""


def _name_seqs(seqs: tuple[int, ...]) -> str:
    shown = ", ".join(f"#{seq}" for seq in seqs[:5] if seq > 0) or "predefined-messages"
    return shown + (f" and {len(seqs) - 5} more" if len(seqs) > 5 else "")


def render_report_line(report: ContextReport, thread_id: str, max_tokens: int) -> str:
    """The last line of a context in text."""
    blocks = ", ".join(f"{name} {tokens:,}" for name, tokens in report.blocks) or "nothing to tell"
    said = [
        f"context of thread {escape_tags(thread_id)!r}: about {report.tokens:,} of {max_tokens:,} tokens: {blocks}",
        *([f"left out: {', '.join(report.left_out)}"] if report.left_out else []),
        *([f"note: {report.note}"] if report.note else []),
    ]
    return f"[{'; '.join(said)}]"


def render_report_json(report: ContextReport, placed: PlacedContext, max_tokens: int) -> ContextReportAnswer:
    """The report as JSON, with the thread and the kind of its window."""
    answer: ContextReportAnswer = {
        "thread_id": placed.material.thread_id,
        "window": placed.material.policy.limit,
        "tokens": report.tokens,
        "max_tokens": max_tokens,
        "blocks": [{"block": name, "tokens": tokens} for name, tokens in report.blocks],
    }
    if report.degraded:
        answer["degraded"] = list(report.degraded)
    if report.left_out:
        answer["left_out"] = list(report.left_out)
    if report.note:
        answer["note"] = report.note
    return order_keys(ContextReportAnswer, answer)
