"""What a model wrote, before anything is made of it."""

from memstrata.memory.blocks import one_line, without_blocks


def worded(text: str) -> str:
    """Without our own blocks, and without what no database takes: NUL, and halves of surrogate pairs."""
    return without_blocks(text.replace("\x00", "").encode(errors="replace").decode())


def in_one_line(text: str, most: int) -> str:
    """The same in one line of at most ``most`` characters."""
    told = one_line(worded(text))
    return told if len(told) <= most else told[: most - 1] + "…"
