"""Keys: kept by their digests, found without a tenant, revoked within one."""

import asyncio
from dataclasses import replace

import pytest

from layerlore.storage.audit import api_keys
from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.records import ApiKey, Tenant
from layerlore.storage.core.transaction import Database

from ..building import NOW

pytestmark = pytest.mark.anyio

ACME = Tenant("acme")
KEY = ApiKey("aaaaaaaa", "acme", ("coach",), "ana", ("read", "write"), NOW)
ODD = ("a,b", '"', "[]", "", "null", "'; DROP TABLE api_keys; --", "Zoë 海 \U0001f600")


async def keep(database: Database, *keys: ApiKey) -> None:
    for key in keys:
        await database.write(api_keys.create, Tenant(key.tenant_id), key, f"digest of {key.key_id}")


async def found(database: Database, key: ApiKey) -> ApiKey | None:
    return await database.read_installation(api_keys.by_digest, f"digest of {key.key_id}")


@pytest.mark.parametrize(
    "key",
    [
        KEY,
        replace(KEY, agents=None, resource_id=None),
        replace(KEY, agents=ODD, resource_id=ODD[-1], rights=("admin",)),
        replace(KEY, expires_at=NOW + 1),
        replace(KEY, expires_at=NOW + 1, revoked_at=NOW),
    ],
)
async def test_what_is_found_under_a_digest_is_what_was_kept(database: Database, key: ApiKey) -> None:
    await keep(database, replace(KEY, key_id="other"), key)
    assert await found(database, key) == key


@pytest.mark.parametrize("digest", ["", "digest of", "digest of AAAAAAAA", "digest of aaaaaaaa ", "%", "aaaaaaaa"])
async def test_nothing_is_found_under_another_digest(database: Database, digest: str) -> None:
    await keep(database, KEY)
    assert await database.read_installation(api_keys.by_digest, digest) is None


async def test_the_tenant_that_is_given_is_the_one_that_is_kept(database: Database) -> None:
    await database.write(api_keys.create, Tenant("other"), KEY, "digest of aaaaaaaa")
    assert await found(database, KEY) == replace(KEY, tenant_id="other")


async def test_neither_an_id_nor_a_digest_is_given_twice(database: Database) -> None:
    await keep(database, KEY)
    for tenant in ("acme", "other"):
        for key_id, digest in (("aaaaaaaa", "another"), ("bbbbbbbb", "digest of aaaaaaaa")):
            key = replace(KEY, key_id=key_id, tenant_id=tenant, rights=("admin",))
            with pytest.raises(Conflict, match=f"there is a key '{key_id}' already"):
                await database.write(api_keys.create, Tenant(tenant), key, digest)
    assert await database.read_installation(api_keys.read_all) == [KEY]


async def test_a_key_is_revoked_once_and_stays_so_since_then(database: Database) -> None:
    other = replace(KEY, key_id="bbbbbbbb")
    await keep(database, KEY, other)
    assert await database.write(api_keys.revoke, ACME, "aaaaaaaa", NOW + 5)
    assert not await database.write(api_keys.revoke, ACME, "aaaaaaaa", NOW + 9)
    assert await found(database, KEY) == replace(KEY, revoked_at=NOW + 5)
    assert await found(database, other) == other


async def test_of_many_who_revoke_a_key_at_once_one_did(database: Database) -> None:
    await keep(database, KEY)
    told = await asyncio.gather(*(database.write(api_keys.revoke, ACME, "aaaaaaaa", NOW + n) for n in range(8)))
    assert sorted(told) == [False] * 7 + [True]
    revoked = await found(database, KEY)
    assert revoked is not None
    assert revoked.revoked_at == NOW + told.index(True)


async def test_a_tenant_revokes_only_its_own_keys(database: Database) -> None:
    await keep(database, KEY)
    for tenant, key_id in (("other", "aaaaaaaa"), ("acme", "bbbbbbbb"), ("", "aaaaaaaa"), ("ACME", "aaaaaaaa")):
        assert not await database.write(api_keys.revoke, Tenant(tenant), key_id, NOW)
    assert await found(database, KEY) == KEY


async def test_all_keys_are_listed_oldest_first_without_their_digests(database: Database) -> None:
    made = [
        replace(KEY, key_id="cccccccc", created_at=NOW),
        replace(KEY, key_id="dddddddd", created_at=NOW, tenant_id="other", revoked_at=NOW),
        replace(KEY, key_id="bbbbbbbb", created_at=NOW + 1, expires_at=NOW + 2),
    ]
    await keep(database, *reversed(made))
    assert await database.read_installation(api_keys.read_all) == made
    assert "digest" not in repr(await database.read_installation(api_keys.read_all))


async def test_a_key_is_usable_until_it_expires_or_is_revoked(database: Database) -> None:
    async def usable(now: int, but: str | None = None) -> bool:
        return await database.read_installation(api_keys.any_usable, now, but)

    assert not await usable(NOW)
    await keep(database, replace(KEY, revoked_at=NOW), replace(KEY, key_id="b", expires_at=NOW + 10))
    assert await usable(NOW + 9)
    assert not await usable(NOW + 10)
    assert not await usable(NOW + 9, "acme")
    assert await usable(NOW + 9, "other")
    await keep(database, replace(KEY, key_id="c", tenant_id="other"))
    assert await usable(NOW + 10)
    assert await usable(NOW + 10, "acme")
    await database.write(api_keys.revoke, Tenant("other"), "c", NOW)
    assert not await usable(NOW + 10)
