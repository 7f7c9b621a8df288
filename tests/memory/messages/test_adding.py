"""add_messages: the shapes it takes, ids sent again, all or nothing, and where messages go."""

import json
import re
from base64 import b64decode
from hashlib import sha256

import pytest

from layerlore.memory.parts.tokens import load_counter

from ...server.tools.calling import Connect, Tools, text_of

pytestmark = pytest.mark.anyio


PNG = "iVBORw0KGgo="
OPENAI = [
    {"role": "developer", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"image"}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
    {"role": "assistant", "content": "A cat."},
]
ANTHROPIC = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        ],
    },
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "image"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a cat"}]},
    {"role": "assistant", "content": "A cat."},
]
KEPT = [
    (
        "user",
        [
            {"type": "text", "text": "What is this?"},
            {
                "type": "image",
                "mime_type": "image/png",
                "bytes": len(b64decode(PNG)),
                "sha256": sha256(b64decode(PNG)).hexdigest(),
                "part": "{seq}.1",
            },
        ],
    ),
    ("assistant", [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": "image"}}]),
    ("tool", [{"type": "tool_result", "tool_call_id": "c1", "result": "a cat"}]),
    ("assistant", [{"type": "text", "text": "A cat."}]),
]


async def test_messages_come_back_in_order_with_ids_seqs_and_totals(tools: Tools) -> None:
    answer = await tools.add(
        "main",
        {"role": "user", "content": "I like green tea", "id": "m1", "name": "ana", "metadata": {"mood": ["calm", 1]}},
        {"role": "assistant", "content": "Noted."},
    )
    first, second = await tools.messages("main")
    assert answer["thread_id"] == "main"
    assert answer["messages"] == [
        {"id": "m1", "seq": 1, "status": "added"},
        {"id": second["id"], "seq": 2, "status": "added"},
    ]
    assert answer["totals"] == {"messages": 2, "tokens": first["tokens"] + second["tokens"]}
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", second["id"])
    assert (first["role"], first["name"], first["metadata"]) == ("user", "ana", {"mood": ["calm", 1]})
    assert first["parts"] == [{"type": "text", "text": "I like green tea"}]
    assert "masked" not in answer


@pytest.mark.parametrize("as_text", [False, True], ids=["a list", "a JSON string"])
@pytest.mark.parametrize(("sent", "skipped"), [(OPENAI, 1), (ANTHROPIC, 0)], ids=["OpenAI", "Anthropic"])
async def test_the_shapes_of_providers_become_the_same_messages(
    tools: Tools, sent: list[object], skipped: int, as_text: bool
) -> None:
    await tools("add_messages", messages=json.dumps(sent) if as_text else sent, thread_id="main")
    kept = [(message["role"], message["parts"]) for message in await tools.messages("main")]
    assert json.dumps(kept[skipped:]) == json.dumps(KEPT).replace("{seq}", str(skipped + 1))
    assert kept[:skipped] == [("system", [{"type": "text", "text": "Be brief."}])][:skipped]


async def test_what_get_messages_gives_can_be_added_again_as_it_is(tools: Tools) -> None:
    await tools.add("main", *OPENAI, {"role": "user", "content": "thanks", "metadata": {"k": 1}, "created_at": 10**12})
    read = await tools.messages("main")
    assert "give its `data`" in await tools.refused("add_messages", messages=read, thread_id="copy")
    pages = [json.loads(json.dumps(message)) for message in read]
    pages[1]["parts"][1]["data"] = PNG
    await tools.add("copy", *pages)
    kept = ("id", "seq", "role", "parts", "metadata", "said_at", "tokens")
    assert [{key: message.get(key) for key in kept} for message in await tools.messages("copy")] == [
        {key: message.get(key) for key in kept} for message in read
    ]


async def test_one_message_needs_no_list(tools: Tools) -> None:
    await tools("add_messages", messages={"role": "user", "content": "alone"}, thread_id="main")
    await tools("add_messages", messages='{"role":"user","content":"as a string"}', thread_id="main")
    assert await tools.texts("main") == ["alone", "as a string"]


async def test_an_id_sent_again_stays_as_it_is_and_where_it_is(tools: Tools) -> None:
    await tools.add("main", {"role": "user", "content": "one", "id": "m1"})
    totals = (await tools.say("main", "two"))["totals"]
    again = await tools.add("main", {"role": "user", "content": "one", "id": "m1"})
    assert again["messages"] == [{"id": "m1", "seq": 1, "status": "unchanged"}]
    assert again["totals"] == totals
    assert await tools.texts("main") == ["one", "two"]


async def test_other_text_under_a_known_id_is_refused_and_the_error_says_how_to_replace_it(tools: Tools) -> None:
    await tools.add("main", {"role": "user", "content": "one", "id": "m1"})
    error = await tools.refused(
        "add_messages", thread_id="main", messages=[{"role": "user", "content": "other", "id": "m1"}]
    )
    assert "'m1'" in error
    assert "replace=true" in error
    assert await tools.texts("main") == ["one"]


async def test_a_replaced_message_is_counted_and_indexed_anew_in_its_place(tools: Tools) -> None:
    await tools.add("main", {"role": "user", "content": "I play the violin", "id": "m1"})
    before = await tools.say("main", "unrelated")
    longer = "I play the cello, and have done so for twenty years"
    after = await tools.add("main", {"role": "user", "content": longer, "id": "m1"}, replace=True)
    assert after["messages"] == [{"id": "m1", "seq": 1, "status": "replaced"}]
    assert after["totals"]["messages"] == 2
    assert after["totals"]["tokens"] > before["totals"]["tokens"]
    assert after["totals"]["tokens"] == sum(message["tokens"] for message in await tools.messages("main"))
    assert await tools.texts("main") == [longer, "unrelated"]
    assert (await tools.found("cello"))[0] == longer
    assert await tools.found("violin") == []


async def test_one_bad_message_keeps_all_of_its_call_out(tools: Tools) -> None:
    await tools.add("main", {"role": "user", "content": "kept", "id": "m1"})
    for bad in (
        {"role": "user", "content": "other", "id": "m1"},
        {"role": "wizard", "content": "x"},
        {"role": "user", "content": "nul \x00"},
    ):
        await tools.refused("add_messages", thread_id="main", messages=[{"role": "user", "content": "first"}, bad])
    assert await tools.texts("main") == ["kept"]
    assert await tools.found("first") == []
    assert (await tools.say("main", "next"))["messages"][0]["seq"] == 2


async def test_the_first_message_makes_the_thread(tools: Tools) -> None:
    assert (await tools("list_threads"))["threads"] == []
    await tools.say("new", "hello")
    assert [row["thread_id"] for row in (await tools("list_threads"))["threads"]] == ["new"]


@pytest.mark.eras
async def test_calls_without_a_thread_share_one_session_thread_that_every_answer_names(connect: Connect) -> None:
    async with connect() as one, connect() as two:
        first = await one("add_messages", messages=[{"role": "user", "content": "hello"}])
        second = await one("add_messages", messages=[{"role": "assistant", "content": "hi"}])
        thread = first["thread_id"]
        assert thread == second["thread_id"] == (await one("get_messages", format="json"))["thread_id"]
        assert (await one("update_thread", title="Greeting"))["thread_id"] == thread
        assert (await one("delete_messages", which="last_turn"))["thread_id"] == thread
        assert (await two("add_messages", messages=[{"role": "user", "content": "x"}]))["thread_id"] != thread


@pytest.mark.eras
async def test_the_thread_is_the_argument_else_the_meta_else_the_launch(connect: Connect) -> None:
    hello = {"role": "user", "content": "hello"}
    meta = {"layerlore/thread": "meta"}
    async with connect(thread="launch") as tools:
        assert (await tools("add_messages", ids=True, messages=[hello]))["thread_id"] == "launch"
        assert (await tools("add_messages", ids=True, messages=[hello], meta=meta))["thread_id"] == "meta"
        assert (await tools("add_messages", ids=True, messages=[hello], meta=meta, thread_id="said"))[
            "thread_id"
        ] == "said"
        wrong = await tools.refused("add_messages", messages=[hello], meta={"layerlore/thread": 5})
        assert "layerlore/thread" in wrong


async def test_tokens_are_those_of_the_texts_and_of_each_image(tools: Tools) -> None:
    await tools.say("main", "hello world")
    await tools.add("main", {"role": "user", "content": [{"type": "image_url", "image_url": "https://x.test/a.png"}]})
    assert [message["tokens"] for message in await tools.messages("main")] == [2 + 4, 765 + 4]


async def test_an_answer_counts_in_few_tokens_and_gives_ids_where_they_are_asked_for(tools: Tools) -> None:
    turn = [{"role": "assistant", "content": "hello"}, {"role": "user", "content": "tea", "id": "mine"}]
    named = {"messages": turn, "thread_id": "main"}
    assert await tools("add_messages", idempotency_key="k", **named) == {"stored": 2, "seqs": "1-2"}
    assert await tools("add_messages", idempotency_key="k", **named) == {"stored": 2, "seqs": "1-2"}
    again = await tools("add_messages", messages=[*turn, {"role": "user", "content": "cake"}], thread_id="main")
    assert again == {"stored": 2, "seqs": "3, 2, 4", "unchanged": 1}
    changed = [{"role": "user", "content": "coffee", "id": "mine"}]
    assert (await tools("add_messages", messages=changed, thread_id="main", replace=True))["replaced"] == 1
    own = await tools.raw("add_messages", messages=turn[:1])
    assert own.structured_content is not None
    assert own.structured_content.keys() == {"stored", "seqs", "thread_id"}
    assert load_counter().text(text_of(own)) < 30
    whole = await tools("add_messages", messages=turn, thread_id="other", ids=True)
    assert [each["id"] for each in whole["messages"]][1] == "mine"
    assert whole["totals"]["messages"] == 2
