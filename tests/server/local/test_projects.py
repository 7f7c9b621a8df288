"""Projects: what is remembered of one is shown in all its checkouts and nowhere else, and the person's memory everywhere."""

import contextlib
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from ..shared_machine import Machine

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="git's paths")]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    made = Machine(tmp_path_factory.mktemp("shared") / "data")
    yield made
    made.stop()


def git(folder: Path, *arguments: str) -> None:
    own = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org"]
    subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True)


def checkout(folder: Path, remote: str) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "Begin")
    git(folder, "remote", "add", "origin", remote)
    return folder


@contextlib.asynccontextmanager
async def session(machine: Machine, folder: Path, *flags: str) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "layerlore", *(flags or ("--project", "auto"))],
        env=machine.environment(),
        cwd=folder,
    )
    async with Client(stdio_client(parameters), mode="legacy") as client:
        yield client


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content if result.structured_content is not None else result.content[0].text  # type: ignore[union-attr]


async def test_checkouts_of_a_remote_share_a_project_and_others_see_nothing_of_it(
    machine: Machine, tmp_path: Path
) -> None:
    shop = checkout(tmp_path / "shop", "git@github.com:ana/shop.git")
    blog = checkout(tmp_path / "blog", "git@github.com:ana/blog.git")
    # Two hosts in two projects, on one shared server.
    async with session(machine, shop) as in_shop, session(machine, blog) as in_blog:
        await ask(in_shop, "add_messages", messages=[{"role": "user", "content": "The shop is deployed with Kamal."}])
        kept = await ask(in_shop, "remember", content="The shop is deployed with Kamal to Hetzner.", kind="fact")
        mine = await ask(in_shop, "remember", content="The user prefers pnpm over npm.", kind="preference")
        assert (kept["whose"], mine["whose"]) == ("project", "you")
        await ask(in_shop, "update_working_memory", content="Lives in Bern.", scope="resource")
        await ask(in_blog, "remember", content="The blog is deployed with Netlify, by pnpm.", kind="fact")
        assert (await ask(in_blog, "memory_status"))["scope"] == {
            "agent": "default",
            "resource": "default",
            "project": "project:github.com/ana/blog",
        }
        assert "Kamal" not in await ask(in_blog, "recall_memory", query="what is deployed with Kamal?")
        assert "[project] [entry" in await ask(in_blog, "recall_memory", query="pnpm")
        hits = (await ask(in_blog, "recall_memory", query="pnpm", format="json"))["hits"]
        shown = [hit["text"] for hit in hits if hit["kind"] == "entry"]
        assert shown == ["The blog is deployed with Netlify, by pnpm.", "The user prefers pnpm over npm."]
        context = await ask(in_blog, "get_context", query="pnpm")
        assert "Lives in Bern." in context
        assert "- [you] [assistant] The user prefers pnpm over npm." in context
        assert "Kamal" not in context
        threads = await ask(in_blog, "list_threads")
        assert threads["threads"] == []
    assert len(machine.servers()) == 1
    git(shop, "worktree", "add", "-q", str(tmp_path / "beside"))
    async with session(machine, tmp_path / "beside") as elsewhere:
        found = await ask(elsewhere, "recall_memory", query="how is the shop deployed?")
        assert "[project] #1 user: The shop is deployed with Kamal." in found
    async with session(machine, shop, "--project", "none") as alone:
        found = await ask(alone, "recall_memory", query="pnpm, deployed with Kamal?")
        assert "prefers pnpm" in found
        assert "Kamal" not in found
        assert "[you]" not in found


async def test_what_the_person_told_elsewhere_is_found_and_forgotten_from_a_project(
    machine: Machine, tmp_path: Path
) -> None:
    async with session(machine, tmp_path, "--resource", "bob") as alone:
        await ask(alone, "add_messages", messages=[{"role": "user", "content": "My cat is called Momo."}])
    async with session(machine, tmp_path, "--resource", "bob", "--project", "zoo") as in_zoo:
        told = [{"role": "user", "content": "Momo the panda moved in. I never want emoji in commits."}]
        await ask(in_zoo, "add_messages", messages=told, thread_id="pandas")
        proven = await ask(
            in_zoo,
            "remember",
            content="The user never wants emoji in commits.",
            kind="preference",
            evidence="I never want emoji in commits.",
            source="user_assertion",
            thread_id="pandas",
        )
        assert proven["whose"] == "you"
        assert "unproven" not in proven
        found = await ask(in_zoo, "recall_memory", query="who is Momo?")
        assert "[you] #1 user: My cat is called Momo." in found
        hits = (await ask(in_zoo, "recall_memory", query="who is Momo?", format="json"))["hits"]
        assert ["panda" in hit["text"] for hit in hits if "Momo" in hit["text"]] == [True, False]
        preview = await ask(in_zoo, "forget", query="Momo")
        assert "- [project] message #1" in preview
        assert "- [you] message #1" in preview
        listed = await ask(in_zoo, "forget", query="Momo", format="json")
        assert {(item["whose"], item["kind"], item["seq"]) for item in listed["items"]} == {
            ("project", "message", 1),
            ("you", "message", 1),
        }
        done = await ask(in_zoo, "forget", confirm=preview.partition('confirm="')[2][:8])
        assert done.count("Forgotten: 1 message") == 2
        # A delete among the person's conversations is undone from here, too.
        for act in re.findall(r'undo_id="(u_\w+)"', done):
            await ask(in_zoo, "undo", undo_id=act)
        assert "[you]" in await ask(in_zoo, "recall_memory", query="who is Momo?")
        again = await ask(in_zoo, "forget", confirm=listed["confirm"], format="json")
        assert [(each["whose"], each["messages"]) for each in again["forgotten"]] == [("project", 1), ("you", 1)]
        for each in again["forgotten"]:
            await ask(in_zoo, "undo", undo_id=each["undo"])
        gone = await ask(in_zoo, "forget", ids=[proven["id"]])
        assert "Forgotten: 1 entry" in gone
    async with session(machine, tmp_path, "--resource", "bob", "--project", "zoo2") as in_other:
        assert "panda" not in await ask(in_other, "recall_memory", query="who is Momo?")
