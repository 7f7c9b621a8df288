"""What the next model call should see of a thread: the call that an agent makes every turn."""

import asyncio
from dataclasses import replace
from typing import Literal

from layerlore.memory.acceptance import check_text
from layerlore.memory.blocks import block
from layerlore.memory.candidates import Vector
from layerlore.memory.context import report, shaped_text
from layerlore.memory.context.anthropic_messages import as_anthropic
from layerlore.memory.context.gathering import Asked, gather
from layerlore.memory.context.layout import Laid
from layerlore.memory.context.openai_messages import as_openai
from layerlore.memory.context.pieces import Shown, cost
from layerlore.memory.context.placing import Gathered
from layerlore.memory.context.report import report_of
from layerlore.memory.digest import as_lines, digest, notes_of
from layerlore.memory.engine import Engine
from layerlore.memory.pages import room, sent_bytes
from layerlore.memory.quoting import indented, quoted
from layerlore.memory.search_text import query_words
from layerlore.storage.errors import LimitExceeded
from layerlore.storage.json_text import to_json
from layerlore.storage.records import Json, Scope

Format = Literal["text", "openai", "anthropic", "json"]

STABLE = ("user-profile", "observations", "summary")
VOLATILE = ("session-memory", "current-task", "plan", "previous-attempts", "memory")

# Above this many tokens a context is put together in a thread: the event loop must not wait for it.
_INLINE_TOKENS = 20_000
FEWEST_TOKENS = 500


async def get_context(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    *,
    query: str,
    max_tokens: int,
    format: Format,
) -> str | Json:
    """The context of a thread within so many tokens, what changes least first.

    ``text``: blocks and, in the last line, what is in them and what was left out. ``openai``: ``messages`` for chat
    completions. ``anthropic``: ``system`` and ``messages``, with cache breakpoints before what changes. ``json``: the
    blocks and messages as they are kept. The last three have a ``report`` beside them.

    Of images and files the newest are there as they are, as far as an answer has room (``limits.answer_bytes``), and
    notes for the others. In an unknown thread nothing was said yet. Raises LimitExceeded.
    """
    size = len(check_text(query, "query").encode())
    if size > engine.limits.query_bytes:
        raise LimitExceeded(f"query: {size} bytes; at most {engine.limits.query_bytes} are allowed")
    words = tuple(query_words(query))
    vector = await _vector(engine, query) if words else None
    most = room(engine.limits.answer_bytes)
    asked = Asked(thread_id, max_tokens, engine.now(), words, vector, 0 if format == "text" else most // 4)
    while True:
        gathered = await engine.database.read(gather, scope, engine, asked)
        if asked.max_tokens <= _INLINE_TOKENS:
            shaped, size = _measured(gathered, engine, asked.max_tokens, format)
        else:
            shaped, size = await asyncio.to_thread(_measured, gathered, engine, asked.max_tokens, format)
        if size <= most or asked.max_tokens <= FEWEST_TOKENS:
            return shaped
        # Tokens of many bytes, or many small things beside them: less is asked for until it is an answer.
        asked = replace(
            asked, max_tokens=max(FEWEST_TOKENS, asked.max_tokens * most // size * 9 // 10), media=asked.media // 2
        )


def _measured(gathered: Gathered, engine: Engine, max_tokens: int, format: Format) -> tuple[str | Json, int]:
    """The context in its shape, and how many bytes an answer has by it."""
    shaped = _shaped(gathered, engine, max_tokens, format)
    text = to_json(shaped)
    return shaped, len(text.encode()) if isinstance(shaped, str) else sent_bytes(text)


async def _vector(engine: Engine, query: str) -> Vector | None:
    """The query's vector, if no request is needed for it."""
    if engine.embedding is None or not engine.entries.auto_inject:
        return None
    made, _ = await engine.embedding.query(query, at_hand=True)
    return None if made is None else made.vector


def _shaped(gathered: Gathered, engine: Engine, max_tokens: int, format: Format) -> str | Json:
    summary = _summary(gathered, engine)
    told = report_of(gathered, summary)
    laid = _laid(gathered, summary)
    if format == "text":
        return shaped_text.as_text(laid, report.as_line(told, gathered.thread_id, max_tokens))
    if format == "json":
        return {**shaped_text.as_json(gathered, summary), "report": report.as_json(told, gathered, max_tokens)}
    shaped: Json = {"messages": as_openai(laid)} if format == "openai" else as_anthropic(laid)
    return {**shaped, "report": report.as_json(told, gathered, max_tokens)}


def _laid(gathered: Gathered, summary: Shown | None) -> Laid:
    texts = {each.name: each.text for each in (*gathered.shown, *([summary] if summary else [])) if each.text}
    return replace(
        gathered.laid_window,
        stable=tuple(texts[name] for name in STABLE if name in texts),
        volatile=tuple(texts[name] for name in VOLATILE if name in texts),
    )


def _summary(gathered: Gathered, engine: Engine) -> Shown | None:
    """What fell out of the window: a model's summary if there is one, and extracts from what is not in it yet."""
    left_out, counter = gathered.left_out, engine.tokens
    if not left_out.summary_tokens:
        return None
    made = counter.cut(left_out.summary, left_out.summary_tokens)
    room = left_out.summary_tokens - counter.known(made) if made else left_out.summary_tokens

    def extracted() -> str:
        return as_lines(digest(notes_of(left_out.sample), counter, room))

    lines = engine.extracts.of(gathered.thread_uid, left_out.sample, room, extracted) if left_out.sample else ""
    if not made and not lines:
        return None
    count = f"{left_out.messages:,} earlier message{'' if left_out.messages == 1 else 's'}"
    what = "A summary of, and extracts from," if made and lines else "A summary of" if made else "Extracts from"
    # A model's text: only the lines of extracts begin without a space.
    own = indented(f" {quoted(made)}") if made else ""
    text = block("summary", "\n".join(filter(None, [own, lines])), f"{what} {count} that are not shown.")
    return Shown("summary", text, cost(counter, text))
