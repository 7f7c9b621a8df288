"""The embedder that a benchmark names, in the benchmark's own process, and the bound of sure answers that goes with it."""

from layerlore.memory.embedding import choice
from layerlore.memory.embedding.port import Embedder
from layerlore.memory.settings.context_settings import EmbeddingSettings, RecallRules

# What --embedder takes, and the setting that tells the server, as a variable has it.
EMBEDDERS = "none, use (built in), english (MiniLM), or a model's name as litellm has it"
EMBEDDER_SETTING = "EMBEDDING__EMBEDDER"


def chosen(name: str) -> Embedder | None:
    """``none``, ``use``, ``english`` or a model's name, with the settings' defaults."""
    return choice.make_embedder(EmbeddingSettings(embedder=name))


def default_sure(embedder: Embedder | None) -> float:
    """The relevance from which on an answer is sure by default, with such an embedder or none."""
    rules = RecallRules()
    return rules.lexical_sure if embedder is None or embedder.calibration is None else rules.sure
