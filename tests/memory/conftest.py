"""The embedder that is always there, loaded once for all tests, and the way to the test doubles."""

import sys
from pathlib import Path

import pytest

from memstrata.memory.embedding.use import UseEmbedder

sys.path.insert(0, str(Path(__file__).parents[1] / "doubles"))


@pytest.fixture(scope="session")
def use() -> UseEmbedder:
    embedder = UseEmbedder()
    embedder.load()
    return embedder
