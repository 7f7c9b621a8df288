"""The commands that move a memory out and in: ``export``, ``import``."""

from typing import Annotated, Any, Literal

import typer

from layerlore.server.access.principal import LOCAL_TENANT
from layerlore.server.cli.options import AsJson, TenantOption
from layerlore.server.commands.running import fail, load_module, read_settings

Source = Literal[
    "layerlore",
    "shared",
    "chatgpt",
    "claude",
    "claude-code",
    "codex",
    "server-memory",
    "mem0",
    "basic-memory",
    "claude-mem",
]


Project = Annotated[
    str,
    typer.Option(
        help="What a project shares through git (docs/sharing.md): its name, or auto for that of this folder.",
        show_default=False,
    ),
]


def export(
    flags: dict[str, Any],
    file: Annotated[
        str,
        typer.Argument(
            help="The new file; - is standard output. An existing file is never replaced. With --project: the file, or its "
            "folder, that is brought up to date."
        ),
    ],
    project: Project = "",
    everyone: Annotated[
        bool, typer.Option("--everyone", help="All agents and resources of the tenant, not only the configured ones.")
    ] = False,
    tenant: TenantOption = LOCAL_TENANT,
) -> int:
    """Write everything that is remembered into a file, as lines of JSON (docs/moving.md)."""
    if project:
        if everyone:
            return fail("export takes --project or --everyone, not both", 2)
        return int(load_module("moving.sharing").export_project(read_settings(flags), tenant, file, project))
    return int(load_module("moving.exporting").export(read_settings(flags), tenant, file, everyone=everyone))


def import_(
    flags: dict[str, Any],
    file: Annotated[
        str,
        typer.Argument(help="An export, or what another program keeps; - is standard input.", show_default=False),
    ],
    from_: Annotated[
        Source | None,
        typer.Option("--from", help="The program that the file is from. Default: as it looks.", show_default=False),
    ] = None,
    existing: Annotated[
        Literal["merge", "overwrite", "skip"],
        typer.Option(
            help="Of two things under one id: merge keeps the newer, overwrite what the file has, skip what is stored."
        ),
    ] = "merge",
    project: Project = "",
    everyone: Annotated[
        bool, typer.Option("--everyone", help="Store each agent and resource of the file as one of the tenant's.")
    ] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Trust what a project's shared file holds as your own words.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Store nothing: only show what would be stored.")] = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Store what a file holds: nothing twice, and again after it was interrupted. Says what is left out, and why."""
    if project and everyone:
        return fail("import takes --project or --everyone, not both", 2)
    behind = load_module("moving.importing")
    asked = behind.ImportRequest(tenant, file, from_ or "", existing, project, everyone, accept, dry_run, as_json)
    return int(behind.import_file(read_settings(flags), asked))
