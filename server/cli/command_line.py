"""The command line, for people: ``layerlore serve``, ``demo``, ``doctor``, ``recall``, ``reindex``, ``migrate``,
``backup``, ``restore``, ``erase``, ``redact``, ``usage``, ``jobs``, ``journal``, ``keys``, ``local``, ``bridge``.

Exit codes: 0 done, 1 failed, 2 a wrong command line or setting. Results go to standard output, and an error, in one
line, to standard error.
"""

import importlib
import inspect
import io
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import typer

from layerlore.server.access.principal import LOCAL_TENANT
from layerlore.server.cli.options import (
    AgentFilter,
    AsJson,
    Command,
    Group,
    ResourceFilter,
    TenantFilter,
    TenantOption,
    with_options,
)
from layerlore.server.process.logs import configure_logging
from layerlore.server.process.version import VERSION
from layerlore.server.settings.former_store import adopt_former_store
from layerlore.server.settings.launch import ALONE
from layerlore.server.settings.settings import Settings, SettingsError, load_launched
from layerlore.storage.core.errors import LayerloreError

app = typer.Typer(
    name="layerlore",
    cls=Group,
    help="A memory server for agents.\n\nWithout a command it serves MCP on standard input and output, which is how hosts "
    "launch it. Each option is also a setting in the TOML file and an environment variable LAYERLORE_NAME.",
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

    Its own parameters are keyword-only. It returns the exit code; errors that the caller can correct become one line.
    A function that would hide a name of Python's ends in an underscore.
    """
    own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in _own_parameters(function)]

    def call(ctx: typer.Context, **values: Any) -> None:
        given = {name: values.pop(name) for name in list(values) if name not in names}
        flags = {**ctx.obj, **{name: value for name, value in given.items() if value is not None}}
        raise typer.Exit(_run(lambda: function(flags, **values)))

    names = {parameter.name for parameter in own}
    register = group.command(name=function.__name__.rstrip("_"), cls=Command, help=function.__doc__)
    register(with_options(call, own))
    return function


def _own_parameters(function: Callable[..., int]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())[1:]


def _run(act: Callable[[], int]) -> int:
    try:
        code = act()
        sys.stdout.flush()
    except SettingsError as error:
        return _fail(str(error), 2)
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except LayerloreError as error:
        return _fail(str(error), 1)
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error), 1)
    return code


def _fail(why: str, code: int) -> int:
    sys.stderr.write(f"layerlore: {why}\n")
    return code


def _settings(flags: dict[str, Any], *, looks_only: bool = False) -> Settings:
    settings = load_launched(flags)
    if not looks_only:
        adopt_former_store(settings)
    configure_logging(settings.log_level)
    return settings


def _module(name: str) -> Any:
    """The module of a command, loaded when the command runs: ``--help`` and ``--version`` need none of them."""
    return importlib.import_module(f"layerlore.server.{name}")


def _show_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"layerlore {VERSION}\n")
        raise typer.Exit


def _launch(
    ctx: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
    alone: Annotated[
        bool, typer.Option(ALONE, help="Launched by a host: a server of its own, not the one that hosts share.")
    ] = False,
    **options: str | None,
) -> None:
    ctx.obj = {name: value for name, value in options.items() if value is not None}


def _group_launch(ctx: typer.Context, **options: str | None) -> None:
    ctx.obj = {**ctx.obj, **{name: value for name, value in options.items() if value is not None}}


app.callback()(with_options(_launch, [inspect.signature(_launch).parameters[name] for name in ("version", "alone")]))


@_command
def serve(
    flags: dict[str, Any],
    host: Annotated[str | None, typer.Option(help="Address to listen on. Other machines need credentials.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one.")] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Require no credential from this machine.")] = False,
    workers: Annotated[int | None, typer.Option(help="Processes that serve on this port together.")] = None,
    worker: Annotated[tuple[int, int] | None, typer.Option(hidden=True)] = None,
) -> int:
    """Serve MCP over HTTP: /mcp, /sse, /health and /ready on 127.0.0.1:8765."""
    http: dict[str, Any] = {"host": host, "port": port, "auth": False if no_auth else None, "workers": workers}
    given = {name: value for name, value in http.items() if value is not None}
    settings = _settings({**flags, "http": given})
    if settings.http.workers > 1 and worker is None:
        return int(_module("http.supervisor").supervise(settings, sys.argv[1:]))
    served: int = _module("http.command").serve(
        settings, lambda: _module("cli.database").look_up_served(settings), worker
    )
    return served


@_command
def demo(flags: dict[str, Any]) -> int:
    """Show the memory at work in a temporary folder, and how to connect agents to it."""
    return int(_module("cli.demo").demo(_settings(flags, looks_only=True)))


@_command
def doctor(
    flags: dict[str, Any],
    as_json: AsJson = False,
) -> int:
    """Check everything that the memory needs, and say what is degraded and how to fix it. Changes nothing."""
    return int(_module("cli.doctor").doctor(_settings(flags, looks_only=True), as_json=as_json))


@_command
def recall(
    flags: dict[str, Any],
    question: Annotated[str, typer.Argument(help="What to search for.", show_default=False)],
    explain: Annotated[bool, typer.Option("--explain", help="Show how each hit got its score.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=50, help="The most hits to show.")] = 5,
    thread: Annotated[str, typer.Option(help="Only this conversation.", show_default=False)] = "",
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show what an agent gets when it recalls this."""
    shown: int = _module("cli.recall").recall(
        _settings(flags), tenant, question, limit=limit, thread_id=thread, explain=explain, as_json=as_json
    )
    return shown


@_command
def reindex(
    flags: dict[str, Any],
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Index every message again.")] = False,
) -> int:
    """Update the search index and the vectors, as servers do in the background."""
    return int(_module("cli.reindex").reindex(_settings(flags), rebuild=rebuild))


@_command
def migrate(
    flags: dict[str, Any],
    owner_url: Annotated[
        str | None, typer.Option(help="Postgres: URL of the role that owns the tables, if another role serves.")
    ] = None,
) -> int:
    """Update the database's tables, as every start does."""
    settings = _settings(flags)
    owner = owner_url or settings.postgres.owner_url.get_secret_value()
    migrated: int = _module("cli.migrate").migrate(settings, owner)
    return migrated


@_command
def backup(
    flags: dict[str, Any],
    file: Annotated[str, typer.Argument(help="The new file. An existing one is never replaced.", show_default=False)],
) -> int:
    """Copy the whole memory into a file, even while servers run. `layerlore restore --from` puts it back."""
    made: int = _module("cli.backup").backup(_settings(flags, looks_only=True), file)
    return made


@_command
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
            return _fail(f"restore --from puts back everybody's memory: {why}", 2)
        put_back: int = _module("cli.backup").restore_backup(_settings(flags, looks_only=True), from_)
        return put_back
    if deletion is not None and thread is not None:
        return _fail("restore takes a deletion or --thread, not both", 2)
    return int(_module("cli.removal").restore(_settings(flags), tenant, deletion, thread))


@_command
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
    """Erase everything stored about somebody, or one conversation, for good. Prints a receipt."""
    behind = _module("cli.removal")
    asked = behind.ErasureRequest(tenant, resource, agent, thread)
    erased: int = behind.erase(_settings(flags), asked, dry_run=dry_run, sure=yes, as_json=as_json)
    return erased


@_command
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
    whose = _module("cli.owner").OwnerFilter(tenant, agent, resource)
    masked: int = _module("cli.removal").redact(
        _settings(flags), whose, everything=everything, dry_run=dry_run, as_json=as_json
    )
    return masked


@_command
def usage(
    flags: dict[str, Any],
    by: Annotated[
        Literal["thread", "resource", "agent"],
        typer.Option(help="Show the threads of this resource, the resources of this agent, or all agents."),
    ] = "thread",
    stored: Annotated[
        bool, typer.Option("--stored", help="Instead, show the bytes stored for each resource, with a recount.")
    ] = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show the tokens and money that recorded steps and background work spent, or how much is stored."""
    if stored:
        return int(_module("cli.usage").show_stored(_settings(flags), tenant, as_json=as_json))
    return int(_module("cli.usage").usage(_settings(flags), tenant, by, as_json=as_json))


@_command
def jobs(
    flags: dict[str, Any],
    resume: Annotated[bool, typer.Option("--resume", help="Retry jobs that failed too often.")] = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show the background jobs that wait or failed, and which model does them."""
    return int(_module("cli.jobs").jobs(_settings(flags), tenant, resume=resume, as_json=as_json))


@_command
def journal(
    flags: dict[str, Any],
    tenant: TenantFilter = None,
    agent: AgentFilter = None,
    resource: ResourceFilter = None,
    since: Annotated[
        str | None, typer.Option(help="Lines since then: 7d, 12h, or ISO 8601.", show_default=False)
    ] = None,
    until: Annotated[str | None, typer.Option(help="Lines until then.", show_default=False)] = None,
    principal: Annotated[str | None, typer.Option(help="Only by this principal.", show_default=False)] = None,
    tool: Annotated[str | None, typer.Option(help="Only by this tool, job or command.", show_default=False)] = None,
    outcome: Annotated[
        Literal["done", "repeated", "denied", "failed"] | None,
        typer.Option(help="Only with this outcome.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The most lines to show, the newest ones.")] = 100,
    as_json: AsJson = False,
    prune: Annotated[
        str | None, typer.Option(help="Instead, remove lines older than this, such as 365d.", show_default=False)
    ] = None,
    owner_url: Annotated[
        str | None, typer.Option(help="Postgres: URL of the role that owns the tables.", show_default=False)
    ] = None,
) -> int:
    """Show who wrote to the memory of any tenant, and when. What was written is never shown."""
    settings = _settings({**flags, "postgres": {"owner_url": owner_url}} if owner_url else flags)
    filters = (tenant, agent, since, until, principal, tool, outcome, resource)
    behind = _module("cli.journal")
    if prune is not None:
        if any(given is not None for given in filters):
            return _fail("journal --prune removes all old lines: it takes no filter", 2)
        pruned: int = behind.prune(settings, prune)
        return pruned
    shown: int = behind.journal(settings, behind.JournalRequest(*filters, limit), as_json=as_json)
    return shown


@_command
def bridge(
    flags: dict[str, Any],
    url: Annotated[
        str, typer.Argument(help="The server's URL, such as https://mem.example.com/mcp.", show_default=False)
    ],
    key_file: Annotated[str | None, typer.Option(help="The file that holds the key.", show_default=False)] = None,
    ca_file: Annotated[
        str | None, typer.Option(help="PEM file of the certificate authorities to trust.", show_default=False)
    ] = None,
) -> int:
    """Serve MCP over stdio for a host that cannot use HTTP itself, and pass everything on to a remote memory."""
    given = {name: value for name, value in {"key_file": key_file, "ca_file": ca_file}.items() if value is not None}
    bridged: int = _module("cli.bridge").bridge(_settings({**flags, "bridge": given}, looks_only=True), url)
    return bridged


local = typer.Typer(
    cls=Group, no_args_is_help=True, help="See or stop the server that the hosts of this machine share over stdio."
)
local.callback()(with_options(_group_launch, []))
app.add_typer(local, name="local")
_local_command = partial(_command, group=local)


@_local_command
def status(flags: dict[str, Any], as_json: AsJson = False) -> int:
    """Show the shared servers that run for the data folder, and how many hosts are connected."""
    return int(_module("cli.local").status(_settings(flags, looks_only=True), as_json=as_json))


@_local_command
def stop(flags: dict[str, Any]) -> int:
    """Stop them after the calls that are under way. A host that is connected starts another when it needs one."""
    return int(_module("cli.local").stop(_settings(flags, looks_only=True)))


keys = typer.Typer(
    cls=Group, no_args_is_help=True, help="Create, list and revoke the keys of agents on other machines."
)
keys.callback()(with_options(_group_launch, []))
app.add_typer(keys, name="keys")
_keys_command = partial(_command, group=keys)


@_keys_command
def create(
    flags: dict[str, Any],
    tenant: Annotated[
        str, typer.Option(help="The tenant whose memory the key opens: a customer, a team.", show_default=False)
    ],
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="An agent that the key may act for; repeat the option for several, since a comma is part of a name. "
            "Default: the configured agent.",
            show_default=False,
        ),
    ] = None,
    any_agent: Annotated[
        bool, typer.Option("--any-agent", help="The key may act for any agent of the tenant.")
    ] = False,
    resource: Annotated[
        str | None,
        typer.Option(help="The resource that the key may serve. Default: the configured one.", show_default=False),
    ] = None,
    any_resource: Annotated[
        bool,
        typer.Option("--any-resource", help="The key may serve any resource of the tenant; each request names one."),
    ] = False,
    rights: Annotated[
        str, typer.Option(help="Rights, separated by commas: read, write, forget, admin.")
    ] = "read,write,forget",
    expires: Annotated[str, typer.Option(help="When the key expires: after 30m, 12h, 90d, or never.")] = "never",
    as_json: AsJson = False,
) -> int:
    """Create a key and print it, alone on its line. It is shown only once."""
    if any_agent and agent:
        return _fail("keys create takes --agent or --any-agent, not both", 2)
    if any_resource and resource is not None:
        return _fail("keys create takes --resource or --any-resource, not both", 2)
    settings, behind = _settings(flags), _module("cli.keys")
    agents = None if any_agent else tuple(agent or [settings.agent])
    served = None if any_resource else settings.resource if resource is None else resource
    made: int = behind.create(settings, behind.Grant(tenant, agents, served, rights, expires), as_json=as_json)
    return made


@_keys_command
def list_(
    flags: dict[str, Any],
    tenant: TenantFilter = None,
    agent: AgentFilter = None,
    resource: ResourceFilter = None,
    as_json: AsJson = False,
) -> int:
    """List the keys of all tenants: what each allows, and whether it is still valid. The keys themselves are not stored."""
    whose = _module("cli.owner").OwnerFilter(tenant, agent, resource)
    shown: int = _module("cli.keys").show(_settings(flags), whose, as_json=as_json)
    return shown


@_keys_command
def revoke(
    flags: dict[str, Any],
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="The key's id, as `keys list` shows it.", show_default=False)
    ],
) -> int:
    """Revoke a key for good. All servers refuse it within seconds."""
    return int(_module("cli.keys").revoke(_settings(flags), key_id))
