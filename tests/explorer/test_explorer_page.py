"""The explorer's page, in a browser: each view and what can be done in it, against a real server on both databases.

`make explorer-test` runs this: it needs Node and Chromium, which no other test does. Pictures of the views are left in
`.explorer-shots/`.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio import to_thread

from layerlore.memory.engine.engine import WriteRequest
from layerlore.memory.messages.addition import add_messages
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import load_settings
from layerlore.storage.core.records import Origin, Scope

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "explorer"
BUILT = ROOT / "server" / "explorer" / "explorer.html"
PROGRAM = str(Path(sys.executable).with_name("layerlore"))
REQUIRED = "LAYERLORE_TEST_EXPLORER"
PATIENCE = 300  # seconds for what takes a minute on an idle machine
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|DOMParser|srcdoc"
    r"|createContextualFragment|\beval\(|new Function"
)


def needed(found: bool, what: str) -> None:
    """Skip, or fail where `make explorer-test` asked for it, without something that the machine must have."""
    if not found:
        message = f"{what} is missing; `make explorer-test` says how to get it"
        if os.environ.get(REQUIRED):
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    needed(
        found is not None and (SOURCES / "node_modules" / "esbuild").exists(), "Node 20 with the packages of explorer/"
    )
    return found or ""


def environment_in(folder: Path) -> dict[str, str]:
    """Of programs whose home and memory are in this folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
    return {
        **kept,
        "HOME": str(folder),
        "LAYERLORE_HTTP__PORT": "0",
        "LAYERLORE_DATA_DIR": str(folder / "memory"),
    }


@contextlib.contextmanager
def serving(folder: Path, *options: str) -> Iterator[dict[str, str]]:
    """A server with an empty memory; what the browser needs to know of it."""
    command = [PROGRAM, "serve", "--toolsets", "all", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment_in(folder)) as server:
        try:
            assert server.stderr is not None
            listening = re.search(r"listens on (http://127\.0\.0\.1:\d+)/mcp", server.stderr.readline())
            assert listening
            yield {"MEMORY_URL": listening[1], "MEMORY_KEY": (folder / "memory" / "http-key").read_text().strip()}
        finally:
            server.terminate()


def look(node: str, file: str, **environment: str) -> None:
    """Run the tests of a file for Node; what fails in it fails here, with all that it printed."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    needed(chromium is not None, "Chromium")
    done = subprocess.run(
        [node, "--test", "--test-reporter=spec", Path(__file__).with_name(file)],
        env={**os.environ, **environment, "CHROMIUM": chromium or "", "EXPLORER_ROOT": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]


def test_the_committed_page_is_what_its_sources_build(node: str, tmp_path: Path) -> None:
    subprocess.run(
        [node, SOURCES / "build.mjs", tmp_path / "page.html"], check=True, capture_output=True, timeout=PATIENCE
    )
    assert (tmp_path / "page.html").read_bytes() == BUILT.read_bytes(), "run `make explorer` and commit the page"


def test_no_source_of_the_page_makes_markup_of_text() -> None:
    sources = sorted((SOURCES / "src").rglob("*.ts*"))
    assert len(sources) > 10
    assert [each.name for each in sources if MARKUP.search(each.read_text())] == []


def test_each_view_and_act_works_beside_sqlite(node: str, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        look(node, "views.test.mjs", **server, DATABASE="sqlite")


def test_each_view_and_act_works_beside_postgres(node: str, tmp_path: Path, postgres_url: str) -> None:
    with serving(tmp_path, "--database", postgres_url) as server:
        look(node, "views.test.mjs", **server, DATABASE="postgres")


def command(folder: Path, *arguments: str) -> str:
    """What a command prints."""
    done = subprocess.run(
        [PROGRAM, *arguments], env=environment_in(folder), capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return done.stdout


@contextlib.contextmanager
def exploring(folder: Path, *options: str) -> Iterator[str]:
    """The link of a page of the whole database."""
    command = [PROGRAM, "explore", "--no-browser", "--everybody", *options]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment_in(folder)
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def test_the_local_file_that_the_browser_opens_signs_in(node: str, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\nprintf %s "$1" > "{opened}.part"\nmv "{opened}.part" "{opened}"\n', encoding="utf-8"
    )
    browser.chmod(0o700)
    environment = {**environment_in(tmp_path), "BROWSER": f"{browser} %s"}
    with subprocess.Popen(
        [PROGRAM, "explore"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            link = process.stdout.readline().strip()
            wait_for(opened)
            door = opened.read_text(encoding="utf-8")
            assert door.startswith("file://")
            assert link.partition("#once=")[2] not in door
            look(node, "door.test.mjs", DOOR=door)
        finally:
            process.terminate()


def wait_for(path: Path) -> None:
    """Wait until another process has made a file."""
    for _ in range(PATIENCE * 20):
        if path.exists():
            return
        time.sleep(0.05)
    pytest.fail(f"{path} was not made")


def choose(node: str, folder: Path, database: str, owner: str) -> None:
    """Look as an operator with a key for any user, and as the owner of the database; each look is then in the journal."""
    options = ["--database", database]
    made = ["keys", "create", "--any-agent", "--any-resource", "--rights", "read,write,forget,admin", *options]
    with serving(folder, *options) as server:
        keys = [
            re.findall(r"llk_[\w-]+", command(folder, *made, "--tenant", tenant))[-1] for tenant in ("acme", "globex")
        ]
        with exploring(folder, *options) as link:
            looked = {**server, "MEMORY_KEY": keys[0], "OTHER_KEY": keys[1], "OWNER_LINK": link}
            look(node, "operator.test.mjs", **looked, DATABASE=database.partition(":")[0])
    for tenant, by, tools in (
        ("acme", "key:", {"explore_memories", "read_entries", "get_messages", "get_working_memory"}),
        ("acme", "command:explore", {"explore_memories"}),
        ("globex", "command:explore", {"explore_memories", "read_entries", "get_working_memory"}),
    ):
        told = command(folder, "journal", "--json", "--limit", "9999", "--tenant", tenant, "--database", owner)
        lines = [json.loads(line) for line in told.splitlines()]
        assert tools <= {line["tool"] for line in lines if line["principal"].startswith(by)}, (tenant, by)


def test_an_operator_chooses_whose_memory_to_look_at_beside_sqlite(node: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    choose(node, tmp_path, url, url)


@pytest.mark.anyio
async def test_an_operator_chooses_whose_memory_to_look_at_beside_postgres(
    node: str, tmp_path: Path, serving_url: str, postgres_url: str
) -> None:
    await to_thread.run_sync(choose, node, tmp_path, serving_url, postgres_url)


def test_each_view_looks_as_it_did(node: str, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        look(node, "pictures.test.mjs", **server)


def test_ten_thousand_conversations_are_reached_to_the_last_and_found(node: str, tmp_path: Path) -> None:
    asyncio.run(fill_with_threads(tmp_path / "memory", 10_000))
    with serving(tmp_path) as server:
        look(node, "scale.test.mjs", **server)


async def fill_with_threads(folder: Path, count: int) -> None:
    """So many conversations of a message each, the first of which was changed last."""
    variables = {"DATA_DIR": str(folder), "EMBEDDING__EMBEDDER": "none", "SQLITE__SYNCHRONOUS": "NORMAL"}
    engine = await open_engine(load_settings(environ={f"LAYERLORE_{name}": value for name, value in variables.items()}))
    scope, sent = Scope("local", "default", "default"), WriteRequest(Origin("test", "add_messages", "local"))

    async def say(number: int) -> None:
        said = [{"role": "user", "content": f"Question {number} about tea."}]
        await add_messages(engine, scope, f"talk-{number}", said, replace=False, sent=sent)

    try:
        for last in range(count, 1, -100):
            await asyncio.gather(*(say(number) for number in range(last, max(1, last - 100), -1)))
        await say(1)
    finally:
        await close_engine(engine)
