"""The worker that a server runs: made from its settings, begun with it, ended with it."""

from typing import Any

import anyio
import pytest

from layerlore.server import runtime, upkeep
from layerlore.server.notifications import NotificationHub
from layerlore.server.settings import load_settings
from layerlore.server.thinking import chosen_models
from layerlore.storage import jobs
from layerlore.storage.records import Scope

pytestmark = pytest.mark.anyio

ANA = Scope("local", "agent", "ana")
PATIENCE = 20.0


def settings(**llm: Any) -> Any:
    return load_settings({"database": "sqlite://:memory:", "embedding": {"embedder": "none"}, "llm": llm}, environ={})


def test_no_model_is_asked_unless_a_setting_names_one_whatever_keys_are_there() -> None:
    keys = {"OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}
    assert chosen_models(settings().llm, keys).distinct == []
    assert chosen_models(settings(model="auto").llm, keys).distinct == ["gemini/gemini-2.5-flash"]
    assert chosen_models(settings(model="auto").llm, {}).distinct == []
    named = chosen_models(settings(model="openai/a", models={"title": "none"}).llm, {})
    assert (named.by_kind["observe"], named.by_kind["title"]) == ("openai/a", "")


@pytest.mark.parametrize("memory", ["on", "off"])
async def test_a_server_does_jobs_while_it_runs(memory: str) -> None:
    opened = await runtime.open_runtime(settings().model_copy(update={"memory": memory}), NotificationHub())
    database = opened.engine.database
    try:
        now = opened.engine.now()
        # Of a thread that is not there: there is nothing to do, so it is done.
        await database.write(jobs.request, ANA, "gone", "digest", 1, due_at=now, now=now)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(upkeep.keep_up, opened)
            if memory == "off":
                await anyio.wait_all_tasks_blocked()
            else:
                with anyio.fail_after(PATIENCE):
                    while await database.read_installation(jobs.soonest, ["digest"], now=now) is not None:
                        await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        left = await database.read_installation(jobs.soonest, ["digest"], now=now)
        assert (left is None) == (memory == "on")
    finally:
        await opened.close()
