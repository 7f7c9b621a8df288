"""Loads litellm, once, where a remote model is first needed: its import takes seconds and 150 MB.

It is the one place that knows how to keep litellm quiet: it would fetch a price list at import, read a ``.env`` that
it finds somewhere above itself, write logs of its own, print advice to standard output, and download tokenizers.
"""

import importlib
import logging
import os
import threading
from typing import Any

_loading = threading.Lock()


def load_litellm() -> Any:
    """The module, to be called in a worker thread. Raises ImportError."""
    with _loading:
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
        litellm: Any = importlib.import_module("litellm")
        litellm.suppress_debug_info = True
        litellm.disable_hf_tokenizer_download = True
        # Where a caller says that it tries again itself (max_retries=0), its provider's library would take this.
        litellm.DEFAULT_MAX_RETRIES = 0
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logger = logging.getLogger(name)
            logger.handlers.clear()
            # Below that it logs what is sent.
            logger.setLevel(logging.WARNING)
    return litellm
