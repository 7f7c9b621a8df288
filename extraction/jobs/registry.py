"""The kinds of background jobs, and the worker that does them. Loaded when the first job is done or listed."""

import os
from collections.abc import Mapping

from layerlore.extraction.chat.litellm_chat import open_chat
from layerlore.extraction.jobs.budget import DailyBudget
from layerlore.extraction.jobs.worker import JobWorker
from layerlore.extraction.kinds.digester import Digester
from layerlore.extraction.kinds.entries import EntryExtractor
from layerlore.extraction.kinds.kind import JobKind
from layerlore.extraction.kinds.observer import Observer
from layerlore.extraction.kinds.profile import ProfileWriter
from layerlore.extraction.kinds.reflector import Reflector
from layerlore.extraction.kinds.session_memory import SessionMemoryWriter
from layerlore.extraction.kinds.summaries import Summariser
from layerlore.extraction.kinds.titles import TitleWriter
from layerlore.memory.engine.engine import Engine
from layerlore.memory.settings.note_settings import LlmSettings


def make_kinds() -> list[JobKind]:
    """One instance of each kind, for a worker."""
    return [
        Observer(),
        Reflector(),
        Digester(),
        EntryExtractor(),
        ProfileWriter(),
        SessionMemoryWriter(),
        TitleWriter(),
        Summariser(),
    ]


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
