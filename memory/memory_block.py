"""The entries that fit a turn, for the ``<memory>`` block of a context: found in the caller's own transaction, with words
and, if it is at hand, a vector."""

from collections.abc import Sequence
from dataclasses import replace

from layerlore.memory.ages import age
from layerlore.memory.blocks import block
from layerlore.memory.candidates import Query, Space, Vector, gather, match
from layerlore.memory.engine import Engine
from layerlore.memory.quoting import quoted_line
from layerlore.memory.recall import space_of
from layerlore.memory.recall_rules import RecallRules
from layerlore.memory.verdicts import judged, winning
from layerlore.storage import entries, search_rows
from layerlore.storage.records import Message, Scope
from layerlore.storage.transaction import Tx

DESCRIPTION = "Source-backed case entries retrieved from previous threads for this turn."
"""Seed 004's."""


async def memory_block(
    tx: Tx, engine: Engine, scope: Scope, words: Sequence[str], vector: Vector | None, *, now: int
) -> list[str]:
    """The lines of the block, newest first, each with its age and, where it is not a user's, whose word it is; none where nothing fits, or ``auto_inject`` is off.

    ``words``: ``search_text.query_words`` of the newest message; ``vector``: of the embedder in use, of length 1.
    """
    if not engine.entries.auto_inject or not words or not await entries.count(tx, scope):
        return []
    floor = engine.entries.auto_inject_floor
    rules = replace(engine.recall.for_limit(engine.entries.auto_inject_top_k), floor=floor, lexical_floor=floor)
    found = await fitting(
        tx,
        scope,
        Query(tuple(words), vector),
        space_of(engine, [vector]),
        rules,
        most=engine.entries.auto_inject_top_k,
        now=now,
    )
    newest = sorted(found, key=lambda entry: (-entry.said_at, entry.id))
    return [
        f"- {_whose(entry)}{quoted_line(str(entry.parts[0]['text']))} ({age(entry.said_at, now)})" for entry in newest
    ]


def _whose(entry: Message) -> str:
    """Whose word an entry is, where it is not a user's."""
    trust = entry.metadata["trust"]
    return "" if trust == "user" else f"[{trust}] "


async def fitting(
    tx: Tx, scope: Scope, query: Query, space: Space | None, rules: RecallRules, *, most: int, now: int
) -> list[Message]:
    """The entries that a recall of entries alone would find, best first, in the shape of messages."""
    matches = await match(tx, scope, query.words, None, rules, ("entry",))
    gathered = await gather(tx, scope, [query], matches, space, rules, ("entry",))
    winners, _ = winning(gathered, [judged(gathered, 0, space, rules, now=now)], most, rules.tail)
    places = [(gathered.rows[winner.row].thread_uid, gathered.rows[winner.row].seq) for winner in winners]
    found = await search_rows.messages_of(tx, scope, places) if places else {}
    return [found[place] for place in places if place in found]


def as_block(lines: Sequence[str]) -> str:
    """The lines as the block; "" without any."""
    return block("memory", "\n".join(lines), DESCRIPTION) if lines else ""
