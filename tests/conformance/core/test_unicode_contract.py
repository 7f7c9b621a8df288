"""Any text without NUL and lone surrogates comes back the same from both databases, wherever text can be."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layerlore.storage.audit import idempotency
from layerlore.storage.audit.idempotency import Request
from layerlore.storage.core.records import ROLES, Draft, IndexedText, Json, Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import threads
from layerlore.storage.threads.threads import Description

from ..building import ANA, NOW, drop, everything, examples, new_scope, say, uid

pytestmark = pytest.mark.anyio

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
numbers = st.integers(-(2**63), 2**64) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
AWKWARD = "a\r\n\t\x01\x7f\u0085\u2028\ufeff\ufffe\U0010ffff'\"\\%_$1:x?{}\u202e🏳️‍🌈é" + "e\u0301"


@examples(60)
@given(text=texts, name=texts, id_=texts, thread_id=texts, metadata=st.dictionaries(texts, values, max_size=3))
@example(text=AWKWARD, name=AWKWARD, id_=AWKWARD, thread_id=AWKWARD, metadata={AWKWARD: [AWKWARD, 2**64, 1e308]})
@example(text="", name="", id_="", thread_id="", metadata={"": ""})
async def test_any_text_comes_back_the_same(
    database: Database, text: str, name: str, id_: str, thread_id: str, metadata: Json
) -> None:
    scope = Scope(f"tenant {name}", f"agent {text}", uid())
    parts: list[Json] = [
        {"type": "text", "text": text},
        {"type": "tool_call", "id": id_, "name": name, "arguments": metadata},
    ]
    sent = Draft(id_, "assistant", name, parts, metadata, NOW, 1, "o200k_base", IndexedText((), 0))
    made = await say(database, thread_id, sent, scope=scope)
    assert (made.thread.thread_id, made.stored[0].id) == (thread_id, id_)
    (kept,) = await everything(database, thread_id, scope)
    assert (kept.thread_id, kept.id, kept.name, kept.parts, kept.metadata) == (thread_id, id_, name, parts, metadata)
    assert repr(kept.metadata) == repr(metadata)  # 1 stays 1, and 1.0 stays 1.0

    again = await say(database, thread_id, sent, scope=scope)
    assert again.stored[0].status == "unchanged"
    gone = await drop(database, thread_id, "ids", [id_], scope=scope)
    assert [message.id for message in gone.messages] == [id_]


@examples(60)
@given(title=texts.filter(bool), key=texts, metadata=st.dictionaries(texts, values.filter(bool), max_size=3))
@example(title=AWKWARD, key=AWKWARD, metadata={AWKWARD: AWKWARD})
async def test_titles_keys_and_answers_come_back_the_same(
    database: Database, title: str, key: str, metadata: Json
) -> None:
    async def unit(tx: Tx, scope: Scope) -> tuple[Json, bool]:
        return await idempotency.once(tx, scope, Request(key, title), NOW, answer)

    async def answer(_: Tx) -> Json:
        return metadata

    scope = new_scope()
    described = await database.write(
        threads.describe, scope, "t", Description(title, {"k": [metadata]}), new_uid=uid(), now=NOW, check=len
    )
    assert (described.title, described.metadata) == (title, {"k": [metadata]})
    assert await database.write(unit, scope) == (metadata, False)
    assert await database.write(unit, scope) == (metadata, True)


@pytest.mark.parametrize("number", [0, 1, -1, 2**53 + 1, 2**62 - 1, -(2**62)])
async def test_whole_numbers_of_time_keep_every_digit(database: Database, number: int) -> None:
    sent = Draft("a", "user", None, [], {}, number, 1, "o200k_base", IndexedText((), 0))
    await say(database, "main", sent)
    (kept,) = (await database.read(message_pages.page, ANA, "main", roles=ROLES, limit=1)).messages
    assert kept.said_at == number
