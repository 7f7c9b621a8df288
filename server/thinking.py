"""Who does the background work, as the settings say: a model, within a budget, or nobody but our own digests."""

import os
from collections.abc import Mapping

from memstrata.extraction.budget import Budget
from memstrata.extraction.chat.automatic import Models, models
from memstrata.extraction.chat.litellm_chat import LitellmChat
from memstrata.extraction.kinds import all_kinds
from memstrata.extraction.worker import JobWorker
from memstrata.memory.engine import Engine
from memstrata.server.llm_settings import LlmSettings


def chosen_models(settings: LlmSettings, environ: Mapping[str, str] | None = None) -> Models:
    """Which model each kind of job has, and what ``auto`` takes."""
    return models(settings.model, settings.by_kind, os.environ if environ is None else environ)


def worker(engine: Engine, settings: LlmSettings, environ: Mapping[str, str] | None = None) -> JobWorker:
    """The worker of this process. Without a model it works all the same: it digests what can be digested."""
    chosen = chosen_models(settings, environ)
    chat = LitellmChat(
        chosen,
        api_base=settings.api_base,
        api_key=settings.api_key.get_secret_value(),
        timeout_seconds=settings.timeout_seconds,
        max_answer_tokens=settings.max_answer_tokens,
    )
    return JobWorker(
        engine,
        all_kinds(),
        chat if chosen.distinct else None,
        holder=engine.new_id(),
        concurrency=settings.concurrency,
        budget=Budget(settings.daily_tokens, settings.daily_usd),
    )
