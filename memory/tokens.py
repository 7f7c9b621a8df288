"""Counts tokens once, when a message is stored, without ever downloading an encoding.

tiktoken fetches its encodings from the network at first use. litellm ships the same files, so the encoding is read from
there; where that fails, four characters count as one token, and the encoding's name says that it is an estimate.
"""

import hashlib
import importlib.util
import logging
from collections.abc import Sequence
from pathlib import Path

from layerlore.memory import encoding
from layerlore.memory.encoding import Encoding, load_encoding
from layerlore.memory.parts import part_texts
from layerlore.storage.records import Json

log = logging.getLogger(__name__)

ESTIMATE = "estimate-4-chars"

# What a chat format adds around each message (role and separators).
PER_MESSAGE = 4
# An image is counted as OpenAI's high-detail rule counts one of 1024 x 1024: 85 + 4 tiles of 170.
PER_IMAGE = 765

# How many counts are remembered: some 200 KB.
_REMEMBERED = 2048


def shipped_encodings() -> Path | None:
    """The folder where litellm ships the encoding's file, found without importing litellm."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0], "litellm_core_utils", "tokenizers")
    return folder if (folder / encoding.FILE).is_file() else None


class TokenCounter:
    """Counts with one encoding. Make it with ``load_counter``; counting is safe from any thread."""

    def __init__(self, encoding: Encoding | None) -> None:
        self._encoding = encoding
        self.name = encoding.name if encoding is not None else ESTIMATE
        self._counted: dict[bytes, int] = {}

    def text(self, text: str) -> int:
        """Tokens of a text."""
        if self._encoding is None:
            return -(-len(text) // 4)
        return len(self._encoding.encode(text))

    def complete(self) -> None:
        """Do now what makes later counts fast: a quarter of a second, in which nothing else of the process runs."""
        if self._encoding is not None:
            self._encoding.complete()

    def known(self, text: str) -> int:
        """The same of a text that is likely to be counted again, unchanged: what was counted is remembered, by the
        text's hash."""
        key = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        count = self._counted.get(key)
        if count is None:
            if len(self._counted) >= _REMEMBERED:
                self._counted.clear()
            count = self._counted[key] = self.text(text)
        return count

    def cut(self, text: str, most: int) -> str:
        """The beginning of a text: its first tokens, at most that many, and no half of a character."""
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
