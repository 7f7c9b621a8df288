"""The rows of a resource beside messages and entries that may mention a subject, and the rows chosen to be
forgotten."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import bindparam, func, insert, select

from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.scopes import in_scope, of_scope, same_thread
from layerlore.storage.core.statements import any_of, parameters
from layerlore.storage.core.tables import (
    SCOPE,
    attempts,
    idempotency,
    observations,
    plans,
    runs,
    session_memories,
    threads,
    user_profiles,
)
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived.working_memory import version_there

# Kept beside answers to requests, and as long. A caller's key holds no control character, so that none is this.
_KEY = "\x01forget:"


@dataclass(frozen=True, slots=True)
class NoteCandidate:
    """An observation that is shown, or will be; of any thread of the scope."""

    thread_uid: str
    thread_id: str
    observation_id: int
    text: str


@dataclass(frozen=True, slots=True)
class WrittenDocument:
    """A working memory document as it is now: of a thread, or (empty ``thread_uid`` and id) the profile."""

    thread_uid: str
    thread_id: str
    content: str


PlaceKind = Literal["title", "metadata", "plan", "attempt", "run"]


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """A place that no request to forget changes, with its texts: those of a plan or a run are JSON in part."""

    kind: PlaceKind
    thread_id: str
    texts: tuple[str, ...]


_live = threads.c.deletion_uid.is_(None)
_OBSERVATIONS = (
    select(threads.c.thread_uid, threads.c.thread_id, observations.c.observation_id, observations.c.text)
    .join_from(observations, threads, same_thread(observations, threads))
    .where(in_scope(observations), any_of(observations.c.status, "statuses"), _live)
    .order_by(threads.c.thread_uid, observations.c.observation_id)
)
# A version whose messages are deleted is not the document, however new it is.
_later = session_memories.alias("later")
_newest = (
    select(func.max(_later.c.version))
    .where(same_thread(_later, session_memories), version_there(_later))
    .correlate(session_memories)
).scalar_subquery()
_DOCUMENTS = (
    select(threads.c.thread_uid, threads.c.thread_id, session_memories.c.content)
    .join_from(session_memories, threads, same_thread(session_memories, threads))
    .where(in_scope(session_memories), session_memories.c.version == _newest, _live)
    .order_by(threads.c.thread_uid)
)
_PROFILE = (
    select(user_profiles.c.content)
    .where(in_scope(user_profiles), version_there(user_profiles))
    .order_by(user_profiles.c.version.desc())
    .limit(1)
)
_NAMED = (
    select(threads.c.thread_id, threads.c.title, threads.c.metadata)
    .where(in_scope(threads), _live)
    .order_by(threads.c.updated_at.desc(), threads.c.thread_uid)
    .limit(bindparam("most"))
)
_earlier = plans.alias("earlier")
_newest_revision = (
    select(func.max(_earlier.c.revision)).where(same_thread(_earlier, plans)).correlate(plans).scalar_subquery()
)
_PLANS = (
    select(threads.c.thread_id, plans.c.plan)
    .join_from(plans, threads, same_thread(plans, threads))
    .where(in_scope(plans), plans.c.revision == _newest_revision, _live)
    .order_by(plans.c.created_at.desc(), threads.c.thread_uid)
    .limit(bindparam("most"))
)
_ATTEMPTS = (
    select(
        threads.c.thread_id,
        *(attempts.c[name] for name in ("task_key", "action", "error", "diagnosis", "fix_applied")),
    )
    .join_from(attempts, threads, same_thread(attempts, threads))
    .where(in_scope(attempts), _live)
    .order_by(attempts.c.created_at.desc(), threads.c.thread_uid, attempts.c.attempt.desc())
    .limit(bindparam("most"))
)
_RUNS = (
    select(threads.c.thread_id, *(runs.c[name] for name in ("reason", "output", "metadata", "state", "pending")))
    .join_from(runs, threads, same_thread(runs, threads))
    .where(in_scope(runs), _live)
    .order_by(runs.c.updated_at.desc(), runs.c.run_id.desc())
    .limit(bindparam("most"))
)
_KEEP = insert(idempotency).values(**parameters(*SCOPE, "key", "answer", "created_at"), body_hmac="")
_FIND = select(idempotency.c.answer).where(in_scope(idempotency), idempotency.c.key == bindparam("key"))


async def list_notes(tx: Tx, scope: Scope) -> list[NoteCandidate]:
    """The observations of the scope that are active, or noted ahead."""
    return [
        NoteCandidate(*row) for row in await tx.all(_OBSERVATIONS, **of_scope(scope), statuses=["active", "buffered"])
    ]


async def list_documents(tx: Tx, scope: Scope) -> list[WrittenDocument]:
    """The documents of the scope that are not empty: the profile, then those of threads."""
    profile = await tx.scalar(_PROFILE, **of_scope(scope))
    if profile is None:
        found = []
    else:
        found = [WrittenDocument("", "", profile)]
    found += [WrittenDocument(*row) for row in await tx.all(_DOCUMENTS, **of_scope(scope))]
    return [each for each in found if each.content]


async def list_kept_places(tx: Tx, scope: Scope, *, most: int) -> list[KeptPlace]:
    """The titles and metadata of the scope's conversations, their plans as they are now, attempts and runs: at most
    ``most`` of each kind, the newest."""
    of = {**of_scope(scope), "most": most}
    found: list[KeptPlace] = []
    for thread_id, title, metadata in await tx.all(_NAMED, **of):
        found.append(KeptPlace("title", thread_id, (title or "",)))
        found.append(KeptPlace("metadata", thread_id, (metadata,)))
    kinds: tuple[tuple[PlaceKind, Any], ...] = (("plan", _PLANS), ("attempt", _ATTEMPTS), ("run", _RUNS))
    for kind, statement in kinds:
        for thread_id, *texts in await tx.all(statement, **of):
            found.append(KeptPlace(kind, thread_id, tuple(text for text in texts if text)))
    return found


async def keep_chosen(tx: Tx, scope: Scope, token: str, chosen: Json, *, now: int) -> None:
    """Keep what a token names (places and fingerprints, no text), for as long as answers to requests are stored."""
    await tx.run(_KEEP, **of_scope(scope), key=_KEY + token, answer=to_json(chosen), created_at=now)


async def chosen_by(tx: Tx, scope: Scope, token: str) -> Json | None:
    """The choice that the token names; None for a token that is unknown, or too old."""
    stored = await tx.scalar(_FIND, **of_scope(scope), key=_KEY + token)
    chosen: Json | None
    if stored is None:
        chosen = None
    else:
        chosen = json.loads(stored)
    return chosen
