"""Loads litellm, once, where a remote model is first needed: its import takes seconds and 150 MB.

It is the one place that knows how to keep litellm quiet. Left alone, it reads a ``.env`` that it finds somewhere above
itself, writes logs of its own, prints advice to standard output, and asks third parties for files: price lists, headers
and presets on GitHub, encodings of tiktoken, tokenizers, chat templates and sizes of models on Hugging Face. It ships
what it needs of them.
"""

import functools
import importlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

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


def _size_unknown(*_: Any, **__: Any) -> None:
    return None


def _embedding_task(*_: Any, **__: Any) -> str:
    return "feature-extraction"


def _ollama_model(_: Any, model: str, *__: Any, **___: Any) -> dict[str, str | float | None]:
    sizes = dict.fromkeys(("max_tokens", "max_input_tokens", "max_output_tokens"))
    free = {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0}
    return {"key": model, "litellm_provider": "ollama", "mode": "chat", **free, **sizes}


# Parts of litellm without a setting: each with what to say instead. The first four ask huggingface.co about models
# that another company serves; the last asks an Ollama at the usual address about a model of another one's.
_FETCHES: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    (_TEMPLATES, "get_tokenizer_config", _nothing_found),
    (_TEMPLATES, "get_chat_template_file", _nothing_found),
    ("litellm.utils", "_get_max_position_embeddings", _size_unknown),
    ("litellm.llms.huggingface.embedding.handler", "get_hf_task_embedding_for_model", _embedding_task),
    ("litellm.llms.ollama.common_utils", "OllamaModelInfo.get_runtime_model_info", _ollama_model),
)

# These have an address of their own, which litellm reports only later.
_ADDRESSED_LATER = ("azure_ai", "chatgpt", "cometapi", "github_copilot")


def load_litellm() -> Any:
    """The module, to be called in a worker thread. Raises ImportError."""
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
