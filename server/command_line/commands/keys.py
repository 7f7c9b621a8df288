"""``layerlore keys``: create, list and revoke the keys of the HTTP endpoints, even while servers run."""

import asyncio
import sys
import time
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from layerlore.memory.engine.journal_lines import make_line
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.validation import Limits, check_new_id
from layerlore.server.access.credentials import CACHED_SECONDS, RIGHTS, Right, hash_key, is_key_id, make_key
from layerlore.server.command_line.known_database import open_known_database, open_or_create_database
from layerlore.server.command_line.options import (
    AgentFilter,
    AsJson,
    ResourceFilter,
    TenantFilter,
    fail,
    parse_length,
    print_json,
    read_settings,
)
from layerlore.server.command_line.owner import OwnerFilter
from layerlore.server.command_line.suggestions import suggest
from layerlore.server.command_line.tables import print_table
from layerlore.server.settings.settings import Settings, SettingsError
from layerlore.storage.audit import api_keys, journal_rows
from layerlore.storage.audit.journal_rows import JournalLine
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.installation import hmac_key
from layerlore.storage.core.records import DAY_MS, ApiKey, Json, Origin, Scope, Tenant
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.drivers.dialect import dialect_of

_NO_KEYS = "there are no keys"
_LONGEST_MS = 36_500 * DAY_MS
_HEADINGS = ("id", "tenant", "agents", "resource", "rights", "created", "expires", "state")


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a new key, from the command line. ``agents`` None: any; ``resource`` None: any."""

    tenant: str
    agents: tuple[str, ...] | None
    resource: str | None
    rights: str
    expires: str


def create_key(settings: Settings, grant: Grant, *, as_json: bool) -> int:
    """Create a key and print it, the only time that it is shown. Creates the database if none exists. Returns the exit
    code.

    Raises SettingsError for an invalid grant, InvalidInput, StorageUnavailable or DatabaseTooNew.
    """
    if settings.memory == "off":
        raise InvalidInput(f"memory is off: nothing is stored, and so {_NO_KEYS}")
    url = settings.database.get_secret_value()
    if dialect_of(url).is_in_memory(url):
        raise InvalidInput("the database is in memory: a key in it would vanish when this command ends")
    # Only the digest is stored; the secret itself exists only in this process.
    key_id, secret = make_key()
    key = _make_key(grant, key_id, time.time_ns() // 1_000_000)
    asyncio.run(_create(settings, key, hash_key(secret)))
    if as_json:
        print_json({"key": secret, **_shown(key)})
        return 0
    # The key stands alone on standard output, so that a script can capture it; the words go to standard error.
    sys.stdout.write(secret + "\n")
    sys.stdout.flush()
    if key.agents is None:
        agents = "any agent"
    else:
        agents = f"agent {' or '.join(map(repr, key.agents))}"
    if key.resource_id is None:
        resource = "any resource"
    else:
        resource = f"resource {key.resource_id!r}"
    if key.expires_at is None:
        until = "until it is revoked"
    else:
        until = f"until {iso(key.expires_at)}"
    sys.stderr.write(
        f"key {key_id} of tenant {key.tenant_id!r}, for {agents} and {resource}: may {', '.join(key.rights)} {until}\n"
        "it is shown only once; send it as Authorization: Bearer KEY\n"
    )
    return 0


def show_keys(settings: Settings, whose: OwnerFilter, *, as_json: bool) -> int:
    """Print all keys, or those that open the given memory, without their secrets. Returns the exit code.

    Raises NotFound, InvalidInput, StorageUnavailable or DatabaseTooNew.
    """
    keys = [key for key in asyncio.run(_list(settings)) if _opens(key, whose)]
    now = time.time_ns() // 1_000_000
    if as_json:
        print_json({"keys": [{**_shown(key), "state": _state(key, now)} for key in keys]})
    elif keys:
        print_table(_HEADINGS, [_row(key, now) for key in keys])
    else:
        sys.stdout.write(
            "there are no keys\n" if whose == OwnerFilter() else f"there are no keys for {whose.describe()}\n"
        )
    return 0


def _opens(key: ApiKey, whose: OwnerFilter) -> bool:
    return (
        whose.tenant in (None, key.tenant_id)
        and (whose.agent is None or key.agents is None or whose.agent in key.agents)
        and (whose.resource is None or key.resource_id in (None, whose.resource))
    )


def revoke_key(settings: Settings, key_id: str) -> int:
    """Revoke a key everywhere, for good. Returns the exit code.

    Raises NotFound, InvalidInput, StorageUnavailable or DatabaseTooNew.
    """
    if not is_key_id(key_id):  # it may be a whole key, which must not be repeated
        raise InvalidInput(f"that is not a key's id; `{suggest('keys', 'list')}` shows the ids: 8 letters and digits")
    now = time.time_ns() // 1_000_000
    before = asyncio.run(_revoke(settings, key_id, now))
    if before.revoked_at is not None:
        sys.stdout.write(f"key {key_id} was already revoked at {iso(before.revoked_at)}\n")
    else:
        sys.stdout.write(
            f"revoked key {key_id} of tenant {before.tenant_id!r}; servers refuse it within {CACHED_SECONDS:g} s\n"
        )
    return 0


async def _create(settings: Settings, key: ApiKey, digest: str) -> None:
    async def write(tx: Tx, tenant: Tenant) -> None:
        # One transaction, so that no key exists without its line in the journal.
        await api_keys.create(tx, tenant, key, digest)
        await journal_rows.append(tx, _scope(key), line)

    async with open_or_create_database(settings) as database:
        line = await _journal_line(database, key, "keys create", key.created_at)
        await database.home.write(write, Tenant(key.tenant_id))


async def _list(settings: Settings) -> list[ApiKey]:
    async with open_known_database(settings, off=_NO_KEYS, absent=_NO_KEYS) as database:
        return await database.read_installation(api_keys.read_all)


async def _revoke(settings: Settings, key_id: str, now: int) -> ApiKey:
    """Revoke a key. Returns the key as it was before."""
    async with open_known_database(settings, off=_NO_KEYS, absent=_NO_KEYS) as database:
        keys = await database.read_installation(api_keys.read_all)
        key = next((key for key in keys if key.key_id == key_id), None)
        if key is None:
            raise NotFound(f"there is no key {key_id!r}; `{suggest('keys', 'list')}` shows the keys")
        line = await _journal_line(database, key, "keys revoke", now)

        async def write(tx: Tx, tenant: Tenant) -> None:
            # A second revocation changes nothing and so writes no line.
            if await api_keys.revoke(tx, tenant, key_id, now):
                await journal_rows.append(tx, _scope(key), line)

        await database.home.write(write, Tenant(key.tenant_id))
        return key


async def _journal_line(database: Database, key: ApiKey, tool: str, now: int) -> JournalLine:
    """The line of the journal for a change of a key."""
    by = Origin("command line", tool, "command:keys")
    return make_line(await database.read_installation(hmac_key), _scope(key), by, "done", now, counts={"keys": 1})


def _scope(key: ApiKey) -> Scope:
    """The key's scope; agent and resource are empty unless the key names exactly one."""
    if key.agents is not None and len(key.agents) == 1:
        agent = key.agents[0]
    else:
        agent = ""
    return Scope(key.tenant_id, agent, key.resource_id or "")


def _make_key(grant: Grant, key_id: str, now: int) -> ApiKey:
    longest = Limits().id_chars
    try:
        agents = None
        if grant.agents is not None:
            agents = tuple(dict.fromkeys(check_new_id(agent, "--agent", longest) for agent in grant.agents))
        return ApiKey(
            key_id=key_id,
            tenant_id=check_new_id(grant.tenant, "--tenant", longest),
            agents=agents,
            resource_id=None if grant.resource is None else check_new_id(grant.resource, "--resource", longest),
            rights=_parse_rights(grant.rights),
            created_at=now,
            expires_at=_parse_expiry(grant.expires, now),
        )
    except InvalidInput as error:
        raise SettingsError(str(error)) from None


def _parse_rights(given: str) -> tuple[Right, ...]:
    named = {name.strip() for name in given.split(",")}
    if unknown := sorted(named - set(RIGHTS)):
        raise InvalidInput(f"--rights: {unknown[0]!r} is not a right; use {', '.join(RIGHTS)}, separated by commas")
    # Stored in one order, whatever order the user typed.
    return tuple(right for right in RIGHTS if right in named)


def _parse_expiry(given: str, now: int) -> int | None:
    if given == "never":
        return None
    # None becomes 0, which the range below refuses like a length that is too long.
    lasts = parse_length(given, digits=9) or 0
    if not 0 < lasts <= _LONGEST_MS:
        raise InvalidInput(
            f"--expires: {given!r} is not a length of time; use minutes, hours or days such as 30m, 12h or 90d, up to "
            "36500d, or never"
        )
    return now + lasts


def _state(key: ApiKey, now: int) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None or key.expires_at > now:
        return "active"
    return "expired"


def _shown(key: ApiKey) -> Json:
    """The key as JSON; null means any agent, any resource, or never."""
    times = {"created": key.created_at, "expires": key.expires_at, "revoked": key.revoked_at}
    return {
        "id": key.key_id,
        "tenant": key.tenant_id,
        "agents": key.agents,
        "resource": key.resource_id,
        "rights": key.rights,
        **{name: None if time is None else iso(time) for name, time in times.items()},
    }


def _row(key: ApiKey, now: int) -> list[str]:
    return [
        key.key_id,
        key.tenant_id,
        "(any)" if key.agents is None else ", ".join(key.agents),
        "(any)" if key.resource_id is None else key.resource_id,
        ",".join(key.rights),
        iso(key.created_at),
        "never" if key.expires_at is None else iso(key.expires_at),
        _state(key, now),
    ]


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
        return fail("keys create takes --agent or --any-agent, not both", 2)
    if any_resource and resource is not None:
        return fail("keys create takes --resource or --any-resource, not both", 2)
    settings = read_settings(flags)
    if any_agent:
        agents = None
    else:
        agents = tuple(agent or [settings.agent])
    if any_resource:
        served = None
    else:
        served = settings.resource if resource is None else resource
    return create_key(settings, Grant(tenant, agents, served, rights, expires), as_json=as_json)


def list_(
    flags: dict[str, Any],
    tenant: TenantFilter = None,
    agent: AgentFilter = None,
    resource: ResourceFilter = None,
    as_json: AsJson = False,
) -> int:
    """List the keys of all tenants: what each allows, and whether it is still valid. The keys themselves are not stored."""
    whose = OwnerFilter(tenant, agent, resource)
    return show_keys(read_settings(flags), whose, as_json=as_json)


def revoke(
    flags: dict[str, Any],
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="The key's id, as `keys list` shows it.", show_default=False)
    ],
) -> int:
    """Revoke a key for good. All servers refuse it within seconds."""
    return revoke_key(read_settings(flags), key_id)
