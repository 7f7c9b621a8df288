"""The speech of a message: the words of its author, as everything that is derived from it reads them."""

from layerlore.memory.engine.engine import Engine
from layerlore.memory.text.echoes import strip_echoes
from layerlore.memory.text.quotation import make_visible
from layerlore.storage.core.records import Message


def said(engine: Engine, message: Message) -> str:
    """The texts of a message, a line break between them, without the blocks that we put there and, unless redaction
    is off, with secrets masked; nothing hidden is in them. No tool calls or results, no reasoning, no media.

    Offsets of evidence and of pieces are into this text.
    """
    texts = (
        strip_echoes(make_visible(part["text"], engine.derived_text))
        for part in message.parts
        if part["type"] == "text"
    )
    return engine.derived_text("\n".join(filter(None, texts)))
