"""Who does the background work, as the settings say: a model, within a budget, or nobody but our own digests."""

import os
from collections.abc import Mapping

from layerlore.extraction.budget import Budget
from layerlore.extraction.chat.automatic import Models
from layerlore.extraction.chat.choosing import chat, models_of
from layerlore.extraction.kinds import all_kinds
from layerlore.extraction.worker import JobWorker
from layerlore.memory.engine import Engine
from layerlore.server.llm_settings import LlmSettings


def chosen_models(settings: LlmSettings, environ: Mapping[str, str] | None = None) -> Models:
    """Which model each kind of job has, and what ``auto`` takes."""
    return models_of(settings, os.environ if environ is None else environ)


def worker(
    engine: Engine, settings: LlmSettings, environ: Mapping[str, str] | None = None, *, tenant_daily_tokens: int = 0
) -> JobWorker:
    """The worker of this process. Without a model it works all the same: it digests what can be digested."""
    return JobWorker(
        engine,
        all_kinds(),
        chat(settings, os.environ if environ is None else environ),
        holder=engine.new_id(),
        concurrency=settings.concurrency,
        budget=Budget(settings.daily_tokens, settings.daily_usd),
        tenant_daily_tokens=tenant_daily_tokens,
    )
