"""How SQLite finds runs."""

from pathlib import Path

import pytest

from layerlore.storage.work import runs

from ..drivers.test_query_plans import plan

pytestmark = pytest.mark.anyio


def test_runs_are_looked_up_and_listed_through_their_indexes(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    (found, _) = plan(file, runs._FIND)
    assert "sqlite_autoindex_runs_1" in found
    listing, _ = plan(file, runs._page(of_statuses=False, of_workflow=False, of_one_thread=False, continued=True))
    assert "runs_by_time" in listing
    expired, _ = plan(file, runs._EXPIRED)
    assert "SEARCH runs USING INDEX" in expired
