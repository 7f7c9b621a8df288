"""The command line, for people: ``layerlore serve``, ``demo``, ``doctor``, ``recall``, ``reindex``, ``migrate``,
``backup``, ``restore``, ``erase``, ``redact``, ``usage``, ``jobs``, ``journal``, ``keys``, ``bridge``.

Exit codes: 0 done, 1 failed, 2 a wrong command line or setting. What a command finds goes to standard output; what
is wrong, one line of it, to standard error.
"""

import importlib
import inspect
import io
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any, Literal

import typer

from layerlore.server.access.principal import LOCAL_TENANT
from layerlore.server.command_line_options import (
    AsJson,
    Command,
    Group,
    OfTenant,
    OnlyAgent,
    OnlyResource,
    OnlyTenant,
    with_options,
)
from layerlore.server.former_store import adopt_former_store
from layerlore.server.logs import configure_logging
from layerlore.server.settings import Settings, SettingsError, load_settings
from layerlore.storage.errors import LayerloreError

app = typer.Typer(
    name="layerlore",
    cls=Group,
    help="A memory server for agents.\n\nWithout a command it serves MCP on standard input and output, as the options "
    "say: hosts launch it so. Each option is also a setting of the TOML file and a variable LAYERLORE_NAME.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run() -> int:
    """Parse sys.argv and run the command. Returns the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may hold what the terminal cannot show
    try:
        app()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _command(function: Callable[..., int], group: typer.Typer = app) -> Callable[..., int]:
    """Register a command: ``function(flags, **own)``, where ``flags`` are the launch options given before or after it.

    Its own parameters are keyword-only. It returns the exit code; errors that are the caller's to mend become a line.
    A function whose name is Python's own has an underscore behind it.
    """
    own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in _own_parameters(function)]

    def called(ctx: typer.Context, **values: Any) -> None:
        given = {name: values.pop(name) for name in list(values) if name not in names}
        flags = {**ctx.obj, **{name: value for name, value in given.items() if value is not None}}
        raise typer.Exit(_told(lambda: function(flags, **values)))

    names = {parameter.name for parameter in own}
    named = group.command(name=function.__name__.rstrip("_"), cls=Command, help=function.__doc__)
    named(with_options(called, own))
    return function


def _own_parameters(function: Callable[..., int]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())[1:]


def _told(act: Callable[[], int]) -> int:
    try:
        code = act()
        sys.stdout.flush()
    except SettingsError as error:
        return _failed(str(error), 2)
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except LayerloreError as error:
        return _failed(str(error), 1)
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error), 1)
    return code


def _failed(why: str, code: int) -> int:
    sys.stderr.write(f"layerlore: {why}\n")
    return code


def _settings(flags: dict[str, Any], *, looks_only: bool = False) -> Settings:
    settings = load_settings(
        {name: value for name, value in flags.items() if name != "config"}, config=flags.get("config")
    )
    if not looks_only:
        adopt_former_store(settings)
    configure_logging(settings.log_level)
    return settings


def _module(name: str) -> Any:
    """What is behind a command, loaded when it is called: ``--help`` and ``--version`` need none of it."""
    return importlib.import_module(f"layerlore.server.{name}")


def _show_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"layerlore {version('layerlore')}\n")
        raise typer.Exit


def _launch(
    ctx: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
    **options: str | None,
) -> None:
    ctx.obj = {name: value for name, value in options.items() if value is not None}


def _group_launch(ctx: typer.Context, **options: str | None) -> None:
    ctx.obj = {**ctx.obj, **{name: value for name, value in options.items() if value is not None}}


app.callback()(with_options(_launch, [inspect.signature(_launch).parameters["version"]]))


@_command
def serve(
    flags: dict[str, Any],
    host: Annotated[str | None, typer.Option(help="Address to listen on; other machines need credentials.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Ask for no credential, of this machine.")] = False,
) -> int:
    """Serve MCP over HTTP: /mcp, /sse, /health and /ready on 127.0.0.1:8765."""
    http: dict[str, Any] = {"host": host, "port": port, "auth": False if no_auth else None}
    given = {name: value for name, value in http.items() if value is not None}
    settings = _settings({**flags, "http": given})
    served: int = _module("http_command").serve(settings, lambda: _module("commands.served").look(settings))
    return served


@_command
def demo(flags: dict[str, Any]) -> int:
    """Show the memory at work, in a temporary folder, and how to connect agents to it."""
    return int(_module("commands.demo").demo(_settings(flags, looks_only=True)))


@_command
def doctor(
    flags: dict[str, Any],
    as_json: AsJson = False,
) -> int:
    """Look at everything that memory needs, and say what will degrade and how to mend it. Changes nothing."""
    return int(_module("commands.doctor").doctor(_settings(flags, looks_only=True), as_json=as_json))


@_command
def recall(
    flags: dict[str, Any],
    question: Annotated[str, typer.Argument(help="What to look for.", show_default=False)],
    explain: Annotated[bool, typer.Option("--explain", help="With what made each hit's score.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=50, help="How many hits at most.")] = 5,
    thread: Annotated[str, typer.Option(help="Only this conversation.", show_default=False)] = "",
    tenant: OfTenant = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show what an agent that asks this is told."""
    shown: int = _module("commands.recall").recall(
        _settings(flags), tenant, question, limit=limit, thread_id=thread, explain=explain, as_json=as_json
    )
    return shown


@_command
def reindex(
    flags: dict[str, Any],
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Index every message anew.")] = False,
) -> int:
    """Bring the search index and the vectors up to date, as servers do in the background."""
    return int(_module("commands.reindex").reindex(_settings(flags), rebuild=rebuild))


@_command
def migrate(
    flags: dict[str, Any],
    owner_url: Annotated[
        str | None, typer.Option(help="Postgres: as the role that owns the tables, for the one that serves.")
    ] = None,
) -> int:
    """Bring the database's tables up to date, as every start does by itself."""
    settings = _settings(flags)
    owner = owner_url or settings.postgres.owner_url.get_secret_value()
    migrated: int = _module("commands.migrate").migrate(settings, owner)
    return migrated


@_command
def backup(
    flags: dict[str, Any],
    file: Annotated[str, typer.Argument(help="A new file; none is replaced.", show_default=False)],
) -> int:
    """Copy the whole memory into a file, also while servers run. `layerlore restore --from` puts it back."""
    made: int = _module("commands.backup").backup(_settings(flags, looks_only=True), file)
    return made


@_command
def restore(
    flags: dict[str, Any],
    deletion: Annotated[str | None, typer.Argument(help="Which delete to undo; left out: list them.")] = None,
    thread: Annotated[str | None, typer.Option(help="Undo the newest delete of this thread.")] = None,
    tenant: OfTenant = LOCAL_TENANT,
    from_: Annotated[str, typer.Option("--from", help="Instead: put this backup in the memory's place.")] = "",
) -> int:
    """Undo a delete, or list those that can be undone; with --from, put a backup of the whole file back."""
    if from_:
        if deletion is not None or thread is not None or tenant != LOCAL_TENANT or {"agent", "resource"} & flags.keys():
            told = "it takes no delete, and no --thread, --tenant, --agent or --resource"
            return _failed(f"restore --from puts the whole memory back, everybody's: {told}", 2)
        put_back: int = _module("commands.backup").restore_backup(_settings(flags, looks_only=True), from_)
        return put_back
    if deletion is not None and thread is not None:
        return _failed("restore takes a delete or --thread, not both", 2)
    return int(_module("commands.restore").restore(_settings(flags), tenant, deletion, thread))


@_command
def erase(
    flags: dict[str, Any],
    resource: Annotated[str, typer.Option(help="Of whom everything is erased.", show_default=False)],
    tenant: OfTenant = LOCAL_TENANT,
    agent: Annotated[str | None, typer.Option(help="Only what this agent keeps.", show_default=False)] = None,
    thread: Annotated[str, typer.Option(help="Only this conversation.", show_default=False)] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show how much it would be.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> int:
    """Erase everything kept of somebody, or one conversation, for good; a receipt tells how much that was."""
    behind = _module("commands.erase")
    asked = behind.Asked(tenant, resource, agent, thread)
    erased: int = behind.erase(_settings(flags), asked, dry_run=dry_run, sure=yes, as_json=as_json)
    return erased


@_command
def redact(
    flags: dict[str, Any],
    tenant: OnlyTenant = None,
    agent: OnlyAgent = None,
    resource: OnlyResource = None,
    everything: Annotated[bool, typer.Option("--all", help='With redaction = "derived": what was sent, too.')] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show how many it would be.")] = False,
    as_json: AsJson = False,
) -> int:
    """Mask the secrets in what is stored already: from before a pattern was known, or redaction was on."""
    whose = _module("commands.whose").Narrowed(tenant, agent, resource)
    masked: int = _module("commands.redact").redact(
        _settings(flags), whose, everything=everything, dry_run=dry_run, as_json=as_json
    )
    return masked


@_command
def usage(
    flags: dict[str, Any],
    by: Annotated[
        Literal["thread", "resource", "agent"],
        typer.Option(help="The threads of this resource, the resources of this agent, or all agents."),
    ] = "thread",
    stored: Annotated[
        bool, typer.Option("--stored", help="Instead: bytes stored of each resource, counted anew.")
    ] = False,
    tenant: OfTenant = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show tokens and money that recorded steps and background work spent, or how much is stored."""
    if stored:
        return int(_module("commands.stored_bytes").show(_settings(flags), tenant, as_json=as_json))
    return int(_module("commands.usage").usage(_settings(flags), tenant, by, as_json=as_json))


@_command
def jobs(
    flags: dict[str, Any],
    resume: Annotated[bool, typer.Option("--resume", help="Try again what failed too often.")] = False,
    tenant: OfTenant = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show the background work that waits or failed, and which model does it."""
    return int(_module("commands.jobs").jobs(_settings(flags), tenant, resume=resume, as_json=as_json))


@_command
def journal(
    flags: dict[str, Any],
    tenant: OnlyTenant = None,
    agent: OnlyAgent = None,
    resource: OnlyResource = None,
    since: Annotated[str | None, typer.Option(help="From then on: 7d, 12h, or ISO 8601.", show_default=False)] = None,
    until: Annotated[str | None, typer.Option(help="Up to then.", show_default=False)] = None,
    principal: Annotated[str | None, typer.Option(help="Only by this one.", show_default=False)] = None,
    tool: Annotated[str | None, typer.Option(help="Only with this tool, job or command.", show_default=False)] = None,
    outcome: Annotated[
        Literal["done", "repeated", "denied", "failed"] | None, typer.Option(help="Only these.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many lines at most, the newest.")] = 100,
    as_json: AsJson = False,
    prune: Annotated[
        str | None, typer.Option(help="Instead: remove what is older than this, as 365d.", show_default=False)
    ] = None,
    owner_url: Annotated[
        str | None, typer.Option(help="Postgres: as the role that owns the tables.", show_default=False)
    ] = None,
) -> int:
    """Show who wrote what when, of all tenants: never what."""
    settings = _settings({**flags, "postgres": {"owner_url": owner_url}} if owner_url else flags)
    filters = (tenant, agent, since, until, principal, tool, outcome, resource)
    behind = _module("commands.journal")
    if prune is not None:
        if any(given is not None for given in filters):
            return _failed("journal --prune is for everything that is old: it takes no other choice", 2)
        pruned: int = behind.prune(settings, prune)
        return pruned
    shown: int = behind.journal(settings, behind.Asked(*filters, limit), as_json=as_json)
    return shown


@_command
def bridge(
    flags: dict[str, Any],
    url: Annotated[str, typer.Argument(help="Of the server: https://mem.example.com/mcp.", show_default=False)],
    key_file: Annotated[str | None, typer.Option(help="A file with the key.", show_default=False)] = None,
    ca_file: Annotated[str | None, typer.Option(help="Authorities to trust, as PEM.", show_default=False)] = None,
) -> int:
    """Be the stdio server of a host that cannot reach a memory over HTTP itself, and pass everything on to it."""
    given = {name: value for name, value in {"key_file": key_file, "ca_file": ca_file}.items() if value is not None}
    bridged: int = _module("commands.bridge").bridge(_settings({**flags, "bridge": given}, looks_only=True), url)
    return bridged


keys = typer.Typer(
    cls=Group, no_args_is_help=True, help="Keys with which agents on other machines call: make, list, revoke them."
)
keys.callback()(with_options(_group_launch, []))
app.add_typer(keys, name="keys")
_keys_command = partial(_command, group=keys)


@_keys_command
def create(
    flags: dict[str, Any],
    tenant: Annotated[str, typer.Option(help="Whose memory it opens: a customer, a team.", show_default=False)],
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="An agent it may act for; repeat it for more: a comma is part of a name. Else the configured one.",
            show_default=False,
        ),
    ] = None,
    any_agent: Annotated[bool, typer.Option("--any-agent", help="Any agent of the tenant.")] = False,
    resource: Annotated[
        str | None, typer.Option(help="Whom it may serve. Else the configured one.", show_default=False)
    ] = None,
    any_resource: Annotated[
        bool, typer.Option("--any-resource", help="Anybody of the tenant; each request names whom.")
    ] = False,
    rights: Annotated[str, typer.Option(help="Some of read, write, forget, admin, with commas.")] = "read,write,forget",
    expires: Annotated[str, typer.Option(help="After 30m, 12h, 90d, or never.")] = "never",
    as_json: AsJson = False,
) -> int:
    """Make a key. It is printed, alone on its line, and shown only this once."""
    if any_agent and agent:
        return _failed("keys create takes --agent or --any-agent, not both", 2)
    if any_resource and resource is not None:
        return _failed("keys create takes --resource or --any-resource, not both", 2)
    settings, behind = _settings(flags), _module("commands.keys")
    agents = None if any_agent else tuple(agent or [settings.agent])
    served = None if any_resource else settings.resource if resource is None else resource
    made: int = behind.create(settings, behind.Grant(tenant, agents, served, rights, expires), as_json=as_json)
    return made


@_keys_command
def list_(
    flags: dict[str, Any],
    tenant: OnlyTenant = None,
    agent: OnlyAgent = None,
    resource: OnlyResource = None,
    as_json: AsJson = False,
) -> int:
    """List the keys of all tenants: what each may do, and whether it still may. The keys themselves are not kept."""
    whose = _module("commands.whose").Narrowed(tenant, agent, resource)
    shown: int = _module("commands.keys").show(_settings(flags), whose, as_json=as_json)
    return shown


@_keys_command
def revoke(
    flags: dict[str, Any],
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Of the key, as the list shows it.", show_default=False)],
) -> int:
    """Revoke a key: all servers refuse it within seconds, for good."""
    return int(_module("commands.keys").revoke(_settings(flags), key_id))
