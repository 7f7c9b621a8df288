"""Strings that mean something to SQL, full-text search, JSON paths or formatting, in every string of every tool.

Each argument gets a share of them, another share than the next argument, and in a soak many shares. What takes many
strings in one call gets all of them always.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import asyncpg
import pytest
from mcp import MCPError

from layerlore.server.tools.toolsets import DECLARATIONS
from layerlore.storage.drivers.sqlite import driver

from .calling import Connect, Json, Tools, text_of
from .injection_strings import STRINGS, UNSTORABLE
from .sample_calls import SAMPLE_CALLS

pytestmark = [pytest.mark.anyio, pytest.mark.programs]

SHARE = 120
"""One string of so many is tried in an argument."""
STORED = 20
"""One string of so many is stored by a call of its own."""
HALVES = [string for string in UNSTORABLE if "\x00" not in string]
KEY = "a key"  # of an object, where the string goes instead of a value
Path = tuple[Any, ...]

# Below what a schema says, and below what it leaves open.
LOOSE: dict[str, list[Path]] = {
    "add_messages": [
        *(("messages", 0, key) for key in ("role", "content", "id", "name", "created_at", "type")),
        *(("messages", 0, "metadata", "k"), ("messages", 0, "metadata", KEY), ("messages", 0, KEY)),
        *(("messages", 0, "content", 0, key) for key in ("type", "text")),
        *(("messages", 0, "files", 0, key) for key in ("file_name", "url", "mime_type", KEY)),
        *(("messages", 0, "tool_calls", 0, key) for key in ("id", "type")),
        *(("messages", 0, "tool_calls", 0, "function", key) for key in ("name", "arguments")),
        ("messages",),
    ],
    "record_steps": [
        *(("steps", 0, key) for key in ("agent_id", "agent_name", "sub_agent_id", "sub_agent_name", "role", "content")),
        *(
            ("steps", 0, key)
            for key in ("tool_name", "tool_call_id", "model", "message_id", "created_at", "result", KEY)
        ),
        *(("steps", 0, "arguments", "k"), ("steps", 0, "arguments", KEY), ("steps", 0, "metadata", KEY)),
        *(("steps", 0, "usage", KEY), ("steps", 0, "payload", "k"), ("steps",)),
    ],
    "suspend_run": [
        *(("state", "k"), ("state", KEY), ("metadata", "k"), ("metadata", KEY)),
        *(
            ("pending_tool_calls", 0, key)
            for key in ("tool_call_id", "tool_name", "resume_schema", "suspend_payload", KEY)
        ),
        ("pending_tool_calls", 0, "arguments", "k"),
    ],
    "resume_run": [("data", "k"), ("data", KEY)],
    "complete_run": [("output", "k"), ("output", KEY)],
    "list_runs": [("metadata", "k"), ("metadata", KEY)],
    "list_threads": [("metadata", "k"), ("metadata", KEY)],
    "update_thread": [
        *(("metadata", "k"), ("metadata", KEY), ("window", KEY)),
        *(("window", key) for key in ("profile", "limit", "mode", "strategy", "summary_prompt")),
        *(("window", "predefined", 0, key) for key in ("role", "content")),
    ],
    "update_working_memory": [("content", "k"), ("content", KEY)],
    "plan": [("plan", KEY), ("plan", "steps", 0, KEY), ("plan",)],
    "submit_memory_job": [("result", "k"), ("result", KEY), ("result", "entries", 0, "content")],
}


def in_schema(schema: Json, defs: Json) -> Iterator[Path]:
    """Where a schema has strings, and where it leaves open what there is."""
    if "$ref" in schema:
        yield from in_schema(defs[schema["$ref"].rpartition("/")[2]], defs)
        return
    for choice in schema.get("anyOf", ()):
        yield from in_schema(choice, defs)
    match schema.get("type"):
        case "object":
            for name, inner in schema.get("properties", {}).items():
                yield from ((name, *path) for path in in_schema(inner, defs))
        case "array":
            yield from ((0, *path) for path in in_schema(schema.get("items", {}), defs))
        case "string" | None:
            yield ()


def placed(base: Any, path: Path, string: str) -> Any:
    """``base`` with the string at the path, what is on the way made where it is not there."""
    if not path:
        return string
    step, *rest = path
    if step == 0:
        kept = base if isinstance(base, list) and base else [{}]
        return [placed(kept[0], tuple(rest), string), *kept[1:]]
    kept = base if isinstance(base, dict) else {}
    return {**kept, string: "x"} if step == KEY else {**kept, step: placed(kept.get(step), tuple(rest), string)}


def places() -> Iterator[tuple[str, Path]]:
    for declaration in DECLARATIONS:
        tool = declaration.tool
        schema = tool.parameters
        found = (*in_schema(schema, schema.get("$defs", {})), *LOOSE.get(tool.name, ()))
        yield from ((tool.name, path) for path in dict.fromkeys(found) if path)


class Store:
    """The database behind the tools, looked into from outside."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def rows(self, agent: str) -> dict[str, list[str]]:
        """Every table; of those that know an agent, the rows of this one. What is to be done is left out: it is done
        in the background, whoever asks."""
        if self._url.startswith("sqlite"):
            return self._of_sqlite(agent)
        return await self._of_postgres(agent)

    def _of_sqlite(self, agent: str) -> dict[str, list[str]]:
        with driver.driver.connect(self._url.removeprefix("sqlite:///")) as connection:
            found = {}
            for (table,) in connection.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall():
                columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
                found[f"{table} {columns}"] = []
                if "agent_id" in columns and table not in ("jobs", "job_turns"):
                    select = f'SELECT * FROM "{table}" WHERE agent_id = ?'
                    found[table] = sorted(map(repr, connection.execute(select, (agent,)).fetchall()))
        connection.close()
        return found

    async def _of_postgres(self, agent: str) -> dict[str, list[str]]:
        connection = await asyncpg.connect(self._url)
        try:
            for name, value in (("tenant", "local"), ("agent", agent), ("resource", "default")):
                await connection.fetchval("SELECT set_config($1, $2, false)", f"layerlore.{name}", value)
            columns = await connection.fetch(
                "SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position) AS columns "
                "FROM information_schema.columns WHERE table_schema = current_schema() GROUP BY 1 ORDER BY 1"
            )
            found = {f"{row['table_name']} {row['columns']}": list[str]() for row in columns}
            for row in columns:
                if "agent_id" in row["columns"] and row["table_name"] not in ("jobs", "job_turns"):
                    select = f'SELECT * FROM "{row["table_name"]}" WHERE agent_id = $1'
                    found[row["table_name"]] = sorted(
                        repr(tuple(each)) for each in await connection.fetch(select, agent)
                    )
            return found
        finally:
            await connection.close()


@pytest.fixture
async def neighbour(connect: Connect, database_url: str) -> AsyncIterator[tuple[Store, dict[str, list[str]]]]:
    """Another agent's memory of the same person, with something in all that it has, and how it looks."""
    async with connect(agent="neighbour", toolsets="all") as theirs:
        for tool, arguments in SAMPLE_CALLS.items():
            if tool not in ("delete_messages", "clear_working_memory", "delete_thread", "erase_memory"):
                await theirs.raw(tool, **{**arguments, **({"thread_id": "main"} if "thread_id" in arguments else {})})
    store = Store(database_url)
    before = await store.rows("neighbour")
    assert sum(map(len, before.values())) > 10
    yield store, before
    assert await store.rows("neighbour") == before


@pytest.fixture
async def tools(connect: Connect) -> AsyncIterator[Tools]:
    async with connect(toolsets="all", redaction="off") as opened:
        yield opened


def share(number: int) -> Sequence[str]:
    """What argument ``number`` gets: with as many arguments after it as there are shares, all of them."""
    return (*STRINGS[number % SHARE :: SHARE], UNSTORABLE[number % len(UNSTORABLE)])


def test_there_are_five_hundred_strings_and_a_place_in_every_tool_that_takes_one() -> None:
    assert len(STRINGS) >= 500
    takes_none = {"next_memory_job", "memory_status"}
    assert {tool for tool, _ in places()} == {each.name for each in DECLARATIONS} - takes_none
    assert len(list(places())) > 120


@pytest.mark.databases
async def test_no_string_in_any_argument_fails_unexpectedly_or_touches_anybody_else(
    tools: Tools, neighbour: object, trials: Callable[..., range]
) -> None:
    failed, answered, shares = [], 0, trials(1, soak=10)
    for number, (tool, path) in enumerate(places()):
        for string in (string for trial in shares for string in share(number + trial)):
            if path[-1] == KEY and string in HALVES:
                continue  # the SDK's client cannot send half of a surrogate pair as a key
            result = await tools.raw(tool, **placed(SAMPLE_CALLS[tool], path, string))
            answered += not result.is_error
            told = text_of(result)
            if result.is_error and ("failed unexpectedly" in told or "Traceback" in told):
                failed.append((tool, path, string[:80], told[:200]))
    assert failed == []
    assert answered > 200 * len(shares)  # most of them are only text, and taken as that


async def test_no_string_in_the_meta_or_in_a_prompt_or_a_completion_fails_unexpectedly(
    tools: Tools, neighbour: object
) -> None:
    ref: Any = {"type": "ref/resource", "uri": "memory://threads/{thread_id}"}
    for string in (*STRINGS[::10], *UNSTORABLE[:2]):
        for key in ("layerlore/thread", "layerlore/idempotency-key"):
            result = await tools.raw("add_messages", messages=[{"role": "user", "content": "tea"}], meta={key: string})
            assert "failed unexpectedly" not in text_of(result), (key, string)
        for ask in (
            tools.client.get_prompt("load_memory", {"query": string}),
            tools.client.get_prompt(string),
            tools.client.complete(ref, {"name": "thread_id", "value": string}),
        ):
            told = ""
            try:
                await ask
            except MCPError as error:
                told = str(error)
            assert "failed unexpectedly" not in told, string
            assert "Internal" not in told, string


@pytest.mark.databases
async def test_all_of_them_are_stored_in_messages_as_they_are_and_found_by_any_query(
    tools: Tools, neighbour: object
) -> None:
    ids = [f"m{number}" for number in range(len(STRINGS))]
    rows: list[Json] = [
        {"role": "user", "content": string, "id": id_, "metadata": {"k": string, f"{string} ": string}}
        for id_, string in zip(ids, STRINGS, strict=True)
    ]
    for batch in _batched(rows, 100):
        await tools.add("main", *batch)
    kept = []
    for begin in range(0, len(STRINGS), 100):
        kept += (await tools.page("main", limit=100, offset=begin))["messages"]
    assert [message["parts"][0]["text"] for message in kept] == list(STRINGS)
    assert [message["metadata"] for message in kept] == [row["metadata"] for row in rows]
    hits = 0
    for string in filter(str.strip, STRINGS[:: STORED // 4]):
        hits += len(await tools.hits(string, limit=20))
    assert hits > 100
    named = [{"role": "user", "content": "x", "name": name} for name in STRINGS[-120:-20] if name.isprintable()]
    added = await tools.add("names", *[row for row in named if len(row["name"]) <= 255])
    assert len(added["messages"]) > 50


async def test_all_of_them_are_stored_in_steps_and_plans_as_they_are(tools: Tools, neighbour: object) -> None:
    steps = [
        {
            "type": "tool_call",
            "operation_id": "op",
            "tool_name": "f",
            "tool_call_id": "c",
            "arguments": {string: string},
        }
        for string in STRINGS
    ]
    for batch in _batched(steps, 100):
        await tools("record_steps", steps=batch, thread_id="main")
    found: list[Json] = []
    cursor = ""
    while len(found) < len(steps):
        page = await tools("list_steps", thread_id="main", limit=200, cursor=cursor)
        found += page["steps"]
        cursor = page.get("next_cursor", "")
    assert [step["arguments"] for step in found] == [step["arguments"] for step in steps]
    for number, string in enumerate(STRINGS[::STORED]):
        run_id, state = f"r{number}", {"k": string, string: [string]}
        await tools("suspend_run", run_id=run_id, state=state, thread_id="main")
        resumed = await tools("resume_run", run_id=run_id)
        assert resumed["state"] == state
        await tools("complete_run", run_id=run_id, claim=resumed["claim"])
        thread = string[:255]
        if thread.strip() and thread.isprintable():
            await tools.say(thread, string)
            assert await tools.texts(thread) == [string]
            assert (await tools("list_threads", thread_id=thread))["threads"][0]["thread_id"] == thread
            await tools("delete_thread", thread_id=thread)


@pytest.mark.databases
async def test_a_thread_is_found_by_odd_metadata_and_no_other_is(tools: Tools, neighbour: object) -> None:
    for number, string in enumerate(STRINGS[::STORED]):
        metadata = {string: string, "number": number}
        await tools.say(f"t{number}", "tea")
        await tools("update_thread", thread_id=f"t{number}", metadata=metadata)
        rows = (await tools("list_threads", metadata={string: string}))["threads"]
        assert [row["thread_id"] for row in rows] == [f"t{number}"], string
        assert (await tools("list_threads", metadata={string: f"{string}x"}))["threads"] == [], string


def _batched(rows: Sequence[Any], size: int) -> Iterator[list[Any]]:
    yield from (list(rows[begin : begin + size]) for begin in range(0, len(rows), size))
