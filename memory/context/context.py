"""The context of a thread: built for the next model call, as text and as JSON."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from layerlore.memory.context.caches import AnswerCache
from layerlore.memory.context.context_answers import (
    ContextAnswer,
    ContextBlock,
    ContextBlocks,
    ContextMessage,
    ContextReportAnswer,
    ProviderContext,
)
from layerlore.memory.context.context_blocks import render_message
from layerlore.memory.context.material import (
    CLOSING_TOKENS,
    ContextMaterial,
    ContextRequest,
    count_messages,
    gather_context,
)
from layerlore.memory.context.placement import PlacedContext, place_context
from layerlore.memory.engine.engine import Engine
from layerlore.memory.recall.candidates import cut_question, read_question
from layerlore.memory.recall.memory_block import prepare_memory, read_person, read_subject
from layerlore.memory.rules.ages import iso, name_days
from layerlore.memory.rules.answers import count_entry_bytes, count_sent_bytes, order_keys
from layerlore.memory.rules.time_zones import current_zone
from layerlore.memory.rules.validation import check_text
from layerlore.memory.shapes.exchanges import ContextLayout
from layerlore.memory.shapes.openai import render_openai, render_responses
from layerlore.memory.shapes.provider_messages import render_ai_sdk, render_anthropic, render_gemini
from layerlore.memory.text.quotation import TAGS, Tag, escape_tags, mark_degraded, wrap_block
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Message, Scope

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
    the most that a block can take: a model gets that many or a few less. ``degraded``: why memories may be
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
        if messages:
            return [wrap_block(tag, lines, _describe(tag, messages))]
        return []

    return "\n".join(
        [
            *([mark_degraded(report.degraded)] if report.degraded else []),
            *show("predefined-messages", laid.predefined),
            *laid.stable,
            *show("conversation", laid.before),
            *laid.volatile,
            *laid.recalled,
            *show("current-turn", laid.turn),
            closing,
        ]
    )


def _describe(tag: Tag, messages: Sequence[Message]) -> str:
    """The description of the block. A conversation's has its days, since no line gives its time, and *tomorrow* may be
    over."""
    if tag == "conversation":
        days = f" {name_days([each.said_at for each in messages])}."
    else:
        days = ""
    return f"{_FRAMES[tag]}{days}"


def render_json(placed: PlacedContext) -> ContextBlocks:
    """Render every block under its name, in the context's order: texts as a model gets them, messages with their
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
    # Predefined messages have no place in the thread: their seq is 0 or less.
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
    """Say why no message of the conversation is shown, and how to see more."""
    if not placed.material.recalled.sought:
        return f"{NEW}; pass the user's message as query to see what is remembered about it"
    has_memory = any(each.name == "memory" for each in placed.blocks)
    if has_memory or placed.material.recalled.degraded:
        return NEW
    return f"{NEW}, and {NOTHING_FITS}"


def _describe_observed(placed: PlacedContext) -> str:
    observed = placed.material.observed
    return f" (noted in observations up to #{observed})" if observed else ""


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


Format = Literal["text", "openai", "responses", "anthropic", "gemini", "ai-sdk", "json"]

# Above this many tokens, with those of the messages that are recalled, a context is put together in a thread: the event
# loop must not wait for it.
_INLINE_TOKENS = 20_000
FEWEST_TOKENS = 500

_SHAPES: dict[str, Callable[[ContextLayout], ProviderContext]] = {
    "openai": lambda laid: {"messages": render_openai(laid)},
    "responses": lambda laid: {"input": render_responses(laid)},
    "anthropic": render_anthropic,
    "gemini": render_gemini,
    "ai-sdk": render_ai_sdk,
}


async def get_context(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    *,
    query: str,
    max_tokens: int,
    format: Format,
    reserved: int = 0,
) -> str | ContextAnswer | ProviderContext:
    """Build the context of a thread within ``max_tokens``, what changes least first. ``reserved``: the tokens of these that
    the caller adds a line of its own in.

    ``text``: blocks and, in the last line, what is in them and what was left out; in the first, what is degraded.
    ``openai``: ``messages`` for chat completions. ``responses``: ``input`` for the Responses API. ``anthropic``: ``system``
    and ``messages``, with cache breakpoints before what changes. ``gemini``: ``systemInstruction`` and ``contents``.
    ``ai-sdk``: ``system`` and ``messages``. ``json``: the blocks and messages as they are stored. All but the first
    have a ``report`` beside them.

    The newest images and files come whole, as far as an answer has room (``limits.answer_bytes``); notes stand for the
    others. An unknown thread has no messages yet. Raises InvalidInput.
    """
    check_text(query, "query")
    answers, began = engine.caches.of(AnswerCache), engine.now()
    if format == "text":
        version = await _read_version(engine, scope)
    else:
        version = None
    # The zone is part of the key, since the text names days as the caller's zone has them.
    wanted = (scope.person, thread_id, query, max_tokens, reserved, current_zone())
    # The version was read before the material, so a commit in between makes the cached text old, not wrong.
    known = answers.find(scope, wanted, version, began)
    if known is not None:
        return known
    shaped, degraded = await _make_context(engine, scope, thread_id, query, max_tokens, reserved, format)
    # A degraded answer may be complete at the next call without any commit, so it is made again.
    if isinstance(shaped, str) and not degraded:
        answers.keep(scope, wanted, version, began, shaped)
    return shaped


async def _read_version(engine: Engine, scope: Scope) -> Hashable | None:
    """The version of all that is shown in the scope: in a project, of the person's memory too."""
    own = await engine.database.version(scope)
    if not scope.person or own is None:
        return own
    of_person = await engine.database.version(scope.of_person)
    if of_person is None:
        return None
    return own, of_person


async def _make_context(
    engine: Engine, scope: Scope, thread_id: str, query: str, max_tokens: int, reserved: int, format: Format
) -> tuple[str | ContextAnswer | ProviderContext, bool]:
    """The context, and whether something was missing that may be there the next time."""
    questions = cut_question(query, engine.limits.query_bytes)
    # Without a query the memories are those that fit what the thread's user said last.
    if not questions and engine.context.memory:
        questions = await engine.database.read(read_question, scope, thread_id, engine.limits.query_bytes)
    prepared = await prepare_memory(engine, scope, questions, asking=thread_id)
    person = await read_person(engine, scope, questions, await read_subject(engine, scope, thread_id))
    most = count_entry_bytes(engine.limits.answer_bytes)
    request = ContextRequest(
        thread_id,
        max_tokens - reserved,
        engine.now(),
        prepared,
        # Images and files get a quarter of the answer's bytes; in a text notes stand for them.
        0 if format == "text" else most // 4,
        format in _SHAPES,
        person,
    )
    while True:
        material = await engine.database.read(gather_context, scope, engine, request)
        # Long hits are cut to lines, which takes time beside the window itself.
        hits = sum(hit.message.tokens for hit in material.recalled.hits)
        if request.max_tokens + hits + material.left_out.waiting <= _INLINE_TOKENS:
            shaped, size = _measure(material, engine, request.max_tokens + reserved, format)
        else:
            shaped, size = await asyncio.to_thread(_measure, material, engine, request.max_tokens + reserved, format)
        if size <= most or request.max_tokens <= FEWEST_TOKENS:
            return shaped, bool(material.recalled.degraded)
        # Tokens of many bytes, or many small things beside them: less is requested until it is an answer.
        request = replace(
            request,
            max_tokens=max(FEWEST_TOKENS, request.max_tokens * most // size * 9 // 10),
            media=request.media // 2,
        )


def _measure(
    material: ContextMaterial, engine: Engine, max_tokens: int, format: Format
) -> tuple[str | ContextAnswer | ProviderContext, int]:
    """The context in its shape, and how many bytes an answer has by it."""
    shaped = _shape(material, engine, max_tokens, format)
    text = to_json(shaped)
    return shaped, len(text.encode()) if isinstance(shaped, str) else count_sent_bytes(text)


def _shape(
    material: ContextMaterial, engine: Engine, max_tokens: int, format: Format
) -> str | ContextAnswer | ProviderContext:
    placed = place_context(material, engine.tokens, now=engine.now())
    report = make_report(placed)
    if format == "text":
        closing = render_report_line(report, material.thread_id, max_tokens)
        # A closing line longer than planned takes its room from the messages, so they are placed once more.
        more = engine.tokens.text(closing) - CLOSING_TOKENS
        if more > 0:
            less = replace(material, shares=replace(material.shares, room=max(0, material.shares.room - more)))
            placed = place_context(less, engine.tokens, now=engine.now())
            report = make_report(placed)
            closing = render_report_line(report, material.thread_id, max_tokens)
        return render_text(placed.lay_out(), report, closing, placed.material.read.render)
    described = render_report_json(report, placed, max_tokens)
    if format == "json":
        answer: ContextAnswer = {**render_json(placed), "report": described}
        return answer
    return {**_SHAPES[format](placed.lay_out()), "report": described}
