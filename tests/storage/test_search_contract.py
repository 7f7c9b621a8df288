"""The lexical index: which rows of a scope have which word, and what becomes of them as hits."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memstrata.storage import hits, search
from memstrata.storage.hits import Found
from memstrata.storage.records import ROLES, Scope
from memstrata.storage.search import scope_token
from memstrata.storage.transaction import Database, Tx

from .building import ANA, BEN, NOW, draft, examples, having, index_of, new_scope, only, say

pytestmark = pytest.mark.anyio

# What the searched text is made of: letters, marks and digits of any script.
words = st.text(
    st.characters(categories=["Ll", "Lo", "Lm", "Mn", "Mc", "Nd"], max_codepoint=0x2FFFF), min_size=1, max_size=12
)


async def postings(database: Database, *asked: str, scope: Scope = ANA, most: int = 100) -> dict[str, list[int]]:
    return await database.read(search.postings, scope, list(asked), most=most)


async def found(
    database: Database,
    word: str,
    *,
    scope: Scope = ANA,
    thread_id: str | None = None,
    since: int | None = None,
    until: int | None = None,
    roles: tuple[str, ...] = ROLES,
) -> list[str]:
    """The ids of the messages that have the word and pass the filters."""

    async def look(tx: Tx) -> dict[int, Found]:
        row_ids = (await search.postings(tx, scope, [word], most=100))[word]
        return await hits.matching(tx, scope, row_ids, thread_id=thread_id, since=since, until=until, roles=roles)

    return sorted(one.message.id for one in (await database.read(look)).values())


async def test_each_word_has_its_rows_the_newest_first(database: Database) -> None:
    await say(database, "one", draft("apple pear", id="a"), draft("pear", id="b"))
    await say(database, "two", draft("apple", id="c"))
    rows = await postings(database, "apple", "pear", "plum")
    assert [len(rows[word]) for word in ("apple", "pear", "plum")] == [2, 2, 0]
    assert all(row_ids == sorted(row_ids, reverse=True) for row_ids in rows.values())
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
    async def index(tx: Tx) -> None:
        await search.put(tx, scope, [search.Entry(thread_uid, 1, " ".join(stored))])

    scope = new_scope()
    made = await say(database, "main", draft(parts=[]), scope=scope)
    thread_uid = made.thread.thread_uid
    await database.write(index)
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


async def test_hits_are_narrowed_by_thread_role_and_time(database: Database) -> None:
    await say(
        database,
        "one",
        draft("apple", id="a", said_at=NOW),
        draft("apple", id="b", role="assistant", said_at=NOW + 10),
        draft("apple", id="c", said_at=NOW + 20),
    )
    await say(database, "two", draft("apple", id="d", said_at=NOW + 30))
    assert await found(database, "apple") == ["a", "b", "c", "d"]
    assert await found(database, "apple", thread_id="one") == ["a", "b", "c"]
    assert await found(database, "apple", thread_id="none") == []
    assert await found(database, "apple", roles=("assistant",)) == ["b"]
    assert await found(database, "apple", roles=("tool", "system")) == []
    assert await found(database, "apple", since=NOW + 10) == ["b", "c", "d"]
    assert await found(database, "apple", until=NOW + 10) == ["a", "b"]
    assert await found(database, "apple", since=NOW + 10, until=NOW + 20, roles=("user",)) == ["c"]
    assert await found(database, "apple", since=NOW + 20, until=NOW + 10) == []


async def test_times_are_compared_with_what_was_said_not_with_what_was_stored(database: Database) -> None:
    await say(database, "main", draft("pear", said_at=NOW), draft("apple", id="a", said_at=5_000))
    assert await found(database, "apple", until=5_000) == ["a"]
    assert await found(database, "apple", since=5_001) == []


async def test_a_hit_is_the_whole_message_with_its_thread(database: Database) -> None:
    made = await say(database, "main", draft("apple", id="a", metadata={"k": 1}))

    async def look(tx: Tx) -> list[Found]:
        row_ids = (await search.postings(tx, ANA, ["apple"], most=1))["apple"]
        matching = await hits.matching(tx, ANA, row_ids, thread_id=None, since=None, until=None, roles=ROLES)
        assert list(matching) == row_ids
        return list(matching.values())

    (one,) = await database.read(look)
    assert one.thread_uid == made.thread.thread_uid
    assert (one.message.thread_id, one.message.seq, one.message.id) == ("main", 1, "a")
    assert (one.message.parts, one.message.metadata) == ([{"type": "text", "text": "apple"}], {"k": 1})


async def test_the_size_counts_visible_messages_of_the_scope(database: Database) -> None:
    assert await database.read(search.size, ANA) == 0
    await say(database, "one", draft(), draft("!"))
    await say(database, "two", draft())
    await say(database, "one", draft(), scope=BEN)
    assert await database.read(search.size, ANA) == 3
