"""How SQLite finds open work."""

from pathlib import Path

import pytest

from layerlore.storage.work import plans

from ..drivers.test_query_plans import plan as query_plan

pytestmark = pytest.mark.anyio


def test_open_work_is_found_among_itself_however_much_is_done(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    for statement, index in (
        (plans._PLANS, "plans_open"),
        (plans._COUNT_PLANS, "plans_open"),
        (plans._RUNS, "runs_suspended"),
        (plans._COUNT_RUNS, "runs_suspended"),
        (plans._SUSPENDED_HERE, "runs_suspended"),
    ):
        steps = " ".join(query_plan(file, statement))
        assert index in steps, steps
