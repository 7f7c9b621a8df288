"""``layerlore erase``: what is kept of somebody is erased for good, also while servers run."""

import asyncio
import json
import sys
from dataclasses import dataclass

from layerlore.memory.acceptance import check_id
from layerlore.memory.engine import Engine
from layerlore.memory.erasing import Receipt, shown
from layerlore.memory.erasing import erase as erase_for_good
from layerlore.memory.quoting import one_line
from layerlore.server.commands.stored import stored_memory
from layerlore.server.settings import Settings, SettingsError
from layerlore.storage.records import Json, Origin, Tenant

_BYTES = {
    "erased": "the file was rewritten: no byte of it is left there",
    "owed": "another process is at the file, which is rewritten within a minute, or when a server starts",
    "vacuum": "Postgres reuses the space by itself; its old log files and your backups are yours to end",
}
_ORIGIN = Origin("command line", "erase", "command:erase")


@dataclass(frozen=True, slots=True)
class Asked:
    """What to erase. ``agent`` None: of all agents; ``thread`` empty: everything."""

    tenant: str
    resource: str
    agent: str | None
    thread: str


def erase(settings: Settings, asked: Asked, *, dry_run: bool, sure: bool, as_json: bool) -> int:
    """Erase, or (``dry_run``) tell how much that would be, and print the receipt. Without ``sure`` it asks first.
    Returns the exit code.

    Raises SettingsError where nobody can be asked, NotFound, InvalidInput, LimitExceeded, StorageUnavailable or
    DatabaseTooNew.
    """
    if not (dry_run or sure or sys.stdin.isatty()):
        raise SettingsError(
            "erase asks before it erases, and there is no terminal to ask at: --yes erases without asking, --dry-run "
            "shows how much it would be"
        )
    receipt = asyncio.run(_erase(settings, asked, dry_run=dry_run, sure=sure))
    if receipt is None:
        sys.stderr.write("layerlore: nothing was erased\n")
        return 1
    if as_json:
        told = {"asked": _as_json(asked), **shown(receipt)}
        sys.stdout.write(json.dumps(told, ensure_ascii=False, indent=2) + "\n")
    else:
        sys.stdout.write(_text(asked, receipt))
    return 0


async def _erase(settings: Settings, asked: Asked, *, dry_run: bool, sure: bool) -> Receipt | None:
    """None: whoever was asked did not want it."""
    async with stored_memory(settings, off="there is nothing to erase", absent="there is nothing to erase") as engine:
        if not (dry_run or sure):
            expected = await _act(engine, asked, dry_run=True)
            if expected.rows and not await asyncio.to_thread(_agreed, asked, expected):
                return None
        return await _act(engine, asked, dry_run=dry_run)


async def _act(engine: Engine, asked: Asked, *, dry_run: bool) -> Receipt:
    return await erase_for_good(
        engine,
        Tenant(check_id(asked.tenant, "--tenant", engine.limits.id_chars)),
        asked.resource,
        agent_id=asked.agent,
        thread_id=asked.thread,
        dry_run=dry_run,
        origin=_ORIGIN,
    )


def _agreed(asked: Asked, expected: Receipt) -> bool:
    sys.stderr.write(f"{_counted(expected)}This erases all of it for good, of {_whose(asked)}. Go on? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _whose(asked: Asked) -> str:
    thread = f"thread {one_line(asked.thread)!r} of " if asked.thread else ""
    agent = "all agents" if asked.agent is None else f"agent {one_line(asked.agent)!r}"
    return f"{thread}resource {one_line(asked.resource)!r} of tenant {one_line(asked.tenant)!r} with {agent}"


def _counted(receipt: Receipt) -> str:
    return "".join(f"{number:>9,}  {name}\n" for name, number in sorted(receipt.counts.items()))


def _text(asked: Asked, receipt: Receipt) -> str:
    if not receipt.rows:
        return f"nothing was kept of it: {_whose(asked)}\n"
    head = "would be erased" if receipt.dry_run else "erased"
    lines = [f"{head}, of {_whose(asked)}:", *_counted(receipt).splitlines(), f"{receipt.rows:>9,}  rows in all"]
    if receipt.bytes is not None:
        lines += [_BYTES[receipt.bytes], f"receipt {receipt.id}, resource mark {receipt.resource}"]
    return "\n".join(lines) + "\n"


def _as_json(asked: Asked) -> Json:
    return {
        "tenant": asked.tenant,
        "resource": asked.resource,
        **({"agent": asked.agent} if asked.agent is not None else {}),
        **({"thread": asked.thread} if asked.thread else {}),
    }
