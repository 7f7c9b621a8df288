"""Long texts are worked on one at a time, so that short calls wait for one step of one of them."""

import asyncio
import threading

import pytest

from layerlore.memory.engine.engine import work_on_long_text

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_second_long_text_waits_for_the_first_and_the_loop_for_neither() -> None:
    begun: list[str] = []
    first_begins, first_may_end = threading.Event(), threading.Event()

    def work(name: str) -> str:
        begun.append(name)
        first_begins.set()
        assert first_may_end.wait(60)
        return name

    works = [asyncio.create_task(work_on_long_text(work, name)) for name in ("first", "second", "third")]
    await asyncio.to_thread(first_begins.wait, 60)
    for _ in range(100):  # the loop goes round meanwhile
        await asyncio.sleep(0)
    assert begun == ["first"]
    first_may_end.set()
    assert await asyncio.gather(*works) == ["first", "second", "third"]


async def test_what_the_work_raises_reaches_the_caller_and_the_next_goes_on() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await work_on_long_text(int, "x")
    assert await work_on_long_text(int, "7") == 7
