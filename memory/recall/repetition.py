"""Messages that repeat another word for word, which an answer shows once."""

from layerlore.memory.parts.parts import plain_text
from layerlore.memory.text.quotation import join_lines
from layerlore.storage.core.records import Message


class ShownTexts:
    """The texts already shown in one answer, each with its speaker."""

    def __init__(self) -> None:
        self._shown: set[tuple[str, str | None, str]] = set()

    def add(self, message: Message) -> bool:
        """Add a message unless the same speaker already said the same, to the letter. Returns whether it was added."""
        text = join_lines(plain_text(message.parts))
        if not text:
            return True
        before = len(self._shown)
        self._shown.add((message.role, message.name, text))
        return len(self._shown) > before
