"""The encoding that tokens are counted in: the ranks of its file, and the tokens of a text by them.

tiktoken holds 200,000 ranks in 60 MB and takes a quarter of a second to take them in, in which nothing else in the process
runs. Here they are 4 MB, and what a text is cut into is remembered: most words of a conversation are one token, and
were there before. What has to be put together from its bytes again and again, such as long runs of letters without a
space, is left to tiktoken, which is loaded for it then.
"""

import binascii
import contextlib
import functools
import hashlib
import importlib
import threading
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from layerlore.storage.core import linear_re

if TYPE_CHECKING:
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
# The same for a text of ASCII alone, where these classes are all that can occur.
_ASCII = linear_re.compile("|".join((
    r"[^\r\nA-Za-z0-9]?[A-Z]*[a-z]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?",
    r"[^\r\nA-Za-z0-9]?[A-Z]+[a-z]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?",
    r"[0-9]{1,3}",
    r" ?[^\t-\r A-Za-z0-9]+[\r\n/]*",
    r"[\t-\r ]*[\r\n]+",
    r"[\t-\r ]+(?![^\t-\r ])",
    r"[\t-\r ]+",
)), engine="re")  # fmt: skip
_ANY = linear_re.compile(PATTERN, engine="regex")
# Letters, marks and signs that every version of Unicode has in the same class; no long s, which is an s to some.
_SETTLED = linear_re.compile(
    "[\t-\r -~\u00a0-\u017e\u0180-\u0220\u0391-\u03a1\u03a3-\u03ce\u0400-\u0482\u048a-\u04ff"  # Latin, Greek, Cyrillic
    "\u05d0-\u05ea\u0621-\u063a\u0641-\u0652\u0660-\u0669\u0905-\u0939\u093e-\u094d\u0966-\u096f"  # Hebrew, Arabic, Devanagari
    "\u0e01-\u0e3a\u0e3f-\u0e5b\u3000-\u3020\u3041-\u3096\u309d-\u30ff\u4e00-\u9fa5\uac00-\ud7a3\uff01-\uff5e"  # Thai to Hangul
    "\u200b-\u200d\u2010-\u2027\u2030-\u205e\u20ac\u2122\u2190-\u22ff\u2500-\u257f\u2600-\u27bf\ufe0f"  # signs
    "\U0001f1e6-\U0001f1ff\U0001f300-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001f9ff]*+",  # emoji
    engine="re",
)
_MOST_REMEMBERED = 10_000
_LONGEST_REMEMBERED = 64
# Bytes put together here, and in one piece: they take some 3 microseconds each, and more in longer pieces.
_MOST_MERGED = 256 * 1024
_LONGEST_MERGED = 400
_LINES_AT_ONCE = 5_000
_NONE = 1 << 30  # above all ranks

Ranks = dict[bytes, int]


class _TooMuch(Exception):
    """It is time for tiktoken."""


class Vocabulary:
    """All tokens in the order of their ranks, and where they are by their checksums."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        """``lines``: each token in base64, then its rank."""
        tokens, ends, sums = bytearray(), array("I", [0]), array("I")
        for begin in range(0, len(lines), _LINES_AT_ONCE):
            some = [binascii.a2b_base64(line.partition(b" ")[0]) for line in lines[begin : begin + _LINES_AT_ONCE]]
            ends.extend(accumulate(map(len, some[1:]), initial=ends[-1] + len(some[0])))
            sums.extend(map(zlib.crc32, some))
            tokens += b"".join(some)
        order = np.argsort(np.frombuffer(sums, dtype=np.uint32), kind="stable").astype(np.uint32)
        self._tokens, self._ends = bytes(tokens), ends
        self._order = array("I", order.tobytes())
        self._sums = array("I", np.frombuffer(sums, dtype=np.uint32)[order].tobytes())

    def rank(self, token: bytes) -> int | None:
        wanted = zlib.crc32(token)
        at = bisect_left(self._sums, wanted)
        while at < len(self._sums) and self._sums[at] == wanted:
            rank = self._order[at]
            if self.token(rank) == token:
                return rank
            at += 1
        return None

    def token(self, rank: int) -> bytes:
        return self._tokens[self._ends[rank] : self._ends[rank + 1]]

    def ranks(self) -> Ranks:
        return {self.token(rank): rank for rank in range(len(self._order))}


class _Pieces(dict[str, tuple[int, ...]]):
    """The tokens of pieces of texts, put together when they are first asked for. Raises _TooMuch."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._left = _MOST_MERGED

    def __missing__(self, piece: str) -> tuple[int, ...]:
        text = piece.encode()
        whole = self._vocabulary.rank(text)
        tokens = (whole,) if whole is not None else tuple(self._merge(text))
        if len(piece) <= _LONGEST_REMEMBERED:
            if len(self) >= _MOST_REMEMBERED:
                self.clear()
            self[piece] = tokens
        return tokens

    def _merge(self, text: bytes) -> Iterator[int]:
        """Join the two neighbours that have the lowest rank together, the first of several, as long as any two have one."""
        self._left -= len(text)
        if self._left < 0 or len(text) > _LONGEST_MERGED:
            raise _TooMuch
        parts = [bytes((byte,)) for byte in text]
        joined = [self._rank(left + right) for left, right in pairwise(parts)]
        while joined and (lowest := min(joined)) < _NONE:
            at = joined.index(lowest)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
            del joined[at]
            if at:
                joined[at - 1] = self._rank(parts[at - 1] + parts[at])
            if at < len(joined):
                joined[at] = self._rank(parts[at] + parts[at + 1])
        return map(self._rank, parts)

    def _rank(self, token: bytes) -> int:
        rank = self._vocabulary.rank(token)
        return _NONE if rank is None else rank


class Encoding:
    """Encodes any text, from any thread, exactly as tiktoken's encoding of that name does."""

    name = NAME

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._pieces = _Pieces(vocabulary)
        self._made: tiktoken.Encoding | None = None
        self._making = threading.Lock()

    def count(self, text: str) -> int:
        """The tokens of a text."""
        if self._made is None:
            with contextlib.suppress(_TooMuch):
                return sum(map(len, map(self._pieces.__getitem__, _cut(text))))
        return len(self.complete().encode_ordinary(text))

    def encode(self, text: str) -> list[int]:
        if self._made is None:
            with contextlib.suppress(_TooMuch):
                return list(chain.from_iterable(map(self._pieces.__getitem__, _cut(text))))
        return self.complete().encode_ordinary(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of some tokens; what is no whole character at their end is left out."""
        return b"".join(map(self._vocabulary.token, tokens)).decode(errors="ignore")

    def complete(self) -> "tiktoken.Encoding":
        """tiktoken's own coder, made at the first time."""
        with self._making:
            if self._made is None:
                ranks = self._vocabulary.ranks()
                self._made = importlib.import_module("tiktoken").Encoding(
                    NAME, pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={}
                )
                # The Python copy of its ranks (30 MB) serves only its pickling: its core has its own.
                ranks.clear()
            return self._made


def _cut(text: str) -> list[str]:
    """The pieces of a text that tokens do not reach beyond. Raises _TooMuch where only tiktoken knows."""
    if text.isascii():
        return _ASCII.findall(text)
    if _SETTLED.fullmatch(text) is None:
        raise _TooMuch
    return _ANY.findall(text)


@functools.cache
def load_encoding(folder: Path) -> Encoding:
    """Read the file in that folder, once in a process: about 0.1 s. Raises OSError, ValueError."""
    content = (folder / FILE).read_bytes()
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise ValueError(f"{folder / FILE} is not the published encoding")
    # The ranks are in order, from 0.
    return Encoding(Vocabulary(content.splitlines()))
