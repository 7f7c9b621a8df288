"""A memory on a server over HTTP, for hooks: it gets messages with their secrets masked, and returns texts to show."""

import asyncio
import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import httpx2
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_PROTOCOL_VERSION_HEADER
from mcp.types import METHOD_NOT_FOUND
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_MODERN_VERSION

from layerlore.memory.context.injection import Injection
from layerlore.memory.engine.engine import Engine
from layerlore.memory.settings.context_settings import MemoryClosed
from layerlore.server.access.protocol_errors import RETRY_AFTER, TOO_MUCH
from layerlore.server.access.remote_endpoint import Remote, check_key, find_remote, read_key_file
from layerlore.server.capture.hook_memory import CapturedMessage, CapturedThread, StoredMessages
from layerlore.server.process.version import VERSION
from layerlore.server.relay.hook_events import SHOW_METHOD, STORE_METHOD
from layerlore.server.settings.settings import Settings, SettingsError
from layerlore.storage.core.errors import LimitExceeded, StorageUnavailable
from layerlore.storage.core.records import Json

log = logging.getLogger(__name__)

SHOW_SECONDS = 2.0
"""A hook gives up after 2.5 seconds."""
STORE_SECONDS = 20.0
# Messages go in small parts, so that a server with limits can take one after the other.
_MOST_MESSAGES = 100
_PART_BYTES = 512 * 1024
# Servers take bodies of 4 MiB.
_MOST_BYTES = 3 * 1024 * 1024
_REASON_CHARS = 300


class RemoteAway(StorageUnavailable):
    """The remote memory cannot answer now; the text says why."""


class RemoteUnreachable(RemoteAway):
    """The server cannot be reached."""


class HookEndpoint:
    """The endpoint of a server whose methods hooks call."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    @property
    def host(self) -> str:
        """The name of the server's machine."""
        return self._remote.url.host

    async def ask(self, method: str, params: Mapping[str, Any], seconds: float) -> Json:
        """The result of a request. If the server is busy, it waits as long as the server says. Raises RemoteAway,
        MemoryClosed."""
        while True:
            answer = await self._post(method, params, seconds)
            error = answer.get("error")
            if not isinstance(error, dict):
                break
            retry = (error.get("data") or {}).get(RETRY_AFTER)
            if error.get("code") != TOO_MUCH or not isinstance(retry, int | float):
                raise RemoteAway(self._describe(error))
            await asyncio.sleep(retry)
        result = answer.get("result")
        if not isinstance(result, dict):
            raise RemoteAway(f"{self._remote.url.host} answers as no memory does")
        if closed := result.get("closed"):
            raise MemoryClosed(str(closed))
        return result

    async def _post(self, method: str, params: Mapping[str, Any], seconds: float) -> Json:
        meta = {
            PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
            CLIENT_INFO_META_KEY: {"name": "layerlore hook", "version": VERSION},
            CLIENT_CAPABILITIES_META_KEY: {},
        }
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            MCP_PROTOCOL_VERSION_HEADER: LATEST_MODERN_VERSION,
            MCP_METHOD_HEADER: method,
        }
        # A host may cut a text in the middle of a character, and servers refuse half a character.
        body = json.dumps(request, ensure_ascii=False).encode("utf-8", "replace")
        remote = self._remote
        options: dict[str, Any] = {"timeout": seconds, "trust_env": remote.uses_proxies, "verify": remote.tls}
        try:
            async with httpx2.AsyncClient(headers=list(remote.headers), **options) as client:
                response = await client.post(remote.url, content=body, headers=headers)
        except httpx2.HTTPError as error:
            raise RemoteUnreachable(f"{remote.url.host} cannot be reached: {type(error).__name__}") from None
        found = _read_answer(response)
        if found is None:
            unauthorized = response.status_code == HTTPStatus.UNAUTHORIZED
            reason = ": it does not accept the key" if unauthorized else ""
            raise RemoteAway(f"{remote.url.host} answered HTTP {response.status_code}{reason}")
        return found

    def _describe(self, error: Json) -> str:
        host = self._remote.url.host
        if error.get("code") == METHOD_NOT_FOUND:
            return f"{host} runs a version that is too old for hooks: update it"
        reason = str(error.get("message"))[:_REASON_CHARS]
        # The text comes from another server, and a terminal would obey control characters in it.
        return f"{host}: " + "".join(character if character.isprintable() else " " for character in reason)


class RemoteMemory:
    """The memory behind an endpoint. ``engine`` masks secrets by the settings of this machine."""

    def __init__(self, endpoint: HookEndpoint, engine: Engine) -> None:
        self._endpoint = endpoint
        self._engine = engine

    async def find_thread(self, thread_id: str) -> CapturedThread | None:
        return await find_remote_thread(self._endpoint, thread_id)

    async def store(self, host: str, thread_id: str, messages: Sequence[CapturedMessage]) -> StoredMessages:
        added, last_seq = 0, 0
        copied: set[str] = set()
        for part in _split([*self._mask(messages)]):
            params = {"host": host, "threadId": thread_id, "messages": part}
            answer = await self._endpoint.ask(STORE_METHOD, params, STORE_SECONDS)
            added += int(answer["added"])
            last_seq = max(last_seq, int(answer["lastSeq"]))
            copied.update(map(str, answer["copied"]))
        return StoredMessages(added, last_seq, frozenset(copied))

    async def show(
        self, host: str, thread_id: str, question: str, *, max_tokens: int, told: Collection[str], gone: int
    ) -> Injection:
        params = {
            "host": host,
            "threadId": thread_id,
            "question": self._engine.derived_text(question),
            "maxTokens": max_tokens,
            "told": sorted(told),
            "gone": gone,
        }
        try:
            async with asyncio.timeout(SHOW_SECONDS):
                answer = await self._endpoint.ask(SHOW_METHOD, params, SHOW_SECONDS)
        except TimeoutError:
            raise RemoteAway(f"{self._endpoint.host} did not answer within {SHOW_SECONDS:g} s") from None
        return Injection(str(answer["text"]), int(answer["tokens"]), frozenset(map(str, answer["told"])))

    def count_shown(self, host: str, tokens: int) -> None:
        """Do nothing: the server counts its own answers."""

    def _mask(self, messages: Sequence[CapturedMessage]) -> Iterator[CapturedMessage]:
        """The messages without their secrets, which must not leave this machine."""
        for message in messages:
            try:
                parts = self._engine.derived_parts(message["parts"])
            except LimitExceeded as error:
                log.warning("a message of a transcript is not sent: %s", error)
                continue
            yield {**message, "parts": parts}


def open_endpoint(settings: Settings, url: str, key_file: str) -> HookEndpoint:
    """The endpoint at a URL. ``key_file``: the file with its key; "" for a server that needs none. Raises RemoteAway."""
    try:
        key = check_key(read_key_file(key_file)) if key_file else ""
        return HookEndpoint(find_remote(settings, url, key))
    except SettingsError as error:
        raise RemoteAway(str(error)) from None


async def find_remote_thread(endpoint: HookEndpoint, thread_id: str) -> CapturedThread | None:
    """The thread of that name on a server; None if it does not exist. Raises RemoteAway, MemoryClosed."""
    answer = await endpoint.ask(STORE_METHOD, {"threadId": thread_id}, STORE_SECONDS)
    if not answer.get("threadUid"):
        return None
    return CapturedThread(str(answer["threadUid"]), int(answer["lastSeq"]))


def _split(messages: Sequence[CapturedMessage]) -> Iterator[list[CapturedMessage]]:
    """The messages in parts, each for one request. A message that is too large for a request is left out."""
    part: list[CapturedMessage] = []
    size = 0
    for message in messages:
        more = len(json.dumps(message))
        if more > _MOST_BYTES:
            log.warning("a message of a transcript is not sent: it has %d bytes", more)
            continue
        if part and (size + more > _PART_BYTES or len(part) == _MOST_MESSAGES):
            yield part
            part, size = [], 0
        part.append(message)
        size += more
    if part:
        yield part


def _read_answer(response: httpx2.Response) -> Json | None:
    """The JSON-RPC answer in a response; None for another body."""
    try:
        found = response.json()
    except ValueError:
        return None
    if isinstance(found, dict) and ("result" in found or isinstance(found.get("error"), dict)):
        return found
    return None
