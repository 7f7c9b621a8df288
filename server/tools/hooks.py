"""Answers the hooks of hosts that use this server as their memory: they store messages, and ask for text for the model.

Both are methods of the protocol rather than tools, since no model calls them. All rules for calls of tools hold.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from mcp.types import RequestParams, Result
from pydantic import ConfigDict, Field

from layerlore.memory.rules.validation import check_id, describe_choices, parse_time
from layerlore.memory.settings.context_settings import MemoryClosed
from layerlore.server.access.caller import RequestContext, admit
from layerlore.server.access.credentials import READ, Right
from layerlore.server.relay.hook_events import HOOK_EVENTS, MOST_TOLD, SHOW_METHOD, STORE_METHOD
from layerlore.server.tools.declaration import Action, Call
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json

if TYPE_CHECKING:
    from layerlore.server.capture.hook_memory import CapturedMessage

log = logging.getLogger(__name__)

_WRITE: frozenset[Right] = frozenset({"write"})


class StoreParams(RequestParams):
    """``host``: its name in ``layerlore install``; ``messages``: as the tool add_messages takes them, each with an id, and
    with its time or null as ``created_at``. Without messages the answer only describes the thread."""

    host: str = ""
    thread_id: str
    messages: list[dict[str, Any]] = Field(default_factory=list)


class ShowParams(RequestParams):
    """``question``: the user's prompt, "" at the start of a session. ``told``: the marks of the lines that the model has seen.
    ``gone``: the host no longer shows its model the messages up to this seq."""

    host: str
    thread_id: str
    question: str = ""
    max_tokens: Annotated[int, Field(ge=1, le=20_000)]
    told: list[str] = Field(default_factory=list, max_length=MOST_TOLD)
    gone: Annotated[int, Field(ge=0)] = 0


class HookResult(Result):
    """An answer to a hook."""

    model_config = ConfigDict(extra="allow")


async def answer_store(ctx: RequestContext, params: StoreParams) -> HookResult:
    """Store the messages of a hook. Raises LayerloreError."""
    values = {"host": params.host, "thread_id": params.thread_id, "messages": params.messages}
    return await _answer(ctx, STORE_METHOD, _WRITE, store_messages, values)


async def answer_show(ctx: RequestContext, params: ShowParams) -> HookResult:
    """Answer with the text that a hook may show. Raises LayerloreError."""
    values = {
        "host": params.host,
        "thread_id": params.thread_id,
        "question": params.question,
        "max_tokens": params.max_tokens,
        "told": params.told,
        "gone": params.gone,
    }
    return await _answer(ctx, SHOW_METHOD, READ, show_memory, values)


async def _answer(
    ctx: RequestContext, method: str, needed: frozenset[Right], function: Action, values: Json
) -> HookResult:
    caller = await admit(ctx, needed, method)
    try:
        found = await ctx.lifespan_context.act(method, function, caller, values, frozenset(values))
    except MemoryClosed as closed:
        # This is not an error, since the hook need not try again while the memory is off.
        found = {"closed": str(closed)}
    return HookResult.model_validate(found)


async def store_messages(call: Call, host: str, thread_id: str, messages: list[Any]) -> Json:
    """Store the messages of a host's conversation. Raises LayerloreError."""
    from layerlore.server.capture.hook_memory import LocalMemory

    if call.settings.memory != "on":
        raise MemoryClosed(call.settings.describe_closed(call.scope.agent_id))
    memory = LocalMemory(call.engine, call.scope, call.caller.principal.name, call.quota)
    thread = call.thread(thread_id)
    if messages:
        _check_host(host)
        stored = await memory.store(host, thread, [*_read_messages(messages, call.engine.limits.id_chars)])
        return {"added": stored.added, "lastSeq": stored.last_seq, "copied": sorted(stored.copied)}
    found = await memory.find_thread(thread)
    if found is None:
        return {"threadUid": "", "lastSeq": 0}
    return {"threadUid": found.thread_uid, "lastSeq": found.last_seq}


async def show_memory(
    call: Call, host: str, thread_id: str, question: str, max_tokens: int, told: list[str], gone: int
) -> Json:
    """The text for the model of a host's conversation. Raises LayerloreError."""
    from layerlore.server.capture.hook_memory import LocalMemory

    _check_host(host)
    memory = LocalMemory(call.engine, call.scope, call.caller.principal.name)
    thread = call.thread(thread_id, reads=True)
    found = await memory.show(host, thread, question, max_tokens=max_tokens, told=told, gone=gone)
    if found.text:
        memory.count_shown(host, found.tokens)
    return {"text": found.text, "tokens": found.tokens, "told": sorted(found.marks)}


def _read_messages(messages: list[Any], id_chars: int) -> Iterator["CapturedMessage"]:
    """The messages that can be stored. An invalid one must not block the others, since the hook would send it again each
    time."""
    for message in messages:
        said_at = message.get("created_at")
        try:
            yield {
                "id": check_id(message.get("id"), "id", id_chars),
                "role": message.get("role"),
                "parts": message.get("parts"),
                "created_at": None if said_at is None else parse_time(said_at, "created_at"),
            }
        except InvalidInput as error:
            log.warning("a message of a transcript is not stored: %s", error)


def _check_host(host: str) -> None:
    if host not in HOOK_EVENTS:
        raise InvalidInput(f"host: {describe_choices(host, tuple(HOOK_EVENTS))}")
