"""What a sub-agent without a memory is told, and what somebody reads who goes on with a thread's work."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from layerlore.memory import attempts, plan, working_memory
from layerlore.memory.acceptance import check_text
from layerlore.memory.blocks import block
from layerlore.memory.engine import Engine
from layerlore.memory.parts import plain_text
from layerlore.memory.plan_text import current_step, lines, phase_line, step_line
from layerlore.memory.quoting import escaped, one_line, quoted, quoted_line, speaker
from layerlore.memory.reading import CUT_MARK
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.trust import from_outside
from layerlore.memory.working_memory import Document, readable
from layerlore.memory.working_memory_text import rendered
from layerlore.storage import message_pages
from layerlore.storage.attempts import Attempt
from layerlore.storage.errors import InvalidInput, LimitExceeded, NotFound
from layerlore.storage.json_text import to_json
from layerlore.storage.records import ROLES, Json, Message, Scope

FEWEST_TOKENS = 300
MOST_TOKENS = 20_000
# Messages and attempts that are looked at, the newest; longest text of a message, in characters.
MOST_MESSAGES = 50
MOST_ATTEMPTS = 100
MESSAGE_CHARS = 600
# What resume_work reads of a thread's log.
MOST_RESUMED = 500
# Set aside for tags or keys and for the line that says what was left out.
_FRAME_TOKENS = 220
_DESCRIPTION_TOKENS = 50
_SHARE = 3  # Plan, attempts and profile take at most a third each of what the task leaves; messages the rest.


@dataclass(frozen=True, slots=True)
class Briefing:
    """All there is to tell; ``total_messages`` and ``total_attempts`` count those that are not among them too."""

    task: str
    thread_id: str
    plan: Json | None = None
    profile: Document | None = None
    messages: Sequence[Message] = ()
    total_messages: int = 0
    attempts: Sequence[Attempt] = ()
    total_attempts: int = 0


async def gather(engine: Engine, scope: Scope, thread_id: str, task: str, *, task_key: str) -> Briefing:
    """Read what a briefing is made of; of attempts, those at the task with the key (empty: none). Of an unknown thread
    nothing is kept yet. Raises InvalidInput, LimitExceeded."""
    if not check_text(task, "task").strip():
        raise InvalidInput("task: is empty; say what is to be done")
    key = attempts.checked_key(engine, task_key)[0] if task_key else ""
    task, _ = engine.masked(task)
    profile = await working_memory.current(engine, scope, "resource")
    found = Briefing(task, thread_id, profile=profile)
    with contextlib.suppress(NotFound):
        open_plan = await plan.current(engine, scope, thread_id)
        page = await engine.database.read(message_pages.page, scope, thread_id, roles=ROLES, limit=MOST_MESSAGES)
        logged = await attempts.listed(engine, scope, thread_id, task_key=key, limit=MOST_ATTEMPTS) if key else None
        found = Briefing(
            task,
            thread_id,
            open_plan["plan"] if open_plan else None,
            profile,
            page.messages,
            page.total,
            logged.attempts if logged else (),
            logged.total if logged else 0,
        )
    return found


def as_text(found: Briefing, counter: TokenCounter, max_tokens: int) -> str:
    """The briefing as blocks of text; the last line says what was left out. Raises LimitExceeded."""
    task = f"<task>\n{escaped(found.task)}\n</task>"
    kept = _fitted(found, _Room(counter, _shown_as_text, max_tokens, task))
    parts = [task]
    if "plan" in kept:
        told = kept["plan"]
        step = [f"Current step: {told['current_step']}"] if "current_step" in told else []
        parts.append(block("plan", "\n".join([f"Goal: {told['goal']}", phase_line(told), *step])))
    if "user_profile" in kept:
        parts.append(_profile(found.profile, kept["user_profile"]))
    if "messages" in kept:
        parts.append(block("conversation", "\n".join(map(_message_line, kept["messages"]))))
    if "previous_attempts" in kept:
        parts.append(block("previous-attempts", "\n".join(kept["previous_attempts"])))
    if "left_out" in kept:
        parts.append(f"[left out, since max_tokens={max_tokens}: {'; '.join(kept['left_out'])}]")
    return "\n".join(parts)


def as_json(found: Briefing, counter: TokenCounter, max_tokens: int) -> Json:
    """The same as JSON. Raises LimitExceeded."""
    told = {"thread_id": found.thread_id, "task": found.task}
    return {**told, **_fitted(found, _Room(counter, to_json, max_tokens, to_json(told)))}


def _profile(profile: Document | None, text: str) -> str:
    """The block of the profile, with as much of its text as there is room for."""
    assert profile is not None
    assert profile.changed is not None
    return rendered(replace(profile, changed=replace(profile.changed, content=text)))


def _shown_as_text(piece: Any) -> str:
    return escaped(piece if isinstance(piece, str) else _message_line(piece))


class _Room:
    """The tokens that are left beside the task, for pieces that are shown in one way."""

    def __init__(self, counter: TokenCounter, shown: Callable[[Any], str], max_tokens: int, task: str) -> None:
        self._counter, self._shown = counter, shown
        needed = counter.text(task) + _FRAME_TOKENS
        if needed > max_tokens:
            raise LimitExceeded(
                f"task: takes {needed:,} tokens, and max_tokens={max_tokens:,}; "
                f"shorten it, or raise max_tokens (at most {MOST_TOKENS:,})"
            )
        self.left = max_tokens - needed
        self.share = self.left // _SHARE

    def _cost(self, piece: Any) -> int:
        return self._counter.text(self._shown(piece)) + 1

    def cut(self, text: str, most: int) -> str:
        """As much of a text as costs at most ``most``, with a mark where it is cut; taken off what is left."""
        most = min(most, self.left)
        fits, over = (len(text), 0) if self._cost(text) <= most else (0, len(text))
        while over - fits > 1:
            middle = (fits + over) // 2
            fits, over = (middle, over) if self._cost(text[:middle] + CUT_MARK) <= most else (fits, middle)
        kept = text if fits == len(text) else text[:fits] + CUT_MARK if fits else ""
        self.left -= self._cost(kept)
        return kept

    def newest(self, pieces: Sequence[Any], most: int) -> list[Any]:
        """As many of the last pieces as cost at most ``most``, in their order; taken off what is left."""
        kept: list[Any] = []
        most = min(most, self.left)
        for piece in reversed(pieces):
            cost = self._cost(piece)
            most -= cost
            if most < 0:
                break
            self.left -= cost
            kept.append(piece)
        return kept[::-1]


def _fitted(found: Briefing, room: _Room) -> Json:
    """The parts that have something in them, each within its share, and in ``left_out`` what had no room."""
    told: Json = {}
    left_out: list[str] = []
    if found.plan:
        told["plan"], whole = _plan(found.plan, room)
        left_out += [] if whole else ["words of the plan"]
    if found.profile and found.profile.content:
        text = readable(found.profile)
        room.left -= _DESCRIPTION_TOKENS
        told["user_profile"] = room.cut(text, room.share)
        left_out += [] if told["user_profile"] == text else ["words of the profile"]
    if found.attempts:
        logged = attempts.lines(found.attempts)
        shown = room.newest(logged, room.share) or list(filter(None, [room.cut(logged[-1], room.share)]))
        told["previous_attempts"] = shown
        missing = found.total_attempts - len(shown)
        left_out += [f"{missing} earlier attempts"] if missing else []
        left_out += ["words of the last attempt"] if shown and shown[-1] != logged[-1] else []
    if found.messages:
        told["messages"] = room.newest([_entry(message) for message in found.messages], room.left)
        missing = found.total_messages - len(told["messages"])
        left_out += [f"{missing} earlier messages"] if missing else []
    order = ("plan", "user_profile", "messages", "previous_attempts")
    return {**{name: told[name] for name in order if told.get(name)}, **({"left_out": left_out} if left_out else {})}


def _plan(open_plan: Json, room: _Room) -> tuple[Json, bool]:
    """Goal, phase and the step that is next, and whether they are whole."""
    goal, step = quoted_line(open_plan["goal"]), current_step(open_plan)
    line = step_line(step) if step else ""
    phase = {name: open_plan[name] for name in ("current_phase", "iteration")}
    room.cut(phase_line(phase), room.share)
    kept_goal, kept_line = room.cut(goal, room.share // 2), room.cut(line, room.share // 2) if line else ""
    told = {"goal": kept_goal, **phase, **({"current_step": kept_line} if kept_line else {})}
    return told if kept_goal else {}, (kept_goal, kept_line) == (goal, line)


def _entry(message: Message) -> Json:
    text = one_line(plain_text(message.parts, quoted))
    name = {"name": message.name} if message.name else {}
    trust = {"trust": told} if (told := from_outside(message)) else {}
    shown = text if len(text) <= MESSAGE_CHARS else text[:MESSAGE_CHARS] + CUT_MARK
    return {"seq": message.seq, "role": message.role, **name, **trust, "text": shown}


def _message_line(entry: Json) -> str:
    trust = entry.get("trust", "")
    told = speaker(entry["role"], entry.get("name"), "" if trust == entry["role"] else trust)
    return f"#{entry['seq']} {told}: {entry['text']}"


async def get_briefing(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    task: str,
    *,
    task_key: str,
    max_tokens: int,
    json: bool,
) -> str | Json:
    """What a sub-agent needs for a task, within so many tokens, as text or as JSON. The task itself is never cut.

    Raises what ``gather`` raises, and LimitExceeded when the task alone is too long.
    """
    found = await gather(engine, scope, thread_id, task, task_key=task_key)
    return await asyncio.to_thread(as_json if json else as_text, found, engine.tokens, max_tokens)


async def resume_work(engine: Engine, scope: Scope, thread_id: str) -> list[str]:
    """What somebody reads who goes on with a thread's work: its plan, its attempts by task, its session memory; those
    of them that there are; nothing of an unknown thread."""
    open_plan = await plan.current(engine, scope, thread_id)
    try:
        logged = await attempts.listed(engine, scope, thread_id, task_key="", limit=MOST_RESUMED)
    except NotFound:
        return []
    texts = [block("plan", "\n".join(lines(open_plan["plan"])))] if open_plan else []
    by_task = [
        f"Task {quoted_line(key)}:\n" + "\n".join(attempts.lines(list(of_task)))
        for key, of_task in groupby(logged.attempts, key=lambda each: each.task_key)
    ]
    missing = logged.total - len(logged.attempts)
    if by_task:
        cut = [f"({missing} earlier attempts are left out)"] if missing else []
        texts.append(block("previous-attempts", "\n".join([*cut, *by_task])))
    session_memory = rendered(await working_memory.current(engine, scope, "thread", thread_id))
    return [*texts, *([session_memory] if session_memory else [])]
