"""The worker that a server runs: made from its settings, begun with it, ended with it."""

from typing import Any

import anyio
import pytest

from layerlore.extraction.chat.chat_port import Models, choose_models
from layerlore.server.runtime import runtime, upkeep
from layerlore.server.settings.settings import load_settings
from layerlore.server.subscriptions.notifications import NotificationHub
from layerlore.storage.core.records import Scope
from layerlore.storage.jobs import job_rows

pytestmark = pytest.mark.anyio

ANA = Scope("local", "agent", "ana")
PATIENCE = 120.0  # seconds: only a hang takes so long


def settings(**llm: Any) -> Any:
    return load_settings({"database": "sqlite://:memory:", "embedding": {"embedder": "none"}, "llm": llm}, environ={})


def models_of(llm: Any, environ: dict[str, str]) -> Models:
    return choose_models(llm.model, llm.by_kind, environ)


def test_no_model_is_asked_unless_a_setting_names_one_whatever_keys_are_there() -> None:
    keys = {"OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}
    assert models_of(settings().llm, keys).distinct == []
    assert models_of(settings(model="auto").llm, keys).distinct == ["gemini/gemini-2.5-flash"]
    assert models_of(settings(model="auto").llm, {}).distinct == []
    named = models_of(settings(model="openai/a", models={"title": "none"}).llm, {})
    assert (named.by_kind["observe"], named.by_kind["title"]) == ("openai/a", "")


@pytest.mark.parametrize("memory", ["on", "off"])
async def test_a_server_does_jobs_while_it_runs(memory: str) -> None:
    opened = await runtime.open_runtime(settings().model_copy(update={"memory": memory}), NotificationHub())
    database = opened.engine.database
    try:
        now = opened.engine.now()
        # Of a thread that is not there: there is nothing to do, so it is done.
        await database.write(job_rows.request, ANA, "gone", "digest", 1, due_at=now, now=now)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(upkeep.keep_up, opened)
            if memory == "off":
                await anyio.wait_all_tasks_blocked()
            else:
                with anyio.fail_after(PATIENCE):
                    while await database.read_installation(job_rows.find_soonest, ["digest"], now=now) is not None:
                        await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        left = await database.read_installation(job_rows.find_soonest, ["digest"], now=now)
        assert (left is None) == (memory == "on")
    finally:
        await opened.close()
