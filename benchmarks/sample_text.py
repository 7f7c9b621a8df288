"""Made-up conversations of any length, the same for the same seed: words as frequent as in a language (Zipf's law)."""

import itertools
import random
from typing import Any

SPEAKERS = ("Mira", "Tomas")
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"
_WORDS = 4000
# About half of what people write is function words.
_FUNCTION_WORDS = "the and to of in that it is was i you for on with as at be this have from or we they my".split()  # noqa: SIM905


class SampleText:
    """Draws messages, and questions about them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        syllables = ["".join(pair) for pair in itertools.product(_CONSONANTS, _VOWELS)]
        # Each word has its own seed, so the vocabulary is the same whatever the text's seed is.
        words = {"".join(random.Random(number).choices(syllables, k=3)) for number in range(_WORDS)}
        self._words = sorted(words)
        # The 20 keeps the first few words from making up most of a text.
        self._weights = list(itertools.accumulate(1 / (rank + 20) for rank in range(len(self._words))))

    def words(self, count: int) -> list[str]:
        """Words that mean something, frequent ones more often."""
        return self._random.choices(self._words, cum_weights=self._weights, k=count)

    def text(self, least: int = 4, most: int = 20) -> str:
        """So many words that mean something (4 to 20), and as many function words."""
        telling = self.words(self._random.randint(least, most))
        return " ".join(f"{self._random.choice(_FUNCTION_WORDS)} {word}" for word in telling).capitalize() + "."

    def message(self) -> dict[str, Any]:
        return {"role": "user", "name": self._random.choice(SPEAKERS), "content": self.text()}

    def question(self) -> str:
        """Names a speaker, as people's questions do, so that half of all messages match, and three words beside."""
        first, second, third = self.words(3)
        return f"What did {self._random.choice(SPEAKERS)} say about the {first} and the {second} {third}?"
