"""``layerlore erase`` and ``redact``: erase everything stored about a person for good, and mask stored secrets.

Erasing and redacting work while servers run.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from layerlore.memory.engine.engine import Engine
from layerlore.memory.removal.erasure import ErasureReceipt, show_receipt
from layerlore.memory.removal.erasure import erase as erase_for_good
from layerlore.memory.removal.stored_redaction import RedactionResult
from layerlore.memory.removal.stored_redaction import redact as mask_stored
from layerlore.memory.rules.validation import check_id
from layerlore.memory.text.quotation import join_lines
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.capture.hook_sessions import erase_hook_files
from layerlore.server.command_line.known_engine import open_known_memory
from layerlore.server.command_line.options import (
    AgentFilter,
    AsJson,
    ResourceFilter,
    TenantFilter,
    TenantOption,
    print_json,
    read_settings,
)
from layerlore.server.command_line.owner import OwnerFilter
from layerlore.server.command_line.suggestions import suggest
from layerlore.server.command_line.tables import ask_person
from layerlore.server.settings.settings import Settings, SettingsError
from layerlore.storage.core.records import Json, Origin, Tenant

LINE_SECONDS = 5.0
"""Progress is printed this often."""

_FILE_IN_USE = "another process uses the file; it is rewritten within a minute, or when a server starts"
_BYTES_ERASED = {
    "erased": "the file was rewritten: no byte of it is left there",
    "owed": _FILE_IN_USE,
    "vacuum": "Postgres reuses the space by itself; old log files and backups are yours to delete",
}
_BYTES_MASKED = {
    "erased": "the file was rewritten: no byte of a masked secret is left there",
    "owed": _FILE_IN_USE,
    "vacuum": "Postgres reuses the space of the old rows by itself; old log files and backups are yours to delete",
}
_BY_ERASE = Origin("command line", "erase", "command:erase")
_BY_REDACT = Origin("command line", "redact", "command:redact")


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """The data to erase. ``agent`` None: for all agents; ``thread`` empty: everything."""

    tenant: str
    resource: str
    agent: str | None
    thread: str


def run_erase(settings: Settings, request: ErasureRequest, *, dry_run: bool, sure: bool, as_json: bool) -> int:
    """Erase, or (``dry_run``) only count, and print the receipt. Without ``sure`` it asks first. Returns the exit code.

    Raises SettingsError without a terminal to ask at, NotFound, InvalidInput, LimitExceeded, StorageUnavailable or
    DatabaseTooNew.
    """
    receipt = asyncio.run(_erase(settings, request, dry_run=dry_run, sure=sure))
    if receipt is None:
        sys.stderr.write("layerlore: nothing was erased\n")
        return 1
    if as_json:
        answer = {"asked": _as_json(request), **show_receipt(receipt)}
        print_json(answer)
    else:
        sys.stdout.write(_text(request, receipt))
    return 0


async def _erase(settings: Settings, request: ErasureRequest, *, dry_run: bool, sure: bool) -> ErasureReceipt | None:
    """Erase. Returns the receipt; None if the person at the terminal declined."""
    async with open_known_memory(
        settings, off="there is nothing to erase", absent="there is nothing to erase"
    ) as engine:
        if not (dry_run or sure):
            # A dry run counts first, so that the person agrees to numbers.
            expected = await _act(engine, request, dry_run=True)
            if expected.rows and not sys.stdin.isatty():
                raise SettingsError(
                    "erase asks before it erases, and there is no terminal to ask at: use --yes to erase without asking, "
                    "or --dry-run to see how much it would erase"
                )
            question = f"{_counted(expected)}This erases it all for good, for {_whose(request)}. Continue?"
            if expected.rows and not ask_person(question):
                return None
        receipt = await _act(engine, request, dry_run=dry_run)
    # The hooks' files belong to this machine's own tenant only.
    if not dry_run and request.tenant == LOCAL_TENANT:
        erase_hook_files(settings, request.resource, request.agent, request.thread)
    return receipt


async def _act(engine: Engine, request: ErasureRequest, *, dry_run: bool) -> ErasureReceipt:
    return await erase_for_good(
        engine,
        Tenant(check_id(request.tenant, "--tenant", engine.limits.id_chars)),
        request.resource,
        agent_id=request.agent,
        thread_id=request.thread,
        dry_run=dry_run,
        origin=_BY_ERASE,
    )


def _whose(request: ErasureRequest) -> str:
    if request.thread:
        thread = f"thread {join_lines(request.thread)!r} of "
    else:
        thread = ""
    if request.agent is None:
        agent = "all agents"
    else:
        agent = f"agent {join_lines(request.agent)!r}"
    return f"{thread}resource {join_lines(request.resource)!r} of tenant {join_lines(request.tenant)!r} with {agent}"


def _counted(receipt: ErasureReceipt) -> str:
    return "".join(f"{number:>9,}  {name}\n" for name, number in sorted(receipt.counts.items()))


def _text(request: ErasureRequest, receipt: ErasureReceipt) -> str:
    if not receipt.rows:
        return f"nothing is stored for {_whose(request)}\n"
    if receipt.dry_run:
        head = "would be erased"
    else:
        head = "erased"
    lines = [f"{head}, for {_whose(request)}:", *_counted(receipt).splitlines(), f"{receipt.rows:>9,}  rows in all"]
    if receipt.bytes is not None:
        lines += [_BYTES_ERASED[receipt.bytes], f"receipt {receipt.id}, resource mark {receipt.resource}"]
    return "\n".join(lines) + "\n"


def _as_json(request: ErasureRequest) -> Json:
    return {
        "tenant": request.tenant,
        "resource": request.resource,
        **({"agent": request.agent} if request.agent is not None else {}),
        **({"thread": request.thread} if request.thread else {}),
    }


def run_redact(settings: Settings, whose: OwnerFilter, *, everything: bool, dry_run: bool, as_json: bool) -> int:
    """Mask the stored secrets of some or all memories, or (``dry_run``) only count them, and print the counts. Progress
    goes to standard error. Returns the exit code.

    Raises NotFound, InvalidInput, LimitExceeded, StorageUnavailable or DatabaseTooNew.
    """
    done = asyncio.run(_redact(settings, whose.check(), everything, dry_run))
    if as_json:
        print_json(_masked_as_json(whose, done))
    else:
        sys.stdout.write("\n".join(_lines(settings, whose, done)) + "\n")
    return 0


async def _redact(settings: Settings, whose: OwnerFilter, everything: bool, dry_run: bool) -> RedactionResult:
    async with open_known_memory(settings, off="there is nothing to mask", absent="there is nothing to mask") as engine:
        return await mask_stored(
            engine, whose.matches, everything=everything, dry_run=dry_run, origin=_BY_REDACT, report=_report_progress()
        )


def _report_progress() -> Callable[[int], None]:
    so_far, reported_at = 0, time.monotonic()

    def report(rows: int) -> None:
        nonlocal so_far, reported_at
        so_far += rows
        if time.monotonic() - reported_at >= LINE_SECONDS:
            reported_at = time.monotonic()
            sys.stderr.write(f"layerlore: {so_far:,} rows checked\n")

    return report


def _lines(settings: Settings, whose: OwnerFilter, done: RedactionResult) -> list[str]:
    rows, secrets = (sum(counts.values()) for counts in (done.rows, done.secrets))
    if rows:
        if done.dry_run:
            head = "would be masked"
        else:
            head = "masked"
        counted = [f"{done.secrets[table]:>9,}  in {done.rows[table]:,} rows of {table}" for table in sorted(done.rows)]
        lines = [f"{head}, for {whose.describe()}:", *counted, f"{secrets:>9,}  secrets in {rows:,} rows"]
    else:
        lines = [f"nothing to mask: no known secret is stored for {whose.describe()}"]
    if done.rows and done.bytes is not None:
        anew = f"servers make new vectors for the masked texts; so does `{suggest('reindex')}`"
        lines += [_BYTES_MASKED[done.bytes], anew]
    # A masked value cannot be restored, so the user must learn that a resumed run sees the mark.
    if done.rows.get("runs"):
        if done.dry_run:
            would = "would be"
        else:
            would = "were"
        lines.append(f"checkpoints {would} masked, too: a run that resumes from one finds marks instead of secrets")
    if done.left:
        lines.append('redaction is "derived": messages were left as they were sent; --all masks them, too')
    elif settings.redaction != "all":
        lines.append(f'redaction is "{settings.redaction}": new messages are stored as they are sent')
    return lines


def _masked_as_json(whose: OwnerFilter, done: RedactionResult) -> Json:
    return {
        **{name: value for name, value in asdict(whose).items() if value is not None},
        "dry_run": done.dry_run,
        "rows": dict(sorted(done.rows.items())),
        "secrets": dict(sorted(done.secrets.items())),
        "left_as_sent": done.left,
        **({"bytes": done.bytes} if done.bytes is not None else {}),
    }


def erase(
    flags: dict[str, Any],
    resource: Annotated[str, typer.Option(help="Whose memory to erase.", show_default=False)],
    tenant: TenantOption = LOCAL_TENANT,
    agent: Annotated[str | None, typer.Option(help="Only what this agent stored.", show_default=False)] = None,
    thread: Annotated[str, typer.Option(help="Only this conversation.", show_default=False)] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show how much would be erased.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> int:
    """Erase everything stored about a person, or one conversation, for good. Prints a receipt."""
    request = ErasureRequest(tenant, resource, agent, thread)
    return run_erase(read_settings(flags), request, dry_run=dry_run, sure=yes, as_json=as_json)


def redact(
    flags: dict[str, Any],
    tenant: TenantFilter = None,
    agent: AgentFilter = None,
    resource: ResourceFilter = None,
    everything: Annotated[bool, typer.Option("--all", help='With redaction = "derived", mask messages, too.')] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show how many would be masked.")] = False,
    as_json: AsJson = False,
) -> int:
    """Redact secrets that were stored before their pattern was known, or before redaction was on."""
    whose = OwnerFilter(tenant, agent, resource)
    return run_redact(read_settings(flags), whose, everything=everything, dry_run=dry_run, as_json=as_json)
