"""The writer of titles: the subject of a conversation in a few words, made once from its user's first request."""

import json
from dataclasses import dataclass, replace
from unicodedata import east_asian_width

from layerlore.extraction.kinds.documents import clean_text
from layerlore.extraction.kinds.kind import (
    EXTRACTIVE,
    AnswerRefused,
    Author,
    Claim,
    JobEnd,
    JsonSchema,
    Kind,
    Material,
    ModelAnswer,
    Stale,
    TurnPart,
    read_lines,
)
from layerlore.memory.engine.engine import Engine, said
from layerlore.memory.language.search_words import split_words
from layerlore.prompts import render
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json, Message, Origin, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent

FEWEST_CHARS, FEWEST_WORDS = 15, 3
"""A message with no more than this says too little to name a conversation after (n8n's numbers)."""
GIVEN_CHARS = 2_000
# Messages that are read at a time.
_PAGE = 20

SCHEMA: JsonSchema = {
    "type": "object",
    "additionalProperties": False,
    "required": ["title"],
    "properties": {"title": {"type": "string"}},
}

_MEMBER: JsonSchema = {"type": "string"}

_THOUGHT = linear_re.compile(
    "|".join(rf"<{name}>.*?(?:</{name}>|\Z)" for name in ("think", "thinking", "reasoning")),
    linear_re.IGNORECASE | linear_re.DOTALL,
)
_FENCE = linear_re.compile(r"^\s*(```|~~~)\w*\s*$", linear_re.MULTILINE)
_FENCED = linear_re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", linear_re.DOTALL)
_HEADING = linear_re.compile(r"^\s*(#{1,6}\s+|[>*•-]\s+|title\s*:\s*)+", linear_re.IGNORECASE)
_EMPHASIS = linear_re.compile("|".join(rf"{mark}(\S|\S.*?\S){mark}" for mark in (r"\*\*", r"\*", "`")))
_LINK = linear_re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ENDS = " \t\"'“”„‟‘’‚‛«»‹›「」『』.,;:!?…。、，；：！？-–—*`"
_STARTS = " \t\"'“”„‟‘’‚‛«»‹›「」『』*`"
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class TitleInput:
    """The message that the title is made from, and its text; and how many characters the title may have."""

    message: Message
    text: str
    most: int


@dataclass(frozen=True, slots=True)
class TitleResult:
    """The title, and the time (ms since 1970)."""

    title: str
    now: int


class TitleWriter:
    """Kind ``title``."""

    name: Kind = "title"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The first message of substance from a user; None if none exists, while titles are switched off, and for a
        thread that must not have a title or has one already that was not cut from a message."""
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread is None or not is_open(thread) or not engine.titles.enabled:
            return None
        found = await _find_message(tx, engine, claim, thread)
        if found is None:
            return None
        content = json.dumps({"message": found.text[:GIVEN_CHARS]}, ensure_ascii=False)
        rules = engine.titles
        form = {"instructions": rules.instructions.strip(), "most_title": rules.max_length}
        prompt = render("title", **form)
        lines = [
            replace(line, text=line.text[:GIVEN_CHARS]) for line in read_lines(engine, [found.message], tools=False)
        ]
        turn = TurnPart({"title": True, **form}, _MEMBER, lambda given: {"title": given}, earlier=tuple(lines))
        return Material(prompt.text, content, SCHEMA, prompt.version, found, turn=turn)

    def read(self, answer: ModelAnswer, material: Material) -> str:
        given = answer.get("title")
        if isinstance(given, str):
            title = clean_title(given)
        else:
            title = ""
        if not any(map(str.isalnum, title)):
            most = material.inputs.most
            raise AnswerRefused(f"title: must be a text with words in it, of at most {most} characters")
        return title

    async def enrich(self, engine: Engine, material: Material, result: str) -> TitleResult:
        return TitleResult(shorten(engine.derived_text(result), material.inputs.most), engine.now())

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: TitleResult, by: Author
    ) -> JobEnd:
        """Give the thread its title, unless it got one meanwhile. Raises Stale when the message has changed."""
        thread = await threads.lock_uid(tx, claim.scope, claim.thread_uid)
        if thread is None or not is_open(thread):
            return JobEnd(refused=("title: somebody gave another one meanwhile",))
        message: Message = material.inputs.message
        # The message must be as the model read it, or the title could name what was deleted.
        now = await message_pages.read_spoken_before(tx, claim.scope, thread, upto=message.seq, most=1)
        if now != [message]:
            raise Stale("the message that the title was made of was changed or deleted meanwhile")
        if not await threads.put_title(tx, claim.scope, claim.thread_uid, result.title, by=by.model):
            return JobEnd()  # it was cut from a message, like this one
        origin = Origin(claim.kind, "")
        made: Json = {"changed": ["title"], "model": by.model, "prompt": by.prompt}
        # The event names the message, so that deleting the message finds the title, too.
        happened = NewEvent("thread_updated", made, message.seq)
        await events.record(tx, claim.scope, thread, [happened], origin=origin, now=result.now)
        in_list = NewEvent("thread_updated", {"thread_id": thread.thread_id, "changed": ["title"]})
        await events.record_of_resource(
            tx, claim.scope, in_list, thread_uid=claim.thread_uid, origin=origin, now=result.now
        )
        return JobEnd(kept=("title",))

    def digest(self, material: Material) -> ModelAnswer | None:
        """The beginning of the message."""
        # Code says little about a conversation, unless the message is nothing else.
        return {"title": _FENCED.sub(" ", material.inputs.text).strip() or material.inputs.text}


def is_open(thread: Thread) -> bool:
    """Whether a title may be made: the thread has none, or one that was cut from a message."""
    return (thread.title is None and thread.title_by is None) or thread.title_by == EXTRACTIVE


async def _find_message(tx: Tx, engine: Engine, claim: Claim, thread: Thread) -> TitleInput | None:
    after = 0
    while True:
        found = await message_pages.read_spoken(tx, claim.scope, thread, after=after, upto=claim.seq, most=_PAGE)
        for message in found:
            if message.role == "user":
                text = said(engine, message).strip()
            else:
                text = ""
            if not is_trivial(text) and any(map(str.isalnum, clean_title(text))):
                return TitleInput(message, text, engine.titles.max_length)
        if len(found) < _PAGE:
            return None
        after = found[-1].seq


def is_trivial(text: str) -> bool:
    """Whether a message says too little to name a conversation after. A wide character, as in Chinese, counts as two; in
    scripts without spaces pairs of characters count as words."""
    line = " ".join(text.split())
    width = sum(2 if east_asian_width(character) in "WF" else 1 for character in line)
    return width <= FEWEST_CHARS or len(split_words(line)) <= FEWEST_WORDS


def clean_title(text: str) -> str:
    """Put a title on one line, without the thoughts, fences, headings, emphasis, quotation marks and final punctuation
    that models and people put around one."""
    title = _FENCE.sub("", _THOUGHT.sub("", clean_text(text)))
    title = _LINK.sub(r"\1", title)
    title = " ".join(_HEADING.sub("", line) for line in title.splitlines() if line.strip())
    title = _EMPHASIS.sub(lambda found: next(filter(None, found.groups())), title)
    return " ".join(title.split()).lstrip(_STARTS).rstrip(_ENDS)


def shorten(text: str, most: int) -> str:
    """Cut a title at a word, to at most ``most`` characters. A first word that is longer is cut itself."""
    if len(text) <= most:
        return text
    room = most - len(_ELLIPSIS)
    at = text.rfind(" ", 0, room + 1)
    return text[: at if at > 0 else room].rstrip(_ENDS) + _ELLIPSIS
