"""The same request sent again gets the first answer again, and does nothing."""

import asyncio

import pytest

from layerlore.storage.audit import idempotency
from layerlore.storage.audit.idempotency import Request
from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.records import Draft, Json, Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.messages import message_rows

from ..building import ANA, BEN, NOW, draft, everything, only, rows, say, search_text, uid

pytestmark = pytest.mark.anyio


async def append_once(
    database: Database, request: Request | None, sent: Draft, *, scope: Scope = ANA
) -> tuple[Json, bool]:
    """An append that may be sent again, as a tool makes it."""

    async def unit(tx: Tx, scope: Scope) -> tuple[Json, bool]:
        async def write(tx: Tx) -> Json:
            done = await message_rows.append(
                tx, scope, "main", [sent], new_uid=new_uid, replace_known=False, now=NOW, search_text=search_text
            )
            return {"ids": [one.id for one in done.stored], "seqs": [one.seq for one in done.stored]}

        return await idempotency.once(tx, scope, request, NOW, write)

    new_uid = uid()
    return await database.write(unit, scope)


async def test_a_request_sent_again_gets_the_first_answer_and_does_nothing(database: Database) -> None:
    first = await append_once(database, Request("k", "body"), draft(id="a"))
    again = await append_once(database, Request("k", "body"), draft(id="b"))
    assert first == ({"ids": ["a"], "seqs": [1]}, False)
    assert again == ({"ids": ["a"], "seqs": [1]}, True)
    assert [message.id for message in await everything(database, "main")] == ["a"]


async def test_of_a_key_only_a_hash_is_stored(database: Database) -> None:
    await append_once(database, Request("my-secret-key", "body"), draft(id="a"))
    assert "my-secret-key" not in repr(await database.read_installation(rows, "SELECT * FROM idempotency"))


async def test_a_key_that_was_used_for_another_request_is_a_conflict(database: Database) -> None:
    await append_once(database, Request("k", "body"), draft(id="a"))
    with pytest.raises(Conflict, match="idempotency key 'k' was used for another request: a new request needs a new"):
        await append_once(database, Request("k", "other body"), draft(id="b"))
    assert [message.id for message in await everything(database, "main")] == ["a"]
    assert (await append_once(database, Request("k", "body"), draft(id="c")))[1]


async def test_a_write_that_fails_leaves_the_key_free(database: Database) -> None:
    await say(database, "main", draft("first", id="a"))
    with pytest.raises(Conflict, match="'a' is stored with other content"):
        await append_once(database, Request("k", "body"), draft("second", id="a"))
    assert await append_once(database, Request("k", "other body"), draft(id="b")) == (
        {"ids": ["b"], "seqs": [2]},
        False,
    )


async def test_without_a_key_every_request_is_a_new_one(database: Database) -> None:
    for n in range(2):
        assert (await append_once(database, None, draft(id=f"m{n}")))[1] is False
    assert len(await everything(database, "main")) == 2
    assert await only(database, "SELECT count(*) FROM idempotency") == 0


async def test_a_key_belongs_to_its_scope(database: Database) -> None:
    await append_once(database, Request("k", "body"), draft(id="a"))
    answer = await append_once(database, Request("k", "other body"), draft(id="b"), scope=BEN)
    assert answer == ({"ids": ["b"], "seqs": [1]}, False)


async def test_of_two_at_once_one_writes_and_both_get_its_answer(database: Database) -> None:
    for round_ in range(10):
        request = Request(f"k{round_}", "body")
        answers = await asyncio.gather(*(append_once(database, request, draft()) for _ in range(4)))
        assert sorted(old for _, old in answers) == [False, True, True, True]
        assert all(answer == answers[0][0] for answer, _ in answers)
    assert len(await everything(database, "main")) == 10


async def test_of_two_different_at_once_one_writes_and_the_other_is_refused(database: Database) -> None:
    requests = [append_once(database, Request("k", f"body{n}"), draft()) for n in range(2)]
    answers = await asyncio.gather(*requests, return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["Conflict", "tuple"]
    assert len(await everything(database, "main")) == 1


async def test_one_that_waits_for_a_request_that_fails_writes_itself(database: Database) -> None:
    await say(database, "main", draft("first", id="a"))
    request = Request("k", "body")
    failing = append_once(database, request, draft("other", id="a"))
    good = append_once(database, request, draft(id="b"))
    answers = await asyncio.gather(failing, good, return_exceptions=True)
    # Whichever came first: the good one was stored once; the failing one met its error, or the good one's answer.
    assert [message.id for message in await everything(database, "main")] == ["a", "b"]
    assert isinstance(answers[0], Conflict) or answers[0] == ({"ids": ["b"], "seqs": [2]}, True)
    assert answers[1] == ({"ids": ["b"], "seqs": [2]}, False)


async def test_no_text_of_a_message_is_kept(database: Database) -> None:
    await append_once(database, Request("k", "body"), draft("walrus"))
    assert "walrus" not in await only(database, "SELECT body_hmac || answer FROM idempotency")
