"""What a context is made of, read in one transaction, and what of it there is room for."""

from dataclasses import dataclass, replace

from layerlore.memory.candidates import Vector
from layerlore.memory.context.filling import filled
from layerlore.memory.context.loading import load
from layerlore.memory.context.pieces import (
    Piece,
    of_attempts,
    of_document,
    of_entries,
    of_observations,
    of_plan,
    of_task,
)
from layerlore.memory.context.placing import Gathered, Said, placed
from layerlore.memory.engine import Engine
from layerlore.memory.memory_block import memory_block
from layerlore.memory.observations_text import cursor_of
from layerlore.memory.parts import plain_text
from layerlore.memory.search_text import query_words
from layerlore.memory.window.choosing import policy_of
from layerlore.memory.window.fitting import newest_from_user
from layerlore.memory.window.view import Window, window_of
from layerlore.memory.working_memory import Document
from layerlore.storage import attempts, plans, summaries, threads, windows, working_memory
from layerlore.storage.errors import NotFound
from layerlore.storage.records import Scope, Thread
from layerlore.storage.transaction import Tx

# Set aside for the line that says what is in the context, and for the frames of the conversation's blocks.
REPORT_TOKENS = 200
# The newest attempts of a thread that are shown.
MOST_ATTEMPTS = 20
# Of what falls out of the window, its first and its newest messages are summarised.
SUMMARISED_FIRST = 10
SUMMARISED_NEWEST = 50


@dataclass(frozen=True, slots=True)
class Asked:
    """Which context: within so many tokens, with the entries that fit these words, and this vector if it is at hand;
    without words, those of the user's newest message. ``now`` is milliseconds since 1970. ``media``: so many bytes of
    images and files (base64)."""

    thread_id: str
    max_tokens: int
    now: int
    words: tuple[str, ...] = ()
    vector: Vector | None = None
    media: int = 0


async def gather(tx: Tx, scope: Scope, engine: Engine, asked: Asked) -> Gathered:
    """Read a context and share the tokens out."""
    thread_id, max_tokens = asked.thread_id, asked.max_tokens
    thread = await _found(tx, scope, thread_id)
    policy, note = (
        policy_of(engine.windows, thread, engine.tokens, engine.limits) if thread else (engine.windows.default, "")
    )
    pieces = await _pieces(tx, engine, scope, thread, thread_id)
    room = max_tokens - REPORT_TOKENS
    if thread is None:
        pieces += await _remembered(tx, engine, scope, asked, None)
        return placed(thread_id, policy, note, pieces, None, room, max_tokens, engine.tokens)
    noted = await engine.noted.of(tx, scope, thread.thread_uid)
    cursor = cursor_of(thread, noted)
    loaded = await load(tx, scope, thread, policy, room, engine.tokens, cursor=cursor)
    window = window_of([*loaded.lead, *loaded.run], policy, engine.tokens, older=loaded.older, cursor=cursor)
    pieces += await _remembered(tx, engine, scope, asked, window)
    pieces += [of_observations(noted, engine.tokens)] if noted else []
    said = Said(thread, loaded, window, cursor)
    made = placed(thread_id, policy, note, pieces, said, room, max_tokens, engine.tokens)
    if asked.media:
        made = replace(made, window=await filled(tx, scope, thread, made.window, asked.media))
    if not made.left_out.summary_tokens:
        return made
    told = await summaries.newest(tx, scope, thread.thread_uid, before=made.left_out.before)
    told = told if told is not None and told.upto_seq > cursor else None
    first, newest = await windows.between(
        tx,
        scope,
        thread,
        after=told.upto_seq if told else cursor,
        before=made.left_out.before,
        first=SUMMARISED_FIRST,
        newest=SUMMARISED_NEWEST,
    )
    inside = {message.seq for message in made.window}
    sample = tuple(message for message in (*first, *newest) if message.seq not in inside)
    return replace(made, left_out=replace(made.left_out, sample=sample, summary=told.text if told else ""))


async def _found(tx: Tx, scope: Scope, thread_id: str) -> Thread | None:
    try:
        return await threads.find(tx, scope, thread_id)
    except NotFound:
        return None


async def _remembered(tx: Tx, engine: Engine, scope: Scope, asked: Asked, window: Window | None) -> list[Piece]:
    """The entries that fit what is asked, or what the user said last."""
    words = asked.words
    if not words and window is not None:
        newest = newest_from_user(window.messages)
        words = tuple(query_words(plain_text(window.messages[newest].parts))) if newest is not None else ()
    lines = await memory_block(tx, engine, scope, words, asked.vector, now=asked.now)
    return [of_entries(lines, engine.tokens)] if lines else []


async def _pieces(tx: Tx, engine: Engine, scope: Scope, thread: Thread | None, thread_id: str) -> list[Piece]:
    counter, rules = engine.tokens, engine.working_memory
    pieces: list[Piece] = []
    profile = Document("resource", "", rules.of("resource"), await working_memory.newest(tx, scope, None))
    if profile.content:
        pieces.append(of_document(profile, "user-profile", counter))
    if thread is None:
        return pieces
    kept = Document("thread", thread_id, rules.of("thread"), await working_memory.newest(tx, scope, thread))
    if kept.content:
        pieces.append(of_document(kept, "session-memory", counter))
    if thread.current_task or thread.next_step:
        pieces.append(of_task(thread.current_task, thread.next_step, counter))
    open_plan = await plans.newest(tx, scope, thread)
    if open_plan is not None:
        pieces.append(of_plan(open_plan.plan, counter))
    logged = await attempts.newest(tx, scope, thread, task_key="", limit=MOST_ATTEMPTS)
    if logged.attempts:
        pieces.append(of_attempts(logged, counter))
    return pieces
