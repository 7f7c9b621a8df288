"""A context as text for a model to read, and as JSON for a program."""

from layerlore.memory.ages import iso
from layerlore.memory.blocks import block
from layerlore.memory.context.layout import Laid
from layerlore.memory.context.message_lines import lines
from layerlore.memory.context.pieces import Shown
from layerlore.memory.context.placing import Gathered
from layerlore.memory.quoting import TAGS, Tag
from layerlore.storage.records import Json, Message

_FRAMES: dict[Tag, str] = {
    "predefined-messages": "Messages that the operator put before every conversation.",
    "conversation": "The conversation, as it was said.",
    "current-turn": "The newest message of the user, and what came after it.",
}


def as_text(laid: Laid, closing: str) -> str:
    """The blocks in their order, and the closing line."""
    return "\n".join(
        [
            *_messages("predefined-messages", laid.predefined),
            *laid.stable,
            *_messages("conversation", laid.before),
            *laid.volatile,
            *_messages("current-turn", laid.turn),
            closing,
        ]
    )


def _messages(tag: Tag, messages: tuple[Message, ...]) -> list[str]:
    return [block(tag, lines(messages), _FRAMES[tag])] if messages else []


def as_json(gathered: Gathered, summary: Shown | None) -> Json:
    """Every block under its name, in the context's order: texts as a model is given them, messages with their parts."""
    laid = gathered.laid_window
    shown = {each.name: each.text for each in (*gathered.shown, *([summary] if summary else [])) if each.text}
    found: dict[str, Json] = {name: {"block": name, "text": text} for name, text in shown.items()}
    for name, some in (
        ("predefined-messages", laid.predefined),
        ("conversation", laid.before),
        ("current-turn", laid.turn),
    ):
        if some:
            found[name] = {"block": name, "messages": [_entry(message) for message in some]}
    return {"blocks": [found[name] for name in TAGS if name in found]}


def _entry(message: Message) -> Json:
    place = {"id": message.id, "seq": message.seq} if message.seq > 0 else {}
    said = {"said_at": iso(message.said_at)} if message.seq > 0 else {}
    return {
        **place,
        "role": message.role,
        **({"name": message.name} if message.name else {}),
        "parts": message.parts,
        **said,
    }
