"""The tools that search the memory and make the context of the next model call."""

import asyncio
from typing import Annotated, Literal

from pydantic import Field

from layerlore.memory.context.context_answers import ContextAnswer, ProviderContext
from layerlore.memory.recall.recall_answers import RecallAnswer
from layerlore.memory.rules.answers import count_entry_bytes, count_sent_bytes
from layerlore.memory.rules.validation import check_text
from layerlore.server.tools.arguments import UNLISTED, Moment, parse_since, parse_until
from layerlore.server.tools.declaration import Call, TextOrJson, ThreadId, tool
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import ROLES


@tool("Get context", "core", "read", largest_answer=500_000, known_by=("query",))
async def get_context(
    call: Call,
    query: Annotated[str, Field(description="Default: the newest user message.")] = "",
    max_tokens: Annotated[int, Field(ge=500, le=200_000)] = 8000,
    thread_id: ThreadId = "",
    format: Literal["text", "openai", "responses", "anthropic", "gemini", "ai-sdk", "json"] = "text",
) -> str | ContextAnswer | ProviderContext:
    """For programs that call models: all that the next call should see, within max_tokens. `format` gives messages to
    send."""
    from layerlore.memory.context import context

    thread = call.thread(thread_id, reads=True)
    answer = await context.get_context(
        call.engine,
        call.scope,
        thread,
        query=query,
        max_tokens=max_tokens,
        format=format,
        reserved=call.reserved_tokens,
    )
    # The context has the blocks of an opening, so a later recall need not repeat them.
    call.claim_opening()
    return answer


_FEWEST_TOKENS = 100
# In fewer tokens, further hits are worth more than an explanation of the best ones.
_ROOM_TO_EXPLAIN = 1_000

MinScore = Annotated[
    float,
    UNLISTED,
    Field(
        ge=0,
        le=1,
        description="Hits of a lower score are held back, and counted (held_back). A score is 0 to 1: how surely the answer "
        "is about the query at all, times how likely the hit holds it beside the best. From about 0.5 on it surely is; at "
        "0.1 half a guess. Left out: the server's floor for the answer as a whole, and no bound for single hits.",
    ),
]
Opening = Annotated[
    bool,
    UNLISTED,
    Field(description="The first answer of a connection begins with the user profile, the plan and open work."),
]
Kinds = Annotated[
    list[Literal["entry", "message", "profile", "session_memory", "plan", "attempt", "observation"]],
    UNLISTED,
    Field(description="Left out: all."),
]


Subject = Annotated[
    str,
    UNLISTED,
    Field(
        description='Only what is about it, or about nothing in particular; "*": all. Default: the conversation\'s own.'
    ),
]


@tool("Recall memory", "core", "read", largest_answer=200_000)
async def recall_memory(
    call: Call,
    query: str = "",
    queries: Annotated[list[str], Field(description="Up to 5 wordings.")] = [],  # noqa: B006 - never changed
    limit: Annotated[int, Field(ge=1, le=100)] = 50,
    thread_id: Annotated[str, Field(description="Only this conversation.")] = "",
    since: Annotated[Moment, Field(description="ISO 8601")] = "",
    until: Moment = "",
    roles: list[str] = [],  # noqa: B006 - a default in a schema, never changed
    max_tokens: Annotated[int, Field(ge=100, le=20_000)] = 1500,
    neighbours: bool = False,
    overview: Annotated[bool, Field(description="More and shorter lines: for lists, orders, changes.")] = False,
    detail: Literal["low", "high"] = "low",
    kinds: Kinds = [],  # noqa: B006 - a default in a schema, never changed
    min_score: MinScore = 0.0,
    explain: Annotated[bool, UNLISTED, Field(description="Shows what made each score.")] = False,
    opening: Opening = True,
    subject: Subject = "",
    format: TextOrJson = "text",
) -> str | RecallAnswer:
    """Search all conversations and notes. Call it before you answer about the user, the past, or anything
    said before. Lines stand in time order with speaker and day, the best marked; a line says where it is unsure. If nothing
    fits, try other short wordings."""
    from layerlore.memory.messages import reader
    from layerlore.memory.recall import recall, recall_text
    from layerlore.storage.core import scopes
    from layerlore.storage.threads import threads

    request = recall.RecallRequest(
        queries=[check_text(text, "query") for text in (query, *queries)],
        limit=limit,
        thread_id=call.thread(thread_id, reads=True) if thread_id else None,
        since=parse_since(since) if since else None,
        until=parse_until(until) if until else None,
        roles=reader.check_roles(roles, ROLES),
        # Only messages have roles, so a call with roles and without kinds means messages.
        kinds=kinds or (("message",) if roles else scopes.RECALL_KINDS),
        neighbours=neighbours,
        explained=format == "text" and max_tokens >= _ROOM_TO_EXPLAIN,
        asking=call.caller.default_thread,
        min_score=min_score or None,
        subject=check_text(subject, "subject").strip(),
    )
    # The caller's own thread may not be stored yet.
    if request.thread_id is not None and request.thread_id != call.caller.default_thread:
        # A wrong id must be an error; an empty answer would look as if nothing was known.
        await call.engine.database.read(threads.find, call.scope, request.thread_id)
    found = await recall.recall(call.engine, call.scope, request)
    if opening:
        begins = await _make_opening(call, max_tokens)
    else:
        begins = ""
    advice = ""
    # A caller that gave several wordings needs no advice. In few tokens a further hit is worth more.
    has_one_query = sum(bool(text.strip()) for text in request.queries) == 1
    if request.explained and has_one_query and recall_text.leaves_doubt(found) and call.claim_advice():
        advice = recall_text.ADVICE
    now, counter = call.engine.now(), call.engine.tokens
    most = count_entry_bytes(call.engine.limits.answer_bytes)

    def show(tokens: int) -> str | RecallAnswer:
        if format == "json":
            return recall_text.render_json(found, counter, now=now, detail=detail, max_tokens=tokens, explain=explain)
        return recall_text.render_text(
            found, counter, now=now, detail=detail, max_tokens=tokens, explain=explain, overview=overview
        )

    def fitted() -> str | RecallAnswer:
        # The opening and the advice are parts of the answer, so the hits get the tokens that they leave.
        tokens = max_tokens - sum(counter.text(f"{part}\n") for part in (begins, advice) if part)
        while True:
            shown = show(tokens)
            size = count_sent_bytes(to_json(shown))
            if size <= most or tokens <= _FEWEST_TOKENS:
                return _put_around(begins, shown, advice)
            # Nine tenths of the share, since bytes for a token differ between texts.
            tokens = max(_FEWEST_TOKENS, tokens * most // size * 9 // 10)

    # Short answers are rendered on the loop: a thread would cost more than it saves.
    if detail == "low":
        return fitted()
    return await asyncio.to_thread(fitted)


async def _make_opening(call: Call, max_tokens: int) -> str:
    from layerlore.memory.context import injection

    if not call.claim_opening():
        return ""
    # Half of the tokens at most, so that the question itself is still answered.
    most = min(injection.OPENING_TOKENS, max_tokens // 2)
    return await injection.make_opening(call.engine, call.scope, call.caller.default_thread, most)


def _put_around(opening: str, answer: str | RecallAnswer, advice: str) -> str | RecallAnswer:
    if isinstance(answer, str):
        # The advice shares the answer's last line. Hosts that escape line ends would store half of a separate line.
        advised = " ".join(filter(None, (answer, advice)))
        return "\n".join(filter(None, (opening, advised)))
    if opening:
        return {**answer, "opening": opening}
    return answer
