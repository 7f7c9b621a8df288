"""The settings of embedding."""

from typing import Annotated

from pydantic import Field

from layerlore.memory.settings.section import Name, Seconds, Section, Unit


class EmbeddingSettings(Section):
    """Vectors, by which recall finds messages in other words. Text is stored and found by its words at once; its
    vector follows in the background. A new embedder makes new vectors while the old ones still serve."""

    embedder: Name = Field(
        default="use",
        min_length=1,
        description="use: 16 languages, on this machine. english: better at English, useless elsewhere, on this machine; "
        "`scripts/setup` installs it. none: words alone. Anything else is an embedding model by its litellm name, as "
        "`openai/text-embedding-3-small`: what is stored and asked is then SENT to that provider, whose key is in its "
        "usual variable (`OPENAI_API_KEY`). A server of your own: `openai/NAME` with its `api_base`.",
    )
    dimensions: int = Field(
        default=0, ge=0, le=16_000, description="Length of a remote model's vectors. 0: the model's own."
    )
    api_base: Name = Field(default="", description="URL of a remote model. Empty: its provider's.")
    batch_size: int = Field(default=64, ge=1, le=2048, description="Texts in one request to a remote model.")
    timeout_seconds: Seconds = Field(
        default=30.0,
        gt=0,
        le=600,
        description="Time for one request to a remote model; up to three are made where another may help.",
    )
    query_patience_ms: Annotated[int, Unit("milliseconds")] = Field(
        default=300,
        ge=1,
        le=60_000,
        description="Time for a query's vector. After that recall goes by words alone, and its answer says so.",
    )

    load_patience_ms: Annotated[int, Unit("milliseconds")] = Field(
        default=3000,
        ge=0,
        le=60_000,
        description="Time that the first calls of a process wait for a local embedder to be loaded, once: what the first "
        "recall finds by words alone would else be little. A remote embedder is never waited for.",
    )

    @property
    def is_remote(self) -> bool:
        """Whether texts leave this machine for their vectors."""
        return self.embedder not in ("use", "english", "none")
