"""What a key says of who is calling, and for how long that is believed."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from layerlore.server.access import credentials
from layerlore.server.access.credentials import (
    CACHED_MOST,
    CACHED_SECONDS,
    ApiKeys,
    Principal,
    hash_key,
    is_key_id,
    make_key,
)
from layerlore.storage.audit import api_keys
from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.records import ApiKey, Tenant
from layerlore.storage.drivers.sqlite.database import SqliteDatabase

pytestmark = pytest.mark.anyio

NOW = 1_750_000_000_000


class Stored:
    """Keys by their digests, the two clocks, and how often was looked."""

    def __init__(self) -> None:
        self.keys: dict[str, ApiKey] = {}
        self.looks: list[str] = []
        self.now = NOW
        self.seconds = 0.0
        self.down = False
        self.verifier = ApiKeys(self.find, lambda: self.now, lambda: self.seconds)

    async def find(self, digest: str) -> ApiKey | None:
        self.looks.append(digest)
        if self.down:
            raise StorageUnavailable("the database could not be read")
        return self.keys.get(digest)

    def make(self, agents: tuple[str, ...] | None = ("coach",), **other: object) -> str:
        key_id, key = make_key()
        made = ApiKey(key_id, "acme", agents, "ana", ("read", "write"), NOW)
        self.keys[hash_key(key)] = replace(made, **other)  # type: ignore[arg-type]
        return key

    def revoke(self, key: str) -> None:
        self.keys[hash_key(key)] = replace(self.keys[hash_key(key)], revoked_at=self.now)


@pytest.fixture
def stored() -> Stored:
    return Stored()


def unknown_keys(count: int) -> Iterator[str]:
    return (make_key()[1] for _ in range(count))


def test_a_new_key_is_random_of_the_known_form_and_names_its_id() -> None:
    made = [make_key() for _ in range(500)]
    assert len({key for _, key in made}) == len({key_id for key_id, _ in made}) == 500
    for key_id, key in made:
        assert re.fullmatch(rf"llk_{key_id}_[A-Za-z0-9_-]{{43}}", key)
        assert is_key_id(key_id)
        assert not is_key_id(key)
    assert hash_key("llk_x") == hashlib.sha256(b"llk_x").hexdigest()


async def test_a_key_gives_the_principal_that_it_was_made_for(stored: Stored) -> None:
    key = stored.make(("coach", "cook"), expires_at=NOW + 1)
    name = f"key:{key[4:12]}"
    assert await stored.verifier.principal(key) == Principal(
        name, "acme", frozenset({"coach", "cook"}), "ana", frozenset({"read", "write"}), NOW + 1
    )
    anybody = stored.make(None, resource_id=None, rights=("admin", "something new"))
    principal = await stored.verifier.principal(anybody)
    assert principal is not None
    assert (principal.agents, principal.resource, principal.rights, principal.expires_at) == (
        None,
        None,
        frozenset({"admin"}),
        None,
    )
    assert not principal.local


def malformed(key: str) -> list[str]:
    return [
        "",
        "llk_",
        key[:-1],
        key + "A",
        key + "\n",
        key + "\x00",
        " " + key,
        "Bearer " + key,
        key.upper(),
        key.replace("llk_", "LLK_"),
        key.replace("llk_", "ll_"),
        key[:12] + "-" + key[13:],
        key[:11] + "1" + key[12:],  # no character of an id
        key[:-1] + "é",
        key[:-1] + "А",  # a Cyrillic letter
        key[:-1] + "\ud800",
        key[:-1] + ".",
        key[:-1] + "=",
        "llk_" + "٣" * 8 + key[12:],
        key * 1000,
        "llk_" * 100_000,
        "a.b.c",
        "' OR 1=1 --",
    ]


async def test_what_has_not_the_form_of_a_key_is_refused_without_a_look(stored: Stored) -> None:
    key = stored.make()
    for token in malformed(key):
        assert await stored.verifier.principal(token) is None
    assert stored.looks == []
    assert await stored.verifier.principal(key) is not None


async def test_a_key_that_differs_in_one_character_is_unknown(stored: Stored) -> None:
    key = stored.make()
    for place in (4, 11, 13, 30, 55):
        other = key[:place] + ("b" if key[place] != "b" else "c") + key[place + 1 :]
        assert await stored.verifier.principal(other) is None
    assert len(stored.looks) == 5


async def test_a_key_that_is_revoked_is_refused_within_the_seconds_that_it_is_kept(stored: Stored) -> None:
    key = stored.make()
    assert CACHED_SECONDS <= 2
    assert await stored.verifier.principal(key) is not None
    stored.revoke(key)
    stored.seconds = CACHED_SECONDS - 0.001
    assert await stored.verifier.principal(key) is not None
    stored.seconds = CACHED_SECONDS
    assert await stored.verifier.principal(key) is None
    assert len(stored.looks) == 2


async def test_using_a_key_does_not_keep_it_longer(stored: Stored) -> None:
    key = stored.make()
    assert await stored.verifier.principal(key) is not None
    stored.revoke(key)
    for tenth in range(1, 20):
        stored.seconds = tenth / 10
        assert await stored.verifier.principal(key) is not None
    stored.seconds = CACHED_SECONDS
    assert await stored.verifier.principal(key) is None


async def test_the_seconds_count_from_when_the_look_began(stored: Stored) -> None:
    key = stored.make()

    async def slow(digest: str) -> ApiKey | None:
        seen = await stored.find(digest)
        stored.seconds += 1.5
        return seen

    verifier = ApiKeys(slow, lambda: NOW, lambda: stored.seconds)
    assert await verifier.principal(key) is not None
    stored.revoke(key)
    stored.seconds = CACHED_SECONDS
    assert await verifier.principal(key) is None


async def test_a_key_expires_at_its_time_however_recently_it_was_looked_up(stored: Stored) -> None:
    key = stored.make(expires_at=NOW + 10)
    stored.now = NOW + 9
    assert await stored.verifier.principal(key) is not None
    stored.now = NOW + 10
    assert await stored.verifier.principal(key) is None
    assert len(stored.looks) == 1


async def test_a_key_that_was_revoked_or_expired_before_is_refused(stored: Stored) -> None:
    for key in (stored.make(revoked_at=NOW - 1), stored.make(revoked_at=NOW + 1), stored.make(expires_at=NOW)):
        assert await stored.verifier.principal(key) is None


async def test_a_key_that_was_unknown_is_known_as_soon_as_one_that_is_revoked_is_refused(stored: Stored) -> None:
    key = stored.make()
    hidden = stored.keys.pop(hash_key(key))
    assert await stored.verifier.principal(key) is None
    stored.keys[hash_key(key)] = hidden
    stored.seconds = CACHED_SECONDS - 0.001
    assert await stored.verifier.principal(key) is None
    assert len(stored.looks) == 1
    stored.seconds = CACHED_SECONDS
    assert await stored.verifier.principal(key) is not None
    stored.keys.clear()
    stored.seconds = 2 * CACHED_SECONDS
    assert await stored.verifier.principal(key) is None


async def test_thousands_of_made_up_keys_push_no_real_one_out_and_are_not_all_kept(stored: Stored) -> None:
    key = stored.make()
    assert await stored.verifier.principal(key) is not None
    made_up = list(unknown_keys(CACHED_MOST + 1000))
    for token in made_up:
        assert await stored.verifier.principal(token) is None
    stored.looks.clear()
    assert await stored.verifier.principal(key) is not None
    for token in made_up[-CACHED_MOST:]:
        assert await stored.verifier.principal(token) is None
    assert stored.looks == []
    assert await stored.verifier.principal(made_up[0]) is None
    assert stored.looks == [hash_key(made_up[0])]


async def test_so_many_real_keys_are_kept_and_the_oldest_goes_first(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "CACHED_MOST", 3)
    one, two, three, four = (stored.make() for _ in range(4))
    for key in (one, two, three, four, four, three, two):
        assert await stored.verifier.principal(key) is not None
    assert stored.looks == [hash_key(key) for key in (one, two, three, four)]
    assert await stored.verifier.principal(one) is not None
    assert stored.looks[4:] == [hash_key(one)]


async def test_a_key_that_was_looked_up_again_is_not_the_oldest_any_more(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "CACHED_MOST", 3)
    one, two, three, four = (stored.make() for _ in range(4))
    for key, seconds in ((one, 0.0), (two, 1.0), (one, 2.0), (three, 2.0), (four, 2.0)):
        stored.seconds = seconds
        assert await stored.verifier.principal(key) is not None
    stored.looks.clear()
    assert await stored.verifier.principal(one) is not None
    assert stored.looks == []


async def test_a_store_that_cannot_be_asked_is_said_so_and_asked_again(stored: Stored) -> None:
    key, known = stored.make(), stored.make()
    assert await stored.verifier.principal(known) is not None
    stored.down = True
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            await stored.verifier.principal(key)
    assert await stored.verifier.principal(known) is not None, "what is known is known for two seconds more"
    stored.seconds = CACHED_SECONDS
    with pytest.raises(StorageUnavailable):
        await stored.verifier.principal(known)
    stored.down = False
    assert await stored.verifier.principal(key) is not None
    assert await stored.verifier.principal(known) is not None


async def test_what_is_kept_in_memory_is_no_key(stored: Stored) -> None:
    key = stored.make()
    await stored.verifier.principal(key)
    assert key not in repr(vars(stored.verifier))


async def test_a_key_that_another_process_revokes_is_refused_here(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    here, there = await SqliteDatabase.open(path), await SqliteDatabase.open(path)
    try:
        key_id, key = make_key()
        seconds = 0.0
        verifier = ApiKeys(
            lambda digest: here.read_installation(api_keys.by_digest, digest), lambda: NOW, lambda: seconds
        )
        assert await verifier.principal(key) is None
        made = ApiKey(key_id, "acme", None, None, ("read",), NOW)
        await there.write(api_keys.create, Tenant("acme"), made, hash_key(key))
        seconds = 2.0
        assert await verifier.principal(key) == Principal(f"key:{key_id}", "acme", None, None, frozenset({"read"}))
        assert await there.write(api_keys.revoke, Tenant("acme"), key_id, NOW)
        seconds = 4.0
        assert await verifier.principal(key) is None
    finally:
        await here.close()
        await there.close()
