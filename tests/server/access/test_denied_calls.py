"""A call that is refused leaves a line in the journal, without what it asked for."""

from dataclasses import replace
from pathlib import Path

import pytest
from mcp import MCPError

from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import Settings
from layerlore.storage.audit import journal_rows
from layerlore.storage.audit.journal_rows import JournalFilter, StoredJournalLine

from ..gated_server import ANA, Told, connected, served, settings_in

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

READER = replace(ANA, name="key:reader", rights=frozenset({"read"}))
WRITER = replace(ANA, name="key:writer", rights=frozenset({"write"}))


async def denied(settings: Settings) -> list[StoredJournalLine]:
    engine = await open_engine(settings)
    try:
        return await engine.database.read_installation(
            journal_rows.read_lines, JournalFilter(outcome="denied"), limit=100
        )
    finally:
        await close_engine(engine)


async def test_each_way_to_be_refused_is_told_once_with_who_what_and_why(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    async with served(settings, Told(reader=READER, writer=WRITER)) as url:
        async with connected(url, "reader") as reader:
            called = await reader.call_tool("delete_thread", {"thread_id": "quokka"})
            assert called.is_error
            outside = await reader.call_tool(
                "list_threads", {}, meta={"layerlore/resource": "quokka", "layerlore/agent": "helper"}
            )
            assert outside.is_error
        async with connected(url, "writer") as writer:
            with pytest.raises(MCPError):
                await writer.read_resource("memory://profile")
    told = {(row.line.principal, row.line.tool, row.line.reason) for row in await denied(settings)}
    assert told == {
        ("key:reader", "delete_thread", "NotPermitted"),
        ("key:reader", "list_threads", "NotFound"),
        ("key:writer", "resources/read", "NotPermitted"),
    }
    assert all((row.tenant_id, row.agent_id) == ("acme", "helper") for row in await denied(settings))
    assert "quokka" not in repr(await denied(settings))
