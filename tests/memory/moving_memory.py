"""Two memories for the tests of moving, a random life in one of them, and what an export of it says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from layerlore.memory.documents import working_memory
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.entries.entry_curation import mark_entry
from layerlore.memory.entries.remember_requests import RememberRequest, remember
from layerlore.memory.messages import addition
from layerlore.memory.messages.threads import update_thread
from layerlore.memory.moving.exports import write_lines
from layerlore.memory.moving.imports import Import
from layerlore.memory.moving.line_forms import ImportReport, NumberedLine
from layerlore.memory.removal import deletion, forget_requests
from layerlore.memory.rules.validation import Limits
from layerlore.memory.secrets.redaction import Redactor
from layerlore.memory.work import attempts, plan, runs, steps
from layerlore.memory.work.runs import Suspension
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import ROLES, Json, Origin, Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.derived import observations, session_notes
from layerlore.storage.derived import working_memory as documents
from layerlore.storage.derived.observations import Cursor, NewObservation
from layerlore.storage.derived.session_notes import NewNote, Summary
from layerlore.storage.derived.working_memory import DocumentSource
from layerlore.storage.messages import message_pages
from layerlore.storage.moving.moved_threads import Mode
from layerlore.storage.threads import threads

from .entry_memory import COUNTER

NOW = 1_760_000_000_000
SENT = WriteRequest(Origin("test", "tool"))


@dataclass
class Clock:
    now: int = NOW
    ids: int = 0

    def tick(self) -> int:
        self.now += 1_000
        return self.now

    def new_id(self) -> str:
        self.ids += 1
        return f"00000000-0000-7000-8000-{self.ids:012}"


def make_engine(database: Database, clock: Clock, **given: Any) -> Engine:
    return Engine(
        database=database,
        tokens=COUNTER,
        redactor=Redactor(b"k" * 32),
        hmac_key=b"k" * 32,
        **{"limits": Limits(), "redaction": "all", "deleted_days": 30, **given},
        now=clock.tick,
        new_id=clock.new_id,
    )


async def export_lines(engine: Engine, scope: Scope) -> list[Json]:
    """An export, without its header, which says when it was made."""
    found = [line async for some in write_lines(engine, [scope], "test") for line in some]
    assert found[0]["record"] == "header"
    return found[1:]


def in_order(lines: Sequence[Json]) -> list[str]:
    """The lines as a set: where ids order rows, two databases do not agree."""
    return sorted(repr(sorted(line.items())) for line in lines)


async def bring(
    engine: Engine, scope: Scope, lines: Sequence[Json], mode: Mode = "merge", *, upto: int | None = None, **given: Any
) -> ImportReport:
    """Import lines, a few at a time; only the first ``upto``, if that is given, as if the import was killed there."""
    taking = Import(engine, lambda named: scope, mode, SENT, **given)
    numbered = [NumberedLine(number, line) for number, line in enumerate(lines, 1)]
    for at in range(0, len(numbered[:upto]), 3):
        await taking.take(numbered[:upto][at : at + 3])
    await taking.settle()
    return taking.report if upto is not None else await taking.finish()


class Life:
    """What clients and background work do to a memory; each act is tried, and may be refused."""

    def __init__(self, engine: Engine, scope: Scope) -> None:
        self.engine = engine
        self.scope = scope
        self.said = 0

    async def act(self, name: str, thread: str, number: int) -> None:
        acts: dict[str, Callable[[str, int], Any]] = {
            "say": self._say,
            "call": self._call,
            "delete": self._delete,
            "delete_thread": lambda thread, _: deletion.delete_thread(self.engine, self.scope, thread, sent=SENT),
            "remember": self._remember,
            "prove": self._prove,
            "forget": self._forget,
            "mark": self._mark,
            "plan": self._plan,
            "document": lambda thread, number: self._document("thread", thread, number),
            "profile": lambda thread, number: self._document("resource", "", number),
            "clear": self._clear,
            "run": self._run,
            "steps": self._steps,
            "attempt": self._attempt,
            "describe": self._describe,
            "note": lambda thread, number: self.engine.database.write(self._note, self.scope, thread, number),
        }
        try:
            await acts[name](thread, number)
        except LayerloreError:
            return

    async def _say(self, thread: str, number: int) -> None:
        texts = [f"the walnut tea number {number} is best", "noted: walnut", f"the key is ghp_{'a1B2' * 9}"]
        said = [{"role": "user" if at != 1 else "assistant", "content": texts[at]} for at in range(1 + number % 3)]
        await self._add(
            thread, [{**each, "metadata": {"n": number}, "created_at": NOW - 9_000 + number} for each in said]
        )

    async def _call(self, thread: str, number: int) -> None:
        picture = {"type": "image", "caption": "a weather map of Lima"}
        call = {"type": "tool_call", "id": f"c{number}", "name": "weather", "arguments": {"city": "Lima"}}
        result = {"type": "tool_result", "tool_call_id": f"c{number}", "name": "weather", "result": "sunny"}
        await self._add(
            thread,
            [
                {"role": "assistant", "parts": [picture, call]},
                {"role": "tool", "parts": [{**result, "is_error": False}]},
            ],
        )

    async def _add(self, thread: str, said: list[Json]) -> None:
        await addition.add_messages(self.engine, self.scope, thread, said, replace=False, sent=SENT)

    async def _ids(self, thread: str) -> list[str]:
        page = await self.engine.database.read(message_pages.page, self.scope, thread, roles=ROLES, limit=99, offset=0)
        return [message.id for message in page.messages]

    async def _delete(self, thread: str, number: int) -> None:
        ids = await self._ids(thread)
        some = [ids[number % len(ids)]] if ids else []
        await deletion.delete_messages(self.engine, self.scope, thread, "ids", ids=some, roles=ROLES, sent=SENT)

    async def _remember(self, thread: str, number: int) -> None:
        request = RememberRequest(
            f"Walnut tea {number} is kept in the cellar.", kind="fact" if number % 2 else "correction"
        )
        await remember(self.engine, self.scope, "", request, sent=SENT)

    async def _prove(self, thread: str, number: int) -> None:
        said = f"The walnut tea number {number} is best."
        request = RememberRequest(said, said.lower().removesuffix("."), "user_assertion", "preference")
        await remember(self.engine, self.scope, thread, request, sent=SENT)

    async def _forget(self, thread: str, number: int) -> None:
        lines = await export_lines(self.engine, self.scope)
        ids = [line["entry_id"] for line in lines if line["record"] == "entry"]
        await forget_requests.forget(
            self.engine, self.scope, ids=ids[: number % 2 + 1], query="", confirm="", sent=SENT
        )

    async def _mark(self, thread: str, number: int) -> None:
        ids = [line["entry_id"] for line in await export_lines(self.engine, self.scope) if line["record"] == "entry"]
        marks: dict[str, Any] = {"pinned": True, "wrong": None} if number % 3 else {"pinned": None, "wrong": number > 3}
        for entry_id in ids[: number % 2 + 1]:
            await mark_entry(self.engine, self.scope, entry_id, **marks, sent=SENT)

    async def _plan(self, thread: str, number: int) -> None:
        made = {"goal": f"brew {number}", "steps": [{"description": "boil"}, {"description": "pour"}]}
        await plan.create_plan(
            self.engine, self.scope, thread, made, phases=("doing",), expected_revision=None, sent=SENT
        )

    async def _document(self, of: Any, thread: str, number: int) -> None:
        await working_memory.update_document(
            self.engine, self.scope, of, thread, f"tea {number}", mode="append", expected_version=None, sent=SENT
        )

    async def _clear(self, thread: str, number: int) -> None:
        of: Any = "thread" if number % 2 else "resource"
        await working_memory.clear_document(
            self.engine, self.scope, of, thread, expected_version=None, may_be_new=True, sent=SENT
        )

    async def _run(self, thread: str, number: int) -> None:
        request = Suspension(f"r{number}", {"state": number, "nul": "\0"})
        await runs.suspend_run(self.engine, self.scope, thread, request, sent=SENT)

    async def _steps(self, thread: str, number: int) -> None:
        ids = await self._ids(thread)
        mine = {"type": "text", "operation_id": "op", "content": "thinking"}
        seen = {
            "type": "TurnEnd",
            "operation_id": "op",
            "payload": {"n": number},
            **({"message_id": ids[-1]} if ids else {}),
        }
        await steps.record_steps(self.engine, self.scope, thread, [mine, seen], sent=SENT)

    async def _attempt(self, thread: str, number: int) -> None:
        await attempts.log_attempt(
            self.engine,
            self.scope,
            thread,
            task_key=f"k{number % 2}",
            action="stir",
            result="ok",
            error="",
            diagnosis="",
            fix_applied="",
            sent=SENT,
        )

    async def _describe(self, thread: str, number: int) -> None:
        await update_thread(
            self.engine, self.scope, thread, title=f"Tea {number}", metadata={"n": number}, window="", sent=SENT
        )

    async def _note(self, tx: Tx, scope: Scope, thread_id: str, number: int) -> None:
        """What background work makes of a thread: notes, a summary, what waits, and a profile."""
        thread = await threads.lock(tx, scope, thread_id)
        uid, last, now = thread.thread_uid, thread.next_seq - 1, self.engine.now()
        if last <= thread.buffered_seq:
            return
        first = thread.buffered_seq + 1
        note = NewObservation("info", f"likes tea {number}", now, None, first, last, 3, "user", last)
        by = {"model": "m", "prompt": "p", "now": now}
        await observations.add(tx, scope, uid, [note], status="buffered", **by)
        await observations.buffer(tx, scope, thread, Cursor(last), current_task="tea", next_step=None)
        held = await threads.lock_uid(tx, scope, uid)
        if number % 2 and held is not None:
            await observations.activate(tx, scope, held, keep=0)
        await session_notes.add(tx, scope, uid, [NewNote("state", "tea")], from_seq=1, to_seq=last, **by)
        await session_notes.add_summary(tx, scope, uid, Summary(last, 1, "about tea", 2, "m", "p", now))
        await threads.move_cursor(tx, scope, uid, "entries_seq", last)
        made = await documents.change(
            tx, scope, "", lambda *_: f"made {number}", how="replace", expected_version=None,
            origin=Origin("profile", ""), new_uid="", now=now,
        )  # fmt: skip
        if made.after is not None and made.after is not made.before:
            await documents.record_sources(tx, scope, "", made.after.version, [DocumentSource(uid, 1, last)])
