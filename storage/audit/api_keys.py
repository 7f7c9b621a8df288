"""Keys of the HTTP endpoints: made, found by their digests, listed, revoked. The keys themselves are stored nowhere.

A key is found before its tenant is known.
"""

import json
from typing import NamedTuple

from sqlalchemy import bindparam, select, update

from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.installation import Look
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import ApiKey, Tenant
from layerlore.storage.core.statements import insert_or_ignore
from layerlore.storage.core.tables import api_keys
from layerlore.storage.core.transaction import Row, Tx

_NAMES = ("key_id", "tenant_id", "agents", "resource_id", "rights", "created_at", "expires_at", "revoked_at")


_columns = [api_keys.c[name] for name in _NAMES]
_GIVEN = tuple((name, "bigint" if name.endswith("_at") else "text") for name in _NAMES)
# The tenant of a key is unknown until the key is found, so these must see the rows of every tenant.
_BY_DIGEST = Look("layerlore_api_key", select(*_columns).where(api_keys.c.digest == bindparam("digest")), _GIVEN)
_LISTED = Look("layerlore_api_keys", select(*_columns).order_by(api_keys.c.created_at, api_keys.c.key_id), _GIVEN)
_USABLE = Look(
    "layerlore_usable_api_key",
    select(api_keys.c.key_id)
    .where(
        api_keys.c.revoked_at.is_(None),
        api_keys.c.expires_at.is_(None) | (api_keys.c.expires_at > bindparam("now")),
        api_keys.c.tenant_id != bindparam("other_than_tenant"),
    )
    .limit(1),
    (("key_id", "text"),),
)
_CREATE = insert_or_ignore(api_keys, {column.name: bindparam(column.name) for column in api_keys.c})
_REVOKE = (
    update(api_keys)
    .where(
        api_keys.c.tenant_id == bindparam("of_tenant"),
        api_keys.c.key_id == bindparam("of_key"),
        # The first revocation counts: a second one must not move its time.
        api_keys.c.revoked_at.is_(None),
    )
    .values(revoked_at=bindparam("now"))
)


async def create(tx: Tx, tenant: Tenant, key: ApiKey, digest: str) -> None:
    """Keep a new key of the tenant; ``digest`` is the SHA-256 of the whole key, in hex.

    Raises Conflict if there is a key with this id or this digest.
    """
    made = await tx.run(
        _CREATE,
        key_id=key.key_id,
        digest=digest,
        tenant_id=tenant.tenant_id,
        agents=None if key.agents is None else to_json(key.agents),
        resource_id=key.resource_id,
        rights=",".join(key.rights),
        created_at=key.created_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
    )
    if not made:
        raise Conflict(f"there is a key {key.key_id!r} already; make one with another id")


async def revoke(tx: Tx, tenant: Tenant, key_id: str, now: int) -> bool:
    """Mark a key of the tenant as revoked since ``now``. Returns whether it was there and not yet revoked."""
    return await tx.run(_REVOKE, of_tenant=tenant.tenant_id, of_key=key_id, now=now) == 1


async def by_digest(tx: Tx, digest: str) -> ApiKey | None:
    """The key of any tenant that has this digest, whether or not it may still be used."""
    found = await _BY_DIGEST.rows(tx, digest=digest)
    if found:
        return _key(found[0])
    return None


async def read_all(tx: Tx) -> list[ApiKey]:
    """The keys of all tenants, oldest first, including revoked and expired ones."""
    return [_key(row) for row in await _LISTED.rows(tx)]


async def any_usable(tx: Tx, now: int, other_than_tenant: str | None = None) -> bool:
    """Whether any tenant (but this one) has a key that is neither revoked nor expired."""
    # No tenant's name is empty.
    return bool(await _USABLE.rows(tx, now=now, other_than_tenant=other_than_tenant or ""))


class _KeyRow(NamedTuple):
    """A key as it is stored."""

    key_id: str
    tenant_id: str
    agents: str | None
    resource_id: str | None
    rights: str
    created_at: int
    expires_at: int | None
    revoked_at: int | None


def _key(row: Row) -> ApiKey:
    stored = _KeyRow._make(row)
    return ApiKey(
        stored.key_id,
        stored.tenant_id,
        None if stored.agents is None else tuple(json.loads(stored.agents)),
        stored.resource_id,
        tuple(stored.rights.split(",")),
        stored.created_at,
        stored.expires_at,
        stored.revoked_at,
    )
