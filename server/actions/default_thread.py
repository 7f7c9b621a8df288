"""What an answer says of a thread that nothing named: which it is, how to choose another and, where nobody wrote to it
yet, which conversation of the same client it may be meant to go on with."""

from dataclasses import replace
from typing import Any

from layerlore.memory.ages import MINUTE_MS, minutes_ago
from layerlore.memory.quoting import escaped
from layerlore.server.actions.answers import Answer
from layerlore.server.actions.call import Call
from layerlore.server.caller import UNKNOWN_CLIENT
from layerlore.storage import recent_threads
from layerlore.storage.records import Scope

RECENT_MS = 30 * MINUTE_MS
"""A conversation that was changed longer ago is not offered to go on with."""
LINE_TOKENS = 40
"""What the line costs at most where something is kept of the thread."""
_CHOOSE = "thread_id chooses another"
_MOST_KNOWN = 10_000


class DefaultThreads:
    """Knows of which threads something is kept, so that nothing is looked up for a thread that is in use."""

    def __init__(self) -> None:
        self._known: set[tuple[Scope, str]] = set()

    async def told(self, call: Call, answer: Any) -> Any:
        """The answer; if it is of a thread that nothing named, with what is to be said of that: text has a last line
        more, what is made of several texts a last line in the first, a structure ``thread_id`` and ``note``."""
        thread = call.default_use.thread_id
        if not thread:
            return answer
        hint = await self._hint(call, thread)
        if isinstance(answer, Answer):
            return replace(answer, structure=await self.told(call, answer.structure))
        if isinstance(answer, dict):
            told = f"default thread{', nothing is kept in it yet' if hint else ''}; {hint or _CHOOSE}"
            return {"thread_id": thread, **answer, "note": told}
        line = f"[default thread {thread}{', nothing is kept in it yet' if hint else ''}; {hint or _CHOOSE}]"
        if isinstance(answer, str):
            return f"{answer}\n{line}"
        first, *rest = answer
        return [f"{first}\n{line}", *rest]

    async def _hint(self, call: Call, thread: str) -> str:
        """How to go on with another conversation of minutes ago; "" if there is none or this one has begun."""
        known, now = (call.scope, thread), call.engine.now()
        if call.default_use.reads and known not in self._known:
            client = call.caller.client if call.caller.client != UNKNOWN_CLIENT else ""
            found = await call.engine.database.read(
                recent_threads.elsewhere, call.scope, thread, client, since=now - RECENT_MS
            )
            if not found.there:
                shown, age = escaped(repr(found.thread_id)), minutes_ago(found.updated_at, now)
                return f"go on with thread_id={shown} if this is the conversation of {age}" if found.thread_id else ""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.add(known)
        return ""
