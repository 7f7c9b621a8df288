"""What a message says: the words of whoever wrote it, as everything that is derived from it reads them."""

from layerlore.memory.blocks import without_blocks
from layerlore.memory.engine import Engine
from layerlore.memory.quoting import visible
from layerlore.storage.records import Message


def said(engine: Engine, message: Message) -> str:
    """The texts of a message, a line break between them, without the blocks that we put there and, unless redaction
    is off, with secrets masked; nothing hidden is in them. No tool calls or results, no reasoning, no media.

    Offsets into what was said (of evidence, of pieces) are into this text.
    """
    texts = (
        without_blocks(visible(part["text"], engine.derived_text)) for part in message.parts if part["type"] == "text"
    )
    return engine.derived_text("\n".join(filter(None, texts)))
