"""One job of several kinds about the same turn: one transcript, one instruction, and one answer with a member for each
kind. Members stand or fall alone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from layerlore.extraction.chat.answer_form import ANSWER, WrongAnswer, check_answer
from layerlore.extraction.kinds.kind import JobKind, JobMaterial, JsonSchema, Material, ModelAnswer, TurnPart
from layerlore.extraction.kinds.transcript import TranscriptLine
from layerlore.memory.rules.ages import iso
from layerlore.memory.text.quotation import escape_turns
from layerlore.prompts import render
from layerlore.storage.jobs.jobs import Claim, Kind

TURN_KINDS: tuple[Kind, ...] = ("entries", "profile", "session_memory", "title")
"""The kinds that read the same turn, in the order in which they are asked for and stored."""

# The time of a line is told anew after so many milliseconds.
_TIMED_MS = 600_000
_NOT_ASKED: Mapping[str, Any] = {
    **dict.fromkeys(("entries", "profile", "session_document", "session_notes", "title", "notes", "instructions"), ""),
    "most": 0,
    "most_title": 0,
}


@dataclass(frozen=True, slots=True)
class JobPart:
    """A claim of one kind, with its material. Those of TURN_KINDS are given together, the others alone."""

    claim: Claim
    kind: JobKind
    material: Material

    @property
    def name(self) -> Kind:
        return self.kind.name


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a model is given for its job, as the tool answers it. ``prompt``: the prompt's name and version."""

    instructions: str
    material: JobMaterial
    schema: JsonSchema
    prompt: str


def make_assignment(parts: Sequence[JobPart]) -> Assignment:
    """The parts as one assignment: of a single one that is not about a turn, its own material."""
    turns = [(part.name, part.material.turn) for part in parts if part.material.turn is not None]
    if not turns:
        material = parts[0].material
        return Assignment(material.instructions, json.loads(material.content), material.schema, material.prompt)
    return _join(turns)


def _join(turns: Sequence[tuple[Kind, TurnPart]]) -> Assignment:
    lines = _merge([turn.lines for _, turn in turns])
    seqs = {line.seq for line in lines}
    earlier = [line for line in _merge([turn.earlier for _, turn in turns]) if line.seq not in seqs]
    asks: dict[str, Any] = dict(_NOT_ASKED)
    for _, turn in turns:
        asks |= turn.asks
    tools = any("[tool " in line.text for line in lines)
    prompt = render("turn", **asks, earlier=bool(earlier), tools=tools)
    schema: JsonSchema = {
        "type": "object",
        "required": [name for name, _ in turns],
        "properties": {name: _shorten(turn.schema) for name, turn in turns},
    }
    escaped = escape_turns(json.dumps(_make_material(turns, earlier, lines), ensure_ascii=False))
    return Assignment(prompt.text, json.loads(escaped), schema, prompt.version)


def _make_material(
    turns: Sequence[tuple[Kind, TurnPart]], earlier: Sequence[TranscriptLine], lines: Sequence[TranscriptLine]
) -> JobMaterial:
    """What the kinds are given of their own, and the transcript; what is empty is left out."""
    material: JobMaterial = {name: value for _, turn in turns for name, value in turn.given.items() if value}
    if earlier:
        material["earlier"] = _write(earlier)
    if lines:
        material["messages"] = _write(lines)
    firsts = {name: turn.lines[0].seq for name, turn in turns if turn.lines}
    if len(set(firsts.values())) > 1:
        material["new_from"] = firsts  # others have read the messages before these
    return material


def _merge(found: Sequence[Sequence[TranscriptLine]]) -> list[TranscriptLine]:
    """The lines in order, of each message the one that tells most: with calls and results of tools, for example."""
    best: dict[int, TranscriptLine] = {}
    for line in (line for lines in found for line in lines):
        if line.seq not in best or len(line.text) > len(best[line.seq].text):
            best[line.seq] = line
    return [best[seq] for seq in sorted(best)]


def _write(lines: Sequence[TranscriptLine]) -> list[str]:
    """Each line as one text; none can look like two, since it is a JSON string."""
    written: list[str] = []
    told = 0
    for line in lines:
        name = f" ({line.name})" if line.name else ""
        time = ""
        if abs(line.said_at - told) >= _TIMED_MS:
            time, told = f" {iso(line.said_at)[:16]}Z", line.said_at
        written.append(f"{line.seq} {line.role}{name}{time}: {line.text}")
    return written


def _shorten(schema: JsonSchema) -> JsonSchema:
    """A schema as a model is shown it beside the instructions, which say the rest; the answer is checked against all of
    it."""
    shown: JsonSchema = {key: schema[key] for key in ("type", "required") if key in schema}
    return {**shown, "items": _shorten(schema["items"])} if "items" in schema else shown


def split_answer(answer: ModelAnswer, parts: Sequence[JobPart]) -> dict[Kind, ModelAnswer | WrongAnswer]:
    """The answer of each part, checked against its schema, or what is wrong with it. What an earlier answer has settled
    may be there again, and is passed over. Raises WrongAnswer for a name that is no kind's."""
    if parts[0].material.turn is None:
        (part,) = parts
        return {part.name: _catch(answer, part.material.schema) or answer}
    unknown = [name for name in answer if name not in TURN_KINDS]
    if unknown:
        allowed = ", ".join(part.name for part in parts)
        raise WrongAnswer("it has a member that is no kind's", f"{ANSWER}.{unknown[0]}: is unknown; allowed: {allowed}")
    return {part.name: _read_member(answer, part.name, part.material.turn) for part in parts if part.material.turn}


def _read_member(answer: ModelAnswer, name: Kind, turn: TurnPart) -> ModelAnswer | WrongAnswer:
    if name not in answer:
        return WrongAnswer(f"{name} is missing", f"{name}: is missing; an empty one says that there is nothing for it")
    schema: JsonSchema = {"type": "object", "properties": {name: turn.schema}}
    return _catch({name: answer[name]}, schema) or turn.read(answer[name])


def _catch(answer: ModelAnswer, schema: JsonSchema) -> WrongAnswer | None:
    try:
        check_answer(answer, schema)
    except WrongAnswer as error:
        return error
    return None
