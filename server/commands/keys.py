"""``layerlore keys``: keys of the HTTP endpoints are made, listed and revoked, also while servers run."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from layerlore.memory.acceptance import check_id
from layerlore.memory.ages import iso
from layerlore.memory.journaling import line_of
from layerlore.memory.limits import Limits
from layerlore.server.access.keys import CACHED_SECONDS, digest_of, is_key_id, new_key
from layerlore.server.access.principal import RIGHTS, Right
from layerlore.server.commands.lengths import DAY_MS, length_ms
from layerlore.server.commands.opened import known_database, opened_database
from layerlore.server.commands.tables import print_table
from layerlore.server.commands.whose import Narrowed
from layerlore.server.program import shell_command
from layerlore.server.settings import Settings, SettingsError
from layerlore.storage import api_keys, journal
from layerlore.storage.database import sqlite_path
from layerlore.storage.errors import InvalidInput, NotFound
from layerlore.storage.installation import hmac_key
from layerlore.storage.journal import Line
from layerlore.storage.records import ApiKey, Json, Origin, Scope, Tenant
from layerlore.storage.sqlite_database import MEMORY
from layerlore.storage.transaction import Database, Tx

T = TypeVar("T")

_NO_KEYS = "there are no keys"
_LONGEST_MS = 36_500 * DAY_MS
_HEADINGS = ("id", "tenant", "agents", "resource", "rights", "created", "expires", "state")


@dataclass(frozen=True, slots=True)
class Grant:
    """What the command line says a new key may do. ``agents`` None: any; ``resource`` None: any."""

    tenant: str
    agents: tuple[str, ...] | None
    resource: str | None
    rights: str
    expires: str


def create(settings: Settings, grant: Grant, *, as_json: bool) -> int:
    """Make a key and print it, which is the only time that it is shown. Makes the database, too, if there is none.
    Returns the exit code.

    Raises SettingsError for a grant that is refused, InvalidInput, StorageUnavailable or DatabaseTooNew.
    """
    if settings.memory == "off":
        raise InvalidInput(f"memory is off: nothing is stored, and so {_NO_KEYS}")
    if sqlite_path(settings.database.get_secret_value(), settings.database_file) == MEMORY:
        raise InvalidInput("the database is in memory: a key in it would be gone with this command")
    key_id, secret = new_key()
    key = _granted(grant, key_id, time.time_ns() // 1_000_000)
    asyncio.run(_in_database(settings, lambda opened: _create(opened, key, digest_of(secret))))
    if as_json:
        sys.stdout.write(_json({"key": secret, **_shown(key)}))
        return 0
    sys.stdout.write(secret + "\n")
    sys.stdout.flush()
    agents = "any agent" if key.agents is None else f"agent {' or '.join(map(repr, key.agents))}"
    resource = "any resource" if key.resource_id is None else f"resource {key.resource_id!r}"
    until = "until it is revoked" if key.expires_at is None else f"until {iso(key.expires_at)}"
    sys.stderr.write(
        f"key {key_id} of tenant {key.tenant_id!r}, for {agents} and {resource}: may {', '.join(key.rights)} {until}\n"
        "it is shown this once; send it as Authorization: Bearer KEY\n"
    )
    return 0


def show(settings: Settings, whose: Narrowed, *, as_json: bool) -> int:
    """Print all keys, or those that open some memory, without what would let anybody use them. Returns the exit code.

    Raises NotFound, InvalidInput, StorageUnavailable or DatabaseTooNew.
    """
    found = asyncio.run(_in_known_database(settings, _listed))
    keys = [key for key in found if _opens(key, whose)]
    now = time.time_ns() // 1_000_000
    if as_json:
        sys.stdout.write(_json({"keys": [{**_shown(key), "state": _state(key, now)} for key in keys]}))
    elif keys:
        print_table(_HEADINGS, [_row(key, now) for key in keys])
    else:
        sys.stdout.write("there are no keys\n" if whose == Narrowed() else f"there are no keys of {whose.told()}\n")
    return 0


def _opens(key: ApiKey, whose: Narrowed) -> bool:
    return (
        whose.tenant in (None, key.tenant_id)
        and (whose.agent is None or key.agents is None or whose.agent in key.agents)
        and (whose.resource is None or key.resource_id in (None, whose.resource))
    )


def revoke(settings: Settings, key_id: str) -> int:
    """Have a key refused everywhere, for good. Returns the exit code.

    Raises NotFound, InvalidInput, StorageUnavailable or DatabaseTooNew.
    """
    if not is_key_id(key_id):  # it may be a whole key, and is not repeated
        raise InvalidInput(
            f"that is no key's id; `{shell_command('keys', 'list')}` shows the ids: 8 letters and digits"
        )
    now = time.time_ns() // 1_000_000
    before = asyncio.run(_in_known_database(settings, lambda opened: _revoke(opened, key_id, now)))
    if before.revoked_at is not None:
        sys.stdout.write(f"key {key_id} is revoked since {iso(before.revoked_at)}\n")
    else:
        sys.stdout.write(
            f"revoked key {key_id} of tenant {before.tenant_id!r}; servers refuse it within {CACHED_SECONDS:g} s\n"
        )
    return 0


async def _in_known_database(settings: Settings, act: Callable[[Database], Awaitable[T]]) -> T:
    async with known_database(settings, off=_NO_KEYS, absent=_NO_KEYS) as database:
        return await act(database)


async def _in_database(settings: Settings, act: Callable[[Database], Awaitable[T]]) -> T:
    async with opened_database(settings) as database:
        return await act(database)


async def _create(database: Database, key: ApiKey, digest: str) -> None:
    async def write(tx: Tx, tenant: Tenant) -> None:
        await api_keys.create(tx, tenant, key, digest)
        await journal.append(tx, _scope(key), line)

    line = await _line(database, key, "keys create", key.created_at)
    await database.write(write, Tenant(key.tenant_id))


async def _listed(database: Database) -> list[ApiKey]:
    return await database.read_installation(api_keys.listed)


async def _revoke(database: Database, key_id: str, now: int) -> ApiKey:
    """The key as it was before."""
    key = next((key for key in await _listed(database) if key.key_id == key_id), None)
    if key is None:
        raise NotFound(f"there is no key {key_id!r}; `{shell_command('keys', 'list')}` shows those there are")

    async def write(tx: Tx, tenant: Tenant) -> None:
        if await api_keys.revoke(tx, tenant, key_id, now):
            await journal.append(tx, _scope(key), line)

    line = await _line(database, key, "keys revoke", now)
    await database.write(write, Tenant(key.tenant_id))
    return key


async def _line(database: Database, key: ApiKey, tool: str, now: int) -> Line:
    """What the journal says of it."""
    by = Origin("command line", tool, "command:keys")
    return line_of(await database.read_installation(hmac_key), _scope(key), by, "done", now, counts={"keys": 1})


def _scope(key: ApiKey) -> Scope:
    """Whose the key is, as far as it is one agent's and one resource's."""
    agent = key.agents[0] if key.agents is not None and len(key.agents) == 1 else ""
    return Scope(key.tenant_id, agent, key.resource_id or "")


def _granted(grant: Grant, key_id: str, now: int) -> ApiKey:
    longest = Limits().id_chars
    try:
        return ApiKey(
            key_id=key_id,
            tenant_id=check_id(grant.tenant, "--tenant", longest),
            agents=None
            if grant.agents is None
            else tuple(dict.fromkeys(check_id(agent, "--agent", longest) for agent in grant.agents)),
            resource_id=None if grant.resource is None else check_id(grant.resource, "--resource", longest),
            rights=_rights(grant.rights),
            created_at=now,
            expires_at=_expiry(grant.expires, now),
        )
    except InvalidInput as error:
        raise SettingsError(str(error)) from None


def _rights(given: str) -> tuple[Right, ...]:
    named = {name.strip() for name in given.split(",")}
    if unknown := sorted(named - set(RIGHTS)):
        raise InvalidInput(f"--rights: {unknown[0]!r} is no right; allowed are {', '.join(RIGHTS)}, with commas")
    return tuple(right for right in RIGHTS if right in named)


def _expiry(given: str, now: int) -> int | None:
    if given == "never":
        return None
    lasts = length_ms(given, digits=9) or 0
    if not 0 < lasts <= _LONGEST_MS:
        raise InvalidInput(
            f"--expires: {given!r} is no length of time; allowed are minutes, hours or days such as 30m, 12h, 90d, up "
            "to 36500d, or never"
        )
    return now + lasts


def _state(key: ApiKey, now: int) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "active" if key.expires_at is None or key.expires_at > now else "expired"


def _shown(key: ApiKey) -> Json:
    """Null for any agent, any resource, and never."""
    times = {"created": key.created_at, "expires": key.expires_at, "revoked": key.revoked_at}
    return {
        "id": key.key_id,
        "tenant": key.tenant_id,
        "agents": key.agents,
        "resource": key.resource_id,
        "rights": key.rights,
        **{name: None if time is None else iso(time) for name, time in times.items()},
    }


def _json(shown: Json) -> str:
    return json.dumps(shown, ensure_ascii=False, indent=2) + "\n"


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
