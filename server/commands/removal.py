"""The commands that take out of the memory, and put back: ``forget``, ``edit``, ``undo``, ``restore``, ``erase``, ``redact``."""

from typing import Annotated, Any, Literal

import typer

from layerlore.server.access.principal import LOCAL_TENANT
from layerlore.server.cli.options import AgentFilter, AsJson, ResourceFilter, TenantFilter, TenantOption
from layerlore.server.commands.running import fail, load_module, read_settings

_DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be changed.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def forget(
    flags: dict[str, Any],
    what: Annotated[
        list[str], typer.Argument(metavar="WHAT...", help="Ids of notes, or words: all about them.", show_default=False)
    ],
    dry_run: _DryRun = False,
    yes: _Yes = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Forget notes, or all that is remembered about something. Shows first what would go; undo brings it back."""
    behind = load_module("views.mending")
    forgotten: int = behind.forget(read_settings(flags), tenant, what, behind.Consent(dry_run, yes), as_json=as_json)
    return forgotten


def edit(
    flags: dict[str, Any],
    what: Annotated[
        Literal["entries", "profile", "session", "thread"],
        typer.Argument(
            metavar="WHAT",
            help="entries, profile, session (a conversation's session memory) or thread (its title).",
            show_default=False,
        ),
    ],
    id_: Annotated[str, typer.Argument(metavar="ID", help="Of the note or the conversation; none for profile.")] = "",
    text: Annotated[
        str | None, typer.Option(help="The new text. Without it, an editor (EDITOR) opens.", show_default=False)
    ] = None,
    dry_run: _DryRun = False,
    yes: _Yes = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Correct what is remembered. Shows first what changes; undo brings back what was there."""
    behind = load_module("views.mending")
    asked = behind.EditRequest(what, id_, text)
    edited: int = behind.edit(read_settings(flags), tenant, asked, behind.Consent(dry_run, yes), as_json=as_json)
    return edited


def undo(
    flags: dict[str, Any],
    undo_id: Annotated[
        str, typer.Argument(metavar="ID", help="What to undo; last is the newest. Without it, list what can be.")
    ] = "",
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Undo a deletion, a forgotten note, a replaced document or plan, or list what can be undone."""
    return int(load_module("views.mending").undo(read_settings(flags), tenant, undo_id, as_json=as_json))


def restore(
    flags: dict[str, Any],
    deletion: Annotated[str | None, typer.Argument(help="The deletion to undo. Without it, list them.")] = None,
    thread: Annotated[str | None, typer.Option(help="Undo the newest deletion in this thread.")] = None,
    tenant: TenantOption = LOCAL_TENANT,
    from_: Annotated[str, typer.Option("--from", help="Instead, replace the memory with this backup.")] = "",
) -> int:
    """Undo a deletion, or list those that can be undone. With --from, put back a backup of the whole file."""
    if from_:
        if deletion is not None or thread is not None or tenant != LOCAL_TENANT or {"agent", "resource"} & flags.keys():
            why = "it takes no deletion, and no --thread, --tenant, --agent or --resource"
            return fail(f"restore --from puts back everybody's memory: {why}", 2)
        put_back: int = load_module("cli.backup").restore_backup(read_settings(flags), from_)
        return put_back
    if deletion is not None and thread is not None:
        return fail("restore takes a deletion or --thread, not both", 2)
    return int(load_module("cli.removal").restore(read_settings(flags), tenant, deletion, thread))


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
    behind = load_module("cli.removal")
    asked = behind.ErasureRequest(tenant, resource, agent, thread)
    erased: int = behind.erase(read_settings(flags), asked, dry_run=dry_run, sure=yes, as_json=as_json)
    return erased


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
    whose = load_module("cli.owner").OwnerFilter(tenant, agent, resource)
    masked: int = load_module("cli.removal").redact(
        read_settings(flags), whose, everything=everything, dry_run=dry_run, as_json=as_json
    )
    return masked
