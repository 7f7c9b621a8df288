"""Whether a history can be that of one correct store: lists, counters and sets.

Every item is unique and nothing is deleted, so the order in which a store took the additions shows in what is read in the
end. That makes the check exact in linear time, where the general question is exponential.
"""

import itertools
import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from benchmarks.histories.operations import Operation


def find_faults(operations: Iterable[Operation]) -> list[str]:
    """One sentence for each thing that a correct store would not have done.

    What is at a place `a/b` counts at `a`, too.
    """
    places: defaultdict[str, list[Operation]] = defaultdict(list)
    kept = list(operations)
    seen = _first_seen(each for each in kept if each.action == "read" and each.outcome == "done")
    for each in (_settled(each, seen) for each in kept):
        places[each.place].append(each)
        if each.action == "add":
            places[each.place.partition("/")[0]].append(each)
    return [f"{name}: {fault}" for name, place in sorted(places.items()) for fault in _find_in_place(place)]


def _find_in_place(operations: Sequence[Operation]) -> Iterator[str]:
    done: defaultdict[str, list[Operation]] = defaultdict(list)
    for each in operations:
        if each.outcome == "done":
            done[each.action].append(each)
    additions = [each for each in operations if each.action == "add"]
    yield from _find_in_lists(additions, done["read"])
    yield from _find_in_counts(additions, done["count"])
    yield from _find_in_sets(additions, done["find"])


def _first_seen(reads: Iterable[Operation]) -> dict[str, float]:
    """For each item, when the first read that has it ended."""
    seen: dict[str, float] = {}
    for read in sorted(reads, key=lambda read: read.ended):
        for item in read.items:
            seen.setdefault(item, read.ended)
    return seen


def _settled(operation: Operation, seen: dict[str, float]) -> Operation:
    """An addition that is unsure is done once a read has seen it."""
    if operation.action != "add" or operation.outcome != "unsure" or operation.items[0] not in seen:
        return operation
    return replace(operation, outcome="done", ended=seen[operation.items[0]])


def _find_in_lists(additions: Sequence[Operation], reads: Sequence[Operation]) -> Iterator[str]:
    if not reads:
        return
    longest = max(reads, key=lambda read: len(read.items)).items
    for item, times in Counter(longest).items():
        if times > 1:
            yield f"{item!r} was stored {times} times"
    for read in reads:
        if read.items != longest[: len(read.items)]:
            at = next(at for at, item in enumerate(read.items) if item != longest[at])
            yield f"{read.client} read {read.items[at]!r} where another read {longest[at]!r}"
        if read.number != len(read.items):
            yield f"{read.client} read {len(read.items)} items, which the answer calls {read.number}"
    yield from _find_stale_reads(reads)
    place_of = {item: at for at, item in enumerate(longest, 1)}
    by_item = {item: addition for addition in additions for item in addition.items}
    for item in place_of.keys() - by_item.keys():
        yield f"{item!r} was read and never sent"
    for addition in additions:
        yield from _find_in_addition(addition, place_of)
    yield from _find_unseen(additions, reads, place_of)
    yield from _find_reordered([by_item[item] for item in longest if item in by_item])


def _find_in_addition(addition: Operation, place_of: dict[str, int]) -> Iterator[str]:
    """An addition stands in one piece, in its own order, where its answer said; one that failed does not stand."""
    places = [place_of[item] for item in addition.items if item in place_of]
    if addition.outcome == "failed" and places:
        yield f"{addition.items[0]!r} was refused, and stored"
    if places and places != list(range(places[0], places[0] + len(addition.items))):
        yield f"{addition.items[0]!r} and what came with it stand at {places}"
    for item, position in zip(addition.items, addition.positions, strict=False):
        if item in place_of and place_of[item] != position:
            yield f"{item!r} was acknowledged at {position} and stands at {place_of[item]}"


def _find_stale_reads(reads: Sequence[Operation]) -> Iterator[str]:
    """A read sees at least as much as each that ended before it began."""
    for read, most in _with_most_before(reads, lambda read: len(read.items)):
        if len(read.items) < most:
            yield f"{read.client} read {len(read.items)} items after another had read {most}"


def _find_unseen(additions: Sequence[Operation], reads: Sequence[Operation], place_of: dict[str, int]) -> Iterator[str]:
    """A read sees all that was acknowledged before it began, and nothing that was sent after it ended."""
    for addition in additions:
        for item in addition.items:
            place = place_of.get(item, math.inf)
            missing = [read for read in reads if addition.effective_by < read.began and len(read.items) < place]
            if missing:
                yield f"{item!r} was acknowledged and is not in {len(missing)} later reads"
            if any(read.ended < addition.began and len(read.items) >= place for read in reads):
                yield f"{item!r} was read before it was sent"


def _find_reordered(additions: Sequence[Operation]) -> Iterator[str]:
    """Each that was acknowledged before another one was sent stands before it."""
    earliest = math.inf
    for addition in reversed(additions):
        if earliest < addition.began:
            yield f"{addition.items[0]!r} stands before what was acknowledged before it was sent"
        earliest = min(earliest, addition.effective_by)


def _find_in_counts(additions: Sequence[Operation], counts: Sequence[Operation]) -> Iterator[str]:
    possible = [each for each in additions if each.outcome != "failed"]
    for count in counts:
        least = sum(len(each.items) for each in possible if each.effective_by < count.began)
        most = sum(len(each.items) for each in possible if each.began < count.ended)
        if not least <= count.number <= most:
            yield f"{count.client} counted {count.number}, which must be between {least} and {most}"
    for count, most in _with_most_before(counts, lambda count: count.number):
        if count.number < most:
            yield f"{count.client} counted {count.number} after another had counted {most}"


def _find_in_sets(additions: Sequence[Operation], searches: Sequence[Operation]) -> Iterator[str]:
    by_item = {item: addition for addition in additions for item in addition.items}
    for search in searches:
        (item,) = search.items
        addition = by_item.get(item)
        if search.number and (addition is None or addition.outcome == "failed" or addition.began > search.ended):
            yield f"{search.client} found {item!r}, which nobody had added"
        if not search.number and addition is not None and addition.effective_by < search.began:
            yield f"{search.client} did not find {item!r}, which was acknowledged before"


def _with_most_before(
    operations: Sequence[Operation], size: Callable[[Operation], int]
) -> Iterator[tuple[Operation, int]]:
    """Each operation, with the greatest size among those that ended before it began."""
    by_end = sorted(operations, key=lambda each: each.ended)
    ends = [each.ended for each in by_end]
    greatest = [0, *itertools.accumulate((size(each) for each in by_end), max)]
    for each in operations:
        yield each, greatest[bisect_left(ends, each.began)]
