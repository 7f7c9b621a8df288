"""Sharing: the entries and the document of a resource, kept equal with those of others through files of lines.

What is shared stands in the lines that were written or read last. Before either, what happened here since is written into
them: an entry that is not told any more is forgotten under all ids that it has, one that was said again has a new one.
Of two machines that each say the same, both ids lead to one entry, which goes when both are forgotten.

What a file brings has the trust ``shared``, whatever its lines say, until the user accepts it. Before that it changes
nothing that the user said: such an entry stays as it is, and so does the document.
"""

from collections.abc import Mapping

from layerlore.memory.engine.engine import Engine, Sent
from layerlore.memory.moving.exchange import SharedExchange
from layerlore.memory.moving.line_forms import Line
from layerlore.memory.moving.reports import ImportReport
from layerlore.memory.moving.shared_lines import (
    SharedLines,
)
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx

BATCH = 2_000
"""Lines that one transaction takes in."""


async def list_shared(engine: Engine, scope: Scope) -> dict[str, Line]:
    """The lines that a scope shares, by their ids, with what happened since they were last asked for."""
    seed, now = engine.new_id(), engine.now()
    found: dict[str, Line] = {}

    async def unit(tx: Tx, of: Scope) -> None:
        exchange = SharedExchange(tx, of, engine, seed, now)
        await exchange.begin()
        await exchange.end()
        found.clear()
        found.update(exchange.list_lines())

    await engine.database.write(unit, scope)
    return found


async def take_shared(
    engine: Engine, scope: Scope, given: SharedLines, sent: Sent, *, accept: bool = False, dry_run: bool = False
) -> ImportReport:
    """Have a scope follow lines that others share, and say what became of each. ``accept``: the user vouches for them, so
    that they count as this machine's own. Raises LimitExceeded beyond the quota, StorageUnavailable."""
    report = ImportReport(masked=given.masked)
    ids = sorted(given.lines)
    for at in range(0, len(ids), BATCH):
        some = {id_: given.lines[id_] for id_ in ids[at : at + BATCH]}
        taken = await _take_some(engine, scope, some, sent, accept=accept, dry_run=dry_run)
        for kind, outcomes in taken.counts.items():
            for outcome, number in outcomes.items():
                report.add(kind, outcome, number)
        for each in taken.skipped:
            report.skip(each.kind, each.where, each.why, 0)
    return report


class _Undone(Exception):
    """A dry run ends its transaction with it."""


async def _take_some(
    engine: Engine, scope: Scope, lines: Mapping[str, Line], sent: Sent, *, accept: bool, dry_run: bool
) -> ImportReport:
    seed, now = engine.new_id(), engine.now()
    found = [ImportReport()]

    async def unit(tx: Tx) -> dict[str, int]:
        exchange = SharedExchange(tx, scope, engine, seed, now)
        await exchange.begin()
        await exchange.take(lines, sent.origin, accept=accept)
        await exchange.end()
        found[:] = [exchange.report]
        return {"entries": len(exchange.touched)}

    async def tried(tx: Tx, _: Scope) -> None:
        await unit(tx)
        raise _Undone

    if dry_run:
        try:
            await engine.database.write(tried, scope)
        except _Undone:
            return found[0]
    await engine.write(scope, sent, [], now, unit)
    return found[0]
