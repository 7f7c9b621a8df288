"""What a tenant deleted over HTTP is undone by that tenant over MCP, by the operator's command, and by nobody else."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from layerlore.storage.drivers.sqlite.driver import driver

from ..gated_server import ANA, EVE, Told, answer, connected, refused, served, settings_in

Cli = Callable[..., tuple[int, str, str]]

SAID = [{"role": "user", "content": "The boat is blue."}, {"role": "assistant", "content": "Noted."}]
FORGETTER = replace(ANA, name="key:forgetter", rights=frozenset({"write", "forget"}))
WRITER = replace(ANA, name="key:writer", rights=frozenset({"write"}))
# The same names at another customer.
ALIKE = replace(EVE, agents=ANA.agents, resource=ANA.resource)
PEOPLE = {"ana": ANA, "eve": ALIKE, "forgetter": FORGETTER, "writer": WRITER}
WHOSE = ("--tenant", "acme", "--agent", "helper", "--resource", "ana")


@pytest.mark.anyio
async def test_a_tenant_undoes_its_deletes_over_http_and_a_stranger_does_not(tmp_path: Path) -> None:
    async with (
        served(settings_in(tmp_path), Told(**PEOPLE)) as url,
        connected(url, "ana") as ana,
        connected(url, "eve") as eve,
        connected(url, "forgetter") as forgetter,
        connected(url, "writer") as writer,
    ):

        async def there(thread: str) -> int:
            page = await answer(ana, "get_messages", format="json", thread_id=thread)
            return len(page["messages"])

        for thread in ("harbour", "island"):
            await answer(ana, "add_messages", messages=SAID, thread_id=thread)
        turn = await answer(ana, "delete_messages", which="last_turn", thread_id="harbour")
        gone = await answer(ana, "delete_thread", thread_id="island")
        for wanted in (turn["undo"], gone["undo"], "last"):
            text = await refused(eve, "undo", undo_id=wanted)
            assert text.startswith("there is nothing to undo")
        assert (await answer(eve, "undo"))["acts"] == []
        text = await refused(writer, "undo", undo_id=gone["undo"])
        assert text == "undo of delete_thread brings back what was removed, which needs the right forget, too"
        assert (await there("harbour"), await there("island")) == (0, 0)

        undone = await answer(forgetter, "undo", undo_id=turn["undo"])
        assert (undone["tool"], undone["messages"]) == ("delete_messages", 2)
        undone = await answer(ana, "undo", undo_id=gone["undo"])
        assert (undone["tool"], undone["messages"]) == ("delete_thread", 2)
        assert (await there("harbour"), await there("island")) == (2, 2)
        assert (await answer(ana, "undo", undo_id=gone["undo"]))["already"]
        text = await refused(ana, "undo", undo_id="last")
        assert text.startswith("there is nothing to undo")
        assert "which" in await refused(ana, "delete_messages", which="undo", thread_id="island")


async def fill(folder: Path) -> None:
    async with served(settings_in(folder), Told(**PEOPLE)) as url, connected(url, "ana") as ana:
        await answer(ana, "add_messages", messages=SAID, thread_id="harbour")
        step = {"type": "text", "operation_id": "o", "model": "m-1", "usage": {"input_tokens": 70}}
        await answer(ana, "record_steps", steps=[step], thread_id="harbour")
        await answer(ana, "delete_messages", which="all", thread_id="harbour")


def test_the_operators_commands_reach_the_tenant_that_they_name(cli: Cli, tmp_path: Path) -> None:
    anyio.run(fill, tmp_path)
    at = ("--database", f"sqlite:///{tmp_path}/memory.db")
    assert cli("undo", *at)[1] == "nothing to undo for agent 'default' and resource 'default'\n"
    others = ("--tenant", "globex", *WHOSE[2:])
    assert cli("undo", "last", *others, *at)[0] == 1
    _, listed, _ = cli("undo", *WHOSE, *at)
    assert "harbour" in listed
    (suggested,) = re.findall(r"`([^`]* undo ID[^`]*)`", listed)
    given = {"--database": at[1], **dict(zip(WHOSE[::2], WHOSE[1::2], strict=True))}
    words = shlex.split(suggested)
    assert {option: words[words.index(option) + 1] for option in given} == given
    (undo_id,) = set(re.findall(r"u_\w+", listed))
    assert cli("undo", undo_id, *others, *at)[0] == 1
    undone = cli("undo", undo_id, *WHOSE, *at)
    assert undone == (0, f"undid {undo_id} (delete_messages); back: 2 messages\n", "")
    assert "The boat is blue." in cli("recall", "boat", *WHOSE, *at)[1]
    assert "The boat is blue." not in cli("recall", "boat", *others, *at)[1]
    for by, owner in (("thread", "harbour"), ("resource", "ana"), ("agent", "helper")):
        (row,) = json.loads(cli("usage", "--by", by, "--json", *WHOSE, *at)[1])["rows"]
        assert (row[by], row["input_tokens"]) == (owner, 70)
        assert json.loads(cli("usage", "--by", by, "--json", *others, *at)[1])["rows"] == []
    assert cli("jobs", *others, *at)[1].startswith(
        "nothing waits for agent 'helper' and resource 'ana' of tenant 'globex'\n"
    )
    assert cli("jobs", "--json", *WHOSE, *at)[0] == 0
    code, _, err = cli("undo", "--tenant", "", *at)
    assert code == 1
    assert "--tenant" in err


def test_redact_journal_and_the_list_of_keys_are_narrowed_to_an_agent_and_a_resource(cli: Cli, tmp_path: Path) -> None:
    anyio.run(fill, tmp_path)
    at = ("--database", f"sqlite:///{tmp_path}/memory.db")
    for command in ("redact", "journal"):
        assert cli(command, "--agent", "nobody", *at)[0] == 0
    told = cli("redact", "--agent", "nobody", "--resource", "ana", *at)[1]
    assert told.startswith("nothing to mask: no known secret is stored for agent 'nobody', resource 'ana'\n")
    assert "add_messages" in cli("journal", *WHOSE, *at)[1]
    assert cli("journal", "--agent", "nobody", *at)[1] == "the journal has no such lines\n"
    cli("keys", "create", *WHOSE, *at)
    assert "acme" in cli("keys", "list", *WHOSE, *at)[1]
    assert cli("keys", "list", "--resource", "ben", *at)[1] == "there are no keys for resource 'ben'\n"


def test_the_operator_sees_how_much_a_tenant_stores_and_that_it_is_counted_right(cli: Cli, tmp_path: Path) -> None:
    anyio.run(fill, tmp_path)
    at = ("--database", f"sqlite:///{tmp_path}/memory.db")
    code, out, _ = cli("usage", "--stored", "--tenant", "acme", *at)
    assert code == 0
    assert "ana" in out
    assert "the same" in out
    whole, ana = json.loads(cli("usage", "--stored", "--json", "--tenant", "acme", *at)[1])["resources"]
    assert whole["bytes"] == ana["bytes"] == ana["recounted"] > 1000
    assert cli("usage", "--stored", "--tenant", "globex", *at)[1] == "nothing is stored for tenant 'globex'\n"
    connection = driver.connect(tmp_path / "memory.db")
    connection.execute("UPDATE stored_bytes SET bytes = bytes + 1 WHERE resource_id = 'ana'")
    connection.commit()
    connection.close()
    code, _, err = cli("usage", "--stored", "--tenant", "acme", *at)
    assert (code, "differ from the stored bytes" in err) == (1, True)
