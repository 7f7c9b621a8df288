"""An embedder that does as it is told: its vectors say which of a few words a text has, and it waits or fails."""

import threading
from collections.abc import Sequence

import numpy as np

from layerlore.memory.embedding.port import EmbeddingFailed, Vectors

WORDS = ("apple", "pear", "plum", "fig", "quince", "sloe", "medlar")


class ToldEmbedder:
    """Two texts are near each other when they have the same words of WORDS. ``texts`` keeps what it was given;
    ``failure`` is raised while it is set; ``gate`` holds up every call while it is clear, and ``begun`` says that one
    is held."""

    languages = "seven words"
    weight = 0.7
    squeezed = False
    calibration = None

    def __init__(self, name: str = "told", *, local: bool = True) -> None:
        self.name = name
        self.local = local
        self.dimension = len(WORDS) + 1
        self.texts: list[str] = []
        self.failure = ""
        self.refused_word = ""
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()

    def load(self) -> None:
        pass

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        self.begun.set()
        self.gate.wait(60)
        if self.failure:
            raise EmbeddingFailed(self.failure)
        if self.refused_word and any(self.refused_word in text for text in texts):
            raise EmbeddingFailed("a text was refused", refused=True)
        found = np.array([[float(word in text) for word in WORDS] + [0.01] for text in texts], dtype=np.float32)
        vectors: Vectors = found / np.linalg.norm(found, axis=1, keepdims=True)
        return vectors

    def hold(self) -> None:
        self.begun.clear()
        self.gate.clear()
