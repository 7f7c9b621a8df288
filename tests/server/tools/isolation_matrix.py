"""Everything that a server offers, tried with everything that names something of somebody else's.

Each try is made twice, by two people who are alike and have nothing: one sends the other's handle, one a handle of the
same form that is nobody's. What they are told must be the same. A tool is tried because it is listed, an argument because
it is in the tool's schema, a handle because somebody was given it: nothing here names them.
"""

import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

from mcp.types import Tool

from layerlore.memory.engine.engine import Engine
from layerlore.server.tools.toolsets import DECLARATIONS
from layerlore.storage.core.records import Scope

from .calling import Json
from .isolation_filling import KEY, Filling, Words
from .isolation_handles import Handle, Handles
from .isolation_world import Person, World, rows_of

VICTIM = Scope("acme", "bot", "ana")
Card = TypeVar("Card")
Slot = tuple[tuple[Any, ...], type]
"""Where in the arguments a text or a number goes."""
OWN = "thread-of-my-own"
MOST_TOGETHER = 16
THIN = 8
"""Of what can be tried in a place, a deal tries one in so many, and always one."""
PART = 6
"""Tools with the same argument share what it is not meant for, up to so many."""
# How each attacker differs from the victim, and its twin from both; %s is what is tried.
KINDS: dict[str, tuple[str, str, str, bool]] = {
    "another tenant": ("{}-%s", "bot", "ana", False),
    "another agent": ("acme", "{}-%s", "ana", False),
    "another resource": ("acme", "bot", "{}-%s", False),
    "one of many resources": ("acme", "bot", "{}-many-%s", True),
}
DEALS = THIN * len(KINDS)
"""So many deals in a row are the whole matrix: everything that can be tried, by every kind."""
TWINS = ("globex", "initex")
# Where a schema leaves open what is in a list, or what may go together.
SAID = [{"role": "user", "content": "hello", "id": "an-id", "name": "a-name"}]
STEPS = [{"type": "text", "operation_id": "an-operation", "content": "hello", "message_id": "", "tool_call_id": "x"}]
PLAN = {"goal": "a goal", "steps": [{"id": "an-id", "phase": "build", "description": "to do"}]}
FITTING: dict[str, list[Json]] = {
    "add_messages": [{"messages": SAID}],
    "record_steps": [{"steps": STEPS}],
    "plan": [{"action": "update", "plan": PLAN}, {"action": "review"}],
    "delete_messages": [{"which": "ids", "ids": ["an-id"]}, {"which": "last_turn"}],
    "forget": [{"ids": []}],
    "update_thread": [{"title": "a title"}],
    "update_working_memory": [{"content": "a note"}],
    "erase_memory": [{}, {"dry_run": False}],
    "submit_memory_job": [{"result": {"entries": []}}],
    "list_events": [{}, {"scope": "resource"}],
}
OF_TENANT = {each.name for each in DECLARATIONS if each.of_tenant}
_MASKS = (
    (re.compile(r"(\.[a-z]\d+-)[0-9a-f]{6}\b"), r"\1<material>"),  # in the id of a job: its material has times
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?"), "<time>"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-z]{24}\b|\b[0-9a-f]{12,}\b|\b[A-Za-z0-9+/_-]{20,}={0,2}"), "<token>"),
    (re.compile(r'("\w*(tokens|bytes)\\?": ?)\d+|\d+ tokens'), r"\1<n>"),
    (re.compile(r"\d+\.\d+|\d{10,}"), "<n>"),
    (re.compile(r"; did you mean '\w+'\?"), ""),  # which is the nearest depends on the letters that were sent
    (
        re.compile(r"; the closest are: [^\"\\]*"),
        "",
    ),  # the same of the caller's own lines; a word of the victim's is found before
    (re.compile(r"\bu_[a-z2-7]{8}\b"), "<id>"),
    (re.compile(r'(confirm=\\*")\w+'), r"\1<token>"),
)


@dataclass(slots=True)
class Found:
    """``calls`` counts what was sent, ``leaks`` says what came through, in words."""

    calls: int = 0
    tools: int = 0
    handles: int = 0
    leaks: list[str] = field(default_factory=list)


class Matrix:
    """A filled memory, and those who want in."""

    def __init__(self, world: World, people: Person, engine: Engine, *, deal: int = 0) -> None:
        """``people``: gives the connection that all of them share. ``deal``: what is tried of all, and by whom."""
        self.world, self.found = world, Found()
        self._client = people.client
        self._engine = engine
        self.words = Words("ana")
        self.filling = Filling(people, self.words, engine)
        self.handles: Handles = self.filling.handles
        self._deal = deal
        kinds = range(deal // THIN, deal // THIN + len(KINDS))
        self._dealt = itertools.cycle([number % len(KINDS) for number in kinds])
        self._random = random.Random(deal)
        self._renaming: Mapping[str, str] = {}
        self._handle = re.compile("")
        self._having: Counter[str] = Counter()
        self._lines: dict[tuple[str, type], Iterator[Handle]] = {}

    async def _read_victim(self, owner_url: str) -> dict[str, list[str]]:
        """What is stored of the victim, with the counts of calls that would be written within the minute."""
        await self._engine.counts.write(self._engine.database, self._engine.now())
        return await rows_of(owner_url, VICTIM)

    async def run(self, owner_url: str, *, tools: Sequence[str] = ()) -> Found:
        """Fill, attack with all (or only some tools), and look at what the victim has."""
        await self.filling.everything()
        self._renaming = self.handles.renaming()
        self._handle = re.compile("|".join(map(re.escape, self._renaming)))
        self.found.handles = sum(map(len, self.handles.of.values()))
        before = await self._read_victim(owner_url)
        assert sum(map(len, before.values())) > 100
        with self.filling.person.calling():
            listed = (await self._client.list_tools()).tools
            templates = (await self._client.list_resource_templates()).resource_templates
            prompts = (await self._client.list_prompts()).prompts
        for tool in listed:
            self._having.update({_name_of(path) for _, slots in _bases(tool) for path, _ in slots})
        for tool in listed:
            if not tools or tool.name in tools:
                await self._tool(tool)
                self.found.tools += 1
        if not tools:
            await self._beside(self._uris([each.uri_template for each in templates]))
            await self._beside(list(self._prompts(prompts)))
            await self._beside(list(self._completions([each.uri_template for each in templates], prompts)))
            await self._again()
        after = await self._read_victim(owner_url)
        self.found.leaks += [f"rows of {name} were changed" for name in before if before[name] != after.get(name)]
        return self.found

    def _people(self, kind: str, what: str) -> tuple[Person, Person]:
        tenant, agent, resource, names_it = KINDS[kind]
        names = [[each.format(twin).replace("%s", what) for each in (tenant, agent, resource)] for twin in TWINS]
        one, other = (Person(self._client, Scope(*each), names_it=names_it) for each in names)
        return one, other

    async def _tool(self, tool: Tool) -> None:
        attacks = list(self._attacks(tool))
        for number, kind in enumerate(KINDS):
            if KINDS[kind][3] and tool.name in OF_TENANT:
                continue  # a credential for everybody is meant to see everybody there
            pair = self._people(kind, tool.name)
            for person in pair:
                said = {"messages": [{"role": "user", "content": "hello there"}], "thread_id": OWN}
                if (await person.call("add_messages", said))["error"]:
                    self.found.leaks.append(f"{kind}: cannot write what is its own")
            for whose, arguments, meta in attacks:
                if whose == number:
                    await self._pair(kind, pair, f"{tool.name} {arguments} {meta}", "call", tool.name, arguments, meta)

    def _attacks(self, tool: Tool) -> Iterator[tuple[int, Json, Json]]:
        """Arguments and envelope, with which kind tries them: first the handles that an argument is made for. The thread
        comes first, while those who ask have none of that name."""
        properties: Json = tool.input_schema.get("properties", {})
        threads = [handle for handle in self.handles.like("thread_id", str) if str(handle).startswith("thread-")]
        for number, (fixed, slots) in enumerate(_bases(tool)):
            for thread in self._some(threads):
                yield next(self._dealt), {**fixed}, {"layerlore/thread": thread}
            for path, type_ in slots:
                name = _name_of(path)
                fitting = self.handles.like(name, type_)
                others = [] if number else self._others(name, fitting, type_)
                for handle in [*self._some(fitting), *self._some(others)]:
                    arguments = _with(fixed, path, handle)
                    if "thread_id" in properties and path != ("thread_id",):
                        arguments.setdefault("thread_id", self._random.choice([OWN, *threads]))
                    yield next(self._dealt), arguments, {}
            yield from self._together(fixed, slots)
            for key in self._some(list(self.handles.of.get("key", {}))):
                yield (
                    next(self._dealt),
                    {**({"thread_id": OWN} if "thread_id" in properties else {}), **fixed},
                    {KEY: key},
                )

    def _some(self, of_all: Sequence[Card]) -> Sequence[Card]:
        """The part of this deal."""
        return of_all[self._deal % THIN % len(of_all) :: THIN] if of_all else of_all

    def _others(self, name: str, fitting: Sequence[Handle], type_: type) -> list[Handle]:
        """What an argument is not meant for: a part for each tool that has it, all of it over the tools."""
        rest = list(dict.fromkeys(value for _, value in self.handles.all(type_) if value not in fitting))
        part = -(-len(rest) // min(PART, self._having[name])) if rest else 0
        line = self._lines.setdefault((name, type_), itertools.cycle(self._random.sample(rest, len(rest))))
        return list(itertools.islice(line, part))

    def _together(self, fixed: Json, slots: Sequence[Slot]) -> Iterator[tuple[int, Json, Json]]:
        """Several handles in one call, such as a run and its claim."""
        made = [(path, self.handles.like(str(path[-1]), type_)) for path, type_ in slots if isinstance(path[-1], str)]
        fitting = [(path, handles) for path, handles in made if handles]
        if len(fitting) < 2:
            return
        for _ in range(MOST_TOGETHER // THIN):
            arguments = dict(fixed)
            for path, handles in self._random.sample(fitting, self._random.randint(2, len(fitting))):
                arguments = _with(arguments, path, self._random.choice(handles))
            yield next(self._dealt), arguments, {}

    def _uris(self, templates: Sequence[str]) -> list[tuple[str, Json]]:
        made = [str(uri) for uri in self.handles.of.get("uri", {})]
        for _, handle in self.handles.all(str):
            named = quote(str(handle), safe="")
            made += [re.sub(r"\{\w+\}", named, re.sub(r"\{\?.*\}", "", each)) for each in templates if "{" in each]
        request = [("read", {"uri": uri}) for uri in dict.fromkeys(made)]
        numbers = [
            ("read", {"uri": f"{uri}?{name}=3"}) for uri in made if uri.endswith("messages") for name in ("before",)
        ]
        cursors = [("list", {"cursor": cursor}) for cursor in self.handles.of.get("cursor", {})]
        return [*request, *numbers[:9], *cursors, ("list", {})]

    def _prompts(self, prompts: Sequence[Any]) -> Iterator[tuple[str, Json]]:
        for prompt in prompts:
            yield "prompt", {"name": prompt.name, "arguments": {}}
            for argument in prompt.arguments or ():
                for _, handle in self.handles.all(str):
                    yield "prompt", {"name": prompt.name, "arguments": {argument.name: str(handle)}}

    def _completions(self, templates: Sequence[str], prompts: Sequence[Any]) -> Iterator[tuple[str, Json]]:
        places = [(uri, name) for uri in templates for name in re.findall(r"\w+(?=[},])", uri.partition("{")[2])]
        places += [(prompt.name, argument.name) for prompt in prompts for argument in prompt.arguments or ()]
        for of, argument in places:
            yield "complete", {"of": of, "argument": argument, "value": ""}
            for handle in self.handles.like("id", str):
                for value in (str(handle), str(handle)[:3]):
                    yield "complete", {"of": of, "argument": argument, "value": value}

    async def _beside(self, request: Sequence[tuple[str, Json]]) -> None:
        """Ask for what is no tool."""
        pairs = {number: (kind, self._people(kind, "asking")) for number, kind in enumerate(KINDS)}
        for method, given in self._some(request):
            kind, pair = pairs[next(self._dealt)]
            await self._pair(kind, pair, f"{method} {given}", "ask", method, given)

    async def _again(self) -> None:
        """Every request of the victim's once more, with the same idempotency keys."""
        pairs = {number: (kind, self._people(kind, "again")) for number, kind in enumerate(KINDS)}
        for tool, arguments, meta in self._some(self.filling.calls):
            kind, pair = pairs[next(self._dealt)]
            text = re.sub("canary", "borrow", json.dumps(arguments))
            await self._pair(kind, pair, f"again {tool} {text} {meta}", "call", tool, json.loads(text), meta)

    async def _pair(self, kind: str, pair: tuple[Person, Person], told: str, how: str, *sent: Any) -> None:
        """Have both ask, and note it if the answers say more than that neither has it."""
        self.found.calls += 2
        one, other = pair
        answer = await getattr(one, how)(*sent)
        control = await getattr(other, how)(*(self._unknown(each) for each in sent))
        shown = json.dumps(answer, ensure_ascii=False)
        if "canary" in shown and any(word in shown for word in self.words.given):
            self.found.leaks.append(f"{kind}: {told}: tells {shown}")
        elif "failed unexpectedly" in shown:
            self.found.leaks.append(f"{kind}: {told}: {shown}")
        elif self._plain(shown) != self._plain(json.dumps(control, ensure_ascii=False)):
            self.found.leaks.append(
                f"{kind}: {told}: {self._plain(shown)}\n   unknown: {self._plain(json.dumps(control, ensure_ascii=False))}"
            )

    def _unknown(self, value: Any) -> Any:
        """The same with the handles in it changed."""
        text = json.dumps(value, ensure_ascii=False)
        return json.loads(self._renamed(text)) if isinstance(value, dict) else value

    def _renamed(self, text: str) -> str:
        """One pass, so that nothing is changed twice."""
        return self._handle.sub(lambda found: self._renaming[found[0]], text)

    def _plain(self, shown: str) -> str:
        """An answer with the names of who asks, the handles, times and what was just made masked."""
        shown = self._renamed(shown).replace(TWINS[0], TWINS[1])
        for pattern, mask in _MASKS:
            shown = pattern.sub(mask, shown)
        return shown


def _bases(tool: Tool) -> list[tuple[Json, list[Slot]]]:
    """Arguments that fit the tool, one set or several, and the places in them."""
    properties: Json = tool.input_schema.get("properties", {})
    made = []
    for base in FITTING.get(tool.name, [{}]):
        fixed = {**{name: _valid(properties[name], name) for name in tool.input_schema.get("required", [])}, **base}
        made.append(
            (fixed, sorted(_slots({**properties, **_described(fixed)}), key=lambda slot: slot[0] != ("thread_id",)))
        )
    return made


def _name_of(path: tuple[Any, ...]) -> str:
    return str(path[-1] if isinstance(path[-1], str) else path[-2])


def _described(fixed: Json) -> Json:
    """A schema of what a table gives and a tool's own schema leaves open."""
    return {name: _schema_of(value) for name, value in fixed.items() if isinstance(value, dict | list) and value}


def _schema_of(value: Any) -> Json:
    match value:
        case dict():
            return {"type": "object", "properties": {name: _schema_of(inner) for name, inner in value.items()}}
        case [first, *_]:
            return {"type": "array", "items": _schema_of(first)}
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
    return {"type": "string"}


def _slots(properties: Json, above: tuple[Any, ...] = (), deep: int = 3) -> Iterator[Slot]:
    """The places of texts and numbers, also those within lists and objects."""
    for name, schema in properties.items():
        place = (*above, name)
        if "enum" in schema:
            continue
        match schema.get("type"):
            case "string" | None:
                yield place, str
            case "integer":
                yield place, int
            case "array" if "enum" not in schema.get("items", {}):
                items = schema.get("items", {})
                if items.get("type") == "object" and deep:
                    yield from _slots(items.get("properties", {}), (*place, 0), deep - 1)
                else:
                    yield (*place, 0), str
            case "object" if deep:
                yield from _slots(schema.get("properties", {}), place, deep - 1)


def _valid(schema: Json, name: str) -> Any:
    """Something that fits a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "integer":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "array":
            return [_valid(schema.get("items", {}), name)]
        case "object":
            return {each: _valid(schema["properties"][each], each) for each in schema.get("required", [])}
    return OWN if name == "thread_id" else f"a-{name}"


def _with(fixed: Json, path: tuple[Any, ...], handle: Handle) -> Json:
    """A copy of the arguments with the handle in its place."""
    made: Json = json.loads(json.dumps(fixed))
    at: Any = made
    for step, following in itertools.pairwise(path):
        if isinstance(at, list):
            while len(at) <= step:
                at.append({} if isinstance(following, str) else [])
            at = at[step]
        else:
            at = at.setdefault(step, [] if isinstance(following, int) else {})
    if isinstance(at, list):
        at[path[-1] :] = [handle]
    else:
        at[path[-1]] = handle
    return made
