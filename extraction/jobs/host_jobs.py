"""Jobs for the host's own model: it takes a job, and submits an answer. The work of several kinds on one turn is one
job, and each of its parts succeeds or fails alone.

The server keeps nothing in memory between the two requests, which may reach different processes: the material is read
again from the claims, and must be what the model got.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NoReturn, NotRequired, TypedDict, cast

import anyio

from layerlore.extraction.chat.chat_port import ANSWER, DEPTH, Unreadable, WrongAnswer, check_answer, read_object
from layerlore.extraction.jobs.registry import make_kinds
from layerlore.extraction.jobs.worker import Result, judge_answer, prepare, store_result
from layerlore.extraction.kinds.kind import (
    EXTRACTIVE,
    MODEL_KINDS,
    AnswerRefused,
    Author,
    JobEnd,
    JobKind,
    JobMaterial,
    JsonSchema,
    Material,
    ModelAnswer,
    Stale,
    TranscriptLine,
    TurnPart,
)
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.validation import check_json
from layerlore.memory.text.quotation import escape_turns
from layerlore.prompts import render
from layerlore.storage.audit.usage_rows import next_day
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import Conflict, InvalidInput, LimitExceeded, NotFound
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import MOST_FAILURES, Claim, Fenced, Kind
from layerlore.storage.threads import threads

TURN_KINDS: tuple[Kind, ...] = ("entries", "profile", "session_memory", "title")
"""The kinds that read the same turn, in the order in which the answer has them and they are stored."""

# A line repeats the time after this number of milliseconds.
_TIMED_MS = 600_000
_NOT_ASKED: Mapping[str, Any] = {
    **dict.fromkeys(("entries", "profile", "session_document", "session_notes", "title", "notes", "instructions"), ""),
    "most": 0,
    "most_title": 0,
}


@dataclass(frozen=True, slots=True)
class JobPart:
    """A claim of one kind, with its material. Those of TURN_KINDS come together, the others alone."""

    claim: Claim
    kind: JobKind
    material: Material

    @property
    def name(self) -> Kind:
        return self.kind.name


@dataclass(frozen=True, slots=True)
class Assignment:
    """The input of a model for its job, as the tool answers it. ``prompt``: the prompt's name and version."""

    instructions: str
    material: JobMaterial
    schema: JsonSchema
    prompt: str


def make_assignment(parts: Sequence[JobPart]) -> Assignment:
    """Join the parts into one assignment. A single part that is not about a turn is its own material."""
    turns = [(part.name, part.material.turn) for part in parts if part.material.turn is not None]
    if not turns:
        material = parts[0].material
        return Assignment(material.instructions, json.loads(material.content), material.schema, material.prompt)
    return _join(turns)


def _join(turns: Sequence[tuple[Kind, TurnPart]]) -> Assignment:
    lines = _merge([turn.lines for _, turn in turns])
    seqs = {line.seq for line in lines}
    # A message that is new to one kind need not come again as background of another.
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
    """The inputs of each kind, and the transcript; empty ones are left out."""
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
    """The lines in order, the most informative one of each message: with calls and results of tools, for example."""
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
        if line.name:
            name = f" ({line.name})"
        else:
            name = ""
        time = ""
        if abs(line.said_at - told) >= _TIMED_MS:
            time, told = f" {iso(line.said_at)[:16]}Z", line.said_at
        written.append(f"{line.seq} {line.role}{name}{time}: {line.text}")
    return written


def _shorten(schema: JsonSchema) -> JsonSchema:
    """The part of a schema that a model gets beside the instructions, which say the rest. Answers are checked against
    all of it."""
    shown: JsonSchema = {key: schema[key] for key in ("type", "required") if key in schema}
    if "items" in schema:
        return {**shown, "items": _shorten(schema["items"])}
    return shown


def split_answer(answer: ModelAnswer, parts: Sequence[JobPart]) -> dict[Kind, ModelAnswer | WrongAnswer]:
    """The answer of each part, checked against its schema, or what is wrong with it. Items that an earlier answer
    settled may come again, and are skipped. Raises WrongAnswer for a name that is not a kind's."""
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


LEASE_MS = 600_000
"""Ten minutes, since a host's model works on a job between other things. A job that it gave up is free afterwards."""
_AGAIN = "next_memory_job gives another"
_UNKNOWN = (
    "job_id: there is no such job, it has ended, or it was taken back: its lease ran out and somebody else took it, or "
    f"something was deleted; nothing was stored; {_AGAIN}"
)
_LETTERS: Mapping[Kind, str] = {
    "observe": "o",
    "reflect": "r",
    "entries": "e",
    "profile": "p",
    "session_memory": "s",
    "title": "t",
    "summary": "m",
}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}
_PART = r"\.([a-z])([0-9]{1,18})-([0-9a-f]{6})"
_EACH_PART = linear_re.compile(_PART)
_NAME = linear_re.compile(rf"(?P<thread>[0-9A-Za-z-]*)(?P<parts>(?:{_PART})+)")


@dataclass(frozen=True, slots=True)
class Offer:
    """A claimed job. ``job_id`` identifies the claims and the material."""

    job_id: str
    kind: str
    lease_until: int
    assignment: Assignment


class SubmittedAnswer(TypedDict):
    """The result of each item of an answer; ``open`` names the parts that may be submitted again."""

    kind: str
    kept: list[str]
    duplicates: NotRequired[list[str]]
    refused: NotRequired[list[str]]
    unproven: NotRequired[list[str]]
    open: NotRequired[list[str]]


class _ClaimedJob(TypedDict, total=False):
    """The thread and the claims of a claimed job, by kind and epoch; empty without any."""

    of: tuple[str, list[tuple[Kind, int]]]


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why the answer of a part is not stored: for its author, who may be quoted, and as it is stored."""

    part: JobPart
    for_model: str
    kept: str

    @property
    def is_last(self) -> bool:
        return self.part.claim.attempts + 1 >= MOST_FAILURES


class _PartIsStale(Exception):
    """The material of a part has changed: the whole transaction is undone."""

    def __init__(self, result: Result, error: Stale | Fenced) -> None:
        super().__init__(str(error))
        self.result, self.error = result, error


@cache
def host_kinds() -> Mapping[Kind, JobKind]:
    """The kinds that a model can do, by name."""
    return {kind.name: kind for kind in make_kinds() if kind.name in MODEL_KINDS}


def name_host_model(client: str) -> str:
    """The model name that is stored with what a client's model made."""
    return f"host:{client}"


async def take(engine: Engine, scope: Scope, holder: str, *, sent: WriteRequest) -> Offer | None:
    """Claim the scope's due work for LEASE_MS, or return what the holder has claimed already; None when nothing is due.

    Raises NotFound for a repeated request whose job has ended, StorageUnavailable.
    """
    while claims := await _claim_next(engine, scope, holder, sent):
        parts = await _prepare(engine, claims)
        if parts:
            kind = "+".join(part.name for part in parts)
            return Offer(_job_id(parts), kind, parts[0].claim.lease_until, make_assignment(parts))
        # These claims had nothing to do and are finished. The same key would give them again.
        sent = replace(sent, key="")
    return None


async def _prepare(engine: Engine, claims: Sequence[Claim]) -> list[JobPart]:
    """The claims for which there is something to do, with their material."""
    parts: list[JobPart] = []
    for claim in claims:
        kind = host_kinds()[claim.kind]
        material = await prepare(engine, kind, claim)
        if material is not None:
            parts.append(JobPart(claim, kind, material))
    return parts


async def submit(
    engine: Engine, scope: Scope, job_id: str, answer: Any, client: str, *, most_chars: int, sent: WriteRequest
) -> SubmittedAnswer:
    """Check an answer (an object, or text that holds one) like that of any other model, and store it with the job's end.

    Returns ``kind``; which of its items were ``kept``, which are ``duplicates``, which were ``refused`` and why; which
    are ``unproven`` in a name or number; and in ``open`` the parts that wait for what was refused of them. Raises NotFound for a job that is not the caller's, Conflict when its
    lease is over or its material has changed, InvalidInput for an answer of which every part is refused: the caller then
    keeps the job until the lease ends.
    """
    if isinstance(answer, str):
        text = answer
    else:
        check_json(answer, "result", depth=DEPTH)
        text = to_json(answer)
    if len(text) > most_chars:
        raise LimitExceeded(f"result: {len(text):,} characters; at most {most_chars:,} are allowed")
    named = _read_id(job_id)
    # The answer may hold secrets, so only its digest is stored with the request.
    body = [job_id, hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()]
    answered = await engine.kept_answer(scope, sent, body)
    if answered is not None:
        return cast("SubmittedAnswer", answered)
    claims = await _find_claims(engine, scope, named, sent, body)
    parts = await _drop_changed(engine, await _prepare(engine, claims), named)
    prompt = make_assignment(parts).prompt
    try:
        # Checking a schema may take a while.
        split = await anyio.to_thread.run_sync(_read, text, parts)
    except WrongAnswer as error:
        await _refuse(engine, [_Refusal(part, error.for_model, str(error)) for part in parts])
    results: list[Result] = []
    wrong: list[_Refusal] = []
    for part in parts:
        found = await _judge(engine, part, split[part.name], Author(name_host_model(client), prompt))
        if isinstance(found, Result):
            # A part waits once for a correction by its author, as when the server asks a model itself.
            if found.mendable:
                found = replace(found, value=replace(found.value, stays_open=True), stays_open=True)
            results.append(found)
        else:
            wrong.append(found if len(parts) == 1 else _name_part(found))
    if not results:
        await _refuse(engine, wrong)
    stored = await _store(engine, scope, results, wrong, sent, body)
    told = [refusal.for_model for refusal in wrong]
    if told:
        stored["refused"] = [*stored["refused"][: -len(told)], *told]
    return stored


@dataclass(frozen=True, slots=True)
class _JobIdParts:
    """The parts of a job id: a thread's uid, and of each kind the claim's epoch and the material's fingerprint."""

    thread_uid: str
    kinds: Mapping[Kind, tuple[int, str]]


def _read_id(job_id: str) -> _JobIdParts:
    named = _NAME.fullmatch(job_id)
    if named:
        found = _EACH_PART.findall(named["parts"])
    else:
        found = []
    if named is None or any(letter not in _KINDS for letter, _, _ in found):
        raise NotFound(_UNKNOWN)
    return _JobIdParts(named["thread"], {_KINDS[letter]: (int(epoch), given) for letter, epoch, given in found})


def _job_id(parts: Sequence[JobPart]) -> str:
    kinds = (f".{_LETTERS[part.name]}{part.claim.epoch}-{_fingerprint(part.material)}" for part in parts)
    return parts[0].claim.thread_uid + "".join(kinds)


def _fingerprint(material: Material) -> str:
    content: Json = json.loads(material.content)
    # An answer stays valid when only the background changes.
    given = {name: value for name, value in content.items() if name not in material.beside}
    return hashlib.sha256(to_json([material.prompt, given]).encode()).hexdigest()[:6]


def _read(text: str, parts: Sequence[JobPart]) -> dict[Kind, Json | WrongAnswer]:
    try:
        return split_answer(read_object(text), parts)
    except Unreadable as error:
        raise WrongAnswer(str(error), str(error)) from None


async def _find_claims(
    engine: Engine, scope: Scope, named: _JobIdParts, sent: WriteRequest, body: list[Any]
) -> list[Claim]:
    """The claims of a job that have not ended. Raises NotFound without any, Conflict when their lease is over."""

    async def find(tx: Tx, scope: Scope) -> list[Claim]:
        held = [
            await job_rows.find_held(tx, scope, named.thread_uid, kind, epoch)
            for kind, (epoch, _) in named.kinds.items()
        ]
        return [claim for claim in held if claim is not None]

    now = engine.now()
    claims = await engine.database.read(find, scope)
    if not claims:
        # This is a write, so that the journal has a line of the refused call.
        await engine.write(scope, sent, body, now, _refuse_unknown)
        # It returns only if the same request, sent twice at once, has just been answered.
        raise Conflict("job_id: the same request was answered meanwhile; send it again for its answer")
    live = [claim for claim in claims if claim.lease_until > now]
    if not live:
        raise Conflict(f"job_id: the lease ended at {iso(claims[0].lease_until)}; nothing was stored; {_AGAIN}")
    return live


async def _drop_changed(engine: Engine, parts: list[JobPart], named: _JobIdParts) -> list[JobPart]:
    """The parts whose material is as the model got it; the others are handed back. Raises Conflict if none is left."""
    if not parts:
        raise Conflict(f"job_id: there is nothing left to do for it; nothing was stored; {_AGAIN}")
    same = [part for part in parts if _fingerprint(part.material) == named.kinds[part.name][1]]
    for part in parts:
        if part not in same:
            await engine.database.write(job_rows.hand_back, part.claim, now=engine.now())
    if not same:
        raise _changed("its material has changed")
    return same


def _changed(reason: str) -> Conflict:
    return Conflict(
        f"job_id: what it is about has changed since it was taken ({reason}); nothing was stored; take it again "
        "with next_memory_job"
    )


async def _judge(engine: Engine, part: JobPart, answer: Json | WrongAnswer, by: Author) -> Result | _Refusal:
    if isinstance(answer, WrongAnswer):
        return _Refusal(part, answer.for_model, str(answer))
    try:
        return await judge_answer(engine, part.kind, part.claim, part.material, answer, by)
    except AnswerRefused as error:
        return _Refusal(part, error.for_model, str(error))


def _name_part(refusal: _Refusal) -> _Refusal:
    """The reason with the part's name before it, for an answer of several."""
    name = refusal.part.name
    if refusal.for_model.startswith(name):
        return refusal
    return replace(refusal, for_model=f"{name}: {refusal.for_model}", kept=f"{name}: {refusal.kept}")


async def _store(
    engine: Engine, scope: Scope, results: list[Result], wrong: Sequence[_Refusal], sent: WriteRequest, body: list[Any]
) -> SubmittedAnswer:
    """Store what can be stored, in one transaction; a part whose material changes just then is handed back, and the rest
    stored without it. Raises Conflict if none is left."""
    while True:
        now = engine.now()

        async def store(tx: Tx, results: Sequence[Result] = tuple(results), now: int = now) -> SubmittedAnswer:
            ended = [await _store_part(tx, engine, result, now=now) for result in results]
            for refusal in wrong:
                await _note_failure(tx, refusal.part.claim, engine, refusal, now=now)
            return _describe(results, ended, wrong)

        try:
            # This write also wakes the worker, since it may have made other jobs due.
            return await engine.write(scope, sent, body, now, store)
        except _PartIsStale as stale:
            results.remove(stale.result)
            if isinstance(stale.error, Stale):
                await engine.database.write(job_rows.hand_back, stale.result.claim, now=engine.now())
            if not results:
                raise (stale.error if isinstance(stale.error, Fenced) else _changed(str(stale.error))) from None


async def _store_part(tx: Tx, engine: Engine, result: Result, *, now: int) -> JobEnd:
    try:
        return await store_result(tx, engine, result, now=now)
    except (Stale, Fenced) as error:
        raise _PartIsStale(result, error) from None


def _describe(results: Sequence[Result], ended: Sequence[JobEnd], wrong: Sequence[_Refusal]) -> SubmittedAnswer:
    """The outcome of an answer, item by item; without its text, since the outcome is stored."""
    kept: list[str] = []
    for result, end in zip(results, ended, strict=True):
        if result.material.turn is not None:
            kept += end.kept
        else:
            kept += [result.kind.name]
    duplicates = [each for end in ended for each in end.duplicates]
    refused = [*(each for end in ended for each in end.refused), *(refusal.kept for refusal in wrong)]
    open_parts: list[str] = [result.kind.name for result in results if result.stays_open]
    open_parts += [refusal.part.name for refusal in wrong if not refusal.is_last]
    unproven = [each for end in ended for each in end.unproven]
    answer: SubmittedAnswer = {"kind": "+".join(result.kind.name for result in results), "kept": kept}
    if duplicates:
        answer["duplicates"] = duplicates
    if refused:
        answer["refused"] = refused
    if unproven:
        answer["unproven"] = unproven
    if open_parts:
        answer["open"] = open_parts
    return answer


async def _claim_next(engine: Engine, scope: Scope, holder: str, sent: WriteRequest) -> list[Claim]:
    now = engine.now()

    async def claim(tx: Tx) -> _ClaimedJob:
        held = await job_rows.list_held(tx, scope, list(host_kinds()), holder=holder, now=now)
        if held:
            claims = await _keep_held(tx, held, now)
        else:
            claims = await _claim_due(tx, engine, scope, holder, now)
        if not claims:
            return {}
        return {"of": (claims[0].thread_uid, [(each.kind, each.epoch) for each in claims])}

    given = await engine.write(scope, sent, [], now, claim)
    if "of" not in given:
        return []
    thread_uid, named = given["of"]
    found = [await engine.database.read(job_rows.find_held, scope, thread_uid, kind, epoch) for kind, epoch in named]
    claims = [each for each in found if each is not None]
    if not claims:
        raise NotFound("the job that this request was given has ended: a new request needs a new idempotency key")
    order = list(host_kinds())
    return sorted(claims, key=lambda claim: order.index(claim.kind))


async def _keep_held(tx: Tx, held: Sequence[Claim], now: int) -> list[Claim]:
    """The job that a holder claimed first and whose id it has lost, for another LEASE_MS."""
    first = held[0]
    same = [first]
    if first.kind in TURN_KINDS:
        same = [each for each in held if each.thread_uid == first.thread_uid and each.kind in TURN_KINDS]
    for each in same:
        await job_rows.prolong(tx, each, now=now, lease_ms=LEASE_MS)
    return same


async def _claim_due(tx: Tx, engine: Engine, scope: Scope, holder: str, now: int) -> list[Claim]:
    # Jobs that were put off until tomorrow, too: the tenant's budget limits our own model only.
    also_at = next_day(now)
    first = await job_rows.claim_in(
        tx, scope, list(host_kinds()), holder=holder, now=now, lease_ms=LEASE_MS, also_at=also_at
    )
    if first is None:
        return []
    if first.kind not in TURN_KINDS:
        return [first]
    thread = await threads.find_uid(tx, scope, first.thread_uid)
    if thread is not None and thread.title_by == EXTRACTIVE and engine.titles.enabled:
        # A model's title replaces one that was cut from the messages.
        await job_rows.set_back(tx, scope, first.thread_uid, "title", 0, due_at=now, now=now)
    beside = await job_rows.claim_beside(
        tx, scope, first.thread_uid, TURN_KINDS, holder=holder, now=now, lease_ms=LEASE_MS, also_at=also_at
    )
    return [first, *beside]


async def _refuse_unknown(_: Tx) -> NoReturn:
    raise NotFound(_UNKNOWN)


async def _note_failure(tx: Tx, claim: Claim, engine: Engine, refusal: _Refusal, *, now: int) -> None:
    """Count the failure like that of any other model."""
    error = engine.redactor.text(refusal.kept)[0]
    if refusal.is_last:
        await job_rows.fail(tx, claim, error=error, retry_at=now, dead=True, now=now)
    else:
        await job_rows.note_failure(tx, claim, error=error, now=now)


async def _refuse(engine: Engine, wrong: Sequence[_Refusal]) -> NoReturn:
    """Count the failures, and raise the reasons."""
    now = engine.now()
    for refusal in wrong:
        await engine.database.write(_note_failure, refusal.part.claim, engine, refusal, now=now)
    reason = "; ".join(dict.fromkeys(refusal.for_model for refusal in wrong))
    claim = wrong[0].part.claim
    if all(refusal.is_last for refusal in wrong):
        raise InvalidInput(
            f"result: refused, nothing was stored: {reason}. That was failure {claim.attempts + 1} of {MOST_FAILURES}: "
            f"the job is put aside, as memory_status shows; {_AGAIN}"
        )
    raise InvalidInput(
        f"result: refused, nothing was stored: {reason}. The job is yours until {iso(claim.lease_until)}: correct that and "
        "submit it again"
    )
