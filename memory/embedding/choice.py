"""Which embedder the settings name."""

from collections.abc import Sequence
from pathlib import Path

from layerlore.memory.embedding.minilm import MiniLmEmbedder
from layerlore.memory.embedding.port import Embedder
from layerlore.memory.embedding.remote import RemoteEmbedder
from layerlore.memory.embedding.sentence_encoder import UseEmbedder
from layerlore.memory.settings.context_settings import EmbeddingSettings


def make_embedder(settings: EmbeddingSettings, *, unpack_into: Sequence[Path] = ()) -> Embedder | None:
    """The embedder, not loaded yet; None for ``none``. It never fails: what is wrong shows when it is loaded.

    ``unpack_into``: folders where the built-in one may keep its tables, so that they take less memory. It takes the first
    one that it may write.
    """
    match settings.embedder:
        case "none":
            return None
        case "use":
            return UseEmbedder(unpack_into)
        case "english":
            return MiniLmEmbedder()
        case model:
            return RemoteEmbedder(
                model,
                dimensions=settings.dimensions,
                api_base=settings.api_base,
                batch_size=settings.batch_size,
                timeout_seconds=settings.timeout_seconds,
            )
