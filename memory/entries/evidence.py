"""Evidence: the verbatim span of a message that an entry rests on, and how answers show it."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from layerlore.memory.engine.engine import Engine, said
from layerlore.memory.entries.entry_answers import QuotedSource
from layerlore.memory.language.search_words import find_query_words, split_words
from layerlore.memory.rules.validation import INVISIBLE
from layerlore.memory.text.quotation import blank_blocks, join_lines
from layerlore.storage.core.records import Message, Role, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, entry_curation
from layerlore.storage.derived.entries import PLACE, ShownSource
from layerlore.storage.derived.subjects import find_others
from layerlore.storage.messages import indexed_rows

Label = Literal["user_assertion", "user_accepted_assistant_proposal", "verified_assistant_finding", "caller"]
"""The kind of an entry's source (seed 004); ``caller``: evidence that a caller brought without a label."""

LABELS: tuple[Label, ...] = get_args(Label)

ROLES_OF: dict[Label, tuple[Role, ...]] = {
    "user_assertion": ("user",),
    "user_accepted_assistant_proposal": ("user",),
    "verified_assistant_finding": ("assistant", "user"),
    "caller": ("assistant", "user"),
}
"""The roles whose words may be evidence for each label. If both may, the assistant's come first, since they are trusted
less."""

FOREIGN = 3
# Words of a text that are examined.
_CONTENT_WORDS = 200

_QUOTES = "\"'“”„‟‘’‚‛«»‹›`´′″「」『』"
# The last are what a model reads a "(" for, where they open something.
_FOLDED = {**dict.fromkeys(_QUOTES, "'"), **dict.fromkeys("-‐‑‒–—―−﹘﹣-", "-"), "<": "(", "[": "("}


@dataclass(frozen=True, slots=True)
class EvidenceText:
    """A message's text as a model gets it. ``role``: whose word it is (``trust.find_evidence_role``). ``before``: the
    assistant's text that a user answers."""

    seq: int
    revision: int
    role: Role
    text: str
    before: str = ""


@dataclass(frozen=True, slots=True)
class EvidenceSpan:
    """Where evidence stands: ``starts`` to ``ends`` (exclusive) of a message's text, in characters."""

    seq: int
    revision: int
    role: Role
    starts: int
    ends: int


def find_places(
    evidence: str, label: Label, said: Sequence[EvidenceText]
) -> Iterator[tuple[EvidenceText, EvidenceSpan]]:
    """Find the messages, of the roles that the label allows, in which the evidence stands word for word: the newest first,
    and the assistant's before the user's. Text in a block that is named like one of ours is not evidence."""
    sought = _fold(_unwrap(evidence))[0].strip(" ")
    signs = [character for character in sought if character.isalnum()]
    # A single letter stands in nearly every text; a single Han character is a word.
    if not signs or (len(signs) == 1 and _is_in_word(signs[0])):
        return
    for role in ROLES_OF[label]:
        for message in sorted(said, key=lambda message: -message.seq):
            if message.role != role:
                continue
            # Blanks keep the offsets: the span must fit the message as it is stored.
            text = blank_blocks(message.text)
            if place := _find_place(sought, text):
                if text == message.text:
                    own = message
                else:
                    own = replace(message, text=text)
                yield own, EvidenceSpan(message.seq, message.revision, role, *place)


def rests_on_others(text: str, own: Iterable[str], others: Iterable[str]) -> bool:
    """Whether a text says what others said, rather than the speaker to whom it is attributed: a quotation may stand
    word for word and prove nothing of it.

    At least FOREIGN of the text's content words must be the others' alone, and more than twice as many as are the
    speaker's own: a paraphrase of the speaker shares more."""
    content_words = set(find_query_words(text, most=_CONTENT_WORDS))
    his = content_words.intersection(split_words("\n".join(own)))
    theirs = content_words.intersection(split_words("\n".join(others))) - his
    return len(theirs) >= FOREIGN and len(theirs) > 2 * len(his)


def _find_place(sought: str, text: str) -> tuple[int, int] | None:
    folded, origins = _fold(text)
    at = folded.find(sought)
    while at >= 0:
        end = at + len(sought)
        if not _cuts_word(folded, at) and not _cuts_word(folded, end):
            return origins[at], origins[end - 1] + 1
        at = folded.find(sought, at + 1)
    return None


def _cuts_word(text: str, at: int) -> bool:
    """Whether a word, or a letter and its accent, stands on both sides: *not* in *nothing* is not a word of the
    text."""
    if not 0 < at < len(text):
        return False
    if unicodedata.combining(text[at]):
        return text[at - 1].isalnum()
    return _is_in_word(text[at - 1]) and _is_in_word(text[at])


def _is_in_word(character: str) -> bool:
    """A digit, or a letter of a script that puts spaces between its words; others are cut anywhere."""
    return character.isdigit() or character.isupper() or character.islower()


def _unwrap(evidence: str) -> str:
    """Remove the quotation marks that a model puts around what it quotes."""
    trimmed = evidence.strip()
    while len(trimmed) > 1 and trimmed[0] in _QUOTES and trimmed[-1] in _QUOTES:
        trimmed = trimmed[1:-1].strip()
    return trimmed


def _fold(text: str) -> tuple[str, list[int]]:
    """A text in which what may differ is equal, and for each of its characters where it comes from."""
    found: list[str] = []
    origins: list[int] = []
    for at, character in enumerate(text):
        if character.isspace():
            if found and found[-1] == " ":
                continue
            made = " "
        elif character in _FOLDED:
            made = _FOLDED[character]
        elif character.isascii() and character.isprintable():
            made = character.lower()
        elif INVISIBLE.match(character):
            continue
        else:
            # NFD makes composed and decomposed accents equal; one character may become several.
            made = unicodedata.normalize("NFD", character.casefold())
        found.append(made)
        origins += [at] * len(made)
    return "".join(found), origins


async def add_quotes(
    tx: Tx, scope: Scope, engine: Engine, shown: Sequence[Message], subject: str = ""
) -> list[Message]:
    """The messages, those that are entries with the quotation of each of their sources that is about no other
    ``subject``."""
    ids = _list_entries(shown)
    if not ids:
        return list(shown)
    # A quotation from the conversation of another subject would disclose it to this one.
    others = (await find_others(tx, scope, subject)).uids
    found = await entries.sources_of(tx, scope, ids)
    sources = {id_: [source for source in each if source.thread_uid not in others] for id_, each in found.items()}
    places = [(source.thread_uid, source.seq) for each in sources.values() for source in each]
    read = await indexed_rows.messages_of(tx, scope, places)

    def quote(source: ShownSource) -> QuotedSource:
        quoted: QuotedSource = {"thread_id": source.thread_id, "seq": source.seq, "label": source.label}
        message = read.get((source.thread_uid, source.seq))
        if message is not None:
            text = join_lines(said(engine, message)[source.starts : source.ends])
            if text:
                quoted["quote"] = text
        return quoted

    return [
        replace(message, metadata={**message.metadata, "sources": [quote(each) for each in sources[message.id]]})
        if message.id in sources
        else message
        for message in shown
    ]


async def add_contradicted(tx: Tx, scope: Scope, shown: Sequence[Message]) -> list[Message]:
    """The messages, with the entries that say otherwise than those among them: the newer one first, directly before what
    it contradicts. Their metadata say so: ``newer`` is the id of the newer entry, ``older`` those of the older."""
    ids = _list_entries(shown)
    if ids:
        pairs = await entry_curation.find_contradicted(tx, scope, ids)
    else:
        pairs = {}
    there = await entries.as_messages(tx, scope, {*pairs, *pairs.values()})
    # If one of a pair is hidden, the other stands alone.
    pairs = {older: newer for older, newer in pairs.items() if older in there and newer in there}
    found = list(shown)
    for older, newer in pairs.items():
        # Places are read anew for each pair, since an insertion moves the rest.
        at = {message.id: place for place, message in enumerate(found)}
        if older not in at:
            found.insert(at[newer] + 1, there[older])
        elif newer not in at:
            found.insert(at[older], there[newer])
        elif at[older] < at[newer]:
            found.insert(at[older], found.pop(at[newer]))
    return [_mark(message, pairs) for message in found]


def _list_entries(shown: Sequence[Message]) -> list[str]:
    return [message.id for message in shown if message.thread_id.startswith(PLACE)]


def _mark(entry: Message, pairs: Mapping[str, str]) -> Message:
    older = sorted(old for old, new in pairs.items() if new == entry.id)
    if not older and entry.id not in pairs:
        return entry
    marks = {**({"newer": pairs[entry.id]} if entry.id in pairs else {}), **({"older": older} if older else {})}
    return replace(entry, metadata={**entry.metadata, **marks})
