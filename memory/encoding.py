"""The encoding that tokens are counted in: the ranks of its file, and tiktoken working by them.

tiktoken takes a quarter of a second to take in 200,000 ranks, and nothing else in the process runs meanwhile. The
tokens of a text are made by the ranks of its own substrings alone, so the first short texts are encoded by these, which
takes milliseconds; who has the time asks for all with ``complete``.
"""

import binascii
import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path

import tiktoken

NAME = "o200k_base"
# The name of its file in tiktoken's cache: the SHA-1 of the URL that it is published at.
FILE = "fb374d419588a4632f3f557e76b4b70aebbca790"
_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
# How it cuts a text before it looks for tokens, as published; tiktoken gives it only together with a download.
PATTERN = "|".join((
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
))  # fmt: skip
_LONGEST_TOKEN = 128
# After so many characters a coder of all ranks costs less than one more of a text's own.
_FIRST_CHARACTERS = 1000

Ranks = dict[bytes, int]


class Encoding:
    """Encodes any text, from any thread, exactly as tiktoken's encoding of that name does."""

    name = NAME

    def __init__(self, ranks: Ranks) -> None:
        self._made: tiktoken.Encoding | Ranks = ranks
        self._making = threading.Lock()
        self._left = _FIRST_CHARACTERS

    def encode(self, text: str) -> list[int]:
        made = self._made
        if isinstance(made, dict) and len(text) <= self._left and not _has_half_a_pair(text):
            self._left -= len(text)
            return _coder(_occurring(text.encode(), made)).encode_ordinary(text)
        return self.complete().encode_ordinary(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of some tokens; what is no whole character at their end is left out."""
        return self.complete().decode(tokens, errors="ignore")

    def complete(self) -> tiktoken.Encoding:
        """The coder of all ranks, made at the first time."""
        with self._making:
            if isinstance(self._made, dict):
                ranks = dict(self._made)
                self._made = _coder(ranks)
                # The Python copy of its ranks (30 MB) serves only its pickling: its core has its own.
                ranks.clear()
            return self._made


def load_encoding(folder: Path) -> Encoding:
    """Read the file in that folder: about 0.1 s. Raises OSError, ValueError."""
    content = (folder / FILE).read_bytes()
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise ValueError(f"{folder / FILE} is not the published encoding")
    # Each line is a token in base64 and its rank; they stand in the order of the ranks, from 0.
    tokens = content.split()[::2]
    return Encoding(dict(zip(map(binascii.a2b_base64, tokens), range(len(tokens)), strict=True)))


def _coder(ranks: Ranks) -> tiktoken.Encoding:
    return tiktoken.Encoding(NAME, pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})


def _occurring(text: bytes, ranks: Ranks) -> Ranks:
    """The ranks of all bytes, and of what occurs in the text."""
    found = {bytes((byte,)) for byte in range(256)}
    for begin in range(len(text)):
        found.update(text[begin:end] for end in range(begin + 2, min(begin + _LONGEST_TOKEN, len(text)) + 1))
    return {token: ranks[token] for token in found if token in ranks}


def _has_half_a_pair(text: str) -> bool:
    """Whether it has half of a surrogate pair: tiktoken counts another character in its place."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
