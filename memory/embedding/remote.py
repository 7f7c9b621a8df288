"""Any embedding model that litellm can reach. Texts leave this machine: only a model that was named is used."""

import functools
import importlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from layerlore.memory.embedding.port import EmbeddingFailed, Vectors, clip_text, normalize_rows

_loading = threading.Lock()

# Set whatever the environment says: a host that happens to pass one on has not asked for anything.
_VARIABLES = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    # Else it loads a .env.
    "LITELLM_MODE": "PRODUCTION",
}
# With it tiktoken would look in that folder, and download what it does not find there.
_OTHER_ENCODINGS = "CUSTOM_TIKTOKEN_CACHE_DIR"

_TEMPLATES = "litellm.litellm_core_utils.prompt_templates.huggingface_template_handler"


def _nothing_found(*_: Any, **__: Any) -> dict[str, str]:
    return {"status": "failure"}


def _ollama_model(_: Any, model: str, *__: Any, **___: Any) -> dict[str, str | float | None]:
    sizes = dict.fromkeys(("max_tokens", "max_input_tokens", "max_output_tokens"))
    free = {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0}
    return {"key": model, "litellm_provider": "ollama", "mode": "chat", **free, **sizes}


# Parts of litellm without a setting: each with what to say instead. The first four ask huggingface.co about models
# that another company serves; the last asks an Ollama at the usual address about a model of another one's.
_FETCHES: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    (_TEMPLATES, "get_tokenizer_config", _nothing_found),
    (_TEMPLATES, "get_chat_template_file", _nothing_found),
    ("litellm.utils", "_get_max_position_embeddings", lambda *_, **__: None),
    (
        "litellm.llms.huggingface.embedding.handler",
        "get_hf_task_embedding_for_model",
        lambda *_, **__: "feature-extraction",
    ),
    ("litellm.llms.ollama.common_utils", "OllamaModelInfo.get_runtime_model_info", _ollama_model),
)

# These have an address of their own, which litellm reports only later.
_ADDRESSED_LATER = ("azure_ai", "chatgpt", "cometapi", "github_copilot")


def load_litellm() -> Any:
    """The module, to be called in a worker thread. Raises ImportError."""
    # Two workers may load at once, and the patches must be in place before the first request.
    with _loading:
        os.environ.update(_VARIABLES)
        os.environ.pop(_OTHER_ENCODINGS, None)
        litellm: Any = importlib.import_module("litellm")
        litellm.suppress_debug_info = True
        litellm.disable_hf_tokenizer_download = True
        # Where a caller says that it tries again itself (max_retries=0), its provider's library would take this.
        litellm.DEFAULT_MAX_RETRIES = 0
        for module, path, instead in _FETCHES:
            *owners, name = path.split(".")
            setattr(functools.reduce(getattr, owners, importlib.import_module(module)), name, instead)
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logger = logging.getLogger(name)
            logger.handlers.clear()
            # Below that it logs what is sent.
            logger.setLevel(logging.WARNING)
    return litellm


def lacks_address(litellm: Any, model: str) -> bool:
    """Whether the model is on a server of one's own (``lm_studio/...``) and nothing says where that is: litellm would
    send the request, and all that is in it, to OpenAI."""
    provider = model.partition("/")[0]
    if provider == "openai" or provider in _ADDRESSED_LATER:
        return False
    if provider != "custom_openai" and provider not in litellm.openai_compatible_providers:
        return False
    return not litellm.get_llm_provider(model=model)[3]


log = logging.getLogger(__name__)

# Seconds before the second and the third try of a request.
RETRY_PAUSES = (0.5, 2.0)
# Models take 512 tokens or more, and a chunk has 800 characters.
MOST_CHARACTERS = 8000
# Several providers refuse a text without characters.
_BLANK = "-"


class _ProviderError(NamedTuple):
    """An error of litellm: what to say, whether another try may help, whether the texts are at fault."""

    kind: str
    reason: str
    again: bool = False
    refused: bool = False


# The more special ones first.
_ERRORS = (
    _ProviderError("AuthenticationError", "its key is missing or was refused"),
    _ProviderError("PermissionDeniedError", "its key may not use it"),
    _ProviderError("NotFoundError", "no such model there"),
    _ProviderError("LiteLLMUnknownProvider", "no such embedder: use, english, none, or PROVIDER/MODEL"),
    _ProviderError("UnsupportedParamsError", "it does not support the settings (dimensions?)"),
    _ProviderError("PaymentRequiredError", "the account there has no means left"),
    _ProviderError("BadRequestError", "the request was refused", refused=True),
    _ProviderError("UnprocessableEntityError", "the request was refused", refused=True),
    _ProviderError("RateLimitError", "too many requests", again=True),
    _ProviderError("Timeout", "no answer in time", again=True),
    _ProviderError("InternalServerError", "no connection, or an error there", again=True),
    _ProviderError("ServiceUnavailableError", "unavailable", again=True),
    _ProviderError("BadGatewayError", "unavailable", again=True),
    _ProviderError("APIConnectionError", "no connection", again=True),
)
# Errors without a class in litellm, by their words: it is sorted in under the class.
_WORDS = (("Missing credentials", "AuthenticationError"), ("LLM Provider NOT provided", "LiteLLMUnknownProvider"))


class RemoteEmbedder:
    """A model by litellm's name (``openai/text-embedding-3-small``), with the keys in litellm's own variables."""

    languages = "as the model's maker says"
    local = False
    weight = 0.7
    calibration = None

    def __init__(
        self,
        model: str,
        *,
        dimensions: int = 0,
        api_base: str = "",
        batch_size: int = 64,
        timeout_seconds: float = 30.0,
        retry_pauses: Sequence[float] = RETRY_PAUSES,
    ) -> None:
        """``dimensions`` 0: the model's own. ``batch_size``: texts in one request. ``timeout_seconds``: of one try."""
        self.name = f"{model}@{dimensions}" if dimensions else model
        self.dimension = dimensions
        # e5 and its kind were trained with a low temperature, which leaves all cosines between 0.7 and 1.
        self.squeezed = "e5" in model.lower().replace("/", "-").replace("_", "-").split("-")
        self._options: dict[str, Any] = {
            "model": model,
            "timeout": timeout_seconds,
            # The tries are counted here: retries of the library and of the provider would multiply them.
            "max_retries": 0,
            "num_retries": 0,
            # Not every provider knows encoding_format, which others need: Ollama has one form only.
            "drop_params": True,
        }
        if dimensions:
            self._options |= {"dimensions": dimensions, "allowed_openai_params": ["dimensions"]}
        if api_base:
            self._options["api_base"] = api_base
        self._batch_size = batch_size
        self._retry_pauses = retry_pauses
        self._meeting = threading.Lock()

    def load(self) -> None:
        try:
            load_litellm()
        except Exception as error:
            raise EmbeddingFailed(f"litellm cannot be loaded ({type(error).__name__})") from error

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.load()
        found = [self._batch(batch) for batch in self._batches(texts)]
        if found:
            return np.concatenate(found)
        return np.zeros((0, self.dimension), dtype=np.float32)

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        for first in range(0, len(texts), self._batch_size):
            some = texts[first : first + self._batch_size]
            yield [clip_text(text, MOST_CHARACTERS) if text.strip() else _BLANK for text in some]

    def _batch(self, texts: list[str]) -> Vectors:
        values = _in_order(self._answer(texts), len(texts))
        with self._meeting:
            vectors = normalize_rows(values, len(texts), self.dimension)
            # The first answer says how many dimensions the model has: others are an error from then on.
            self.dimension = vectors.shape[1]
        return vectors

    def _answer(self, texts: list[str]) -> Any:
        litellm = load_litellm()
        for pause in (*self._retry_pauses, None):
            try:
                if "api_base" not in self._options and lacks_address(litellm, self._options["model"]):
                    raise EmbeddingFailed(f"{self.name}: it has no address: set embedding.api_base")
                return litellm.embedding(input=texts, encoding_format="float", **self._options)
            except EmbeddingFailed:
                raise
            except Exception as error:  # noqa: BLE001 - litellm passes on what its providers' libraries raise
                failed, again = self._failed(error)
                if pause is None or not again:
                    raise failed from None
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _failed(self, error: Exception) -> tuple[EmbeddingFailed, bool]:
        """The error to raise, and whether another try may help. litellm's own text may repeat a key: it is only
        logged."""
        log.warning("embedding with %s failed: %s: %.300s", self.name, type(error).__name__, error)
        kinds = [kind for words, kind in _WORDS if words in str(error)] or [
            kind.__name__ for kind in type(error).__mro__
        ]
        for known in _ERRORS:
            if known.kind in kinds:
                return EmbeddingFailed(f"{self.name}: {known.reason}", refused=known.refused), known.again
        return EmbeddingFailed(
            f"{self.name}: {type(error).__name__} {getattr(error, 'status_code', '')}".rstrip()
        ), False


def _in_order(answer: Any, count: int) -> list[Any]:
    """The vectors of an answer in the order of the texts. Raises EmbeddingFailed."""
    try:
        numbered = [(_field(item, "index"), _field(item, "embedding")) for item in answer.data]
    except (AttributeError, KeyError, TypeError):
        raise EmbeddingFailed("the model answered with something that holds no vectors") from None
    if len(numbered) != count:
        raise EmbeddingFailed(f"the model answered with {len(numbered)} vectors for {count} texts")
    # Providers may answer in another order, and a vector under the wrong text would never be noticed.
    by_index = dict(numbered)
    if sorted(by_index) != list(range(count)):
        raise EmbeddingFailed("the model did not say which vector belongs to which text")
    return [by_index[index] for index in range(count)]


def _field(item: Any, name: str) -> Any:
    if isinstance(item, dict):
        return item[name]
    return getattr(item, name)
