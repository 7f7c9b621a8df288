"""Stores a server's first answers before a host asks for them: a host with a short time limit then sees the tools at once."""

import json
import os
from collections.abc import Iterator

from layerlore.server.process.version import VERSION
from layerlore.server.relay.channels import SharedChannel, reach
from layerlore.server.relay.conversation import Conversation
from layerlore.server.relay.kept_answers import (
    ANY_CLIENT,
    CAPABILITIES_META,
    CLIENT_META,
    PAGES,
    PROTOCOL_META,
    KeptAnswers,
)
from layerlore.server.relay.launch import Launch

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions of the protocol that begin with ``initialize``."""
PER_REQUEST = ("2026-07-28",)
"""Versions that each request names."""
_SECONDS = 20.0
_MOST_TRIES = 2


class NotServed(OSError):
    """The server does not serve. The text says why."""


def store_first_answers(launch: Launch) -> None:
    """Start the shared server if none runs, and store its answers to the first requests of any client. Raises OSError,
    ValueError."""
    for pages in (False, True):
        capabilities: dict[str, object] = {"extensions": {PAGES: {}}} if pages else {}
        for version in HANDSHAKES:
            _ask(launch, list(_with_handshake(version, capabilities)))
        for version in PER_REQUEST:
            _ask(launch, list(_without_handshake(version, capabilities)))


def _with_handshake(version: str, capabilities: object) -> Iterator[dict[str, object]]:
    client = {"name": ANY_CLIENT, "version": VERSION}
    yield _request(1, "initialize", {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client})
    yield {"jsonrpc": "2.0", "method": "notifications/initialized"}
    yield _request(2, "tools/list", {})
    yield _request(3, "prompts/list", {})


def _without_handshake(version: str, capabilities: object) -> Iterator[dict[str, object]]:
    client = {"name": ANY_CLIENT, "version": VERSION}
    meta = {PROTOCOL_META: version, CLIENT_META: client, CAPABILITIES_META: capabilities}
    for number, method in enumerate(("server/discover", "tools/list", "prompts/list"), 1):
        yield _request(number, method, {"_meta": meta})


def _request(number: int, method: str, params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def _ask(launch: Launch, messages: list[dict[str, object]]) -> None:
    for _ in range(_MOST_TRIES):
        conversation = Conversation(KeptAnswers(launch, cold=True))
        connection, key = reach(launch)
        connection.settimeout(_SECONDS)
        channel = SharedChannel(connection, key, launch, os.urandom(6).hex())
        try:
            channel.open()
            for message in messages:
                framed, _ = conversation.take(json.dumps(message).encode(), connected=True, served=True)
                channel.send(framed)
            _listen(channel, conversation)
        finally:
            channel.close()
        # A server that was just leaving answers nothing, and the next one is asked.
        if not conversation.owes:
            return
    raise NotServed(f"the server does not answer; {launch.base}.log may say why")


def _listen(channel: SharedChannel, conversation: Conversation) -> None:
    greeted = False
    while conversation.owes and (lines := channel.receive()) is not None:
        for line in lines:
            if greeted:
                conversation.hear(line)
                continue
            greeting = json.loads(line)
            # Wrong settings stay wrong for the next server, too.
            if isinstance(greeting, dict) and "error" in greeting:
                raise NotServed(str(greeting["error"]))
            greeted = True
