"""How much a scope holds."""

import pytest

from layerlore.storage.core import installation
from layerlore.storage.core.transaction import Database
from layerlore.storage.removal import deletions
from layerlore.storage.threads import threads
from layerlore.storage.threads.threads import Counts

from ..building import ANA, BEN, NOW, draft, drop, say, search_text, uid

pytestmark = pytest.mark.anyio


async def test_an_empty_scope_holds_nothing(database: Database) -> None:
    assert await database.read(threads.count_scope, ANA) == Counts(0, 0, 0, 0)


async def test_counts_follow_what_is_said_deleted_and_restored(database: Database) -> None:
    await say(database, "one", draft(id="a", tokens=1), draft(id="b", tokens=2))
    await say(database, "two", draft(tokens=4))
    await say(database, "one", draft(tokens=8), scope=BEN)
    assert await database.read(threads.count_scope, ANA) == Counts(2, 3, 7, 0)
    await drop(database, "one", "ids", ["a"])
    assert await database.read(threads.count_scope, ANA) == Counts(2, 2, 6, 1)
    gone = await database.write(deletions.delete_thread, ANA, "one", deletion_uid=uid(), erase=False, now=NOW)
    assert await database.read(threads.count_scope, ANA) == Counts(1, 1, 4, 2)
    assert gone.deletion_uid is not None
    await database.write(deletions.restore, ANA, gone.deletion_uid, now=NOW, search_text=search_text)
    assert await database.read(threads.count_scope, ANA) == Counts(2, 2, 6, 1)
    assert await database.read(threads.count_scope, BEN) == Counts(1, 1, 8, 0)


async def test_an_installation_has_one_secret_of_its_own(database: Database) -> None:
    key = await database.read_installation(installation.hmac_key)
    assert len(key) == 32
    assert await database.read_installation(installation.hmac_key) == key
