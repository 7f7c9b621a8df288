"""The ledger books CPU to the part that used it, and prints what it promises."""

import asyncio
import time
from typing import Any

import pytest

from benchmarks.cpu_parts import Books, booked, booked_by_caller

Runs = dict[str, Any]
SPUN = 0.02


def _spin(seconds: float = SPUN) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_cpu_belongs_to_the_innermost_part_that_runs() -> None:
    books = Books({"": "base"})
    inner = booked(books, "inner", _spin)

    def outer() -> None:
        inner()
        inner()
        _spin()

    booked(books, "outer", outer)()
    spent = books.spent()
    assert spent["inner"][1] == 2
    assert spent["inner"][0] >= 2 * SPUN
    assert SPUN <= spent["outer"][0] < spent["inner"][0]


def test_a_coroutine_is_booked_step_by_step_and_not_while_it_waits() -> None:
    books = Books({"": "base"})

    async def waits() -> str:
        _spin()
        await asyncio.sleep(0)
        return "done"

    async def both() -> list[Any]:
        async def other() -> None:
            _spin(3 * SPUN)

        return await asyncio.gather(booked(books, "waits", waits)(), other())

    assert asyncio.run(both())[0] == "done"
    spent = books.spent()
    assert SPUN <= spent["waits"][0] < 3 * SPUN
    assert spent["waits"][1] == 1
    assert spent["base"][0] >= 3 * SPUN


def test_an_error_passes_through_a_booked_coroutine_and_ends_its_part() -> None:
    books = Books({"": "base"})

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(booked(books, "fails", fails)())
    _spin()
    assert books.spent()["fails"][0] < SPUN


def test_a_statement_is_named_by_who_runs_it() -> None:
    books = Books({"": "base"})
    fetch = booked_by_caller(books, "statement", _spin, ("cpu_parts.py",))

    def find_thread() -> None:
        fetch()

    find_thread()
    assert "statement test_ledger.find_thread" in books.spent()


@pytest.mark.soak
def test_ledger_prints_the_parts_of_each_call_beside_the_no_op_call(runs: Runs) -> None:
    printed, figures = runs["ledger"].result()
    assert [(each["call"], each["messages"]) for each in figures] == [
        (call, size)
        for size in (20, 60)
        for call in ("get", "get_context", "get_context_after_commit", "recall", "add")
    ]
    for each in figures:
        assert each["whole_ms"] > 0 < each["noop_ms"]
        assert all(each["parts"][part]["ms"] > 0 for part in ("the SDK", "transport", "event loop"))
        assert each["parts"]["the tool"]["times"] == 1
    recall = next(each["parts"] for each in figures if each["call"] == "recall")
    assert {"ranking", "the query's vector", "rendering", "token counts", "statement search.read_rows"} <= set(recall)
    assert "## recall: CPU, times the no-op call, by messages in scope" in printed
