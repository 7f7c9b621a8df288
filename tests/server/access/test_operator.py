"""An operator lists the conversations of all users of its tenant, and each look is in the journal."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from layerlore.server.access.credentials import RIGHTS, Principal
from layerlore.storage.audit.journal_rows import JournalFilter, read_lines
from layerlore.storage.drivers.dialect import open_database

from ..gated_server import Told, answer, connected, refused, served, settings_in

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

OPERATOR = Principal("key:operator", "acme", None, None, frozenset(RIGHTS))
PEOPLE = {
    "operator": OPERATOR,
    "abroad": replace(OPERATOR, name="key:abroad", tenant="globex"),
    "helper": replace(OPERATOR, name="key:helper", agents=frozenset({"helper"})),
    "ana": replace(OPERATOR, name="key:ana", agents=frozenset({"helper", "coach"}), resource="ana"),
    "writer": replace(OPERATOR, name="key:writer", rights=frozenset({"read", "write", "forget"})),
}


async def _listed(client: Client, **filters: Any) -> list[str]:
    found = await answer(client, "list_all_threads", **filters)
    return [f"{row['agent']} {row['resource']} {row['thread_id']}" for row in found["threads"]]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_operator_sees_whose_conversations_there_are_and_each_look_is_journaled(
    tmp_path: Path, mode: str
) -> None:
    settings = settings_in(tmp_path)
    async with served(settings, Told(**PEOPLE)) as url:
        async with connected(url, "operator", mode) as anybody:
            for agent, resource in (("helper", "ana"), ("coach", "ana"), ("helper", "ben")):
                means = {"layerlore/agent": agent, "layerlore/resource": resource}
                for thread in ("tea", "cake"):
                    about = {"title": f"About {thread}", "metadata": {"topic": thread}}
                    await answer(anybody, "update_thread", thread_id=thread, **about, meta=means)
            await answer(
                anybody, "update_thread", thread_id="x", title="x", meta={**means, "layerlore/resource": "carl"}
            )
        async with connected(url, "abroad", mode) as abroad:
            assert await _listed(abroad) == []
        async with connected(url, "writer", mode) as writer:
            assert "needs the rights read and admin" in await refused(writer, "list_all_threads")
        # No request names an agent or a user here.
        async with connected(url, "operator", mode) as operator:
            assert len(await _listed(operator)) == 7
            assert await _listed(operator, agent="coach") == ["coach ana cake", "coach ana tea"]
            assert await _listed(operator, resource="ben", metadata={"topic": "tea"}) == ["helper ben tea"]
            assert await _listed(operator, until="2020-01-01") == []
            page = await answer(operator, "list_all_threads", limit=5, descending=False, order_by="created_at")
            assert (
                page["threads"][0].items()
                >= {"title": "About tea", "metadata": {"topic": "tea"}, "messages": 0}.items()
            )
            same: Any = {"limit": 5, "descending": False, "order_by": "created_at", "cursor": page["next_cursor"]}
            assert len(await _listed(operator, **same)) == 2
            assert "with other filters" in await refused(operator, "list_all_threads", **{**same, "agent": "coach"})
        # A credential for some shows those, whatever it asks for.
        async with connected(url, "helper", mode) as helper:
            assert {row.split()[0] for row in await _listed(helper)} == {"helper"}
            assert await refused(helper, "list_all_threads", agent="coach") == "there is no agent 'coach'"
        async with connected(url, "ana", mode) as ana:
            assert {row.split()[1] for row in await _listed(ana)} == {"ana"}
            assert await refused(ana, "list_all_threads", resource="ben") == "there is no resource 'ben'"
    database = await open_database(settings.database.get_secret_value(), settings.database_file)
    try:
        lines = await database.read_installation(read_lines, JournalFilter(tool="list_all_threads"), limit=100)
    finally:
        await database.close()
    seen = [(each.tenant_id, each.agent_id, each.line.principal, each.line.outcome, each.line.counts) for each in lines]
    assert seen[:4] == [
        ("globex", "", "key:abroad", "done", {"threads": 0}),
        ("acme", "", "key:writer", "denied", {"calls": 1}),
        ("acme", "", "key:operator", "done", {"threads": 7}),
        ("acme", "coach", "key:operator", "done", {"threads": 2}),
    ]
    assert "About" not in str(lines)
