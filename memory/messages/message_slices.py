"""Slices of a message that is too large for one answer: its parts from a place on, as much as fits."""

from collections.abc import Sequence
from dataclasses import dataclass

from layerlore.memory.rules.pages import count_sent_bytes
from layerlore.memory.rules.validation import describe
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json, StoredJson

_PLACE = linear_re.compile(r"([0-9]{1,18})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:~([0-9]{1,12}))?")
# Less than this is not begun at the end of an answer that holds something already.
_LEAST_BYTES = 4 * 1024


@dataclass(frozen=True, slots=True)
class PartPlace:
    """A place in a message. ``SEQ.PART`` or ``SEQ.PART.INNER`` is one image or file; ``SEQ.PART~CHAR`` is the content
    from there on."""

    seq: int
    part: int
    inner: int | None = None
    char: int | None = None

    @property
    def named(self) -> str:
        return f"{self.seq}.{self.part}" + ("" if self.inner is None else f".{self.inner}")


def parse_place(text: str) -> PartPlace:
    """Parse a place. Raises InvalidInput for a text that is none."""
    match = _PLACE.fullmatch(text)
    if match is None:
        raise unknown_part(text)
    seq, part, inner, char = (None if group is None else int(group) for group in match.groups())
    assert seq is not None
    assert part is not None
    return PartPlace(seq, part, inner, char)


def unknown_part(text: str) -> InvalidInput:
    """The error for a place at which a thread has nothing."""
    return InvalidInput(
        f"part: there is nothing at {describe(text)}; give a `part` as an answer of get_messages has it"
    )


def slice_parts(parts: Sequence[Json], seq: int, part: int, char: int, most: int) -> tuple[list[Json], str]:
    """The parts from a place on that have at most ``most`` bytes in an answer, and the place where they go on, "" at
    the end. The last one may be cut: a text in its text, any other part in its JSON, which then stands under ``json``.

    Raises InvalidInput for a place that is beyond the end."""
    found: list[Json] = []
    left = most
    for at in range(part, len(parts)):
        begin = char if at == part else 0
        if begin > len(_text(parts[at])):
            break
        rest = _piece(parts[at], begin) if begin else parts[at]
        size = count_sent_bytes(to_json(rest))
        if size <= left:
            found.append(rest)
            left -= size
            continue
        if found and left < _LEAST_BYTES:
            return found, f"{seq}.{at}~{begin}"
        end = _end(parts[at], begin, left)
        return [*found, _piece(parts[at], begin, end)], f"{seq}.{at}~{end}"
    if not found and (part or char):
        raise unknown_part(f"{seq}.{part}~{char}")
    return found, ""


def _text(part: Json) -> str:
    return str(part["text"]) if part["type"] == "text" else to_json(part)


def _piece(part: Json, begin: int, end: int | None = None) -> StoredJson:
    return {"type": part["type"], "text" if part["type"] == "text" else "json": _text(part)[begin:end]}


def _end(part: Json, begin: int, most: int) -> int:
    """The end of the longest piece of a part that has at most ``most`` bytes in an answer; at least one character."""
    fits, over = begin + 1, min(len(_text(part)), begin + most // 2) + 1
    while over - fits > 1:
        middle = (fits + over) // 2
        if count_sent_bytes(to_json(_piece(part, begin, middle))) <= most:
            fits = middle
        else:
            over = middle
    return fits
