"""Notes that a recall found, as a model or a program reads them: a line of the profile or of a session memory, a step of
a plan, an attempt, an observation. Each says what it is before its text, so that nothing in the text can pass for it."""

from layerlore.memory.rules.ages import day, iso
from layerlore.memory.text.quotation import quote_line
from layerlore.storage.core.records import Json, Message
from layerlore.storage.core.scopes import NOTE_KINDS

_NAMES = {
    "session_memory": "session memory of",
    "plan": "plan of",
    "attempt": "attempt in",
    "observation": "observation of",
}
_ORDINARY_TRUST = "user"


def is_note(message: Message) -> bool:
    """Whether this has the shape of a message, and is a note (``storage.derived.notes``)."""
    return str(message.role) in NOTE_KINDS


def describe_note(note: Message) -> str:
    """What a note is: its kind, its thread and its day, and of a step or an attempt how it stands."""
    on, about = day(note.said_at), note.metadata
    if "thread_id" not in about:
        return f"profile, {on}"
    said = [f"{_NAMES[str(note.role)]} thread {quote_line(about['thread_id'])}", on]
    if "status" in about:
        said.append(f"step {quote_line(about['status'])}" if "step" in about else quote_line(about["status"]))
    if about.get("trust", _ORDINARY_TRUST) != _ORDINARY_TRUST:
        said.append(f"{about['trust']}'s words")
    return ", ".join(said)


def make_note_json(note: Message, text: str) -> Json:
    """A note as JSON, with the text that is shown of it."""
    whose = {"whose": note.whose} if note.whose else {}
    return {"kind": note.role, **whose, "id": note.id, **note.metadata, "text": text, "said_at": iso(note.said_at)}
