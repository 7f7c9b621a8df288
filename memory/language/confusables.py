"""Text as it looks in ASCII, and names that are recognised by that.

Characters are compared as Unicode's table of confusables does (UTS 39), without case and without combining marks.
"""

import importlib.util
import json
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

from layerlore.storage.core import linear_re

OPENERS = "<＜﹤〈⟨〈‹❮❰˂ᐸᚲ⧼≺\U0001d236"
CLOSERS = ">＞﹥〉⟩〉›❯❱˃ᐳ⧽≻\U0001d237\U00016f3f"
BRACKETS = "[［﹝⁅❲〔【⟦"
SLASHES = "/／⁄∕⧸╱᜵⁁⟋\U0001d23a㇓〳Ⳇノㇵノ丿⼃\\＼∖⧵⧹"
PIPES = "|｜ǀ∣│￨❘⏐ߊ│┃"
"""Each of these holds signs that look alike; the ASCII one is the first."""

SEPARATORS = "-_"

# Characters that look like one of them, though no table says so: letters whose small forms are shaped like capitals,
# and what tokenizers write for a space.
_MORE = {
    **dict.fromkeys(PIPES, "|"),
    **dict.fromkeys(SLASHES, "/"),
    **dict(zip("мтиκνιυһӏɪ‐‑‒–—―−﹘﹣▁﹍﹎﹏", "mtnkviuhii---------____", strict=True)),
    **dict(zip("кнвεη", "khben", strict=True)),
}
# UTS 39 takes them for one: what differs between them is not seen. The long s looks like an f, and is an s.
_SAME = str.maketrans({"1": "l", "i": "l", "|": "l", "0": "o", "m": "rn", "f": "s"})


@lru_cache(maxsize=8192)
def fold_look_alike(character: str) -> str:
    """The look of a character: lower-case ASCII where it looks like that, nothing if it stands on or in another,
    and else itself. A character that looks like i, l or a bar becomes l; like o or 0, o; like f or s, s; m becomes
    rn."""
    return _ascii(character).lower().translate(_SAME)


def _ascii(character: str) -> str:
    if character.isascii():
        return character
    # Combining marks and invisible characters change no look that a name is recognised by.
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return ""
    found = _MORE.get(character) or _table().get(character)
    if found:
        return found
    plain = unicodedata.normalize("NFKD", character)
    if plain != character:
        return "".join(map(_ascii, plain))
    named = _letter().fullmatch(unicodedata.name(character, ""))
    if named:
        return named[1]
    # The table lists many letters in one case only, so the small form is tried as well.
    lower = character.lower()
    if lower == character or len(lower) > 1:
        return lower
    return _ascii(lower)


@cache
def _letter() -> linear_re.Pattern:
    return linear_re.compile(
        r"(?:MODIFIER LETTER |REGIONAL INDICATOR SYMBOL |(?:NEGATIVE )?(?:SQUARED|CIRCLED) |PARENTHESIZED )?"
        r"(?:LATIN )?(?:(?:SMALL|CAPITAL) )?LETTER (?:SMALL CAPITAL )?([A-Z])(?: WITH .*)?"
    )


@cache
def _table() -> dict[str, str]:
    """Unicode's table: ASCII for each character that looks like it. Read when the first text needs it, in 0.1 s."""
    spec = importlib.util.find_spec("confusable_homoglyphs")
    if spec is None or not spec.submodule_search_locations:
        return {}
    listed = json.loads(Path(spec.submodule_search_locations[0], "confusables.json").read_bytes())
    # Some are between marks of direction, so that the table can be read.
    found = {key.strip("\u200e"): [pair["c"] for pair in pairs] for key, pairs in listed.items()}
    plain = {key: next((each for each in others if each.isascii()), "") for key, others in found.items()}
    return {key: ascii_ for key, ascii_ in plain.items() if ascii_ and len(key) == 1 and not key.isascii()}


class LookAlikeNames:
    """Names of words in lower case with hyphens between them. In a text anything that separates may stand there, or
    nothing."""

    def __init__(self, names: Iterable[str]) -> None:
        spelled = {spelling for name in names for spelling in _spellings(name.split("-"))}
        self._whole = frozenset(spelled)
        self._beginnings = frozenset(name[:end] for name in spelled for end in range(1, len(name) + 1))

    def after(self, text: str, at: int, *, begins: bool = False) -> int | None:
        """The end of the name at this place of the text, after optional spaces and slashes; None without a name. With
        ``begins``, a longer word that begins with it counts, too."""
        read = ""
        end = at
        while end < len(text):
            if read in self._whole and (begins or not _goes_on(text[end])):
                return end
            for seen in fold_look_alike(text[end]):
                if not read and (seen in "/\\" or seen.isspace()):
                    continue
                if seen in SEPARATORS or seen.isspace():
                    letter = "-"
                else:
                    letter = seen
                if letter == "-" and read.endswith("-"):
                    continue
                read += letter
                # No name begins so: most places of a text are left after one character.
                if read not in self._beginnings:
                    return None
            end += 1
        if read in self._whole:
            return end
        return None


def _goes_on(character: str) -> bool:
    """Whether a word goes on with the character."""
    return unicodedata.normalize("NFKC", character)[0].isalnum() or fold_look_alike(character) in ("-", "_")


def _spellings(words: list[str]) -> list[str]:
    """The spellings of a name: its words as they are seen, with a hyphen or nothing between them."""
    first, *rest = words
    seen = "".join(map(fold_look_alike, first))
    if rest:
        return [f"{seen}{between}{end}" for end in _spellings(rest) for between in ("-", "")]
    return [seen]
