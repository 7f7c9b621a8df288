"""The context of a thread: what the next model call should see, which an agent asks for every turn."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from layerlore.memory.context import context_text
from layerlore.memory.context.caches import AnswerCache
from layerlore.memory.context.context_answers import ContextAnswer, ProviderContext
from layerlore.memory.context.context_text import make_report
from layerlore.memory.context.material import CLOSING_TOKENS, ContextMaterial, ContextRequest, gather_context
from layerlore.memory.context.person import read_person, read_subject
from layerlore.memory.context.placement import place_context
from layerlore.memory.engine.engine import Engine
from layerlore.memory.recall.asking import read_question
from layerlore.memory.recall.memory_block import prepare_memory
from layerlore.memory.rules.pages import count_entry_bytes, count_sent_bytes
from layerlore.memory.rules.validation import check_text
from layerlore.memory.shapes.ai_sdk_messages import render_ai_sdk
from layerlore.memory.shapes.anthropic_messages import render_anthropic
from layerlore.memory.shapes.gemini_contents import render_gemini
from layerlore.memory.shapes.layout import ContextLayout
from layerlore.memory.shapes.openai_messages import render_openai
from layerlore.memory.shapes.responses_items import render_responses
from layerlore.storage.core.errors import LimitExceeded
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Scope

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
    ``ai-sdk``: ``system`` and ``messages``. ``json``: the blocks and messages as they are kept. All but the first have a
    ``report`` beside them.

    Of images and files the newest are there as they are, as far as an answer has room (``limits.answer_bytes``), and
    notes for the others. In an unknown thread nothing was said yet. Raises LimitExceeded.
    """
    size = len(check_text(query, "query").encode())
    if size > engine.limits.query_bytes:
        raise LimitExceeded(f"query: {size} bytes; at most {engine.limits.query_bytes} are allowed")
    answers, began = engine.caches.of(AnswerCache), engine.now()
    version = await engine.database.version() if format == "text" else None
    wanted = (scope.person, thread_id, query, max_tokens, reserved)
    known = answers.find(scope, wanted, version, began)
    if known is not None:
        return known
    shaped, degraded = await _make_context(engine, scope, thread_id, query, max_tokens, reserved, format)
    if isinstance(shaped, str) and not degraded:
        answers.keep(scope, wanted, version, began, shaped)
    return shaped


async def _make_context(
    engine: Engine, scope: Scope, thread_id: str, query: str, max_tokens: int, reserved: int, format: Format
) -> tuple[str | ContextAnswer | ProviderContext, bool]:
    """The context, and whether something was missing that may be there the next time."""
    questions = [query] if query else []
    if not questions and engine.context.memory:
        questions = await engine.database.read(read_question, scope, thread_id, engine.limits.query_bytes)
    prepared = await prepare_memory(engine, scope, questions, asking=thread_id)
    person = await read_person(engine, scope, questions, await read_subject(engine, scope, thread_id))
    most = count_entry_bytes(engine.limits.answer_bytes)
    asked = ContextRequest(
        thread_id,
        max_tokens - reserved,
        engine.now(),
        prepared,
        0 if format == "text" else most // 4,
        format in _SHAPES,
        person,
    )
    while True:
        material = await engine.database.read(gather_context, scope, engine, asked)
        hits = sum(hit.message.tokens for hit in material.recalled.hits)
        if asked.max_tokens + hits + material.left_out.waiting <= _INLINE_TOKENS:
            shaped, size = _measure(material, engine, asked.max_tokens + reserved, format)
        else:
            shaped, size = await asyncio.to_thread(_measure, material, engine, asked.max_tokens + reserved, format)
        if size <= most or asked.max_tokens <= FEWEST_TOKENS:
            return shaped, bool(material.recalled.degraded)
        # Tokens of many bytes, or many small things beside them: less is asked for until it is an answer.
        asked = replace(
            asked, max_tokens=max(FEWEST_TOKENS, asked.max_tokens * most // size * 9 // 10), media=asked.media // 2
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
        closing = context_text.render_report_line(report, material.thread_id, max_tokens)
        more = engine.tokens.text(closing) - CLOSING_TOKENS
        if more > 0:
            less = replace(material, shares=replace(material.shares, room=max(0, material.shares.room - more)))
            placed = place_context(less, engine.tokens, now=engine.now())
            report = make_report(placed)
            closing = context_text.render_report_line(report, material.thread_id, max_tokens)
        return context_text.render_text(placed.lay_out(), report, closing, placed.material.read.render)
    told = context_text.render_report_json(report, placed, max_tokens)
    if format == "json":
        answer: ContextAnswer = {**context_text.render_json(placed), "report": told}
        return answer
    return {**_SHAPES[format](placed.lay_out()), "report": told}
