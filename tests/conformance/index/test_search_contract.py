"""The lexical index: which rows of a scope have which word."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layerlore.storage.core.records import IndexedText, Message, Scope
from layerlore.storage.core.scopes import scope_token
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.index import lexical
from layerlore.storage.messages import message_rows
from layerlore.storage.threads import threads

from ..building import ANA, BEN, NOW, draft, examples, having, index_of, indexed, new_scope, only, say
from ..building import rows as rows_of

pytestmark = pytest.mark.anyio

# What the searched text is made of: letters, marks and digits of any script.
words = st.text(
    st.characters(categories=["Ll", "Lo", "Lm", "Mn", "Mc", "Nd"], max_codepoint=0x2FFFF), min_size=1, max_size=12
)


async def postings(database: Database, *asked: str, scope: Scope = ANA, most: int = 100) -> dict[str, list[int]]:
    found = await database.read(lexical.postings, scope, list(asked), most=most)
    assert all(row_ids.dtype == np.int64 for row_ids in found.values())
    return {word: row_ids.tolist() for word, row_ids in found.items()}


async def found(database: Database, word: str, *, scope: Scope = ANA) -> list[str]:
    """The ids of the messages that have the word."""
    return sorted(message.id for message in await having(database, word, scope))


async def test_each_word_has_its_rows_ascending(database: Database) -> None:
    await say(database, "one", draft("apple pear", id="a"), draft("pear", id="b"))
    await say(database, "two", draft("apple", id="c"))
    rows = await postings(database, "apple", "pear", "plum")
    assert [len(rows[word]) for word in ("apple", "pear", "plum")] == [2, 2, 0]
    assert all(row_ids == sorted(row_ids) for row_ids in rows.values())
    index = await index_of(database, ["apple", "pear"])
    assert {word: [message.id for message in messages] for word, messages in index.items()} == {
        "apple": ["c", "a"],
        "pear": ["b", "a"],
    }


async def test_no_words_have_no_rows(database: Database) -> None:
    await say(database, "main", draft("apple"))
    assert await postings(database) == {}


async def test_only_the_newest_rows_are_given(database: Database) -> None:
    await say(database, "main", *(draft("apple", id=f"m{n}") for n in range(10)))
    assert [message.id for message in await having(database, "apple", most=3)] == ["m9", "m8", "m7"]


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("running", "runs"),
        ("connected", "connection"),
        ("cities", "city"),
        ("city", "cities"),
    ],
)
async def test_words_of_one_stem_find_each_other(database: Database, stored: str, asked: str) -> None:
    await say(database, "main", draft(stored, id="a"), draft("something else", id="b"))
    assert await found(database, asked) == ["a"]


async def test_a_word_with_diacritics_is_found_by_itself(database: Database) -> None:
    await say(database, "main", draft("café naïve śnieg", id="a"))
    for word in ("café", "naïve", "śnieg"):
        assert await found(database, word) == ["a"]


async def test_common_english_words_are_words_too(database: Database) -> None:
    """Which words count is decided where queries are made, not by a database's list of stop words."""
    await say(database, "main", draft("to be or not to be", id="a"))
    for word in ("to", "be", "or", "not"):
        assert await found(database, word) == ["a"]


@examples(60)
@given(stored=st.lists(words, min_size=1, max_size=5), asked=words)
@example(stored=["and", "near"], asked="or")
@example(stored=["\u0301"], asked="\u0302")
@example(stored=["१२३", "𞤀𞤣𞤤𞤢𞤥", "𠀀𠀁"], asked="x")
async def test_every_word_in_any_script_is_found_by_itself_and_no_word_is_a_syntax_error(
    database: Database, stored: list[str], asked: str
) -> None:
    async def index(tx: Tx, scope: Scope) -> None:
        await lexical.put(tx, scope, [lexical.IndexEntry(thread_uid, 1, "user", NOW, indexed(" ".join(stored)))])

    scope = new_scope()
    made = await say(database, "main", draft(parts=[]), scope=scope)
    thread_uid = made.thread.thread_uid
    await database.write(index, scope)
    rows = await postings(database, *stored, asked, scope=scope)
    assert [word for word in stored if len(rows[word]) != 1] == []


async def test_a_message_without_a_word_is_not_in_the_index(database: Database) -> None:
    await say(database, "main", draft("!?", id="a"), draft(parts=[]))
    assert await only(database, "SELECT count(*) FROM search_rows") == 0


async def test_words_of_another_scope_are_never_given(database: Database) -> None:
    """Also where a scope differs by one of its three names, or by where one ends and the next begins."""
    scopes = [
        ANA,
        BEN,
        Scope("local", "other", "ana"),
        Scope("other", "agent", "ana"),
        Scope("local", "agen", "tana"),
        Scope("local", "agenta", "na"),
    ]
    for n, scope in enumerate(scopes):
        await say(database, "main", draft("apple", id=f"m{n}"), scope=scope)
    taken: list[int] = []
    for n, scope in enumerate(scopes):
        assert await found(database, "apple", scope=scope) == [f"m{n}"]
        taken += (await postings(database, "apple", scope=scope))["apple"]
    assert len(set(taken)) == len(scopes)


async def test_a_scopes_token_is_no_word(database: Database) -> None:
    await say(database, "main", draft("apple"))
    assert await postings(database, scope_token(ANA)) == {scope_token(ANA): []}
    await say(database, "main", draft(scope_token(BEN), id="a"))
    assert await postings(database, scope_token(BEN), scope=BEN) == {scope_token(BEN): []}
    assert await found(database, scope_token(BEN)) == ["a"]


async def test_a_cap_counts_only_rows_of_the_scope(database: Database) -> None:
    await say(database, "main", draft("apple", id="a"))
    await say(database, "main", *(draft("apple") for _ in range(5)), scope=BEN)
    assert [message.id for message in await having(database, "apple", most=2)] == ["a"]


async def test_the_size_counts_visible_messages_of_the_scope(database: Database) -> None:
    assert (await database.read(threads.count_live, ANA))[1] == 0
    await say(database, "one", draft(), draft("!"))
    await say(database, "two", draft())
    await say(database, "one", draft(), scope=BEN)
    assert (await database.read(threads.count_live, ANA))[1] == 3


async def test_each_chunk_with_a_word_is_a_row_of_its_message(database: Database) -> None:
    long = replace(draft(id="a"), indexed=indexed("apple pear", "", "apple"))
    await say(database, "main", long, draft("pear", id="b"))
    rows = await postings(database, "apple", "pear")
    assert [len(rows[word]) for word in ("apple", "pear")] == [2, 2]
    assert [message.id for message in await having(database, "apple")] == ["a", "a"]
    chunks = "SELECT chunk, chars FROM search_rows WHERE seq = 1 ORDER BY chunk"
    assert await database.read_installation(rows_of, chunks) == [(0, 15), (2, 15)]


async def test_a_replaced_message_is_found_by_its_new_words_only(database: Database) -> None:
    await say(database, "main", draft("apple", id="a", said_at=NOW - 5))
    await say(database, "main", draft("pear", id="a", role="assistant", name="Kim"), replace_known=True)
    assert [await found(database, word) for word in ("apple", "pear")] == [[], ["a"]]
    kept = await database.read_installation(rows_of, "SELECT role, speaker, said_at FROM search_rows")
    assert kept == [("assistant", "Kim", NOW - 5)], "the time it was said stays unless another is given"


async def test_a_replaced_message_is_indexed_with_the_time_that_it_keeps(database: Database) -> None:
    times: list[int] = []

    def search_text(message: Message) -> IndexedText:
        times.append(message.said_at)
        return indexed("pear")

    await say(database, "main", draft("apple", id="a", said_at=NOW - 5))
    for said_at in (None, NOW + 5):
        changed = draft("pear", id="a", said_at=said_at, tokens=1, metadata={"n": said_at})
        await database.write(
            message_rows.append,
            ANA,
            "main",
            [changed],
            new_uid="u",
            replace_known=True,
            now=NOW + 10,
            search_text=search_text,
        )
    assert times == [NOW - 5, NOW + 5]
    assert await database.read_installation(rows_of, "SELECT said_at FROM search_rows") == [(NOW + 5,)]


async def test_a_row_id_is_never_given_again(database: Database) -> None:
    """Else a vector computed for a message that was replaced meanwhile would be taken for the new one's."""
    given: set[int] = set()
    for n in range(5):
        await say(database, "main", draft(f"apple {n}", id="a"), replace_known=True)
        (row_id,) = (await postings(database, "apple"))["apple"]
        assert row_id not in given
        given.add(row_id)
