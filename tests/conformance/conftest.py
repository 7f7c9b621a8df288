"""Fixtures that stand on the database, whichever it is."""

import pytest

from layerlore.storage.core.transaction import Database

from .running import Runs


@pytest.fixture
def runs(database: Database) -> Runs:
    """What callers do with runs, and the clock that they see."""
    return Runs(database)
