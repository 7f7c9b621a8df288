"""The background work of a server: erasing, the index, and jobs.

It is loaded after the first calls, which would otherwise wait for it on a busy machine.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio

from layerlore.memory.engine.engine import Engine
from layerlore.memory.recall.vector_writer import VectorWriter, rebuild_old
from layerlore.memory.removal.deletion import erase_expired, retain
from layerlore.memory.removal.erasure import finish_erasures, rewrite_if_owed
from layerlore.memory.work.runs import expire_runs
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.process.interpreter import freeze_objects
from layerlore.server.process.late_imports import load_for
from layerlore.server.runtime.runtime import Runtime
from layerlore.server.tools.toolsets import DECLARATIONS
from layerlore.storage.core import metrics
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.installation import read_each
from layerlore.storage.core.records import Tenant
from layerlore.storage.jobs.backlog import JobCount, add_counts, count_oldest
from layerlore.storage.jobs.job_rows import KINDS, State

log = logging.getLogger(__name__)

ERASE_EVERY_SECONDS = 60.0
RETAIN_EVERY_SECONDS = 3600.0
LOOK_EVERY_SECONDS = 5.0
REPORT_EVERY_SECONDS = 15.0
MOST_COUNTED = 10_000
OURS = Tenant(LOCAL_TENANT)
OPEN_STATES: tuple[State, ...] = ("due", "running", "later")
CHECK_SECONDS = 5.0
LOADED_SECONDS = 10.0
"""By then a server has loaded everything, including an embedder."""


async def keep_up(runtime: Runtime) -> None:
    """Do all background work, until cancelled. Raises nothing."""
    engine = runtime.engine
    # The embedder loads in a thread of its own.
    if engine.embedding is not None:
        engine.embedding.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_check_database, engine)
        if metrics.JOBS.is_kept:
            tasks.start_soon(_report_jobs, engine)
        for of_cluster in engine.for_clusters():
            tasks.start_soon(_look_at_database, of_cluster)
            failure = "what was deleted long ago could not be erased"
            tasks.start_soon(_repeat, ERASE_EVERY_SECONDS, _erase, of_cluster, failure)
            # Without such rules the search for old messages would find nothing.
            if engine.retention.deletes:
                failure = "old messages could not be removed"
                tasks.start_soon(_repeat, RETAIN_EVERY_SECONDS, _retain, of_cluster, failure)
            if runtime.settings.memory != "off":
                tasks.start_soon(_keep_index, of_cluster)
                tasks.start_soon(_do_jobs, runtime, of_cluster)
        # Load the modules of all tools now, so that no later call waits for an import.
        for tool in DECLARATIONS:
            await load_for(tool.function)
        # Everything loaded by now stays, so the garbage collector need not look at it again.
        await anyio.sleep(LOADED_SECONDS)
        freeze_objects()


async def _look_at_database(engine: Engine) -> None:
    """Check again and again that the database can be written, so that the log soon reports a failure."""
    while True:
        await engine.database.health.ask()
        await anyio.sleep(LOOK_EVERY_SECONDS)


async def _check_database(engine: Engine) -> None:
    """Check the file for damage, so that the log reports it at the start."""
    try:
        await engine.database.check_quickly(CHECK_SECONDS)
    except LayerloreError as error:
        log.warning("%s", error)


async def _report_jobs(engine: Engine) -> None:
    """Update the metrics of background jobs. At most MOST_COUNTED jobs are counted, since a full count could take long."""
    while True:
        try:
            now = engine.now()
            counts = await read_each(engine.database, count_oldest, OURS, most=MOST_COUNTED, now=now)
            _set_job_levels(add_counts(counts.there), now)
        except LayerloreError as error:
            log.debug("background jobs are not counted: %s", error)
        except Exception:
            log.exception("background jobs could not be counted; it is tried again")
        await anyio.sleep(REPORT_EVERY_SECONDS)


def _set_job_levels(found: Sequence[JobCount], now: int) -> None:
    counts = {(each.kind, each.state): each.jobs for each in found}
    since = {each.kind: each.due_at for each in found if each.state == "due"}
    # Kinds without jobs are set as well, since a metric keeps its last value.
    for kind in KINDS:
        for state in OPEN_STATES:
            metrics.JOBS.set(counts.get((kind, state), 0), kind, state)
        metrics.JOB_OLDEST_SECONDS.set(max(0, now - since.get(kind, now)) / 1000, kind)


async def _do_jobs(runtime: Runtime, engine: Engine) -> None:
    worker = await runtime.worker_of(engine)
    await worker.run()


async def _keep_index(engine: Engine) -> None:
    """Keep the words and the vectors of stored texts up to date."""
    if engine.embedding is not None:
        # It begins with all texts without a vector, also those written meanwhile.
        await VectorWriter(engine, engine.embedding, engine.new_id()).run()
        return
    try:
        await rebuild_old(engine)
    except LayerloreError as error:
        log.warning("some messages are still indexed by older rules, until the next start: %s", error)
    except Exception:
        log.exception("some messages are still indexed by older rules, until the next start")


async def _repeat(seconds: float, work: Callable[[Engine], Awaitable[None]], engine: Engine, failure: str) -> None:
    """Do work on the engine again and again. ``failure``: the text for the log if it raises."""
    while True:
        try:
            await work(engine)
        except LayerloreError as error:
            log.warning("%s; it is tried again: %s", failure, error)
        except Exception:
            log.exception("%s; it is tried again", failure)
        await anyio.sleep(seconds)


async def _retain(engine: Engine) -> None:
    gone = await retain(engine)
    if gone:
        log.info("retention took %d messages away", gone)


async def _erase(engine: Engine) -> None:
    """Finish interrupted erasures, erase expired deletes and runs, and, on SQLite, the bytes that erased rows left in the
    file."""
    # Interrupted erasures come first, since erased data must not survive a crash.
    rows = await finish_erasures(engine)
    if rows:
        log.info("finished an erasure that was interrupted: %d rows", rows)
    erased = await erase_expired(engine)
    if erased:
        log.info("erased %d deletes for good", erased)
    expired = await expire_runs(engine)
    if expired:
        log.info("removed %d runs whose checkpoints had expired", expired)
    # Last, since the rows above leave their bytes in the file.
    await rewrite_if_owed(engine)
