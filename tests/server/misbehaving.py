"""Ways in which a model misbehaves until its failure was seen, and what it does properly afterwards.

Each case is one conversation whose messages begin with ``Case NAME:`` and hold the word SECRET, which no failure may
repeat. Both jobs of it that ask the model, ``observe`` and ``entries``, are answered in the case's way.
"""

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fake_openai import FakeOpenAI, Fault, Json, misbehaviours, refusing, saying

from layerlore.memory.text.quotation import wrap_block

SECRET = "heliotrope"
KINDS = ("observe", "entries")
OF_A_TURN = (*KINDS, "profile", "session_memory", "title")
INJECTED = "the lamp there is blue"
_FILLING = " ".join(f"It opened at {hour}:15 and closed again at {hour}:40." for hour in range(4, 14))
_CASE = re.compile(r"Case (\w+):")


def exchange(case: str) -> list[Json]:
    """A turn of more than 200 tokens: the user's words after a block of ours, a tool's result, and an answer."""
    request = f"Case {case}: the gate at dock {case} opens with {SECRET}. {_FILLING}"
    told = f"Case {case}: I found the hinge of dock {case} bent, though {SECRET} works. {_FILLING}"
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"{wrap_block('memory', f'- {INJECTED}')}\n{request}"},
        {"role": "assistant", "content": f"Case {case}: I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": f"Case {case}: the sensor says 41"},
        {"role": "assistant", "content": told},
    ]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: for which kind of job, of which case, with which material, and the lines of its transcript."""

    kind: str
    case: str
    content: Json
    lines: list[Json]

    @property
    def text(self) -> str:
        return "\n".join(line["text"] for line in self.lines)


# By what an answer must have.
_KINDS = {
    "observations": "observe",
    "entries": "entries",
    "changed": "profile",
    "document": "session_memory",
    "notes": "session_memory",
    "title": "title",
}


def asked(request: Json) -> Asked:
    content = json.loads(request["messages"][1]["content"])
    # The last line of the instructions, for a model that nobody lists.
    required = json.loads(request["messages"][0]["content"].splitlines()[-1])["required"]
    lines = content["messages"] if "messages" in content else [{"seq": 1, "text": content["message"]}]
    found = _CASE.search("\n".join(line["text"] for line in lines))
    assert found is not None
    kind = next(kind for name, kind in _KINDS.items() if name in required)
    return Asked(kind, found[1], content, lines)


def entry(content: str, evidence: str, source: str = "user_assertion", corrects: str | None = None) -> Json:
    return {"content": content, "source": source, "evidence": evidence, "corrects": corrects}


def good_entry(case: str) -> Json:
    return entry(f"The gate at dock {case} opens with a word.", f"gate at dock {case} opens with")


def notes(*texts: str, request: Asked, nothing: bool = False) -> Json:
    first, last = request.lines[0]["seq"], request.lines[-1]["seq"]
    made = [
        {"marker": "info", "text": text, "from_seq": first, "to_seq": last, "refers_to": None, "details": []}
        for text in texts
    ]
    return {"observations": made, "nothing_to_note": nothing, "current_task": None, "next_step": None}


def good(request: Asked) -> Json:
    match request.kind:
        case "entries":
            return {"entries": [good_entry(request.case)]}
        case "profile":
            document = f"- Has a gate at dock {request.case}"
            return {"changed": True, "evidence": f"gate at dock {request.case} opens", "document": document}
        case "session_memory":
            note = {"category": "decision", "text": f"Dock {request.case} stays open."}
            if "already_noted" in request.content:
                return {"notes": [note], "nothing_to_note": False}
            return {"document": note["text"]}
        case "title":
            return {"title": f"The gate at dock {request.case}"}
    # Each part of a conversation is told of once.
    return notes(f"Dock {request.case} was told of up to message {request.lines[-1]['seq']}.", request=request)


@dataclass(frozen=True, slots=True)
class Way:
    """``fault`` meets every request, ``says`` is what is said of a kind in the place of the proper answer.

    ``error`` is part of what memory_status says of it then; empty: it is no failure, and goes on to the end. ``dead``:
    there is no second attempt until the job is resumed. ``entries``: what is kept in the end.
    """

    error: str = ""
    fault: Callable[[Asked], Fault] | None = None
    says: Mapping[str, Callable[[Asked], Json]] = field(default_factory=dict)
    dead: bool = False
    entries: int = 1

    def fails(self, kind: str) -> bool:
        return bool(self.error) and (self.fault is not None or kind in self.says)


# What memory_status says of each; empty: the answer is read all the same.
_ERRORS = {
    "no answer": "no answer in time",
    "an answer that never ends": "no answer in 2 s",
    "closed without an answer": "no connection",
    "an error there": "an error there",
    "unavailable": "unavailable",
    "no JSON": "an error there",
    "no choices": "its answer is empty",
    "nothing said": "its answer is empty",
    "null": "its answer is empty",
    "a refusal": "it refused to answer",
    "a content filter": "content filter",
    "cut off": "cut off",
    "cut off in silence": "its answer cannot be used",
    "in a fence": "",
    "in prose": "",
    "thoughts before it": "",
    "without its last bracket": "",
    "another shape": "its answer cannot be used: it does not fit its schema",
    "a list": "",
    "prose alone": "its answer cannot be used: it is not a JSON object",
    "too long": "are allowed",
    "too deep": "its answer cannot be used",
    "NaN": "its answer cannot be used",
    "half a character": "its answer cannot be used",
    "nothing counted": "",
}
_SLOW = "no answer in"
# These are of another kind: a pause of the whole worker, without a failure of the job; and jobs that are dead at once.
OF_SETUP = ("a key that is refused", "a model that is not there")
REFUSED = "a request that is refused"
PACED = "too many requests"


def ways(fake: FakeOpenAI) -> dict[str, Way]:
    """By name. Together with OF_SETUP, every way that the fake server knows, and more of its own."""
    told = misbehaviours(fake)
    assert set(told) == {*_ERRORS, *OF_SETUP, REFUSED, PACED}
    found = {name: Way(error, _always(told[name])) for name, error in _ERRORS.items()}
    found[PACED] = Way("too many requests", _always(refusing(429, retry_after="0.5")))
    found[REFUSED] = Way("the request was refused", _always(told[REFUSED]), dead=True)
    return found | _repeating_what_was_sent() | _of_entries() | _of_notes()


def _always(fault: Fault) -> Callable[[Asked], Fault]:
    return lambda _: fault


def _repeating_what_was_sent() -> dict[str, Way]:
    return {
        "an error with the material in it": Way("an error there", lambda request: refusing(500, request.text)),
        "a pace with the material in it": Way(
            "too many requests", lambda request: refusing(429, request.text, retry_after="0.2")
        ),
        "a refusal with the material in it": Way(
            "it refused to answer", lambda request: saying(None, refusal=request.text)
        ),
        "the material as prose": Way("its answer cannot be used", lambda request: saying(request.text)),
        "the material as keys": Way(
            "its answer cannot be used", lambda request: saying(json.dumps({SECRET: {request.text: SECRET}}))
        ),
        "the material as a value": Way(
            "its answer cannot be used",
            lambda request: saying(json.dumps({"entries": request.text, "observations": [{"marker": request.text}]})),
        ),
    }


HOW_IT_OPENS = ("slowly", "outwards", "silently", "halfway", "daily", "upwards", "smoothly", "inwards")


def _of_entries() -> dict[str, Way]:
    def of(error: str, made: Callable[[str], Any], kept: int = 1) -> Way:
        return Way(error, says={"entries": lambda request: {"entries": made(request.case)}}, entries=kept)

    def also(case: str, *more: Json) -> list[Json]:
        return [good_entry(case), *more]

    made_up = entry("The gate was painted red.", "we painted the gate red")
    # An answer without evidence is no failure: the model is asked again at once, and then the turn is over.
    return {
        "an invented quote": of("", lambda case: [made_up], kept=0),
        "the assistant's words as the user's": of(
            "", lambda case: [entry("A hinge is bent.", f"the hinge of dock {case} bent")], kept=0
        ),
        "a quote of what was injected": of("", lambda case: [entry("A lamp is blue.", INJECTED)], kept=0),
        "a quote of a tool": of(
            "", lambda case: [entry("A sensor says 41.", "the sensor says 41", "verified_assistant_finding")], kept=0
        ),
        "a quote sewn together": of(
            "",
            lambda case: [entry("It opens.", f"the gate at dock {case} is bent", "verified_assistant_finding")],
            kept=0,
        ),
        "a quote of nothing": of("", lambda case: [entry("It opens.", " ... ")], kept=0),
        "an invented label": of(
            "its answer cannot be used", lambda case: [{**good_entry(case), "source": "everybody_knows"}]
        ),
        "an invented quote beside a good one": of("", lambda case: also(case, made_up)),
        "a correction of nothing": of("", lambda case: [{**good_entry(case), "corrects": f"{SECRET}-1"}]),
        "the same three times": of("", lambda case: [good_entry(case)] * 3),
        "an entry without a word": of("", lambda case: also(case, entry(" \n", f"dock {case} opens"))),
        "too many entries": of(
            "",
            lambda case: [
                entry(f"The gate at dock {case} opens {how}.", f"gate at dock {case} opens") for how in HOW_IT_OPENS
            ],
            kept=5,
        ),
        "nothing, for ever": of("", lambda case: [], kept=0),
    }


def _of_notes() -> dict[str, Way]:
    def of(error: str, made: Callable[[Asked], Json]) -> Way:
        return Way(error, says={"observe": made})

    return {
        "no notes and no word why": of("there is none", lambda request: notes(request=request)),
        "the same notes again and again": of("repeat", lambda request: notes(*["It opens."] * 50, request=request)),
        "notes longer than what they tell": of(
            "notes are to be shorter",
            lambda request: notes(*[f"{n} {n + 1}: {request.text[n : n + 300]}" for n in range(9)], request=request),
        ),
        "notes of other messages": of(
            "",
            lambda request: {**good(request), "observations": [{**good(request)["observations"][0], "to_seq": 10**12}]},
        ),
    }


def taking_turns(told: Mapping[str, Way]) -> list[tuple[str, Way]]:
    """What keeps a model from answering, each beside something else: one that only fails is left alone for longer and
    longer, which would take its time here."""
    hard = [(name, way) for name, way in told.items() if way.fault is not None and way.error]
    mild = [(name, way) for name, way in told.items() if way.fault is None or not way.error]
    return [each for pair in itertools.zip_longest(hard, mild, fillvalue=("well", Way())) for each in pair]


class Misbehaving:
    """Tells a fake server how to answer each case: in its way until its failure was seen, then properly."""

    def __init__(self, fake: FakeOpenAI, kinds: Sequence[str] = KINDS) -> None:
        self.kinds = kinds
        self.cases: dict[str, Way] = {}
        self.seen: dict[tuple[str, str], set[str]] = {}
        self.instead: Fault | None = None
        fake.fault_of, fake.reply = self._fault, self._answer

    def _way(self, request: Asked) -> Way | None:
        way = self.cases.get(request.case)
        return None if way is None or (request.kind, request.case) in self.seen else way

    def _fault(self, request: Json) -> Fault | None:
        if self.instead is not None:
            return self.instead
        way = self._way(found := asked(request))
        return way.fault(found) if way is not None and way.fault is not None else None

    def _answer(self, request: Json) -> Json:
        found = asked(request)
        way = self._way(found)
        return way.says[found.kind](found) if way is not None and found.kind in way.says else good(found)

    def saw(self, kind: str, case: str, error: str) -> None:
        if _SLOW in error and _SLOW not in self.cases[case].error:
            return  # on a busy machine anybody may be late
        self.seen.setdefault((kind, case), set()).add(error)

    def unseen(self) -> list[tuple[str, str]]:
        """The failures that are still to be seen."""
        return [
            (kind, case)
            for case, way in self.cases.items()
            for kind in self.kinds
            if way.fails(kind) and (kind, case) not in self.seen
        ]
