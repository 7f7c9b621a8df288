"""Counts tokens once, when a message is stored, without ever downloading an encoding.

tiktoken fetches its encodings from the network at first use. litellm ships the same files, so the encoding is read from
there; where that fails, four characters count as one token, and the encoding's name says that it is an estimate.
"""

import binascii
import contextlib
import functools
import hashlib
import importlib
import importlib.util
import logging
import threading
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from layerlore.memory.parts.parts import is_picture, part_texts
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json

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
# Dashes, quotes and the mark of a cut are signs like those of ASCII: the same classes cut them.
_ASCII_AND_QUOTES = linear_re.compile("[\x00-\x7f\u2010-\u2027]*+", engine="re")
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
        # The loop takes portions, so that the tokens never exist all at once as Python objects.
        tokens, ends, sums = bytearray(), array("I", [0]), array("I")
        for begin in range(0, len(lines), _LINES_AT_ONCE):
            some = [binascii.a2b_base64(line.partition(b" ")[0]) for line in lines[begin : begin + _LINES_AT_ONCE]]
            ends.extend(accumulate(map(len, some[1:]), initial=ends[-1] + len(some[0])))
            sums.extend(map(zlib.crc32, some))
            tokens += b"".join(some)
        # Sorted checksums in arrays take a fraction of the memory of a dict with 200,000 byte strings.
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
        # Longer pieces hardly occur again, and would fill the memory.
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
        if rank is None:
            return _NONE
        return rank


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
        # Once tiktoken's coder exists, it is faster, so it counts everything from then on.
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
        """The text of some tokens; what is not a whole character at their end is left out."""
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
    if text.isascii() or _ASCII_AND_QUOTES.fullmatch(text):
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


log = logging.getLogger(__name__)

ESTIMATE = "estimate-4-chars"
CUT_MARK = "… [cut]"
"""Stands at the end of a text that was cut to a number of tokens or characters."""

# The tokens that a chat format adds around each message (role and separators).
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
    if (folder / FILE).is_file():
        return folder
    return None


# Scripts without spaces have longer runs, and may be cut anywhere.
_LAST_WORD = linear_re.compile(r"[^\s\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff]{0,60}\Z")


# In front of this the encoding's pattern has a cut if a line's end stands there: white space alone would be joined to it,
# and a slash to the signs before it.
def _begins_line(line: str) -> bool:
    # The first character of most lines is enough.
    if line and not line[0].isspace():
        return line[0] != "/"
    bare = line.lstrip()
    space = line[: len(line) - len(bare)]
    return bool(bare) and "\n" not in space and "\r" not in space


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
        found = self._counted.get(hash(text))
        if found is None:
            return self.once(hash(text), lambda: self.text(text))
        return found

    def once(self, key: int, count: Callable[[], int]) -> int:
        """A number of tokens that is likely to be asked for again, counted unless it is cached. ``key``: the hash of all
        that it depends on, of 64 bits with a secret of this process in it; what was counted is not kept itself."""
        known = self._counted.get(key)
        if known is None:
            before = self._counted_before.get(key)
            if before is None:
                known = count()
            else:
                known = before
            # With one generation, each full cache would make the next context count everything anew.
            if len(self._counted) >= _REMEMBERED:
                self._counted_before, self._counted = self._counted, {}
            self._counted[key] = known
        return known

    def lines(self, lines: Sequence[str]) -> int:
        """Tokens of lines with a line's end between them, each but the last counted as ``known`` counts it: the encoding
        cuts behind a line's end before it looks for tokens, unless what follows could belong to it."""
        if self._encoding is None or not all(map(_begins_line, lines[1:])):
            return self.text("\n".join(lines))
        return sum(self.known(f"{line}\n") for line in lines[:-1]) + self.known(lines[-1])

    def block(self, text: str) -> int:
        """Tokens of a text of several lines, counted by its lines: most of them stand in other texts, too."""
        return self.once(hash(text), lambda: self.lines(text.split("\n")))

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
        images = [part for part in parts if is_picture(part)]
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
        log.warning("encoding %s cannot be loaded (%s): tokens are estimated as characters / 4", NAME, error)
        return TokenCounter(None)
