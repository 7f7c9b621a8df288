"""Which embedder the settings name."""

from typing import Protocol

from layerlore.memory.embedding.minilm import MiniLmEmbedder
from layerlore.memory.embedding.port import Embedder
from layerlore.memory.embedding.remote import RemoteEmbedder
from layerlore.memory.embedding.use import UseEmbedder


class Choice(Protocol):
    """The settings that choose: see ``configs/sqlite.toml``."""

    @property
    def embedder(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def api_base(self) -> str: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def timeout_seconds(self) -> float: ...


def embedder(choice: Choice) -> Embedder | None:
    """The embedder, not loaded yet; None for ``none``. It never fails: what is wrong shows when it is loaded."""
    match choice.embedder:
        case "none":
            return None
        case "use":
            return UseEmbedder()
        case "english":
            return MiniLmEmbedder()
        case model:
            return RemoteEmbedder(
                model,
                dimensions=choice.dimensions,
                api_base=choice.api_base,
                batch_size=choice.batch_size,
                timeout_seconds=choice.timeout_seconds,
            )
