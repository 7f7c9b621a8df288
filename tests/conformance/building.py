"""What the storage tests build from: scopes, drafts, and the shortest way to store and to look."""

import itertools
import re
import uuid
from collections.abc import Collection, Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from sqlalchemy import text

from layerlore.storage.core.records import ROLES, Draft, IndexedText, Json, Message, Role, Scope
from layerlore.storage.core.transaction import Database, Row, Tx
from layerlore.storage.index import lexical
from layerlore.storage.messages import indexed_rows, message_pages, message_rows
from layerlore.storage.messages.message_rows import AppendResult
from layerlore.storage.removal import deletions
from layerlore.storage.removal.deletions import DeleteResult, Which

from .seeing_all import see_all

ANA = Scope("local", "agent", "ana")
BEN = Scope("local", "agent", "ben")
NOW = 1_750_000_000_000
MINUTE = 60_000

_numbers = itertools.count(1)


def examples(most: int) -> settings:
    """Property tests keep one database for all examples: each example takes a scope of its own."""
    return settings(max_examples=most, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def uid() -> str:
    return uuid.uuid4().hex


def new_scope() -> Scope:
    return Scope("local", "agent", uid())


def draft(
    words: str = "hello there",
    *,
    id: str | None = None,
    role: Role = "user",
    parts: list[Json] | None = None,
    said_at: int | None = None,
    metadata: Json | None = None,
    name: str | None = None,
    tokens: int = 3,
) -> Draft:
    parts = parts if parts is not None else [{"type": "text", "text": words}]
    return Draft(
        id=id if id is not None else f"m{next(_numbers)}",
        role=role,
        name=name,
        parts=parts,
        metadata=metadata or {},
        said_at=said_at,
        tokens=tokens,
        encoding="o200k_base",
        indexed=indexed(words_of(parts), metadata=metadata, name=name),
    )


def tool_call(id_: str, name: str = "weather") -> Json:
    return {"type": "tool_call", "id": id_, "name": name, "arguments": {"city": "Lima"}}


def tool_result(id_: str, answer: str = "sunny") -> Json:
    return {"type": "tool_result", "tool_call_id": id_, "name": "weather", "result": answer, "is_error": False}


def words_of(parts: Sequence[Json]) -> str:
    """A stand-in for the one function that makes the searched text: lower-case words, tool calls and results too."""
    spoken = (str(part.get("text") or part.get("result") or part.get("name") or "") for part in parts)
    return " ".join(re.findall(r"\w+", " ".join(spoken).lower()))


def indexed(*chunks: str, metadata: Json | None = None, name: str | None = None) -> IndexedText:
    return IndexedText(chunks, sum(map(len, chunks)), (metadata or {}).get("session"), name)


def search_text(message: Message) -> IndexedText:
    return indexed(words_of(message.parts), metadata=message.metadata, name=message.name)


async def say(
    database: Database,
    thread_id: str,
    *drafts: Draft,
    scope: Scope = ANA,
    now: int = NOW,
    replace_known: bool = False,
) -> AppendResult:
    return await database.write(
        message_rows.append,
        scope,
        thread_id,
        drafts,
        new_uid=uid(),
        replace_known=replace_known,
        now=now,
        search_text=search_text,
    )


async def everything(database: Database, thread_id: str, scope: Scope = ANA) -> list[Message]:
    """All visible messages of a thread, oldest first."""
    page = await database.read(message_pages.page, scope, thread_id, roles=ROLES, limit=100_000, offset=0)
    return page.messages


async def seqs(database: Database, thread_id: str, scope: Scope = ANA) -> list[int]:
    return [message.seq for message in await everything(database, thread_id, scope)]


async def drop(
    database: Database,
    thread_id: str,
    which: Which,
    ids: Collection[str] = (),
    *,
    roles: Collection[str] = ROLES,
    scope: Scope = ANA,
    erase: bool = False,
    now: int = NOW,
) -> DeleteResult:
    return await database.write(
        deletions.delete_messages,
        scope,
        thread_id,
        which,
        ids=ids,
        roles=roles,
        deletion_uid=uid(),
        erase=erase,
        now=now,
        search_text=search_text,
    )


async def index_of(
    database: Database, words: Collection[str], scope: Scope = ANA, *, most: int = 1000
) -> dict[str, list[Message]]:
    """The visible messages that the index finds for each word, the newest rows first."""

    async def look(tx: Tx, scope: Scope) -> dict[str, list[Message]]:
        rows_of = await lexical.postings(tx, scope, list(words), most=most)
        row_ids = list({int(row_id) for found in rows_of.values() for row_id in found})
        place = {row.row_id: (row.thread_uid, row.seq) for row in await indexed_rows.around(tx, scope, row_ids)}
        found = await indexed_rows.messages_of(tx, scope, [place[row_id] for row_id in row_ids])
        assert found.keys() == {place[row_id] for row_id in row_ids}, "the index has rows of messages that nobody sees"
        return {word: [found[place[row_id]] for row_id in reversed(rows_of[word].tolist())] for word in words}

    return await database.read(look, scope)


async def having(database: Database, word: str, scope: Scope = ANA, *, most: int = 1000) -> list[Message]:
    return (await index_of(database, [word], scope, most=most))[word]


async def rows(tx: Tx, /, sql: str, **values: Any) -> Sequence[Row]:
    """A store function for the tests' own SQL, which sees all tenants."""
    await see_all(tx)
    return [tuple(row) for row in await tx.all(text(sql), **values)]


async def execute(tx: Tx, /, sql: str, **values: Any) -> int:
    """A store function that runs the tests' own SQL, on all tenants."""
    await see_all(tx)
    return await tx.run(text(sql), **values)


async def only(database: Database, sql: str) -> Any:
    """The one value that a query answers."""
    return (await database.read_installation(rows, sql))[0][0]
