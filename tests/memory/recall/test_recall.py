"""recall_memory: what is found, in which order, and what narrows it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layerlore.memory.recall.recall_text import ADVICE, NEWEST, NOTHING, UNSURE

from ...server.tools.calling import TEXTS, Connect, Json, Tools, examples

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

FORMS = [
    ("I was running along the river", "did she run?"),
    ("She owns three dogs", "dog"),
    ("We had been planning the wedding", "wedding plans"),
    ("Mi café favorito está en Bogotá", "cafe bogota"),
    ("the cafe in Bogota", "CAFÉ, Bogotá!"),
    ("Die Straße nach Köln", "strasse koln"),
    ("İstanbul is lovely", "istanbul"),
    ("Ελλάδα το καλοκαίρι", "ελλαδα"),
    ("Ёлка в лесу", "елка"),
    ("我喜欢喝绿茶", "绿茶"),
    ("私はコーヒーが好きです", "コーヒー"),
    ("私はｺｰﾋｰが好きです", "コーヒー"),
    ("서울에 살고 있어요", "서울에"),
    ("ฉันชอบชาเขียว", "ชาเขียว"),
    ("मुझे चाय पसंद है", "चाय"),
    ("Set MAX_TOKENS to 4096 in config.yaml", "max tokens"),
    ("deployed v2.14.3 on host-7", "2.14.3"),
    ("I write C++ and Rust", "C++"),
    ("ﬁne print, full ＷＩＤＴＨ", "fine width"),
]


async def test_a_message_is_found_by_its_words_in_other_forms(tools: Tools) -> None:
    for number, (said, asked) in enumerate(FORMS):
        await tools.say(f"thread {number}", "something else altogether", said, "tout autre chose")
        assert (await tools.found(asked, thread_id=f"thread {number}"))[0] == said, asked


async def test_function_words_find_nothing_beside_words_that_tell(tools: Tools) -> None:
    await tools.say("clock", "what is the time when you are there")
    await tools.say("main", "my sister plays tennis")
    assert await tools.found("what is it that my sister is playing when she is there?") == ["my sister plays tennis"]


async def test_a_query_of_function_words_only_still_looks_for_them(tools: Tools) -> None:
    await tools.say("main", "to be or not to be")
    await tools.say("other", "green tea")
    assert await tools.found("to be or not to be") == ["to be or not to be"]


async def test_rare_words_and_more_words_rank_higher_and_ties_go_to_the_newer(tools: Tools) -> None:
    await tools.say("main", "tea at noon", "tea with saffron", "tea at night", "tea and cake", "cake alone")
    found = await tools.found("saffron tea")
    assert found[:4] == ["tea with saffron", "tea and cake", "tea at night", "tea at noon"]
    assert (await tools.found("cake tea"))[0] == "tea and cake"


async def test_nothing_relevant_is_an_answer(tools: Tools) -> None:
    await tools.say("main", "green tea")
    assert await tools("recall_memory", query="submarine") == f"{NOTHING} {ADVICE}"
    assert await tools("recall_memory", query="submarine") == NOTHING
    assert await tools("recall_memory", query="submarine", format="json") == {"hits": [], "signals": ["lexical"]}
    assert await tools("recall_memory", query="?!") == "Nothing relevant is remembered about this."


async def test_an_empty_memory_says_so_and_advises_no_other_words(tools: Tools) -> None:
    assert await tools("recall_memory", query="green tea") == f"{NOTHING} This memory is empty."
    await tools.say("main", "green tea")
    assert await tools("recall_memory", query="submarine") == f"{NOTHING} {ADVICE}"


async def test_a_hit_comes_with_two_messages_before_and_one_after(tools: Tools) -> None:
    await tools.say("main", "zero", "one", "two", "the violin", "four", "five")
    await tools.say("other", "elsewhere")
    (hit,) = await tools.hits("violin", limit=1, neighbours=True)
    assert [message["text"] for message in hit["before"]] == ["one", "two"]
    assert [message["text"] for message in hit["after"]] == ["four"]
    (first,) = await tools.hits("zero", limit=1, neighbours=True)
    assert "before" not in first
    (bare,) = await tools.hits("violin", limit=1)
    assert bare.keys() == {"kind", "thread_id", "id", "seq", "role", "text", "said_at", "age", "score"}


async def test_the_best_hits_come_with_the_answer_and_the_question_that_they_need(tools: Tools) -> None:
    said = ("the weather is fine", "which violin do you play on Sundays?", "one from Cremona", "the sun shines")
    await tools.add("main", *({"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)))
    asked = ({"role": "assistant", "content": "do you like bicycles?"}, {"role": "user", "content": "a violin, twice"})
    await tools.add("other", *asked)
    lines = (await tools("recall_memory", query="violin")).splitlines()
    assert "  #3 user: one from Cremona" in lines
    assert "  #1 assistant: do you like bicycles?" in lines
    assert not any("weather" in line or "sun shines" in line for line in lines)
    assert all("before" not in hit and "after" not in hit for hit in await tools.hits("violin"))


async def test_neighbours_of_a_hit_are_the_nearest_that_are_left(tools: Tools) -> None:
    await tools.say("main", "zero", "one", "two", "the violin", "four", "five")
    page = await tools.messages("main")
    await tools("delete_messages", thread_id="main", which="ids", ids=[page[2]["id"], page[4]["id"]])
    (hit,) = await tools.hits("violin", limit=1, neighbours=True)
    assert [message["text"] for message in hit["before"]] == ["zero", "one"]
    assert [message["text"] for message in hit["after"]] == ["five"]
    hits = await tools.hits("violin zero", limit=2, neighbours=True)
    told = [each["text"] for one in hits for each in (*one.get("before", ()), one, *one.get("after", ()))]
    assert sorted(told) == ["five", "one", "the violin", "zero"]


async def test_what_was_said_around_a_short_message_finds_it_too(tools: Tools) -> None:
    await tools.say("main", "Tom has found the violin", "yes, twice", *(f"filler {number}" for number in range(9)))
    found = await tools.found("violin")
    assert found[0] == "Tom has found the violin"
    assert sorted(found[1:]) == ["filler 0", "yes, twice"]
    await tools.add("bot", {"role": "user", "content": "a cello"}, {"role": "assistant", "content": "yes, thrice"})
    assert await tools.found("cello") == ["a cello"]


async def test_an_answer_that_may_not_be_about_the_query_is_marked_and_shown(tools: Tools) -> None:
    await tools.say("main", *(f"we talked about the garden and plan {number}" for number in range(30)))
    asked = "what garden gnome licence did the mayor of Vladivostok sign yesterday?"
    text = await tools("recall_memory", query=asked)
    assert UNSURE in text
    assert text.count("we talked about the garden") == 30
    answer = await tools("recall_memory", query=asked, format="json", limit=3)
    assert (len(answer["hits"]), answer["confidence"], "held_back" in answer) == (3, "unsure", False)


async def test_more_words_that_match_never_find_less(tools: Tools) -> None:
    await tools.say(
        "main", "I have two allergies: penicillin and nuts.", *(f"the day was long {at}" for at in range(20))
    )
    for asked in (
        "allergies",
        "hospital allergies medication",
        "Is there anything about allergies in case of hospital?",
    ):
        assert (await tools.found(asked))[0] == "I have two allergies: penicillin and nuts.", asked


async def test_what_was_just_said_is_found_on_the_same_connection(tools: Tools) -> None:
    own = {"layerlore/thread": "own"}
    said = "My cat is called Mila and I work as a nurse in Graz."
    await tools("add_messages", messages=[{"role": "user", "content": said}], meta=own)
    assert said in await tools("recall_memory", query="What is my cat called?", meta=own)


async def test_a_place_that_is_named_is_never_empty(diary: Tools) -> None:
    text = await diary("recall_memory", query="What is the state of this case?", thread_id="spring")
    assert NEWEST in text
    assert text.index("tea in march") < text.index("tea in april")
    assert "july" not in text
    answer = await diary("recall_memory", query="zebra", since="2024-04-01", limit=1, format="json")
    assert [hit["text"] for hit in answer["hits"]] == ["tea in july"]
    assert (answer["confidence"], answer["note"]) == ("nothing", NEWEST)
    assert await diary("recall_memory", query="zebra", since="2025-01-01") == NOTHING


async def test_a_bound_of_the_call_holds_back_hits_that_score_less_and_counts_them(tools: Tools) -> None:
    await tools.say("main", "green tea with lemon", "tea at noon", "a violin lesson", "my green bicycle")
    every = await tools("recall_memory", query="green tea with lemon", format="json", min_score=0.0001)
    scores = [hit["score"] for hit in every["hits"]]
    assert len(scores) > 1
    bound = (scores[0] + scores[1]) / 2
    answer = await tools("recall_memory", query="green tea with lemon", format="json", min_score=bound)
    assert [hit["score"] for hit in answer["hits"]] == scores[:1]
    assert answer["held_back"] == every.get("held_back", 0) + len(scores) - 1
    told = await tools("recall_memory", query="green tea with lemon", min_score=bound)
    assert f"held back below the floor: {answer['held_back']}" in told
    nothing = await tools("recall_memory", query="green tea with lemon", format="json", min_score=1)
    assert (nothing["hits"], nothing["held_back"]) == ([], answer["held_back"] + 1)
    refused = await tools.refused("recall_memory", query="tea", min_score=1.5)
    assert "min_score: Input should be less than or equal to 1" in refused


async def test_an_operator_can_set_a_floor(connect: Connect) -> None:
    asked = "what garden gnome licence did the mayor of Vladivostok sign yesterday?"
    async with connect(embedding={"embedder": "none"}, recall={"floor": 0.25}) as tools:
        await tools.say("main", "the garden")
        answer = await tools("recall_memory", query=asked)
        assert answer == f"{NOTHING}\n[held back below the floor: 1; signals: lexical] {ADVICE}"
        (hit,) = await tools.hits(asked, min_score=1e-12)
        assert 0 < hit["score"] < 0.25


async def test_scores_are_shares_and_descend(tools: Tools) -> None:
    for number, text in enumerate(("green tea with saffron", "green tea", "black tea", "saffron")):
        await tools.say(f"thread {number}", text)
    scores = [hit["score"] for hit in await tools.hits("green tea saffron")]
    assert len(scores) > 1
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


async def test_a_hit_says_where_it_is_who_said_it_and_when(tools: Tools) -> None:
    message: Json = {"role": "assistant", "name": "bot", "content": "a violin", "id": "m1", "created_at": "2024-03-15"}
    await tools.add("main", message)
    (hit,) = await tools.hits("violin")
    assert (hit["kind"], hit["thread_id"], hit["id"], hit["seq"]) == ("message", "main", "m1", 1)
    assert (hit["role"], hit["name"], hit["said_at"]) == ("assistant", "bot", "2024-03-15T00:00:00.000Z")
    assert hit["age"].endswith(" ago")
    text = await tools("recall_memory", query="violin")
    assert "[thread main, 2024-03-15]\n#1 assistant bot: a violin\n" in text


async def test_messages_are_found_by_their_speaker_tools_and_files_too(tools: Tools) -> None:
    call = {"id": "c1", "function": {"name": "book_flight", "arguments": '{"to":"Reykjavik"}'}}
    await tools.add("main", {"role": "user", "name": "Xanthippe", "content": "hello"})
    await tools.add("main", {"role": "assistant", "content": "", "tool_calls": [call]})
    await tools.add("main", {"role": "tool", "tool_call_id": "c1", "content": '{"seat":"window"}'})
    await tools.add("main", {"role": "user", "content": "see", "files": [{"file_name": "invoice.pdf"}]})
    for asked, seq in (("xanthippe", 1), ("reykjavik", 2), ("flight", 2), ("window", 3), ("invoice", 4)):
        assert [hit["seq"] for hit in await tools.hits(asked)] == [seq]


@pytest.fixture
async def diary(tools: Tools) -> Tools:
    """The same words, said at different times, by different roles, in different threads."""
    await tools.add(
        "spring",
        {"role": "user", "content": "tea in march", "created_at": "2024-03-15T09:00:00Z"},
        {"role": "assistant", "content": "tea in april", "created_at": "2024-04-15T09:00:00Z"},
    )
    await tools.add("summer", {"role": "user", "content": "tea in july", "created_at": "2024-07-15T09:00:00Z"})
    return tools


async def test_since_and_until_narrow_by_when_it_was_said(diary: Tools) -> None:
    assert await diary.found("tea", since="2024-04-01") == ["tea in july", "tea in april"]
    assert await diary.found("tea", until="2024-04-15T09:00:00Z") == ["tea in march", "tea in april"]
    assert await diary.found("tea", since="2024-04-15T09:00:00Z", until="2024-04-15T09:00:00Z") == ["tea in april"]
    assert await diary.found("tea", since="2024-04-15T09:00:00.001Z", until="2024-07-15T08:59:59Z") == []
    assert "since" in await diary.refused("recall_memory", query="tea", since="yesterday")


async def test_a_thread_that_is_not_there_is_an_error_and_the_own_one_never_is(connect: Connect) -> None:
    async with connect(thread="mine") as tools:
        await tools.say("summer", "tea in july")
        assert "there is no thread 'nope'; list_threads shows" in await tools.refused(
            "recall_memory", query="tea", thread_id="nope"
        )
        assert await tools.found("tea", thread_id="mine") == []
        await tools("delete_thread", thread_id="summer")
        assert "there is no thread 'summer'" in await tools.refused("recall_memory", query="tea", thread_id="summer")
    async with connect(resource="ben") as other:
        assert "there is no thread 'mine'" in await other.refused("recall_memory", query="tea", thread_id="mine")


async def test_a_date_alone_means_the_whole_day(diary: Tools) -> None:
    assert await diary.found("tea", since="2024-04-15", until="2024-04-15") == ["tea in april"]
    assert await diary.found("tea", until="20240314") == []
    assert await diary.found("tea", until="20240315") == ["tea in march"]


async def test_roles_threads_and_kinds_narrow_the_hits(diary: Tools) -> None:
    assert await diary.found("tea", roles=["assistant"]) == ["tea in april"]
    assert await diary.found("tea", thread_id="summer") == ["tea in july"]
    assert await diary.found("tea", kinds=["entry"]) == []
    assert len(await diary.found("tea", kinds=["message"])) == 3
    assert "kinds" in await diary.refused("recall_memory", query="tea", kinds=["rumour"])


async def test_the_limit_is_how_many_hits_there_are_filtered_ones_not_counted(tools: Tools) -> None:
    await tools.say("many", *(f"tea {number}" for number in range(60)))
    await tools.add("main", {"role": "assistant", "content": "tea of old"})
    await tools.say("many", *(f"tea {number}" for number in range(60, 90)))
    assert len(await tools.found("tea")) == 50
    assert len(await tools.found("tea", limit=5)) == 5
    assert await tools.found("tea", limit=1) == ["tea 89"]
    assert len(await tools.found("tea", limit=100)) == 91
    assert await tools.found("tea", thread_id="main", limit=2) == ["tea of old"]
    assert await tools.found("tea", roles=["assistant"]) == ["tea of old"]
    for limit in (-1, 101):
        assert "limit" in await tools.refused("recall_memory", query="tea", limit=limit)


async def test_several_queries_are_one_answer_with_each_hit_once(tools: Tools) -> None:
    for number, text in enumerate(("the violin", "the cello", "the violin and the cello", "drums")):
        await tools.say(f"thread {number}", text)
    found = await tools.found("violin", queries=["cello", "viola"])
    assert sorted(found) == ["the cello", "the violin", "the violin and the cello"]
    assert await tools.found("", queries=["drums"]) == ["drums"]
    assert len(await tools.found("violin", queries=["a1", "b2", "c3", "d4"])) == 2
    error = await tools.refused("recall_memory", query="violin", queries=["a1", "b2", "c3", "d4", "e5"])
    assert "at most 5" in error


async def test_a_query_that_comes_again_among_the_queries_counts_once(tools: Tools) -> None:
    await tools.say("main", "the violin")
    assert await tools.found("violin", queries=["violin", "a1", "b2", "c3", "d4", "violin"]) == ["the violin"]


async def test_people_whose_names_are_function_words_are_found(tools: Tools) -> None:
    for number, text in enumerate(("Will bought a boat", "Don bought a car", "she bought a house")):
        await tools.say(f"thread {number}", text)
    assert (await tools.found("What has Will bought?"))[0] == "Will bought a boat"
    assert (await tools.found("What had Don bought?"))[0] == "Don bought a car"


async def test_a_query_is_needed(tools: Tools) -> None:
    empties: list[Json] = [{}, {"query": ""}, {"query": "  \n"}, {"queries": []}, {"queries": [" "]}]
    for empty in empties:
        assert (await tools.refused("recall_memory", **empty)).startswith("query: ")
    for text in ("a\x00b", "\ud83d"):
        await tools.refused("recall_memory", query=text)


@examples(40)
@given(
    said=TEXTS.filter(bool),
    asked=TEXTS.filter(lambda text: text.strip())
    | st.from_regex(r"[\"'():^*+~ a-z]*[a-z][\"'():^*+~ a-z]*", fullmatch=True),
)
@example(said="C++ (a) OR b", asked='C++ AND "unclosed OR NEAR(a b, 5) NOT title:x ^y* col:"z" - {a b} \\ % _')
@example(said="it's", asked="it's a 'b' & c | !d <-> e:*")
@example(said="👩‍👩‍👧 🇩🇪", asked="👩‍👩‍👧 🇩🇪 ¿?")
@example(said="\u0301\u0f39\u094d", asked="\u0301 \u0f39 \u094d")
@example(said="﷽ ﷺ", asked="ﷺ")
async def test_every_text_can_be_said_and_asked(tools: Tools, said: str, asked: str) -> None:
    await tools.say("main", said)
    await tools.hits(asked[:500])
    await tools.raw("recall_memory", query=said[:500])
    assert isinstance(await tools("recall_memory", query=asked[:500], explain=True), str)


@examples(25)
@given(word=st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12), thread=st.uuids())
async def test_every_word_said_is_found_by_itself(tools: Tools, word: str, thread: object) -> None:
    await tools.say(str(thread), f"zzz {word} yyy")
    assert (await tools.found(word, thread_id=str(thread)))[0] == f"zzz {word} yyy"


async def test_a_long_message_leaves_room_for_others(tools: Tools) -> None:
    await tools.say("main", "the violin is from Cremona", "a violin concert", "we sold a violin")
    await tools.say("lessons", *["violin lessons with scales and etudes, twice a week. " * 700] * 2)
    found = await tools.hits("violin", limit=5)
    assert {hit["thread_id"] for hit in found} == {"main", "lessons"}
    assert len(found) == 5


async def test_only_the_question_itself_is_no_hit(tools: Tools) -> None:
    await tools.say("trip", "My cat Mila was born in a lighthouse.", "The weather was fine.")
    own = {"layerlore/thread": "own"}
    asked = "Please look up the birthplace of my cat Mila"
    for role, text in (("user", "Mila loves fish."), ("user", asked), ("assistant", "Mila the cat, let me see.")):
        await tools("add_messages", messages=[{"role": role, "content": text}], meta=own)
    for thread in ("own", "other"):
        meta = {"layerlore/thread": thread}
        answer = await tools("recall_memory", query=asked, format="json", meta=meta)
        shown = [hit["text"] for hit in answer["hits"]]
        assert {"My cat Mila was born in a lighthouse.", "Mila loves fish.", "Mila the cat, let me see."} <= set(shown)
        assert asked not in shown
