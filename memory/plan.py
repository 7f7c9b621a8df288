"""A thread's plan, as a caller makes, changes and reads it (n8n's plan tool)."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from layerlore.memory import plan_rules
from layerlore.memory.acceptance import check_json, json_bytes, load_json, shown
from layerlore.memory.ages import iso
from layerlore.memory.engine import Engine, Sent
from layerlore.storage import events, plans
from layerlore.storage.errors import InvalidInput, LimitExceeded, NotFound
from layerlore.storage.events import NewEvent
from layerlore.storage.plans import Kept, Revision
from layerlore.storage.records import Json, Scope
from layerlore.storage.transaction import Tx

Rule = Callable[[Json | None], Json]

_LARGEST = 2**63 - 1


async def create(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    raw: Any,
    *,
    phases: Sequence[str],
    expected_revision: int | None,
    sent: Sent,
) -> Json:
    """Make a plan; one that is open is replaced, and stays in the history. See plan_rules for what is allowed.

    Returns what ``review`` returns, and in ``change`` what was done. Raises InvalidInput, LimitExceeded, Conflict.
    """
    given, masked = _entered(engine, raw)
    made = plan_rules.created(given, phases)
    return await _write(engine, scope, thread_id, "create", given, lambda _: made, masked, expected_revision, sent)


async def update(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    raw: Any,
    *,
    phases: Sequence[str],
    expected_revision: int | None,
    sent: Sent,
) -> Json:
    """Change the open plan by a patch, or to another whole plan. One that changes nothing makes no new revision.

    Returns the same. Raises InvalidInput, LimitExceeded, Conflict, NotFound when there is no plan yet.
    """
    given, masked = _entered(engine, raw)

    def rule(current: Json | None) -> Json:
        return plan_rules.updated(current, given, phases)

    return await _write(engine, scope, thread_id, "update", given, rule, masked, expected_revision, sent)


def _entered(engine: Engine, raw: Any) -> tuple[Json, int]:
    """What was sent as a plan, an object or JSON text of one: checked as JSON, and its secrets masked."""
    given = raw
    if isinstance(raw, str):
        try:
            given = load_json(raw, "plan")
        except ValueError as error:
            raise InvalidInput(f"plan: a string must hold a JSON object ({error})") from None
    if given is None:
        raise InvalidInput('plan: needed to create or update, as {"goal": "...", "steps": [{"description": "..."}]}')
    if not isinstance(given, dict):
        raise InvalidInput(f"plan: must be an object with goal and steps, not {shown(given)}")
    check_json(given, "plan", depth=engine.limits.json_depth)
    size = json_bytes(given)
    if size > plan_rules.MOST_BYTES:
        raise LimitExceeded(f"plan: {size:,} bytes of JSON; at most {plan_rules.MOST_BYTES:,} are allowed")
    return engine.masked(given)


async def _write(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    action: str,
    given: Json,
    rule: Rule,
    masked: int,
    expected_revision: int | None,
    sent: Sent,
) -> Json:
    if expected_revision is not None and not 0 <= expected_revision <= _LARGEST:
        raise InvalidInput(f"expected_revision: 0 (there is no plan yet) to {_LARGEST} are allowed, or leave it out")
    now, new_uid = engine.now(), engine.new_id()

    async def write(tx: Tx) -> Json:
        done = await plans.change(
            tx,
            scope,
            thread_id,
            rule,
            expected_revision=expected_revision,
            actor=sent.origin.actor,
            new_uid=new_uid,
            now=now,
        )
        before, after = done.before, done.after
        replaced = before.revision if before and action == "create" and before is not after else None
        told = {"revision": after.revision, **({"replaced": replaced} if replaced else {})}
        if before is not after:
            happened = NewEvent("plan_created" if action == "create" else "plan_updated", told)
            await events.record(tx, scope, done.thread, [happened], origin=sent.origin, now=now)
        dropped = 0 if before is None or replaced else len(_ids(before) - _ids(after))
        return {
            "thread_id": thread_id,
            "done": "nothing" if before is after else action + "d",
            **told,
            **({"dropped_steps": dropped} if dropped else {}),
            **({"masked": masked} if masked else {}),
        }

    done = await engine.write(scope, sent, [action, given, expected_revision], now, write)
    # Of a request that is sent again to a new process, the thread that the first one meant.
    meant = done.pop("thread_id")
    kept = None
    with contextlib.suppress(NotFound):  # the thread was deleted since the first of the repeated requests
        kept = await engine.database.read(plans.kept, scope, meant, [done["replaced"]] if "replaced" in done else [])
    was = kept.asked.get(done["replaced"]) if kept and "replaced" in done else None
    return {**_answer(meant, kept), "change": {**done, **({"replaced_goal": was.plan["goal"]} if was else {})}}


def _ids(revision: Revision) -> set[str]:
    return {step["id"] for step in revision.plan["steps"]}


async def review(engine: Engine, scope: Scope, thread_id: str, *, revision: int | None = None) -> Json:
    """The open plan, or one of the last revisions: ``thread_id``, ``revision``, ``updated_at``, ``plan`` (null when
    there is none yet), ``oldest_revision`` (the oldest that can be read).

    An unknown thread has none yet. Raises NotFound for a revision that is not kept, InvalidInput.
    """
    if revision is not None and not 1 <= revision <= _LARGEST:
        raise InvalidInput(f"revision: 1 to {_LARGEST} are allowed")
    kept = None
    with contextlib.suppress(NotFound):
        kept = await engine.database.read(plans.kept, scope, thread_id, [] if revision is None else [revision])
    if revision is None:
        return _answer(thread_id, kept)
    if kept is None or revision not in kept.asked:
        there = f"{kept.oldest} to {kept.newest.revision} are kept" if kept else "there is no plan yet"
        raise NotFound(f"revision: thread {thread_id!r} has no plan of revision {revision}; {there}")
    return _answer(thread_id, Kept(kept.asked[revision], kept.oldest, {}))


async def current(engine: Engine, scope: Scope, thread_id: str) -> Json | None:
    """The open plan as ``review`` gives it; None when there is none."""
    found = await review(engine, scope, thread_id)
    return found if found["plan"] else None


def _answer(thread_id: str, kept: Kept | None) -> Json:
    if kept is None:
        return {"thread_id": thread_id, "plan": None}
    return {
        "thread_id": thread_id,
        "revision": kept.newest.revision,
        "updated_at": iso(kept.newest.created_at),
        "plan": {key: value for key, value in kept.newest.plan.items() if key != "last_id"},
        "oldest_revision": kept.oldest,
    }
