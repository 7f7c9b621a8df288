"""Counts tokens once, when a message is stored, without ever downloading an encoding.

tiktoken fetches its encodings from the network at first use. litellm ships the same files under tiktoken's own cache
names, so tiktoken is pointed there; where that fails, four characters count as one token, and the encoding's name
says that it is an estimate.
"""

import asyncio
import importlib.util
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import tiktoken

from memstrata.memory.parts import part_texts
from memstrata.storage.records import Json

log = logging.getLogger(__name__)

ENCODING = "o200k_base"
ESTIMATE = "estimate-4-chars"

# What a chat format adds around each message (role and separators).
PER_MESSAGE = 4
# An image is counted as OpenAI's high-detail rule counts one of 1024 x 1024: 85 + 4 tiles of 170.
PER_IMAGE = 765

# Longer texts are counted in a thread: the event loop must not wait for them.
_INLINE_CHARS = 4_000


def shipped_encodings() -> Path | None:
    """The folder of encoding files that litellm ships, found without importing litellm."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0], "litellm_core_utils", "tokenizers")
    return folder if folder.is_dir() else None


class TokenCounter:
    """Counts with one encoding. Make it with ``load_counter``; counting is safe from any thread."""

    def __init__(self, encoding: tiktoken.Encoding | None) -> None:
        self._encoding = encoding
        self.name = encoding.name if encoding is not None else ESTIMATE

    def text(self, text: str) -> int:
        """Tokens of a text."""
        if self._encoding is None:
            return -(-len(text) // 4)
        return len(self._encoding.encode_ordinary(text))

    def cut(self, text: str, most: int) -> str:
        """The longest beginning of a text that has at most that many tokens."""
        if len(text) <= most:
            return text
        if self._encoding is None:
            return text[: most * 4]
        # A token is rarely longer than 40 characters: what lies beyond need not be encoded.
        tokens = self._encoding.encode_ordinary(text[: most * 40])
        if len(tokens) <= most:
            return text[: most * 40]
        return self._encoding.decode(tokens[:most]).removesuffix("\ufffd")

    def parts(self, parts: Sequence[Json]) -> int:
        """Tokens of a message: its parts as a model would be given them, images by rule, and PER_MESSAGE."""
        images = [part for part in parts if part["type"] == "image"]
        return (
            PER_MESSAGE + PER_IMAGE * len(images) + sum(self.text(text) for part in parts for text in part_texts(part))
        )

    async def count_all(self, messages: Sequence[Sequence[Json]]) -> list[int]:
        """Tokens of each message; long ones in a thread."""
        size = sum(len(text) for parts in messages for part in parts for text in part_texts(part))
        if size <= _INLINE_CHARS:
            return [self.parts(parts) for parts in messages]
        return await asyncio.to_thread(lambda: [self.parts(parts) for parts in messages])


def load_counter(encoding: str = ENCODING) -> TokenCounter:
    """Load the encoding: about 0.3 s, to be called in a thread. Falls back to the estimate, and says so in the log."""
    folder = shipped_encodings()
    if "TIKTOKEN_CACHE_DIR" not in os.environ:
        if folder is None:
            log.warning("no encoding file at hand: tokens are estimated as characters / 4")
            return TokenCounter(None)
        os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        return TokenCounter(tiktoken.get_encoding(encoding))
    except (OSError, ValueError) as error:
        log.warning("encoding %s cannot be loaded (%s): tokens are estimated as characters / 4", encoding, error)
        return TokenCounter(None)
