"""Any calls in any order move a run as the model says and no other way; any state comes back to the byte."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layerlore.storage.core.errors import Conflict, LayerloreError, NotFound
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json
from layerlore.storage.core.transaction import Database

from ..building import examples, new_scope, rows
from ..running import Clock, Runs

pytestmark = pytest.mark.anyio

ENDINGS = ("completed", "failed", "cancelled")


@dataclass
class Model:
    """One run as it must be; ``status`` is empty while there is none. Claims are numbers from 1; 0 is none."""

    status: str = ""
    state: int | None = 0
    newest: int = 0
    until: int = 0
    expires_at: int | None = None
    given: list[str] = field(default_factory=lambda: [""])

    def claimed(self, now: int) -> bool:
        return self.status == "running" and self.until > now

    def expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now and not self.claimed(now)

    def suspend(self, now: int, claim: int, state: int, ttl: int | None) -> type[LayerloreError] | bool:
        """Whether it changes anything, or the error."""
        if not self.status:
            if claim:
                return NotFound
        elif self.status == "suspended":
            repeated = claim in (0, self.newest) and state == self.state
            return False if repeated and not self.expired(now) else Conflict
        elif self.status != "running" or claim == 0 or claim != self.newest:
            return Conflict
        self.status, self.state = "suspended", state
        self.expires_at = None if ttl is None else now + ttl * 1000
        return True

    def start(self, now: int, seconds: int) -> type[LayerloreError] | bool:
        if self.status:
            return Conflict
        self.status, self.state, self.expires_at = "running", None, None
        self.newest, self.until = len(self.given), now + seconds * 1000
        return True

    def update(self, now: int, claim: int, state: int | None, seconds: int) -> type[LayerloreError] | bool:
        if not self.status:
            return NotFound
        if claim == 0 or claim != self.newest or self.status not in ("running", "cancelled"):
            return Conflict
        if self.status == "running":
            self.state = self.state if state is None else state
            self.until = now + seconds * 1000
        return True

    def cancel(self, now: int) -> type[LayerloreError] | bool:
        if not self.status:
            return NotFound
        if self.status == "cancelled":
            return False
        if self.status in ENDINGS or self.expired(now):
            return Conflict
        self.status, self.expires_at = "cancelled", None
        return True

    def resume(self, now: int, seconds: int) -> type[LayerloreError] | bool:
        if not self.status:
            return NotFound
        if self.status in ENDINGS or self.claimed(now) or self.expired(now):
            return Conflict
        self.status, self.newest, self.until = "running", len(self.given), now + seconds * 1000
        return True

    def complete(self, claim: int, ending: str) -> type[LayerloreError] | bool:
        if not self.status:
            return NotFound
        holder = claim != 0 and claim == self.newest
        if self.status == ending and holder:
            return False
        if self.status != "running" or not holder:
            return Conflict
        self.status, self.expires_at = ending, None
        return True

    def expire(self, now: int) -> None:
        if self.status and self.expired(now):
            self.status, self.newest, self.expires_at = "", 0, None


times = st.sampled_from([1, 60, 3600])
claims = st.integers(0, 5)
steps = st.lists(
    st.tuples(st.just("suspend"), claims, st.integers(0, 2), st.none() | times)
    | st.tuples(st.just("resume"), times)
    | st.tuples(st.just("complete"), st.integers(1, 5), st.sampled_from(ENDINGS))
    | st.tuples(st.just("start"), times)
    | st.tuples(st.just("update"), st.integers(1, 5), st.none() | st.integers(0, 2), times)
    | st.tuples(st.just("cancel"))
    | st.tuples(st.just("wait"), st.sampled_from([999, 1000, 60_000, 3_600_000]))
    | st.tuples(st.just("expire")),
    max_size=14,
)


async def outcome(call: Any) -> Any:
    try:
        return await call
    except LayerloreError as error:
        return type(error)


async def take(runs: Runs, model: Model, step: tuple[Any, ...]) -> None:
    """Do one step in both, and compare what they say."""
    kind, *rest = step
    now = runs.clock.now
    if kind == "wait":
        runs.clock.now += rest[0]
        return
    if kind == "expire":
        await runs.expire()
        model.expire(now)
        return
    if kind == "suspend":
        claim = min(rest[0], len(model.given) - 1)
        expected = model.suspend(now, claim, rest[1], rest[2])
        found = await outcome(runs.suspend("r", rest[1], claim=model.given[claim], ttl_seconds=rest[2]))
    elif kind == "update":
        claim = min(rest[0], len(model.given) - 1)
        expected = model.update(now, claim, *rest[1:])
        state = {} if rest[1] is None else {"state": rest[1]}
        found = await outcome(runs.update("r", model.given[claim] or "0.never-given", seconds=rest[2], **state))
        assert expected is not True or found["status"] == model.status
    elif kind == "cancel":
        expected = model.cancel(now)
        found = await outcome(runs.cancel("r"))
    elif kind in ("start", "resume"):
        expected = model.start(now, rest[0]) if kind == "start" else model.resume(now, rest[0])
        taking = runs.start if kind == "start" else runs.resume
        found = await outcome(taking("r", seconds=rest[0]))
        if expected is True:
            assert kind == "start" or found.get("state") == model.state
            assert found["claim"] not in model.given
            model.given.append(found["claim"])
    else:
        claim = min(rest[0], len(model.given) - 1)
        expected = model.complete(claim, rest[1])
        found = await outcome(runs.complete("r", model.given[claim] or "0.never-given", rest[1]))
    assert (found if isinstance(expected, type) else "unchanged" not in found) == expected, (step, found)


@examples(60)
@given(taken=steps)
async def test_a_run_moves_as_the_model_says_and_keeps_the_state_that_was_stored_last(
    database: Database, taken: list[tuple[Any, ...]]
) -> None:
    runs, model = Runs(database, Clock(), new_scope()), Model()
    for step in taken:
        await take(runs, model, step)
        found = await database.read_installation(
            rows,
            "SELECT status, state FROM runs WHERE resource_id = :resource",
            resource=runs.scope.resource_id,
        )
        kept = None if model.status in ENDINGS or model.state is None else str(model.state)
        assert list(found) == ([(model.status, kept)] if model.status else [])


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))  # NUL, too
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.just(10**400)
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
MESSAGES: Json = {
    "messageList": {
        "messages": [
            {
                "id": "m2",
                "role": "assistant",
                "content": [{"type": "text", "text": "sk-ant-api03-" + "aB3dE5fG7hI9" * 5}],
            },
            {"id": "m1", "role": "user", "content": "\x00 é e\u0301 \U0001f9ff"},
        ],
        "historyIds": ["m3", "m1"],
        "inputIds": [],
        "responseIds": ["m2"],
    },
    "usage": {"promptTokens": 1, "cost": 0.1, "ratio": 1.0, "zero": -0.0, "tiny": 5e-324, "large": 2**80},
    "zebra": None,
    "apple": {"b": 1, "a": 2},
}


@examples(30)
@given(state=ANYTHING, payload=ANYTHING, data=ANYTHING.filter(lambda value: not isinstance(value, str)))
@example(state=MESSAGES, payload={"city": "Lima", "by": ["sea", None]}, data={"token": "ghp_" + "a1B2" * 9})
@example(state="[1]", payload="{}", data=None)
async def test_state_pending_calls_and_data_come_back_to_the_byte(
    database: Database, state: Any, payload: Any, data: Any
) -> None:
    runs = Runs(database, scope=new_scope())
    calls = [{"tool_call_id": "c", "suspend_payload": payload}]
    await runs.suspend("r", state, pending_tool_calls=calls)
    resumed = await runs.resume("r", data, seconds=1)
    assert to_json(resumed["state"]) == to_json(state)
    assert to_json(resumed["pending_tool_calls"]) == to_json(calls)
    assert [to_json(each["data"]) for each in resumed["resumed"]] == [to_json(data)]
    await runs.suspend("r", [state], claim=resumed["claim"])
    (stored,) = await database.read_installation(
        rows, "SELECT state FROM runs WHERE resource_id = :resource", resource=runs.scope.resource_id
    )
    assert stored[0] == to_json([state])
    assert json.loads(stored[0]) == [state]
