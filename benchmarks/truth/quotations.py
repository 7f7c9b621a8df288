"""Entries with quotes: faithful ones are kept, those that nobody said are refused, and twisted ones are marked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from benchmarks.servers import ToolFailed
from benchmarks.truth.cases import Json, Sample, message, read_toml
from benchmarks.truth.figures import Figure
from benchmarks.truth.memory_client import Memory, Note, opened, shows

PART = "evidence"
JOBS = "evidence by jobs"
LABELS = {
    "user": "user_assertion",
    "accepted": "user_accepted_assistant_proposal",
    "found": "verified_assistant_finding",
}
KINDS = ("faithful", "invented_quotes", "wrong_roles", "questions", "twisted")
REFUSED_KINDS = ("invented_quotes", "wrong_roles", "questions")
FAITHFUL_KEPT = 0.95
THREAD = "talk"
# How many entries of each kind one job hands in: a turn makes at most five.
JOB_SHARES = {"faithful": 2, "invented_quotes": 1, "wrong_roles": 1, "twisted": 1}
# Work on a turn is due two seconds after it.
_DUE_SECONDS = 120.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Claim:
    """An entry with its quotes. ``unproven`` is the name or number that no quote has."""

    kind: str
    label: str
    content: str
    quotes: list[str]
    unproven: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said, and the entries about it."""

    messages: list[str]
    claims: list[Claim]

    def of_kind(self, *kinds: str) -> list[Claim]:
        return [claim for claim in self.claims if claim.kind in kinds]


def read_conversations() -> list[Conversation]:
    """All conversations with their entries."""
    return [
        Conversation(each["messages"], [_claim(kind, entry) for kind in KINDS for entry in each[kind]])
        for each in read_toml("evidence")["conversations"]
    ]


def _claim(kind: str, entry: list[str]) -> Claim:
    label, content, *quotes = entry
    unproven = quotes.pop() if kind == "twisted" else ""
    return Claim(kind, LABELS[label], content, quotes, unproven)


class Gate:
    """Counts what a gate keeps, refuses and marks."""

    def __init__(self, part: str) -> None:
        self.faithful = Figure(part, "faithful: kept", FAITHFUL_KEPT)
        self.refused = {kind: Figure(part, f"{kind.replace('_', ' ')}: refused", 1.0) for kind in REFUSED_KINDS}
        self.twisted = Figure(part, "twisted: kept", 1.0)

    @property
    def figures(self) -> list[Figure]:
        return [each for each in (self.faithful, *self.refused.values(), self.twisted) if each.cases]

    def add(self, claim: Claim, *, kept: bool) -> None:
        if claim.kind == "faithful":
            self.faithful.add(kept, claim.content)
        elif claim.kind == "twisted":
            self.twisted.add(kept, claim.content)
        else:
            self.refused[claim.kind].add(not kept, claim.content)


async def measure(folder: Path, sample: Sample) -> list[Figure]:
    """What remember does with each entry, given its quotes."""
    gate = Gate(PART)
    marked = Figure(PART, "twisted: marked", 1.0)
    marked_falsely = Figure(PART, "faithful: marked", unwanted=True)
    async with opened(folder, "quotes") as memory:
        await memory.embedder_loaded()
        for conversation in sample.of(read_conversations()):
            for claims in (conversation.of_kind("faithful"), conversation.of_kind(*KINDS[1:])):
                # An invented entry that repeats a faithful one would be recognised as a repetition.
                await memory.erase()
                await memory.say(conversation.messages, THREAD)
                for claim in claims:
                    note = await _remember(memory, claim)
                    gate.add(claim, kept=note.is_proven)
                    if claim.kind == "twisted":
                        marked.add(_is_marked(note, claim), claim.content)
                    elif claim.kind == "faithful":
                        marked_falsely.add(bool(note.unproven), f"{claim.content} {note.unproven}")
    return [*gate.figures, marked, marked_falsely]


async def _remember(memory: Memory, claim: Claim) -> Note:
    return await memory.remember(claim.content, quotes=claim.quotes, source=claim.label, thread_id=THREAD)


def _is_marked(note: Note, claim: Claim) -> bool:
    return note.is_proven and any(claim.unproven in words or words in claim.unproven for words in note.unproven)


async def measure_jobs(folder: Path, sample: Sample) -> list[Figure]:
    """What becomes of entries that the host's model hands in for a job."""
    conversations = sample.of(read_conversations())
    gate = Gate(JOBS)
    async with opened(folder, "jobs") as memory:
        for number, conversation in enumerate(conversations):
            await memory.say(conversation.messages, f"{THREAD}-{number}")
        await _hand_in(memory, conversations, gate)
    return gate.figures


async def _hand_in(memory: Memory, conversations: Sequence[Conversation], gate: Gate) -> None:
    """Take jobs as they become due, until each conversation had its turn."""
    left = list(conversations)
    with anyio.move_on_after(_DUE_SECONDS):
        while left:
            job = await memory.call("next_memory_job")
            if job["status"] != "taken":
                await anyio.sleep(_POLL_SECONDS)
                continue
            written = str(job["material"])
            found = next((each for each in left if _first_line(each) in written), None)
            has_entries = "entries" in job["schema"]["properties"]
            claims = _chosen(found) if found is not None and has_entries else []
            kept = await _submit(memory, job, claims)
            for claim in claims:
                gate.add(claim, kept=kept(claim))
            if found is not None and has_entries:
                left.remove(found)
    if left:
        raise RuntimeError(f"{len(left)} conversations had no job within {_DUE_SECONDS:.0f} seconds")


def _first_line(conversation: Conversation) -> str:
    return str(message(conversation.messages[0])["content"])


def _chosen(conversation: Conversation) -> list[Claim]:
    """The entries for one job. Jobs of older servers take one quote, so an entry with several is left out."""
    claims = []
    for kind, most in JOB_SHARES.items():
        single = [claim for claim in conversation.of_kind(kind) if len(claim.quotes) == 1]
        claims += single[:most]
    return claims


async def _submit(memory: Memory, job: Json, claims: Sequence[Claim]) -> Callable[[Claim], bool]:
    """Hand in a job's answer. Returns a function that says whether the job kept an entry."""
    wanted = job["schema"]["properties"]
    result = {name: value for name, value in _NEUTRAL.items() if name in wanted}
    if "entries" in wanted:
        result["entries"] = [
            {"content": claim.content, "source": claim.label, "evidence": claim.quotes[0], "corrects": None}
            for claim in claims
        ]
    try:
        answer = await memory.call("submit_memory_job", job_id=job["job_id"], result=result)
    except ToolFailed:
        return lambda _: False
    named = {str(name) for part in ("kept", "duplicates") for name in answer.get(part, [])}
    shown = {claim.content for claim in claims if shows(await _entries(memory, claim), claim.content)}
    return lambda claim: claim.content in shown or f"entries[{claims.index(claim)}]" in named


async def _entries(memory: Memory, claim: Claim) -> str:
    """The text of the entries that are nearest to a claim, without the messages that it quotes."""
    return await memory.recall(claim.content, kinds=["entry"], max_tokens=5_000)


_NEUTRAL: dict[str, Any] = {"profile": None, "session_memory": "", "title": "A conversation"}
