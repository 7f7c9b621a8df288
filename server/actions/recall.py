"""What recall_memory does."""

import asyncio
from collections.abc import Sequence
from typing import Literal

from layerlore.memory import recall, recall_text
from layerlore.memory.acceptance import check_text, parse_time
from layerlore.memory.ages import DAY_MS
from layerlore.memory.pages import room, sent_bytes
from layerlore.memory.reading import Detail, checked_roles
from layerlore.memory.recall import RecallRequest
from layerlore.server.actions.call import Call
from layerlore.storage.json_text import to_json
from layerlore.storage.records import Json
from layerlore.storage.search import KINDS, Kind

_FEWEST_TOKENS = 100


async def recall_memory(
    call: Call,
    query: str,
    queries: Sequence[str],
    limit: int,
    thread_id: str,
    since: str,
    until: str,
    roles: Sequence[str],
    kinds: Sequence[Kind],
    neighbours: bool,
    detail: Detail,
    max_tokens: int,
    explain: bool,
    format: Literal["text", "json"],
) -> str | Json:
    asked = RecallRequest(
        queries=[check_text(text, "query") for text in (query, *queries)],
        limit=limit,
        thread_id=call.thread(thread_id) if thread_id else None,
        since=parse_time(since, "since") if since else None,
        until=last_moment(until) if until else None,
        roles=checked_roles(roles),
        # A role is a message's: who asks for some, and not for entries by name, wants messages.
        kinds=kinds or (("message",) if roles else KINDS),
        neighbours=neighbours,
    )
    found = await recall.recall(call.engine, call.scope, asked)
    now, counter = call.engine.now(), call.engine.tokens
    show = recall_text.as_json if format == "json" else recall_text.as_text
    most = room(call.engine.limits.answer_bytes)

    def told() -> str | Json:
        tokens = max_tokens
        while True:
            shown: str | Json = show(found, counter, now=now, detail=detail, max_tokens=tokens, explain=explain)
            size = sent_bytes(to_json(shown))
            if size <= most or tokens <= _FEWEST_TOKENS:
                return shown
            tokens = max(_FEWEST_TOKENS, tokens * most // size * 9 // 10)

    return told() if detail == "low" else await asyncio.to_thread(told)


def last_moment(text: str) -> int:
    """A date alone means the whole day: to its last moment here, where ``since`` begins with its first."""
    moment = parse_time(text, "until")
    return moment + DAY_MS - 1 if len(text.strip()) <= len("2025-03-01") else moment
