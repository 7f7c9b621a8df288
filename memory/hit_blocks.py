"""Hits and what stands around them, without telling anything twice."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from layerlore.memory.recall import Hit
from layerlore.storage.records import Message


@dataclass(frozen=True, slots=True)
class Block:
    """A run of one thread's messages in order, and the hits among them, best first, with their numbers from 1."""

    messages: tuple[Message, ...]
    hits: tuple[tuple[int, Hit], ...]


def blocks_of(hits: Sequence[Hit]) -> list[Block]:
    """Hits of a thread whose neighbours overlap or touch share a block. Blocks are in the order of their best hits."""
    threads: dict[str, list[tuple[int, Hit]]] = defaultdict(list)
    for number, hit in enumerate(hits, 1):
        threads[hit.message.thread_id].append((number, hit))
    found = [block for numbered in threads.values() for block in _of_thread(numbered)]
    return sorted(found, key=lambda block: block.hits[0][0])


def _of_thread(numbered: Sequence[tuple[int, Hit]]) -> list[Block]:
    messages = {message.seq: message for _, hit in numbered for message in _told(hit)}
    # Where a run ends: no hit's neighbours reach over, and something may lie between.
    joined = {(one.seq, other.seq) for _, hit in numbered for one, other in pairwise(_told(hit))}
    runs: list[list[Message]] = []
    for seq in sorted(messages):
        last = runs[-1][-1].seq if runs else None
        if last is not None and (last + 1 == seq or (last, seq) in joined):
            runs[-1].append(messages[seq])
        else:
            runs.append([messages[seq]])
    return [_block(run, numbered) for run in runs]


def _block(run: Sequence[Message], numbered: Sequence[tuple[int, Hit]]) -> Block:
    seqs = {message.seq for message in run}
    return Block(tuple(run), tuple((number, hit) for number, hit in numbered if hit.message.seq in seqs))


def _told(hit: Hit) -> list[Message]:
    return [*hit.before, hit.message, *hit.after]


def told_apart(hits: Sequence[Hit]) -> list[Hit]:
    """The hits, each message among their neighbours told once, with the best hit, and none that is a hit itself."""
    told = {(hit.message.thread_id, hit.message.seq) for hit in hits}
    found = []
    for hit in hits:
        around = [[each for each in side if (each.thread_id, each.seq) not in told] for side in (hit.before, hit.after)]
        told |= {(each.thread_id, each.seq) for side in around for each in side}
        found.append(replace(hit, before=around[0], after=around[1]))
    return found
