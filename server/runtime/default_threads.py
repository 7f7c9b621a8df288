"""What an answer says of a thread that nothing named: which it is, how to choose another and, where nobody wrote to it
yet, which conversation of the same client it may be meant to go on with."""

from dataclasses import replace
from typing import Any

from layerlore.memory.rules.ages import MINUTE_MS, minutes_ago
from layerlore.memory.text.quotation import escape_tags
from layerlore.server.access.caller import UNKNOWN_CLIENT
from layerlore.server.tools.call import AnswerWithMedia, Call
from layerlore.storage.core.records import Scope
from layerlore.storage.threads import threads

RECENT_MS = 30 * MINUTE_MS
"""A conversation that was changed longer ago is not offered to go on with."""
_CHOOSE = "thread_id chooses another"
_MOST_KNOWN = 10_000


class DefaultThreads:
    """Knows of which threads something is kept, so that nothing is looked up for a thread that is in use."""

    def __init__(self) -> None:
        self._known: set[tuple[Scope, str]] = set()

    async def add_note(self, answer: Any, call: Call) -> Any:
        """The answer; if it is of a thread that nothing named, with what is to be said of that: text has a last line
        more, what is made of several texts a last line in the first, a structure ``thread_id`` and ``note``."""
        thread = call.default_use.thread_id
        if not thread:
            return answer
        hint = await self._hint(call, thread)
        if isinstance(answer, AnswerWithMedia):
            return replace(answer, structure=await self.add_note(answer.structure, call))
        if isinstance(answer, dict) and call.default_use.brief:
            return {**answer, "thread_id": thread}
        if isinstance(answer, dict):
            note = f"default thread{', nobody wrote to it yet' if hint else ''}; {hint or _CHOOSE}"
            return {"thread_id": thread, **answer, "note": note}
        line = f"[default thread {thread}{', nobody wrote to it yet' if hint else ''}; {hint or _CHOOSE}]"
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
                threads.find_elsewhere, call.scope, thread, client, since=now - RECENT_MS
            )
            if not found.there:
                shown, age = escape_tags(repr(found.thread_id)), minutes_ago(found.updated_at, now)
                return f"go on with thread_id={shown} if this is the conversation of {age}" if found.thread_id else ""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.add(known)
        return ""
