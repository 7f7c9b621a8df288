"""What a model wrote, before anything is made of it."""

from layerlore.memory.blocks import without_blocks
from layerlore.memory.quoting import one_line, visible


def worded(text: str) -> str:
    """Without our own blocks, without what nobody sees, and without what no database takes: NUL, and halves of surrogate
    pairs."""
    return without_blocks(visible(text.encode(errors="replace").decode()))


def in_one_line(text: str, most: int) -> str:
    """The same in one line of at most ``most`` characters."""
    told = one_line(worded(text))
    return told if len(told) <= most else told[: most - 1] + "…"
