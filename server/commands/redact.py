"""``layerlore redact``: secrets in what is stored already are masked, also while servers run."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

from layerlore.memory.redacting import Redacted
from layerlore.memory.redacting import redact as mask_stored
from layerlore.server.commands.stored import stored_memory
from layerlore.server.commands.whose import Narrowed
from layerlore.server.program import shell_command
from layerlore.server.settings import Settings
from layerlore.storage.records import Json, Origin

LINE_SECONDS = 5.0
"""How often a line says how far it is."""

_BYTES = {
    "erased": "the file was rewritten: no byte of a masked secret is left there",
    "owed": "another process is at the file, which is rewritten within a minute, or when a server starts",
    "vacuum": "Postgres reuses the space of what was there before by itself; its old log files and your backups are yours "
    "to end",
}
_ORIGIN = Origin("command line", "redact", "command:redact")


def redact(settings: Settings, whose: Narrowed, *, everything: bool, dry_run: bool, as_json: bool) -> int:
    """Mask the secrets in what is stored of some, or of all, or (``dry_run``) tell how many that would be, and
    print the counts; how far it is goes to standard error. Returns the exit code.

    Raises NotFound, InvalidInput, LimitExceeded, StorageUnavailable or DatabaseTooNew.
    """
    done = asyncio.run(_redact(settings, whose.checked(), everything, dry_run))
    if as_json:
        sys.stdout.write(json.dumps(_as_json(whose, done), ensure_ascii=False, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(settings, whose, done)) + "\n")
    return 0


async def _redact(settings: Settings, whose: Narrowed, everything: bool, dry_run: bool) -> Redacted:
    async with stored_memory(settings, off="there is nothing to mask", absent="there is nothing to mask") as engine:
        return await mask_stored(
            engine, whose.takes, everything=everything, dry_run=dry_run, origin=_ORIGIN, told=_progress()
        )


def _progress() -> Callable[[int], None]:
    so_far, told_at = 0, time.monotonic()

    def told(rows: int) -> None:
        nonlocal so_far, told_at
        so_far += rows
        if time.monotonic() - told_at >= LINE_SECONDS:
            told_at = time.monotonic()
            sys.stderr.write(f"layerlore: looked at {so_far:,} rows\n")

    return told


def _lines(settings: Settings, whose: Narrowed, done: Redacted) -> list[str]:
    rows, secrets = (sum(counts.values()) for counts in (done.rows, done.secrets))
    if rows:
        head = "would be masked" if done.dry_run else "masked"
        counted = [f"{done.secrets[table]:>9,}  in {done.rows[table]:,} rows of {table}" for table in sorted(done.rows)]
        lines = [f"{head}, of {whose.told()}:", *counted, f"{secrets:>9,}  secrets in {rows:,} rows"]
    else:
        lines = [f"nothing to mask: no secret that is known is stored of {whose.told()}"]
    if done.rows and done.bytes is not None:
        anew = f"vectors of what was masked are made anew by servers, or by {shell_command('reindex')}"
        lines += [_BYTES[done.bytes], anew]
    if done.rows.get("runs"):
        would = "would be" if done.dry_run else "were"
        lines.append(f"checkpoints {would} masked, too: whoever resumes such a run finds marks where secrets were")
    if done.left:
        lines.append('redaction is "derived": what was sent is left as it is; --all masks that, too')
    elif settings.redaction != "all":
        lines.append(f'redaction is "{settings.redaction}": what is sent from now on is stored as it is')
    return lines


def _as_json(whose: Narrowed, done: Redacted) -> Json:
    return {
        **{name: value for name, value in asdict(whose).items() if value is not None},
        "dry_run": done.dry_run,
        "rows": dict(sorted(done.rows.items())),
        "secrets": dict(sorted(done.secrets.items())),
        "left_as_sent": done.left,
        **({"bytes": done.bytes} if done.bytes is not None else {}),
    }
