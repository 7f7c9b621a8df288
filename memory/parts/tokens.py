"""Counts tokens once, when a message is stored, without ever downloading an encoding.

tiktoken fetches its encodings from the network at first use. litellm ships the same files, so the encoding is read from
there; where that fails, four characters count as one token, and the encoding's name says that it is an estimate.
"""

import importlib.util
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from layerlore.memory.parts import encoding
from layerlore.memory.parts.encoding import Encoding, load_encoding
from layerlore.memory.parts.parts import part_texts
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json

log = logging.getLogger(__name__)

ESTIMATE = "estimate-4-chars"
CUT_MARK = "… [cut]"
"""Stands at the end of a text that was cut to a number of tokens or characters."""

# What a chat format adds around each message (role and separators).
PER_MESSAGE = 4
# An image is counted as OpenAI's high-detail rule counts one of 1024 x 1024: 85 + 4 tiles of 170.
PER_IMAGE = 765

# How many counts are remembered, and as many of those asked for before: some 2 MB.
_REMEMBERED = 8192


def shipped_encodings() -> Path | None:
    """The folder where litellm ships the encoding's file, found without importing litellm."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0], "litellm_core_utils", "tokenizers")
    return folder if (folder / encoding.FILE).is_file() else None


# Scripts without spaces have longer runs, and may be cut anywhere.
_LAST_WORD = linear_re.compile(r"[^\s\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff]{0,60}\Z")


# In front of this the encoding's pattern has a cut if a line's end stands there: white space alone would be joined to it,
# and a slash to the signs before it.
def _begins_line(line: str) -> bool:
    bare = line.lstrip()
    space = line[: len(line) - len(bare)]
    return bool(bare) and not line.startswith("/") and "\n" not in space and "\r" not in space


def _inside_word(text: str, at: int) -> bool:
    return text[at - 1 : at].isalnum() and (text[at].isalnum() or text[at] in "-_.:/@")


class TokenCounter:
    """Counts with one encoding. Make it with ``load_counter``; counting is safe from any thread."""

    def __init__(self, encoding: Encoding | None) -> None:
        self._encoding = encoding
        self.name = encoding.name if encoding is not None else ESTIMATE
        self._counted: dict[int, int] = {}
        self._counted_before: dict[int, int] = {}

    def text(self, text: str) -> int:
        """Tokens of a text."""
        if self._encoding is None:
            return -(-len(text) // 4)
        return self._encoding.count(text)

    def known(self, text: str) -> int:
        """Tokens of a text that is likely to be counted again unchanged: the count is cached by the text's hash."""
        return self.once(hash(text), lambda: self.text(text))

    def once(self, key: int, count: Callable[[], int]) -> int:
        """A number of tokens that is likely to be asked for again, counted unless it is cached. ``key``: the hash of all
        that it depends on, of 64 bits with a secret of this process in it; what was counted is not kept itself."""
        known = self._counted.get(key)
        if known is None:
            before = self._counted_before.get(key)
            known = count() if before is None else before
            if len(self._counted) >= _REMEMBERED:
                self._counted_before, self._counted = self._counted, {}
            self._counted[key] = known
        return known

    def lines(self, lines: Sequence[str]) -> int:
        """Tokens of lines with a line's end between them, each but the last counted as ``known`` counts it: the encoding
        cuts behind a line's end before it looks for tokens, unless what follows could belong to it."""
        if self._encoding is None or not all(map(_begins_line, lines[1:])):
            return self.text("\n".join(lines))
        return sum(self.known(f"{line}\n") for line in lines[:-1]) + self.text(lines[-1])

    def cut(self, text: str, most: int) -> str:
        """The beginning of a text: its first tokens, at most that many, and no half of a character."""
        if most <= 0:
            return ""
        if self._encoding is None:
            return text[: most * 4]
        # A token is rarely longer than 40 characters: what lies beyond need not be encoded.
        beginning = text[: most * 40]
        tokens = self._encoding.encode(beginning)
        # Cut off, a text may be encoded otherwise, so it is counted again.
        while len(tokens) > most or self.text(beginning) > most:
            tokens = tokens[: most if len(tokens) > most else -1]
            beginning = self._encoding.decode(tokens)
        return beginning

    def cut_words(self, text: str, most: int) -> str:
        """The beginning of a text as ``cut`` gives it, without a word or a number that would end in its middle, unless it
        is nothing but that."""
        beginning = self.cut(text, most)
        if len(beginning) == len(text) or not _inside_word(text, len(beginning)):
            return beginning
        last = _LAST_WORD.search(beginning)
        return (beginning[: last.start()].rstrip() if last else "") or beginning

    def parts(self, parts: Sequence[Json]) -> int:
        """Tokens of a message: its parts as a model would be given them, images by rule, and PER_MESSAGE."""
        images = [part for part in parts if part["type"] == "image"]
        return (
            PER_MESSAGE + PER_IMAGE * len(images) + sum(self.text(text) for part in parts for text in part_texts(part))
        )


def load_counter() -> TokenCounter:
    """Read the encoding: about 0.1 s, to be called in a thread. Falls back to the estimate, and says so in the log."""
    folder = shipped_encodings()
    if folder is None:
        log.warning("no encoding file at hand: tokens are estimated as characters / 4")
        return TokenCounter(None)
    try:
        return TokenCounter(load_encoding(folder))
    except (OSError, ValueError) as error:
        log.warning("encoding %s cannot be loaded (%s): tokens are estimated as characters / 4", encoding.NAME, error)
        return TokenCounter(None)
