"""Observations as a model reads them: one note a line, by day, oldest first.

Until a reflection or a deletion the block only grows: what it is later begins with what it is now (but for the closing
tags), so that a prompt cache keeps it.
"""

from collections.abc import Sequence

from layerlore.memory.ages import day, iso
from layerlore.memory.blocks import block
from layerlore.memory.quoting import quoted_line
from layerlore.memory.tokens import TokenCounter
from layerlore.storage.observations import Observation
from layerlore.storage.records import Thread

CLOSING = "\n</value>\n</observations>"

_ABOUT = "Notes on the earlier part of this conversation, oldest first, times in UTC; newer notes hold over older ones."
# Of the room for the block, what critical notes may take that lie before the part that is shown.
_CRITICAL_SHARE = 0.5
# Where not all fits, the block begins anew only when so much of the room is used up: till then it only grows.
_GRID_SHARE = 0.5


def block_of(rows: Sequence[Observation], counter: TokenCounter, most_tokens: int | None = None) -> str:
    """The ``<observations>`` block of active rows, which are in the thread's order; "" if there are none.

    With ``most_tokens`` the newest that fit, and of those before them the newest critical ones.
    """
    shown = list(rows) if most_tokens is None else _fitting(rows, counter, most_tokens)
    text = _block(shown)
    while most_tokens is not None and shown and counter.text(text) > most_tokens:
        # Lines that head a day are not counted before.
        shown.pop(next((place for place, row in enumerate(shown) if row.marker != "critical"), 0))
        text = _block(shown)
    return text


def cursor_of(thread: Thread, active: object) -> int:
    """The seq up to which active observations tell the thread; 0 without any: then nothing stands for the messages."""
    return thread.observed_seq if active else 0


def line(marker: str, said_at: int, text: str, refers_to: str | None, *, child: bool) -> str:
    """One note: ``- [important] 14:05 The user moved the launch (about 2025-07-01)``."""
    about = f" (about {quoted_line(refers_to)})" if refers_to else ""
    if child:
        return f"  - {quoted_line(text)}{about}"
    return f"- [{marker}] {iso(said_at)[11:16]} {quoted_line(text)}{about}"


def _block(rows: Sequence[Observation]) -> str:
    if not rows:
        return ""
    shown = {row.observation_id for row in rows}
    lines: list[str] = []
    today = ""
    for row in rows:
        child = row.parent_id in shown
        if not child and day(row.said_at) != today:
            today = day(row.said_at)
            lines.append(today)
        lines.append(line(row.marker, row.said_at, row.text, row.refers_to, child=child))
    return block("observations", "\n".join(lines), _ABOUT)


def _fitting(rows: Sequence[Observation], counter: TokenCounter, most_tokens: int) -> list[Observation]:
    room = most_tokens - counter.text(block("observations", day(0), _ABOUT))
    total = sum(row.tokens for row in rows)
    if total <= room:
        return list(rows)
    critical = min(int(room * _CRITICAL_SHARE), sum(row.tokens for row in rows if row.marker == "critical"))
    # Where the shown part begins goes in steps of the grid, counted from the thread's beginning.
    grid = max(1, int(room * _GRID_SHARE))
    starts_at = -(-(total - room + critical) // grid) * grid
    begins, passed = 0, 0
    while begins < len(rows) and passed < starts_at:
        passed += rows[begins].tokens
        begins += 1
    kept: list[Observation] = []
    for row in reversed(rows[:begins]):
        if row.marker == "critical" and row.tokens <= critical:
            kept.append(row)
            critical -= row.tokens
    return [*reversed(kept), *rows[begins:]]
