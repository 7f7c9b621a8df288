"""A made-up run of an agent that builds workflows for somebody, the same for the same seed: a tool call in each step,
with definitions of workflows, results of executions, and descriptions of nodes as long as such things are.

What the agent will need later is planted in it and listed: ids of workflows, executions, credentials, tables and
channels, numbers and dates that the user gave or a run came to, and codes of errors. Everything else (positions, ids of
nodes, properties of node types, sample rows) is the noise that such results are full of.
"""

import itertools
import json
import random
import string
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from benchmarks.sample_text import SampleText

Json = dict[str, Any]
Kind = Literal["id", "number", "error code"]
KINDS: tuple[Kind, ...] = get_args(Kind)

STEPS = 50
STEPS_OF_A_WORKFLOW = 10

_GOALS = (
    ("Invoice import", "copies new invoices to the table", "Postgres"),
    ("Order sync", "sends every paid order to the warehouse", "HTTP Request"),
    ("Lead report", "collects new leads and posts a report", "Google Sheets"),
    ("Stock alert", "warns as soon as an article runs out", "MySQL"),
    ("Ticket digest", "sums up the open tickets of the day", "Zendesk"),
)
# Name, code, HTTP status (0: none) and message of what goes wrong in a workflow's first run.
_FAILURES = (
    ("NodeApiError", "ERR_TOO_MANY_REQUESTS", 429, "The service is receiving too many requests from you"),
    ("NodeOperationError", "23505", 0, 'duplicate key value violates unique constraint "rows_pkey"'),
    ("NodeApiError", "ECONNREFUSED", 0, "The service refused the connection, perhaps it is offline"),
    ("ExpressionError", "E_INVALID_EXPRESSION", 0, "Referenced node is unexecuted"),
    ("NodeApiError", "invalid_grant", 401, "The credentials are expired, sign in again"),
)
_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class Planted:
    kind: Kind
    value: str


@dataclass(slots=True)
class Step:
    """The messages of one step as ``add_messages`` takes them, and what is planted in them first."""

    messages: list[Json] = field(default_factory=list)
    planted: list[Planted] = field(default_factory=list)


def tool_run(steps: int = STEPS, seed: int = 1) -> list[Step]:
    """So many steps: ten for each workflow that the user asks for."""
    draw = _Draw(seed)
    run: list[Step] = []
    for number in range(-(-steps // STEPS_OF_A_WORKFLOW)):
        run += _Workflow(draw, number).steps()
    return run[:steps]


class _Draw:
    """Chance."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.text = SampleText(seed)
        self.failures = self.random.sample(_FAILURES, len(_FAILURES))
        self._calls = 0

    def word(self, length: int, letters: str = _LETTERS) -> str:
        # A digit first and a letter after it, so that an id is none of the words around it.
        drawn = [self.random.choice(letters) for _ in range(length - 2)]
        return "".join([self.random.choice("123456789"), self.random.choice(letters), *drawn])

    def uuid(self) -> str:
        drawn = f"{self.random.getrandbits(128):032x}"
        return "-".join((drawn[:8], drawn[8:12], drawn[12:16], drawn[16:20], drawn[20:]))

    def number(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def day(self) -> str:
        return f"2025-{self.number(1, 12):02}-{self.number(10, 28)}"

    def call_id(self) -> str:
        self._calls += 1
        return f"call_{self._calls}"

    def sentence(self, least: int = 3, most: int = 9) -> str:
        return self.text.text(least, most)


class _Workflow:
    """One workflow from the request to its activation."""

    def __init__(self, draw: _Draw, number: int) -> None:
        self._draw = draw
        self.name, self.purpose, self.node = _GOALS[number % len(_GOALS)]
        self.failure = draw.failures[number % len(_FAILURES)]
        self.id, self.credential = draw.word(16), draw.word(16)
        self.table, self.channel = draw.word(24), "C" + draw.word(10, string.ascii_uppercase + string.digits)
        self.limit, self.day = draw.number(110, 990) * 10 + 7, draw.day()
        self.failed, self.succeeded = (draw.number(100_000, 999_999) for _ in range(2))
        self.item, self.items = draw.number(101, 999), draw.number(1_001, 9_999)
        self.webhook = draw.uuid()
        self._nodes = [self._node(kind) for kind in ("Schedule Trigger", self.node, "Filter", "Code", "Slack")]

    def steps(self) -> list[Step]:
        found = [self._search(), *self._describe(), self._credentials(), self._create(), self._first_run()]
        return [*found, self._look(), self._update(), self._second_run(), self._activate()]

    def _search(self) -> Step:
        request = (
            f"Please build a workflow called {self.name} that {self.purpose}. The table is {self.table}, and news go "
            f"to the channel {self.channel}. Never send more than {self.limit} rows a day. It has to run by {self.day}."
        )
        results = [
            {
                "name": f"base.{self._draw.text.words(1)[0]}",
                "displayName": self.node if place == 0 else " ".join(self._draw.text.words(2)).title(),
                "description": self._draw.sentence(),
                "version": self._draw.number(1, 4),
                "score": round(self._draw.random.random(), 4),
                "outputs": ["main"],
            }
            for place in range(25)
        ]
        step = self._step(
            "I'll look for the nodes that this needs.",
            "search_nodes",
            {"query": self.node, "limit": 25},
            {"count": 25, "results": results},
        )
        step.messages.insert(0, {"role": "user", "content": request})
        planted = {"id": (self.table, self.channel), "number": (self.limit, self.day)}
        return _plant(step, planted)

    def _describe(self) -> Iterator[Step]:
        for kind in (self.node, "Slack"):
            yield self._step("", "describe_node", {"node_type": kind}, self._description(kind))

    def _description(self, kind: str) -> Json:
        properties = [
            {
                "displayName": " ".join(self._draw.text.words(2)).title(),
                "name": self._draw.text.words(1)[0],
                "type": self._draw.random.choice(["string", "options", "boolean", "number", "collection"]),
                "default": self._draw.random.choice(["", False, 0, "auto"]),
                "required": self._draw.random.random() < 0.3,
                "description": self._draw.sentence(4, 10),
                "options": [{"name": word.title(), "value": word} for word in self._draw.text.words(3)],
            }
            for _ in range(24)
        ]
        return {
            "displayName": kind,
            "name": f"base.{kind.lower().replace(' ', '')}",
            "version": [1, 1.1, 2],
            "defaults": {"name": kind},
            "credentials": [{"name": f"{kind.lower().replace(' ', '')}Api", "required": True}],
            "properties": properties,
        }

    def _credentials(self) -> Step:
        listed = [
            {"id": self._draw.word(16), "name": " ".join(self._draw.text.words(2)), "type": "httpHeaderAuth"}
            for _ in range(7)
        ]
        listed.insert(3, {"id": self.credential, "name": f"{self.node} production", "type": "api"})
        # Which one is taken shows only in what the agent does next.
        return self._step("", "list_credentials", {"type": self.node}, {"credentials": listed})

    def _create(self) -> Step:
        definition = {"name": self.name, "nodes": self._nodes, "connections": self._connections()}
        step = self._step(
            f"The credential {self.credential} fits. Now I create the workflow.",
            "create_workflow",
            {"definition": definition},
            {**self._stored(), "nodes": self._nodes, "connections": self._connections()},
        )
        return _plant(step, {"id": (self.id, self.credential)})

    def _first_run(self) -> Step:
        name, code, status, message = self.failure
        error = {"name": name, "message": message, "code": code, **({"httpCode": str(status)} if status else {})}
        result: Any = {
            "executionId": self.failed,
            "workflowId": self.id,
            "status": "error",
            "mode": "manual",
            "startedAt": f"{self.day}T08:00:00.000Z",
            "resultData": {"error": error, "lastNodeExecuted": self.node},
        }
        if self.failed % 3 == 0:  # as some tools tell it
            result = f"Execution {self.failed} failed at {self.node}: {name} [{code}] {message}"
        step = self._step("", "run_workflow", {"workflow_id": self.id, "wait": True}, result)
        return _plant(step, {"id": (self.failed,), "error code": (code,)})

    def _look(self) -> Step:
        name, code, _, message = self.failure
        run = {
            node["name"]: [{"startTime": self._draw.number(10**12, 2 * 10**12), "items": self._rows(6)}]
            for node in self._nodes[:3]
        }
        error = {
            "name": name,
            "message": message,
            "description": self._draw.sentence(8, 16),
            "code": code,
            "context": {"itemIndex": self.item, "nodeCause": self.node},
            "stack": "\n".join(
                f"    at {word} (nodes/{word}.js:{self._draw.number(10, 900)})" for word in self._words(8)
            ),
        }
        result = {
            "id": self.failed,
            "status": "error",
            "data": {"resultData": {"runData": run, "lastNodeExecuted": self.node, "error": error}},
        }
        step = self._step("The run failed; I look at it.", "get_execution", {"execution_id": self.failed}, result)
        return _plant(step, {"number": (self.item,)})

    def _update(self) -> Step:
        operations = [
            {
                "type": "updateNode",
                "node_id": self._nodes[1]["id"],
                "changes": {"parameters": {"onError": "retry", "batchSize": self._draw.number(10, 90)}},
            }
        ]
        result = {**self._stored(), "operationsApplied": 1, "nodes": self._nodes}
        said = f"Item {self.item} makes {self.node} fail. I change how it handles that."
        return self._step(said, "update_workflow", {"workflow_id": self.id, "operations": operations}, result)

    def _second_run(self) -> Step:
        result = {
            "executionId": self.succeeded,
            "workflowId": self.id,
            "status": "success",
            "mode": "manual",
            "itemsProcessed": self.items,
            "durationMs": self._draw.number(900, 9000),
            "data": {"resultData": {"runData": {"Slack": [{"items": self._rows(12)}]}, "lastNodeExecuted": "Slack"}},
        }
        step = self._step("", "run_workflow", {"workflow_id": self.id, "wait": True}, result)
        return _plant(step, {"id": (self.succeeded,), "number": (self.items,)})

    def _activate(self) -> Step:
        result = {**self._stored(), "active": True, "webhookUrl": f"https://flows.example.com/webhook/{self.webhook}"}
        step = self._step("", "activate_workflow", {"workflow_id": self.id}, result)
        step.messages.append({"role": "assistant", "content": f"{self.name} is active and ran without errors."})
        return _plant(step, {"id": (self.webhook,)})

    def _step(self, said: str, tool: str, arguments: Json, result: Any) -> Step:
        call_id = self._draw.call_id()
        call = {"type": "tool_call", "id": call_id, "name": tool, "arguments": arguments}
        text = result if isinstance(result, str) else json.dumps(result)
        answer = {"type": "tool_result", "tool_call_id": call_id, "name": tool, "result": text}
        before = [{"type": "text", "text": said}] if said else []
        return Step([{"role": "assistant", "parts": [*before, call]}, {"role": "tool", "parts": [answer]}])

    def _stored(self) -> Json:
        at = f"{self.day}T07:{self._draw.number(10, 59)}:00.000Z"
        return {
            "createdAt": at,
            "updatedAt": at,
            "isArchived": False,
            "versionId": self._draw.uuid(),
            "id": self.id,
            "name": self.name,
            "active": False,
            "settings": {"executionOrder": "v1"},
        }

    def _node(self, kind: str) -> Json:
        parameters: Json = {word: self._draw.sentence(2, 5) for word in self._words(6)}
        if kind == self.node:
            parameters |= {"table": self.table, "limit": self.limit}
        if kind == "Slack":
            parameters["channelId"] = {"mode": "id", "value": self.channel}
        used = {"credentials": {"api": {"id": self.credential}}} if kind == self.node else {}
        return {
            "id": self._draw.uuid(),
            "name": kind,
            "type": f"base.{kind.lower().replace(' ', '')}",
            "typeVersion": self._draw.number(1, 4),
            "position": [self._draw.number(-500, 2000), self._draw.number(-500, 2000)],
            "parameters": parameters,
            **used,
        }

    def _connections(self) -> Json:
        names = [node["name"] for node in self._nodes]
        return {
            name: {"main": [[{"node": after, "type": "main", "index": 0}]]} for name, after in itertools.pairwise(names)
        }

    def _rows(self, count: int) -> list[Json]:
        return [
            {
                "json": {
                    "id": self._draw.number(1, 10**6),
                    "note": self._draw.sentence(),
                    "amount": self._draw.number(1, 999),
                }
            }
            for _ in range(count)
        ]

    def _words(self, count: int) -> list[str]:
        return self._draw.text.words(count)


def _plant(step: Step, planted: dict[Kind, tuple[Any, ...]]) -> Step:
    step.planted += [Planted(kind, str(value)) for kind, values in planted.items() for value in values]
    return step
