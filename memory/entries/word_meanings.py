"""Words compared by their meanings, so that an entry may say in other words, or in another language, what was said."""

from collections.abc import Iterable, Mapping, Sequence

import anyio
import numpy as np
import regex

from layerlore.memory.embedding.port import EmbeddingFailed, Vectors
from layerlore.memory.engine.engine import Engine
from layerlore.memory.entries.telling_words import TellingWord

NEAR = 0.68
"""Cosine from which on two words mean the same: *allergique* and *allergic* are 0.8 apart, *tea* and *coffee* 0.6."""
NAMES_NEAR = 0.8
"""For names, which are more alike among themselves: *Wien* and *Vienna* are at 0.9, *Paris* and *London* at 0.5."""
PATIENCE_SECONDS = 1.0
MOST_WORDS = 250

_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Hangul}ー々]+")
_LONGEST_GRAM = 4


class WordMeanings:
    """Vectors of words, by how they are written."""

    def __init__(self, vectors: Mapping[str, Vectors]) -> None:
        self._vectors = vectors

    def is_near(self, word: TellingWord, others: Sequence[TellingWord]) -> bool:
        """Whether a telling word means what one of the others means; a number only stands for itself."""
        own = self._vectors.get(word.text)
        least = NAMES_NEAR if word.kind == "name" else NEAR
        if own is None or word.kind == "number":
            return False
        found = [self._vectors[text] for text in _list_texts(others) if text in self._vectors]
        return bool(found) and float((np.stack(found) @ own).max()) >= least


async def compare_meanings(engine: Engine, words: Iterable[TellingWord]) -> WordMeanings | None:
    """The meanings of words, as far as an embedder of this machine is at hand whose cosines are known; else None."""
    service = engine.embedding
    if service is None or not service.embedder.local or service.embedder.calibration is None:
        return None
    texts = list(dict.fromkeys([*(word.text for word in words), *_list_texts(words)]))[:MOST_WORDS]
    try:
        with anyio.fail_after(PATIENCE_SECONDS):
            made = await service.embed(texts)
    except (EmbeddingFailed, TimeoutError):
        return None
    return WordMeanings({text: vector for text, vector in zip(texts, made, strict=True) if vector is not None})


def _list_texts(words: Iterable[TellingWord]) -> list[str]:
    """How the words are written, and where nothing parts them, whatever stands in a run of them."""
    found: list[str] = []
    run = ""
    end = -1
    for word in words:
        if not _UNSPACED.fullmatch(word.text):
            found.append(word.text)
            continue
        joined = run and word.at <= end
        run = run + word.text[max(0, end - word.at) :] if joined else word.text
        end = word.at + len(word.text)
        found += [run[-size:] for size in range(1, min(_LONGEST_GRAM, len(run)) + 1)]
        found += [run[-size:-1] for size in range(2, min(_LONGEST_GRAM, len(run)) + 1)]
    return list(dict.fromkeys(found))
