"""A secret in any argument of any tool: it is in no answer to others, no event, no line of a journal or a log, and in no byte
of the database."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from secret_formats import made_up

from layerlore.storage.audit.journal_rows import JournalFilter, read_lines
from layerlore.storage.drivers.dialect import open_database

from .calling import Connect, Json, Tools, text_of
from .sample_calls import SAMPLE_CALLS, make_small_world

pytestmark = pytest.mark.anyio

_, TOKEN, _ = made_up("ghp_<a36>", 7)
NAMES = (
    "thread_id",
    "run_id",
    "claim",
    "job_id",
    "undo_id",
    "action",
    "which",
    "type",
    "role",
    "decision",
    "operation_id",
    "id",
)
"""Arguments that name something or choose. A name is kept as it was given, since it must be found again by it."""
EXACT = ("state",)
"""Arguments that come back exactly as they were given, and so are not masked."""


def with_token(value: Any, name: str = "") -> Any:
    """Arguments with the secret in each text that is content."""
    if isinstance(value, dict):
        return {key: each if key in EXACT else with_token(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [with_token(each, name) for each in value]
    return f"{value} {TOKEN}" if isinstance(value, str) and name not in NAMES else value


def misshapen(value: Any, name: str = "") -> Any:
    """Arguments in which an object with the secret stands for each text that is content, so that they are refused."""
    if isinstance(value, dict):
        return {key: misshapen(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [misshapen(each, name) for each in value]
    return {"text": [TOKEN]} if isinstance(value, str) and name not in NAMES else value


async def call_everything(tools: Tools) -> None:
    await make_small_world(tools)
    await tools.raw("suspend_run", run_id="r1", state={"step": 1}, thread_id="tea")
    for tool, given in SAMPLE_CALLS.items():
        if tool == "erase_memory":
            continue
        await tools.raw(tool, **with_token(given))
        await tools.raw(tool, **misshapen(given))
        await tools.raw(tool, **{f"unknown {TOKEN}": TOKEN}, **given)


async def read_back(tools: Tools) -> list[str]:
    """What somebody else is shown of it later."""
    request: list[tuple[str, Json]] = [
        ("recall_memory", {"query": "tea ghp", "explain": True, "detail": "high", "format": "json"}),
        ("recall_memory", {"query": "tea ghp", "explain": True}),
        ("get_messages", {"thread_id": "main", "format": "json"}),
        ("get_context", {"thread_id": "main"}),
        ("get_briefing", {"task": "tea"}),
        ("get_working_memory", {"thread_id": "main"}),
        ("list_events", {"thread_id": "main"}),
        ("list_events", {"scope": "resource"}),
        ("list_steps", {"thread_id": "main"}),
        ("list_runs", {}),
        ("list_threads", {}),
        ("list_all_threads", {}),
        ("plan", {"action": "list"}),
        ("memory_status", {}),
    ]
    answers = [await tools.raw(tool, **given) for tool, given in request]
    return [f"{text_of(each)} {each.structured_content}" for each in answers]


async def test_a_secret_in_any_argument_is_found_nowhere(
    connect: Connect, database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connect(toolsets="all") as tools:
        await call_everything(tools)
    async with connect(toolsets="all") as tools:
        shown = await read_back(tools)
    leaks = [f"...{each[max(0, each.find(TOKEN) - 200) : each.find(TOKEN) + 60]}..." for each in shown if TOKEN in each]
    assert not leaks, "\n".join(leaks)
    assert any("[masked:github-token" in each for each in shown)
    assert TOKEN not in caplog.text

    opened = await open_database(database_url, tmp_path / "memory.db")
    try:
        lines = await opened.read_installation(read_lines, JournalFilter(), limit=1000)
    finally:
        await opened.close()
    assert lines
    assert TOKEN not in repr(lines)
    file = Path(database_url.removeprefix("sqlite://"))
    written = await asyncio.to_thread(lambda: [each.read_bytes() for each in file.parent.glob(f"{file.name}*")])
    assert written
    for each in written:
        at = each.find(TOKEN.encode())
        assert at < 0, each[max(0, at - 300) : at + 60]
