"""A server keeps nothing of a call that is over: under any number of writes its memory grows to a plateau."""

import gc
import weakref
from collections import Counter
from itertools import pairwise

import pytest

from .calling import Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

CALLS = 40


def held() -> Counter[str]:
    """The objects by their types, but for dead references: SQLite drops those to a connection's cursors 200 at a time."""
    gc.collect()
    return Counter(
        f"{type(each).__module__}.{type(each).__qualname__}"
        for each in gc.get_objects()
        if not (type(each) is weakref.ReferenceType and each() is None)
    )


async def write(tools: Tools, first: int) -> None:
    for number in range(first, first + CALLS):
        await tools.say(f"thread {number % 5}", f"Number {number}: the green teapot stands at the harbour.")


async def test_no_object_is_kept_of_a_call_that_is_over(tools: Tools) -> None:
    await write(tools, 0)
    counted = [held()]
    for number in range(1, 5):
        await write(tools, number * CALLS)
        counted.append(held())
    # Modules may still be loaded meanwhile, while there is time: what is kept of each call grows every time.
    each_time = [after - before for before, after in pairwise(counted)]
    assert {name: each_time for name in each_time[0] if min(grown[name] for grown in each_time) >= CALLS // 2} == {}
