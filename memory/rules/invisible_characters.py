"""Invisible characters: finding them in a text and removing them."""

from layerlore.storage.core import linear_re

# Controls but tab and line break, soft hyphens and fillers, zero-width characters, marks and overrides of direction,
# variation selectors, annotations, and plane 14, in which ASCII can be written invisibly (Unicode's
# Default_Ignorable_Code_Point, and the controls).
HIDDEN = (
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
INVISIBLE = linear_re.compile(f"[{HIDDEN}]")
_ASCII = bytes(code for code in range(128) if INVISIBLE.match(chr(code)))


def has_invisible(text: str) -> bool:
    """Whether the text has an invisible character."""
    if text.isascii():
        plain = text.encode()
        return len(plain.translate(None, _ASCII)) != len(plain)
    return INVISIBLE.search(text) is not None


def remove_invisible(text: str) -> tuple[str, list[int]]:
    """The text without invisible characters, and the place in the given text of each character that remains."""
    places: list[int] = []
    at = 0
    for found in INVISIBLE.finditer(text):
        places += range(at, found.start())
        at = found.end()
    places += range(at, len(text))
    return INVISIBLE.sub("", text), places
