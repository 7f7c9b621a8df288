"""Clients of several replicas, as a process of their own: ``python -m benchmarks.histories.client OPTIONS_AS_JSON``."""

import json
import math
import random
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2

from benchmarks.histories.operations import Action, Operation, Outcome, write_operation
from benchmarks.load.wire import RETRY_DATA, RETRY_META
from benchmarks.noisy_caller import META, PROTOCOL

MESSAGES, DOCUMENT = "messages", "document"
STALE = "expected_version="
"""The beginning of the refusal to change a document that another client has changed."""
ENDING = "The server is shutting down and has cancelled the call."
_THREADS = 3
_TRIES = 4
_PAGE = 200
_CHOICES = ("add",) * 8 + ("read",) * 4 + ("find",) * 2 + ("count", "count all", "append", "append", "change", "look")


class Unanswered(Exception):
    """No answer, or one that asks for another try: the call may have been done."""


class Refused(Exception):
    """The server has refused the call, which has changed nothing."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a process of clients does. A thread takes ``per_thread`` operations of each client, then a new one follows."""

    name: str
    urls: list[str]
    file: str
    clients: int
    operations: int
    seed: int
    timeout: float
    per_thread: int = 60
    after: float = 0.0
    """Seconds between two operations of a client."""

    @property
    def stop(self) -> Path:
        """Once this file is there, the clients stop."""
        return Path(self.file).with_suffix(".stop")


class Replicas:
    """The servers as a client behind a balancer knows them: any may answer the next call."""

    def __init__(self, urls: Sequence[str], timeout: float, chance: random.Random) -> None:
        self._urls = urls
        self._chance = chance
        self._http = httpx2.AsyncClient(timeout=timeout)

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The structured answer. Raises Unanswered or Refused."""
        params = {"name": tool, "arguments": arguments, "_meta": META}
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": PROTOCOL,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        try:
            answer = await self._http.post(self._chance.choice(self._urls), json=body, headers=headers)
        except httpx2.TransportError as error:
            raise Unanswered(type(error).__name__) from error
        # A server that has to end in the middle of a call answers 500 or cancels it, which a balancer tries elsewhere.
        if answer.status_code in (429, 500, 502, 503) or ENDING in answer.text:
            raise Unanswered(f"HTTP {answer.status_code}")
        return _read_answer(answer)

    async def close(self) -> None:
        await self._http.aclose()


def _read_answer(answer: httpx2.Response) -> Any:
    if answer.status_code != 200:
        raise Refused(f"HTTP {answer.status_code}: {answer.text[:200]}")
    message = json.loads(answer.text.rpartition("data: ")[2])
    if error := message.get("error"):
        kind = Unanswered if RETRY_DATA in (error.get("data") or {}) else Refused
        raise kind(error["message"])
    result = message["result"]
    if result.get("isError"):
        text = result["content"][0]["text"]
        raise (Unanswered if RETRY_META in (result.get("_meta") or {}) else Refused)(text)
    return result["structuredContent"]


@dataclass(slots=True)
class Client:
    """Does one operation after another, and writes down each."""

    name: str
    replicas: Replicas
    plan: Plan
    chance: random.Random
    keep: Callable[[Operation], None]
    errors: list[str] = field(default_factory=list)
    """Refusals that no client may see while replicas come and go."""
    _acknowledged: list[str] = field(default_factory=list)

    async def work(self) -> None:
        for number in range(self.plan.operations):
            thread = f"{number // self.plan.per_thread}-{self.chance.randrange(_THREADS)}"
            if self.plan.stop.exists():
                break
            await self.act(self.chance.choice(_CHOICES), thread, f"{self.name}x{number}")
            await anyio.sleep(self.plan.after)

    async def act(self, choice: str, thread: str, name: str) -> None:
        match choice:
            case "add":
                await self._add(thread, [f"{name}x{at}" for at in range(self.chance.randint(1, 3))])
            case "read":
                await self._watch("read", f"{MESSAGES}/{thread}", lambda: self._read(thread))
            case "find" if self._acknowledged:
                # A message that is found many additions later proves less than the newest one.
                item = self.chance.choice(self._acknowledged[-5:])
                await self._watch("find", MESSAGES, lambda: self._find(item), (item,))
            case "count":
                await self._watch("count", f"{MESSAGES}/{thread}", lambda: self._count(thread))
            case "count all":
                await self._watch("count", MESSAGES, self._count_all)
            case "append":
                await self._write(thread, name, version=None)
            case "change":
                await self._change(thread, name)
            case "look":
                await self._watch("read", f"{DOCUMENT}/{thread}", lambda: self._look(thread))

    async def read_all(self, threads: Sequence[str]) -> None:
        """See every thread and document as it is in the end."""
        for thread in threads:
            for choice in ("read", "count", "look"):
                await self.act(choice, thread, "")
        await self.act("count all", "", "")

    async def _add(self, thread: str, items: list[str]) -> None:
        """Add messages; try again with the same key until a server has acknowledged them."""
        given_ids = self.chance.random() < 0.5
        messages = [
            {"role": "user", "content": f"note {item}", **({"id": item} if given_ids else {})} for item in items
        ]
        key = {"idempotency_key": uuid.uuid4().hex}

        async def add() -> tuple[int, ...]:
            stored = await self.replicas.call("add_messages", thread_id=thread, messages=messages, ids=True, **key)
            return tuple(message["seq"] for message in stored["messages"])

        if await self._put(f"{MESSAGES}/{thread}", tuple(items), add, tries=_TRIES) == "done":
            self._acknowledged.extend(items)

    async def _write(self, thread: str, line: str, version: int | None, before: Sequence[str] = ()) -> None:
        """Add a line to a document; with a version by writing the whole document."""
        expected = {"mode": "append"} if version is None else {"mode": "replace", "expected_version": version}

        async def write() -> tuple[int, ...]:
            content = "\n".join([*before, f"- {line}"])
            written = await self.replicas.call(
                "update_working_memory", thread_id=thread, scope="thread", content=content, **expected
            )
            return (written["version"],)

        await self._put(f"{DOCUMENT}/{thread}", (line,), write, tries=1)

    async def _change(self, thread: str, line: str) -> None:
        try:
            version, lines = await self._get_document(thread)
        except Unanswered:
            return
        except Refused as error:
            self.errors.append(str(error))
            return
        await self._write(thread, line, version=version, before=[f"- {each}" for each in lines])

    async def _put(self, place: str, items: tuple[str, ...], put: Any, *, tries: int) -> Outcome:
        began, positions = time.monotonic(), ()
        outcome: Outcome = "unsure"
        for _ in range(tries):
            try:
                positions = await put()
                outcome = "done"
                break
            except Unanswered:
                await anyio.sleep(0.1)
            except Refused as error:
                if is_stale(error):
                    outcome = "failed"
                else:
                    self.errors.append(str(error))
                break
        ended = time.monotonic()
        self._keep("add", place, began, ended, outcome, items, positions)
        return outcome

    async def _watch(self, action: Action, place: str, see: Any, items: tuple[str, ...] = ()) -> None:
        for _ in range(_TRIES):
            began = time.monotonic()
            try:
                seen = await see()
            except Unanswered:
                await anyio.sleep(0.1)
                continue
            except Refused as error:
                self.errors.append(str(error))
                return
            ended = time.monotonic()
            if action == "read":
                number, items = seen
            else:
                number = seen
            self._keep(action, place, began, ended, "done", items, number=number)
            return
        self._keep(action, place, began, math.inf, "unsure", items)

    def _keep(
        self,
        action: Action,
        place: str,
        began: float,
        ended: float,
        outcome: Outcome,
        items: tuple[str, ...] = (),
        positions: tuple[int, ...] = (),
        number: int = 0,
    ) -> None:
        self.keep(Operation(self.name, action, place, began, ended, outcome, items, positions, number))

    async def _read(self, thread: str) -> tuple[int, tuple[str, ...]]:
        items: list[str] = []
        following: dict[str, Any] | None = {"offset": 0}
        while following:
            page = await self.replicas.call(
                "get_messages", thread_id=thread, limit=_PAGE, detail="low", format="json", **following
            )
            items += [_item_of(message["text"]) for message in page["messages"]]
            following = page.get("next")
        return page["total"], tuple(items)

    async def _look(self, thread: str) -> tuple[int, tuple[str, ...]]:
        version, lines = await self._get_document(thread)
        return version, tuple(lines)

    async def _get_document(self, thread: str) -> tuple[int, list[str]]:
        document = await self.replicas.call("get_working_memory", thread_id=thread, scope="thread", format="json")
        return document["version"], [_item_of(line) for line in document["content"].splitlines() if line]

    async def _find(self, item: str) -> int:
        answer = await self.replicas.call("recall_memory", query=f"note {item}", limit=5, format="json")
        return int(any(_item_of(hit["text"]) == item for hit in answer["hits"]))

    async def _count(self, thread: str) -> int:
        listed = await self.replicas.call("list_threads", thread_id=thread)
        return sum(each["messages"] for each in listed["threads"])

    async def _count_all(self) -> int:
        status = await self.replicas.call("memory_status")
        number: int = status["counts"]["messages"]
        return number


def _item_of(text: str) -> str:
    return text.rpartition(" ")[2]


def is_stale(error: Exception) -> bool:
    return str(error).startswith(STALE)


async def work(plan: Plan) -> None:
    """Do the plan; write each operation to its file, and refusals in the end to one beside it."""
    chance = random.Random(f"{plan.name} {plan.seed}")
    replicas = Replicas(plan.urls, plan.timeout, chance)
    # One line at a time, so that others can see how far it is.
    with Path(plan.file).open("w", encoding="utf-8", buffering=1) as file:

        def keep(operation: Operation) -> None:
            write_operation(file, operation)

        clients = [Client(f"{plan.name}{number}", replicas, plan, chance, keep) for number in range(plan.clients)]
        async with anyio.create_task_group() as tasks:
            for client in clients:
                tasks.start_soon(client.work)
    await replicas.close()
    errors = [error for client in clients for error in client.errors]
    Path(plan.file).with_suffix(".errors").write_text(json.dumps(errors), encoding="utf-8")


if __name__ == "__main__":
    anyio.run(work, Plan(**json.loads(sys.argv[1])))
