"""Titles: what a conversation is about, in a few words, made once of what its user first asked."""

import json
import re
from dataclasses import dataclass
from unicodedata import east_asian_width

from layerlore.extraction.kind import Claim, Kind, Material, Refused, Stale, Thinker
from layerlore.extraction.wording import worded
from layerlore.memory.engine import Engine
from layerlore.memory.said import said
from layerlore.memory.search_text import words
from layerlore.prompts import render
from layerlore.storage import events, messages_behind, threads, titles
from layerlore.storage.events import NewEvent
from layerlore.storage.records import Json, Message, Origin, Thread
from layerlore.storage.transaction import Tx

MOST_CHARS = 60
FEWEST_CHARS, FEWEST_WORDS = 15, 3
"""What has no more of either says nothing that a conversation could be called by (n8n's numbers)."""
GIVEN_CHARS = 2_000
# How many messages are looked through at a time.
_PAGE = 20
# A cut that leaves less than this is made within a word.
_SHORTEST = 20

SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["title"],
    "properties": {"title": {"type": "string"}},
}

_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_FENCE = re.compile(r"^\s*(```|~~~)\w*\s*$", re.MULTILINE)
_FENCED = re.compile(r"(```|~~~).*?(\1|\Z)", re.DOTALL)
_HEADING = re.compile(r"^\s*(#{1,6}\s+|[>*•-]\s+|title\s*:\s*)+", re.IGNORECASE)
_EMPHASIS = re.compile(r"(\*\*|\*|`)(?=\S)(.+?)(?<=\S)\1")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ENDS = " \t\"'“”„‟‘’‚‛«»‹›「」『』.,;:!?…。、，；：！？-–—*`"
_STARTS = " \t\"'“”„‟‘’‚‛«»‹›「」『』*`"
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Basis:
    """The message that the title is made of, and what it says."""

    message: Message
    text: str


@dataclass(frozen=True, slots=True)
class Readied:
    title: str
    now: int


class Title:
    """Kind ``title``."""

    name: Kind = "title"
    source = "title"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The first thing of substance that a user said; None while there is none, and for a thread that has a title or
        is to have none."""
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread is None or not _is_open(thread):
            return None
        found = await _first(tx, engine, claim, thread)
        if found is None:
            return None
        content = json.dumps({"message": found.text[:GIVEN_CHARS]}, ensure_ascii=False)
        prompt = render("title", most=MOST_CHARS)
        return Material(prompt.text, content, SCHEMA, prompt.version, found)

    def read(self, answer: Json, material: Material) -> str:
        given = answer.get("title")
        title = cleaned(given) if isinstance(given, str) else ""
        if not any(map(str.isalnum, title)):
            raise Refused(f"title: must be a text with words in it, of at most {MOST_CHARS} characters")
        return title

    async def ready(self, engine: Engine, material: Material, result: str) -> Readied:
        return Readied(shortened(engine.derived_text(result)), engine.now())

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: Readied, by: Thinker
    ) -> None:
        """Give the thread its title, unless it got one meanwhile. Raises Stale when the message is not as it was."""
        thread = await threads.lock_uid(tx, claim.scope, claim.thread_uid)
        if thread is None or not _is_open(thread):
            return
        message: Message = material.basis.message
        now = await messages_behind.spoken_before(tx, claim.scope, thread, upto=message.seq, most=1)
        if now != [message]:
            raise Stale("the message that the title was made of was changed or deleted meanwhile")
        await titles.put(tx, claim.scope, claim.thread_uid, result.title, by=by.model)
        origin = Origin(claim.kind, "")
        made: Json = {"changed": ["title"], "model": by.model, "prompt": by.prompt}
        # It names the message, so that whoever takes that away finds what to take with it.
        happened = NewEvent("thread_updated", made, message.seq)
        await events.record(tx, claim.scope, thread, [happened], origin=origin, now=result.now)
        told = NewEvent("thread_updated", {"thread_id": thread.thread_id, "changed": ["title"]})
        await events.record_of_resource(
            tx, claim.scope, told, thread_uid=claim.thread_uid, origin=origin, now=result.now
        )

    def digested(self, material: Material) -> Json | None:
        """The beginning of the message."""
        return {"title": _FENCED.sub(" ", material.basis.text).strip() or material.basis.text}


def _is_open(thread: Thread) -> bool:
    return thread.title is None and thread.title_by is None


async def _first(tx: Tx, engine: Engine, claim: Claim, thread: Thread) -> Basis | None:
    after = 0
    while True:
        found = await messages_behind.spoken(tx, claim.scope, thread, after=after, upto=claim.seq, most=_PAGE)
        for message in found:
            text = said(engine, message).strip() if message.role == "user" else ""
            if not is_trivial(text) and any(map(str.isalnum, cleaned(text))):
                return Basis(message, text)
        if len(found) < _PAGE:
            return None
        after = found[-1].seq


def is_trivial(text: str) -> bool:
    """Whether a message says too little to be what a conversation is about. A wide character, as those of Chinese are,
    counts as two; in scripts without spaces pairs of characters count as words."""
    told = " ".join(text.split())
    width = sum(2 if east_asian_width(character) in "WF" else 1 for character in told)
    return width <= FEWEST_CHARS or len(words(told)) <= FEWEST_WORDS


def cleaned(text: str) -> str:
    """A title without what models and people put around one: thoughts, fences, headings, emphasis, quotation marks and
    what ends a sentence, in one line."""
    told = _FENCE.sub("", _THOUGHT.sub("", worded(text)))
    told = _LINK.sub(r"\1", told)
    told = " ".join(_HEADING.sub("", line) for line in told.splitlines() if line.strip())
    told = _EMPHASIS.sub(r"\2", told)
    return " ".join(told.split()).lstrip(_STARTS).rstrip(_ENDS)


def shortened(text: str) -> str:
    """A title of at most MOST_CHARS characters, cut at a word."""
    if len(text) <= MOST_CHARS:
        return text
    room = MOST_CHARS - len(_ELLIPSIS)
    at = text.rfind(" ", 0, room + 1)
    return text[: at if at > _SHORTEST else room].rstrip(_ENDS) + _ELLIPSIS
