"""One server on one database, and people who come to it each with a credential of their own, as over HTTP."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import asyncpg
from mcp import Client, MCPError
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.memory import create_client_server_memory_streams
from mcp.types import PromptReference, ResourceTemplateReference, TextContent

from layerlore.server.access.caller import AGENT_META, RESOURCE_META
from layerlore.server.access.credentials import PRINCIPAL_CLAIM, RIGHTS, Principal
from layerlore.server.process.sdk_private import lowlevel_server
from layerlore.server.runtime.process import Process
from layerlore.server.runtime.tool_server import ToolServer, build_server
from layerlore.server.settings.settings import load_settings
from layerlore.storage.core.records import Scope
from layerlore.storage.drivers.sqlite.driver import driver

from .calling import Json

PATIENCE = 60.0  # seconds: only a hang takes so long
# Short, so that little text makes work for a model that observes.
SETTINGS: Json = {
    "embedding": {"embedder": "none"},
    "toolsets": "all",
    "observation": {"message_tokens": 200, "keep_share": 0},
    "sqlite": {"synchronous": "NORMAL"},
}


class Person:
    """Somebody with a credential, and whose memory they name: the only one that it is for, or one of many."""

    def __init__(self, client: Any, scope: Scope, *, names_it: bool = False) -> None:
        self.client, self.scope = client, scope
        one = None if names_it else frozenset({scope.agent_id})
        resource = None if names_it else scope.resource_id
        name = f"key:{scope.tenant_id}/{scope.agent_id}/{scope.resource_id}"
        self.principal = Principal(name, scope.tenant_id, one, resource, frozenset(RIGHTS))
        self._meta: Json = {AGENT_META: scope.agent_id, RESOURCE_META: scope.resource_id} if names_it else {}

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """What is sent meanwhile comes with the credential: in memory, the SDK carries the context of whoever sends."""
        claims = {PRINCIPAL_CLAIM: self.principal}
        token = AccessToken(token="checked", client_id=self.principal.name, scopes=[], claims=claims)
        was = auth_context_var.set(AuthenticatedUser(token))
        try:
            yield
        finally:
            auth_context_var.reset(was)

    async def call(self, tool: str, arguments: Json, meta: Json | None = None) -> Json:
        """The whole answer, an error or not."""
        with self.calling(), anyio.fail_after(PATIENCE):
            try:
                result = await self.client.call_tool(tool, arguments, meta={**self._meta, **(meta or {})} or None)
            except MCPError as error:
                return _refused(error)
        texts = [part.text for part in result.content if isinstance(part, TextContent)]
        return {"error": bool(result.is_error), "texts": texts}

    async def ask(self, method: str, given: Json) -> Json:
        """The answer of anything that is no call of a tool."""
        with self.calling(), anyio.fail_after(PATIENCE):
            try:
                return {"error": False, "answer": await self._asked(method, given)}
            except MCPError as error:
                return _refused(error)

    async def _asked(self, method: str, given: Json) -> Any:
        meta: Any = self._meta or None
        match method:
            case "read":
                answer: Any = await self.client.read_resource(given["uri"], meta=meta, cache_mode="bypass")
            case "prompt":
                answer = await self.client.get_prompt(given["name"], given["arguments"], meta=meta)
            case "list":
                answer = await self.client.list_resources(cursor=given.get("cursor"), meta=meta, cache_mode="bypass")
            case _:
                of = given["of"]
                ref = ResourceTemplateReference(uri=of) if "://" in of else PromptReference(name=of)
                answer = await self.client.complete(ref, {"name": given["argument"], "value": given["value"]})
        shown = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        shown.pop("_meta", None)
        return shown


def _refused(error: MCPError) -> Json:
    return {"error": True, "code": error.error.code, "texts": [error.error.message], "data": error.error.data}


class World:
    """``mcp`` within its lifespan; every client that is opened is served by the one process."""

    def __init__(self, mcp: ToolServer, process: Process, url: str) -> None:
        self.mcp, self.process, self.url = mcp, process, url

    @contextlib.asynccontextmanager
    async def transport(self) -> AsyncIterator[Any]:
        """A connection, as ``Client`` takes it."""
        async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:
            tasks.start_soon(self._serve, *theirs)
            try:
                yield ours
            finally:
                await ours[1].aclose()

    async def _serve(self, messages: Any, replies: Any) -> None:
        server = lowlevel_server(self.mcp)
        options = server.create_initialization_options()
        await serve_dual_era_loop(server, messages, replies, lifespan_state=self.process, init_options=options)

    @contextlib.asynccontextmanager
    async def client(self, era: str) -> AsyncIterator[Client]:
        async with Client(self.transport(), mode="auto" if era == "modern" else "legacy") as client:
            yield client


@contextlib.asynccontextmanager
async def world(url: str, *, mcp: ToolServer | None = None) -> AsyncIterator[World]:
    """Everything that the server offers, on the database."""
    mcp = mcp or build_server(load_settings({"database": url, **SETTINGS}, environ={}))
    server = lowlevel_server(mcp)
    async with server.lifespan(server) as process:
        await process.runtime()
        yield World(mcp, process, url)


async def rows_of(url: str, scope: Scope) -> dict[str, list[str]]:
    """Every row of the scope in every table that has scopes, as the tables' owner sees them."""
    values = (scope.tenant_id, scope.agent_id, scope.resource_id)
    if url.startswith("sqlite"):
        return _rows_of_file(url.removeprefix("sqlite:///"), values)
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute("SELECT set_config('layerlore.across', 'yes', true)")
            tables = await connection.fetch(
                "SELECT table_name FROM information_schema.columns WHERE table_schema = current_schema()"
                " AND column_name IN ('tenant_id', 'agent_id', 'resource_id') GROUP BY 1 HAVING count(*) = 3 ORDER BY 1"
            )
            return {
                name: sorted(str(tuple(row)) for row in await connection.fetch(_of(name, "$1", "$2", "$3"), *values))
                for (name,) in tables
            }
    finally:
        await connection.close()


def _rows_of_file(path: str, values: tuple[str, ...]) -> dict[str, list[str]]:
    with contextlib.closing(driver.connect(path)) as connection:
        ordinary = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        names = [name for (name,) in connection.execute(ordinary)]
        found = {}
        for name in names:
            columns = {row[1] for row in connection.execute(f"PRAGMA table_info('{name}')")}
            if {"tenant_id", "agent_id", "resource_id"} <= columns:
                found[name] = sorted(map(str, connection.execute(_of(name, "?", "?", "?"), values)))
        return found


def _of(table: str, *places: str) -> str:
    tenant, agent, resource = places
    return f"SELECT * FROM {table} WHERE tenant_id = {tenant} AND agent_id = {agent} AND resource_id = {resource}"


def structures(answer: Json) -> Iterator[Any]:
    """What an answer holds, with what is JSON in its texts opened."""
    yield answer.get("answer")
    for text in answer.get("texts", []):
        try:
            yield json.loads(text)
        except ValueError:
            yield text
