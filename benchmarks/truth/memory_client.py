"""A client of a memory in the few words that the cases need. It reads only what answers have now and will keep."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from benchmarks.servers import Connection, Launch, ToolFailed, in_process, ours
from benchmarks.truth.cases import Json, message

# Jobs that correct by meaning are done within a second; a busy machine takes some more.
_JOBS_SECONDS = 20.0
_VECTORS_SECONDS = 60.0
_POLL_SECONDS = 0.1
_WAITING_JOB = "corrections"
# How a recall without hits begins: if all could be compared, and if vectors were still to come.
_NOTHING = ("Nothing relevant", "Nothing was found")
_UNLISTED = "layerlore/unlisted-arguments"


@dataclass(frozen=True, slots=True)
class Note:
    """The answer to a remember: what became of the note, and which entries it hid, contradicts or could replace."""

    id: str = ""
    status: str = ""
    source: str = ""
    error: str = ""
    hidden: list[str] = field(default_factory=list)
    contradicts: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)

    @property
    def is_new(self) -> bool:
        return self.status == "kept"

    @property
    def is_proven(self) -> bool:
        return not self.error and self.source != "caller"


class Memory:
    """A connected client. ``tools`` are the schemas of the arguments that each tool takes, listed or not."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.tools: dict[str, Json] = {}

    async def call(self, tool: str, **arguments: Any) -> Any:
        return await self.connection.call(tool, **arguments)

    async def say(self, texts: Sequence[str], thread_id: str = "") -> None:
        """Add messages, without a thread to the default one of this connection."""
        place = {"thread_id": thread_id} if thread_id else {}
        await self.call("add_messages", messages=[message(text) for text in texts], **place)

    async def recall(self, query: str, **arguments: Any) -> str:
        """The text of a recall with the tool's defaults."""
        return str(await self.call("recall_memory", query=query, **arguments))

    async def remember(self, content: str, *, replaces: str = "", quotes: Sequence[str] = (), **arguments: Any) -> Note:
        """Remember a note. An older server gets the older name of ``replaces`` and one quote of several."""
        if replaces:
            arguments[await self._name_of_replaces()] = replaces
        if quotes:
            several = len(quotes) > 1 and await self._takes_several_quotes()
            arguments["evidence"] = list(quotes) if several else quotes[0]
        try:
            answer = await self.call("remember", content=content, **arguments)
        except ToolFailed as failed:
            return Note(error=str(failed))
        return Note(
            id=answer["id"],
            status=answer["status"],
            source=answer["source"],
            hidden=_ids(answer.get("superseded")) + _ids(answer.get("replaced")),
            contradicts=_ids(answer.get("contradicts")),
            unproven=_marks(answer.get("unproven")),
        )

    async def erase(self) -> None:
        """Forget everything, so that the next case begins with an empty memory. A new server would cost seconds."""
        counted = await self.call("erase_memory")
        await self.call("erase_memory", dry_run=False, confirm=counted["confirm"])

    async def embedder_loaded(self) -> None:
        """Wait until a new server compares by meaning: until then its answers depend on how busy the machine is."""
        await self.say(["The embedder is loaded for this."], "warm-up")
        await self.vectors_made()

    async def vectors_made(self) -> None:
        """Wait until everything can be compared by meaning. Without an embedder nothing is waited for."""
        with anyio.move_on_after(_VECTORS_SECONDS):
            while await self._vectors_wait():
                await anyio.sleep(_POLL_SECONDS)

    async def corrections_made(self) -> None:
        """Wait for the background work of corrections, which may hide entries after the answer."""
        with anyio.move_on_after(_JOBS_SECONDS):
            while await self._corrections_wait():
                await anyio.sleep(_POLL_SECONDS)

    async def _vectors_wait(self) -> bool:
        status = await self.call("memory_status")
        vectors = status.get("vectors") or {}
        return bool(vectors.get("model")) and (vectors["pending"] > 0 or vectors["state"] != "ready")

    async def _corrections_wait(self) -> bool:
        status = await self.call("memory_status")
        waiting = status["jobs"]["waiting"]
        return any(job["kind"] == _WAITING_JOB for job in waiting)

    async def _name_of_replaces(self) -> str:
        return "replaces" if "replaces" in await self._arguments("remember") else "entry_id"

    async def _takes_several_quotes(self) -> bool:
        schema = (await self._arguments("remember")).get("evidence", {})
        kinds = [schema, *schema.get("anyOf", [])]
        return any("array" in each.get("type", "") for each in kinds)

    async def _arguments(self, tool: str) -> Json:
        if not self.tools:
            for each in (await self.connection.client.list_tools()).tools:
                listed = each.input_schema.get("properties", {})
                self.tools[each.name] = {**listed, **(each.meta or {}).get(_UNLISTED, {})}
        return self.tools[tool]


@contextlib.asynccontextmanager
async def opened(folder: Path, resource: str) -> AsyncIterator[Memory]:
    """A new connection to a server in this process, which serves one user of the store in ``folder``."""
    async with in_process(launched(folder, resource)) as connection:
        yield Memory(connection)


def launched(folder: Path, resource: str) -> Launch:
    """How a server of this store is started: with every tool, for one user."""
    return ours(folder, resource=resource, TOOLSETS="all")


def shows(answer: str, text: str) -> bool:
    """Whether the text stands in the answer, whatever the white space."""
    return " ".join(text.split()) in " ".join(answer.split())


def is_nothing(answer: str) -> bool:
    """Whether a recall says that nothing is remembered."""
    return any(phrase in answer for phrase in _NOTHING)


def _ids(found: Any) -> list[str]:
    """Ids, from a list of ids or of objects that have one."""
    return [each if isinstance(each, str) else each["id"] for each in found or []]


def _marks(found: Any) -> list[str]:
    """The unproven words of an answer. An older server has a text there that is about something else."""
    return [str(each) for each in found] if isinstance(found, list) else []
