"""The worker of background jobs, made from the settings. Loaded when the first job is done or asked about."""

import os
from collections.abc import Mapping

from layerlore.extraction.chat.litellm_chat import open_chat
from layerlore.extraction.jobs.budget import DailyBudget
from layerlore.extraction.jobs.worker import JobWorker
from layerlore.extraction.kinds.registry import make_kinds
from layerlore.memory.engine.engine import Engine
from layerlore.memory.settings.note_settings import LlmSettings


def make_worker(
    engine: Engine, settings: LlmSettings, environ: Mapping[str, str] | None = None, *, tenant_daily_tokens: int = 0
) -> JobWorker:
    """The worker of this process. Without a model it works all the same: it digests what can be digested."""
    return JobWorker(
        engine,
        make_kinds(),
        open_chat(settings, os.environ if environ is None else environ),
        holder=engine.new_id(),
        concurrency=settings.concurrency,
        budget=DailyBudget(settings.daily_tokens, settings.daily_usd),
        tenant_daily_tokens=tenant_daily_tokens,
    )
