"""A memory with something in it of every kind that a tool writes, each text with a word that nobody else has."""

import json
import re
from typing import Any

from layerlore.memory.engine.engine import Engine
from layerlore.server.tools.toolsets import OF_PAGES, list_writers
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.jobs import job_rows
from layerlore.storage.threads import threads

from .calling import Json
from .isolation_handles import Handles
from .isolation_world import Person, structures
from .sample_calls import MESSAGE, THREAD, sample_call

KEY = "layerlore/idempotency-key"
# What the sample calls name, as it is called here.
NAMES = {THREAD: "thread-ledger", MESSAGE: "message-thread-ledger-0"}
NOTED = {"observations": [], "nothing_to_note": True, "current_task": None, "next_step": None}


class Words:
    """Words that nothing else holds; each is given once."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.given: list[str] = []

    def __call__(self) -> str:
        self.given.append(f"zq{self._owner}{len(self.given)}canary")
        return self.given[-1]


class Filling:
    """Fills a person's memory, and keeps every call, with the handles of what was sent and answered."""

    def __init__(self, person: Person, words: Words, engine: Engine) -> None:
        self.person, self.words, self._engine = person, words, engine
        self.handles = Handles()
        self.calls: list[tuple[str, Json, Json]] = []
        self.refused: list[str] = []

    async def do(self, tool: str, /, *, key: str = "", **arguments: Any) -> Any:
        """A call that must succeed; its structure, or its text."""
        meta = {KEY: key} if key else {}
        answer = await self.person.call(tool, arguments, meta)
        assert not answer["error"], (tool, answer)
        self.calls.append((tool, arguments, meta))
        self.handles.collect(arguments)
        if key:
            self.handles.collect({"idempotency_key": key})
        found = list(structures(answer))
        self.handles.collect(found)
        return found[-1]

    async def everything(self) -> None:
        """Through every tool that writes, at least once."""
        for thread in ("thread-ledger", "thread-orchard"):
            await self._conversation(thread)
        await self._runs("thread-ledger")
        await self._entries()
        await self._jobs("thread-ledger")
        await self._deletes()
        called = {tool for tool, _, _ in self.calls}
        for tool in sorted(list_writers() - called - {each.name for each in OF_PAGES}):
            await self.do(tool, key=f"request-{tool}", **sample_call(tool, {**NAMES, "tea": self.words()}))
        await self._pages()

    async def _conversation(self, thread: str) -> None:
        of, here = self.words, {"thread_id": thread}
        said: list[Json] = [
            {"role": "user", "content": f"I keep {of()} in the cellar of {of()}.", "id": f"message-{thread}-{number}"}
            for number in range(2)
        ]
        call: Json = {"type": "tool_call", "id": f"toolcall-{thread}", "name": of(), "arguments": {of(): of()}}
        result = {"type": "tool_result", "tool_call_id": call["id"], "name": call["name"], "result": of()}
        said += [
            {"role": "assistant", "content": [{"type": "text", "text": of()}, call], "metadata": {of(): of()}},
            {"role": "tool", "content": [result]},
        ]
        await self.do("add_messages", messages=said, key=f"request-add-{thread}", **here)
        await self.do("update_thread", title=of(), metadata={of(): of()}, key=f"request-title-{thread}", **here)
        window = {"summary_prompt": of(), "predefined": [{"role": "user", "content": of()}]}
        await self.do("update_thread", window=window, **here)
        for _ in range(3):
            await self.do("update_working_memory", scope="resource", content=of())
            await self.do("update_working_memory", scope="thread", content=of(), **here)
        await self.do("clear_working_memory", scope="thread", **here)
        await self.do("update_working_memory", scope="thread", content=of(), key=f"request-note-{thread}", **here)
        steps = [{"phase": "build", "description": of()}, {"phase": "build", "description": of()}]
        await self.do("plan", action="create", plan={"goal": of(), "steps": steps}, format="json", **here)
        await self.do("plan", action="update", plan={"goal": of()}, format="json", **here)
        told = {"action": of(), "result": of(), "error": of(), "diagnosis": of(), "fix_applied": of()}
        await self.do("log_attempt", task_key=f"task-{thread}", **told, **here)
        for number in range(3):
            step = {"type": "text", "operation_id": f"operation-{thread}", "content": f"{number} {of()}"}
            await self.do("record_steps", steps=[step, {"type": "TurnEnd", "payload": {of(): of()}}], **here)

    async def _runs(self, thread: str) -> None:
        of = self.words
        pending = [{"tool_call_id": f"pending-{thread}", "tool_name": of(), "suspended": True}]
        state: Json = {
            "workflow_id": "workflow-ledger",
            "reason": of(),
            "metadata": {of(): of()},
            "state": {of(): of()},
        }
        for run_id in ("run-waits", "run-taken", "run-ended"):
            await self.do("suspend_run", run_id=run_id, thread_id=thread, pending_tool_calls=pending, **state)
        await self.do("resume_run", run_id="run-taken", data={of(): of()}, lease_seconds=3600, key="request-resume")
        await self.do(
            "decide_run",
            run_id="run-waits",
            decisions=[{"decision": "deny", "data": {of(): of()}}],
            key="request-decide",
        )
        claim = (await self.do("start_run", run_id="run-started", thread_id=thread, key="request-start"))["claim"]
        steps = [{"type": "text", "content": of(), "sub_agent_name": of(), "model": "m", "usage": {"input_tokens": 1}}]
        told = {"state": {of(): of()}, "pending_tool_calls": pending, "steps": steps}
        await self.do("update_run", run_id="run-started", claim=claim, key="request-update", **told)
        await self.do("decide_run", run_id="run-started", decisions=[{"data": {of(): of()}}])
        await self.do("start_run", run_id="run-cancelled", parent_run_id="run-started", thread_id=thread)
        await self.do("cancel_run", run_id="run-cancelled", reason=of(), key="request-cancel")
        claim = (await self.do("resume_run", run_id="run-ended", data={of(): of()}))["claim"]
        await self.do("complete_run", run_id="run-ended", claim=claim, output={of(): of()}, key="request-complete")

    async def _entries(self) -> None:
        of = self.words
        for number in range(2):
            await self.do("remember", content=f"{of()} is kept {of()}.", key=f"request-remember-{number}")
        gone = (await self.do("remember", content=f"The {of()} is lost."))["id"]
        await self.do("forget", ids=[gone])
        await self.do("forget", query=of.given[-1])
        await self.do("forget", query=of.given[0], key="request-forget")
        await self.do("erase_memory")
        await self.do("erase_memory", thread_id="thread-orchard", key="request-erase")

    async def _jobs(self, thread: str) -> None:
        of = self.words
        talk = [
            {"role": "user", "content": f"Order {number} of {of()} was sent to the harbour. " * 12}
            for number in range(5)
        ]
        await self.do("add_messages", thread_id="thread-observed", messages=talk)
        while True:
            await self.ask_for("entries", thread)
            job = await self.do("next_memory_job", key="" if self.handles.of.get("job_id") else "request-job")
            if job["kind"] == "observe":
                seqs = [line["seq"] for line in job["material"]["messages"]]
                note = {"marker": "important", "text": f"Sent {of()}.", "from_seq": seqs[0], "to_seq": seqs[-1]}
                made = {**NOTED, "observations": [{**note, "refers_to": None, "details": []}], "nothing_to_note": False}
                await self.do("submit_memory_job", job_id=job["job_id"], result=made)
            elif "entries" in job["kind"].split("+"):
                whole = {"entries": []}
                result = whole if job["kind"] == "entries" else {"entries": whole}
                await self.do("submit_memory_job", job_id=job["job_id"], result=result, key="request-submit")
                break
        await self.ask_for("entries", "thread-orchard")
        await self.do("next_memory_job")  # and is still at it

    async def ask_for(self, kind: job_rows.Kind, thread: str) -> None:
        async def asked(tx: Tx, scope: Scope) -> None:
            found, now = await threads.find(tx, scope, thread), self._engine.now()
            await job_rows.request(tx, scope, found.thread_uid, kind, found.next_seq - 1, due_at=now, now=now)

        await self._engine.database.write(asked, self.person.scope)

    async def _deletes(self) -> None:
        of = self.words
        told = [{"role": "user", "content": of(), "id": f"message-gone-{number}"} for number in range(2)]
        for thread in ("thread-gone", "thread-halved"):
            await self.do(
                "add_messages", thread_id=thread, messages=[{**each, "id": f"{each['id']}-{thread}"} for each in told]
            )
        await self.do("delete_messages", thread_id="thread-halved", which="ids", ids=["message-gone-0-thread-halved"])
        await self.do("delete_messages", thread_id="thread-halved", which="last_turn", key="request-delete")
        await self.do("delete_thread", thread_id="thread-gone", key="request-delete-thread")

    async def _pages(self) -> None:
        """What is listed, with the cursors of every list."""
        for thread in ("thread-ledger", "thread-orchard"):
            here = {"thread_id": thread}
            await self.do("get_messages", limit=2, **here)
            await self.do("list_steps", limit=1, **here)
            await self.do("list_events", limit=2, **here)
            await self.do("get_working_memory", format="json", **here)
            await self.do("plan", action="review", format="json", **here)
        for order in ("created_at", "updated_at", "title"):
            await self.do("list_threads", limit=1, order_by=order)
        await self.do("list_threads", limit=1, metadata={})
        await self.do("list_runs", limit=1)
        await self.do("list_events", scope="resource", limit=2)
        await self.do("recall_memory", query=self.words.given[0], format="json")
        for method, given in [("list", {}), *[("read", {"uri": uri}) for uri in await self.uris()]]:
            answer = await self.person.ask(method, given)
            self.handles.collect(answer)
            for text in re.findall(r'"text": ?("(?:[^"\\]|\\.)*")', json.dumps(answer)):
                inner = json.loads(text)
                if inner.startswith("{"):
                    self.handles.collect(json.loads(inner))

    async def uris(self) -> list[str]:
        answer = await self.person.ask("list", {})
        return [each["uri"] for each in answer["answer"]["resources"]]
