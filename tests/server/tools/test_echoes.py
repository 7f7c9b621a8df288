"""What our own tools, resources and prompts say is no new evidence, in whatever shape a host stores it."""

import functools
import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from mcp.types import TextContent, TextResourceContents

from layerlore.memory.language.search_words import split_words
from layerlore.memory.parts import index_texts
from layerlore.memory.parts.message_shapes import parse_messages
from layerlore.memory.parts.own_parts import strip_parts
from layerlore.memory.parts.parts import searchable_text
from layerlore.memory.rules.validation import Limits
from layerlore.memory.text.own_tools import ARGUMENTS, TELLING
from layerlore.server.command_line.commands.reindex import run_reindex
from layerlore.server.tools.toolsets import DECLARATIONS
from layerlore.storage.index import lexical

from .calling import Json, Tools, text_of
from .sample_calls import SAMPLE_CALLS, make_small_world

pytestmark = pytest.mark.anyio

TOLD = [
    {
        "role": "user",
        "content": 'My zebra is called Quagga, it drinks "peppermint" tea at C:\\new\\barn in Graz.\n- and hums',
    },
    {"role": "assistant", "content": 'Noted: Quagga it is; see {"stable": [1]} for it.', "name": "Kim"},
    {"role": "user", "content": "Where does zebra Quagga drink?"},
]
PLAN = {"goal": "Feed the zebra Quagga", "steps": [{"description": "buy peppermint"}, {"description": "boil water"}]}
HERE = {"thread_id": "main"}
READS: tuple[tuple[str, Json], ...] = (
    ("recall_memory", {"query": "zebra Quagga peppermint"}),
    ("recall_memory", {"query": "zebra Quagga peppermint", "explain": True}),
    ("recall_memory", {"query": "zebra Quagga", "detail": "high", "neighbours": True}),
    ("recall_memory", {"query": "zebra Quagga", "max_tokens": 100}),
    ("recall_memory", {"query": "zebra Quagga", "kinds": ["entry"]}),
    ("recall_memory", {"query": "zebra Quagga", "format": "json"}),
    ("recall_memory", {"query": "xylophone quartet"}),
    ("recall_memory", {"query": "xylophone quartet", **HERE}),
    ("get_context", HERE),
    ("get_context", {"query": "zebra Quagga", "thread_id": "new"}),
    ("get_context", {"query": "zebra Quagga", "thread_id": "new", "format": "json"}),
    ("get_context", {**HERE, "max_tokens": 500}),
    ("get_context", {**HERE, "format": "json"}),
    ("get_context", {**HERE, "format": "openai"}),
    ("get_context", {**HERE, "format": "anthropic"}),
    ("get_messages", HERE),
    ("get_messages", {"since": "2020-01-01T00:00:00Z"}),
    ("get_messages", {**HERE, "limit": 1}),
    ("get_messages", {"thread_id": "other"}),
    ("get_messages", {**HERE, "format": "json"}),
    ("get_messages", {"since": "2020-01-01T00:00:00Z", "format": "json"}),
    ("get_working_memory", HERE),
    ("get_working_memory", {**HERE, "format": "json"}),
    ("get_working_memory", {"thread_id": "other"}),
    ("get_working_memory", {"scope": "resource"}),
    ("plan", {"action": "review", **HERE}),
    ("plan", {"action": "review", "format": "json", **HERE}),
    ("plan", {"action": "review", "thread_id": "other"}),
    ("plan", {"action": "list"}),
    ("plan", {"action": "list", "format": "json"}),
    ("get_briefing", {"task": "water the zebra Quagga", **HERE}),
    ("get_briefing", {"task": "water the zebra Quagga", "format": "json", **HERE}),
    ("list_threads", {}),
    ("list_all_threads", {}),
    ("list_steps", HERE),
    ("list_events", HERE),
    ("list_runs", {}),
    ("memory_status", {}),
    ("forget", {"query": "zebra Quagga"}),
)


@pytest.fixture
async def answers(all_tools: Tools) -> list[tuple[str, Json, str]]:
    """Answers of reading tools, resources and prompts about a small conversation: the tool, its arguments, the text. The
    tool of a resource is "", of a prompt too."""
    await all_tools.add("main", *TOLD)
    await all_tools("remember", content="Quagga the zebra drinks peppermint tea.")
    await all_tools("update_working_memory", content="zebra: Quagga", **HERE)
    await all_tools("update_working_memory", content="keeps the zebra Quagga", scope="resource")
    await all_tools("plan", action="create", plan=PLAN, **HERE)
    await all_tools("log_attempt", task_key="s1", action="bought peppermint", result="for Quagga", **HERE)
    found = [(tool, given, text_of(await all_tools.raw(tool, **given))) for tool, given in READS]
    for name in ("load_memory", "resume_work", "review_memory"):
        prompt = await all_tools.client.get_prompt(name, HERE if name != "review_memory" else None)
        for message in prompt.messages:
            assert isinstance(message.content, TextContent)
            found.append(("", {}, message.content.text))
    for uri in (
        "profile",
        "entries",
        "recall?query=zebra",
        "threads/main/messages",
        "threads/main/plan",
        "threads/main/session-memory",
    ):
        read = await all_tools.client.read_resource(f"memory://{uri}")
        (content,) = read.contents
        assert isinstance(content, TextResourceContents)
        found.append(("", {}, content.text))
        wrapped = {"contents": [content.model_dump(mode="json", by_alias=True, exclude_none=True)]}
        found.append(("", {}, json.dumps(wrapped)))
    return found


def index(messages: Any) -> list[str]:
    """The words by which these messages would be indexed in a thread of their own."""
    called: dict[str, Json] = {}
    found: list[str] = []
    for message in parse_messages(messages, Limits()):
        found += split_words(searchable_text(strip_parts(message.parts, called.values())))
        called |= {part["id"]: part for part in message.parts if part["type"] == "tool_call"}
    return found


PREFIXED = (
    *("mcp__layerlore__{}", "layerlore_{}", "layerlore.{}", "layerlore:{}", "mcp_layerlore_{}", "mcp--layerlore--{}"),
    *("@layerlore/{}", "layerlore___{}", "{}_mcp_layerlore", "functions.mcp__layerlore__{}"),
)


@pytest.mark.parametrize("prefixed", PREFIXED)
async def test_calls_and_results_are_known_by_the_name_a_host_gives_our_tools(prefixed: str) -> None:
    """The result says nothing of itself, and stands in another message than its call."""
    for tool in TELLING:
        name = prefixed.format(tool)
        call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": '{"query": "zebra"}'}}
        use = {"type": "tool_use", "id": "c1", "name": name, "input": {"query": "zebra"}}
        for messages in (
            [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "Quagga"},
            ],
            [
                {"role": "assistant", "content": [{"type": "text", "text": ""}, use]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "Quagga"}]},
            ],
            [
                {
                    "role": "tool",
                    "parts": [{"type": "tool_result", "tool_call_id": "c1", "name": name, "result": "Quagga"}],
                }
            ],
            [
                {
                    "role": "assistant",
                    "parts": [{"type": "tool_call", "id": "c1", "name": name, "arguments": {"q": "zebra"}}],
                },
                {"role": "tool", "parts": [{"type": "tool_result", "tool_call_id": "c1", "result": {"a": ["Quagga"]}}]},
            ],
            {"role": "assistant", "content": json.dumps({"tool_calls": [call]})},
        ):
            assert {"zebra", "quagga"}.isdisjoint(index(messages)), (name, messages)


OTHERS: tuple[tuple[str, Json, Any], ...] = (
    ("get_messages", {"channel": "ops", "limit": 5}, {"messages": [{"user": "ann", "text": "zebra"}]}),
    ("slack_get_messages", {"limit": 5}, [{"ts": "1.2", "text": "zebra"}]),
    ("mcp__gmail__list_threads", {"limit": 5}, {"threads": [{"id": "t", "snippet": "zebra"}]}),
    ("list_threads", {}, {"threads": [{"id": "t", "snippet": "zebra"}]}),
    ("plan", {"destination": "Graz", "days": 3}, {"plan": {"days": ["zebra"]}}),
    ("travel_plan", {"action": "create"}, "zebra"),
    ("floor_plan", {"action": "create"}, "zebra"),
    ("forget", {"branch": "x"}, "zebra"),
    ("mcp__vault__remember", {"content": "x"}, "zebra"),
    ("get_context", {"file": "a.py"}, "zebra"),
    ("gpu_memory_status", {}, {"status": "ok", "used": "zebra"}),
    ("resume_run", {"job": 3}, {"run_id": "r", "thread_id": "t", "status": "done", "assistant_id": "zebra"}),
    ("ci_status", {"job_id": "7"}, {"job_id": "7", "status": "zebra"}),
    ("create_branch", {"name": "plan"}, "zebra"),
    ("read_file", {"path": "notes.md"}, "# zebra\n#1 priority: buy hay\n> quoted\n- item (today)"),
    ("list_issues", {"repo": "zoo"}, "- #12 user story: feed the zebra\n- #13 user Ann: zebra\n#4: [thread 5]"),
    ("read_file", {"path": "a.xml"}, "<plan>\n  <value>\n    zebra\n  </value>\n</plan>"),
    ("get_thread", {}, {"thread_id": "t1", "messages": [{"from": "ann", "body": "zebra"}]}),
    ("web_search", {"query": "x"}, {"hits": [{"title": "zebra"}], "total": 1}),
)


@pytest.mark.parametrize(("tool", "given", "answer"), OTHERS)
async def test_another_servers_tool_of_the_same_name_stays_indexed(tool: str, given: Json, answer: Any) -> None:
    said = answer if isinstance(answer, str) else json.dumps(answer)
    call = {"id": "c1", "type": "function", "function": {"name": tool, "arguments": json.dumps(given)}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": said},
    ]
    words = index(messages)
    assert "zebra" in words
    assert set(split_words(tool)) <= set(words)
    assert index({"role": "user", "content": said}) == split_words(said)


def as_unknown_results(answer: str) -> Iterator[Any]:
    """Results of a call that nobody stored."""
    texts = [{"type": "text", "text": answer}]
    yield {"role": "tool", "tool_call_id": "c9", "content": answer}
    yield {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c9", "content": answer}]}
    yield {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c9", "content": texts}]}
    value = json.loads(answer) if answer.startswith("{") else answer
    for result in ({"content": texts}, {"result": answer}, [answer], {"structuredContent": {"result": value}}, value):
        yield {"role": "tool", "parts": [{"type": "tool_result", "tool_call_id": "c9", "result": result}]}


def as_text(answer: str) -> Iterator[Any]:
    """Text of a user, an assistant or a system, alone or among words of their own."""
    yield {"role": "user", "content": answer}
    yield {"role": "assistant", "content": f"I looked it up.\n\n{answer}"}
    yield {"role": "assistant", "content": f"I found:\n```\n{answer}\n```\nShall we?"}
    yield {"role": "system", "content": answer.replace("\n", "\r\n")}
    quoted = "\n".join(f"> {line}" for line in answer.split("\n"))
    yield {"role": "assistant", "content": f"Here:\n{quoted}\n\nSo much."}


def as_json_text(answer: str) -> Iterator[Any]:
    """What providers and SDKs write, stored as text."""
    texts = [{"type": "text", "text": answer}]
    name = "recall_memory"
    for item in (
        {"type": "function_call_output", "call_id": "c9", "output": answer},
        [
            {"type": "function_call", "call_id": "c9", "name": name, "arguments": '{"query": "zebra"}'},
            {"type": "function_call_output", "call_id": "c9", "output": "Quagga"},
        ],
        {
            "type": "mcp_call",
            "id": "m",
            "server_label": "layerlore",
            "name": "plan",
            "arguments": "{}",
            "output": answer,
        },
        {"type": "mcp_tool_result", "tool_use_id": "c9", "content": texts},
        {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"result": answer}}}]},
        {"role": "model", "parts": [{"functionCall": {"name": name, "args": {"query": "zebra"}}}]},
        {"type": f"tool-{name}", "toolCallId": "c9", "state": "output-available", "input": {}, "output": answer},
        {"type": "tool-result", "toolCallId": "c9", "toolName": name, "output": {"type": "text", "value": answer}},
        {"type": "tool", "name": name, "content": answer, "tool_call_id": "c9"},
        {"lc": 1, "id": ["langchain", "ToolMessage"], "kwargs": {"content": answer, "tool_call_id": "c9"}},
        {"toolResult": {"toolUseId": "c9", "content": [{"text": answer}]}},
        {"content": texts, "isError": False},
    ):
        yield {"role": "assistant", "content": json.dumps(item)}
        yield {"role": "assistant", "content": json.dumps(item, ensure_ascii=False, indent=2)}
        yield {"role": "user", "content": json.dumps({"body": json.dumps(item)})}
    yield {"role": "tool", "tool_call_id": "c9", "content": str(texts)}
    yield {"role": "tool", "tool_call_id": "c9", "content": f"[TextContent({texts[0]!r}, annotations=None)]"}
    yield {"role": "assistant", "content": f"It said {json.dumps(answer)} to me"}


async def test_an_answer_is_known_again_in_any_shape(answers: list[tuple[str, Json, str]]) -> None:
    """What is indexed of a message with it has no words but those of the same message with an empty answer."""

    def stored(text: str) -> list[Any]:
        return [*as_unknown_results(text), *as_text(text), *as_json_text(text)]

    leaked = []
    for tool, given, answer in answers:
        for messages, around in zip(stored(answer), stored(""), strict=True):
            told = set(index(messages)) - set(split_words(json.dumps(around).replace("\\n", " ")))
            if told:
                leaked.append((tool, given, messages, told))
    assert not leaked, f"{len(leaked)}: {leaked[0]}"


async def test_what_stands_around_an_answer_stays_indexed(answers: list[tuple[str, Json, str]]) -> None:
    for _, _, answer in answers:
        for messages in (*as_text(answer), *as_json_text(answer)):
            words = index(messages)
            for own in ("I looked it up", "Shall we", "So much", "It said"):
                if own in messages["content"]:
                    assert set(split_words(own)) <= set(words), messages


PERSONS_LINES = (
    "#12 user: the label printer must stay in the attic",
    "- #7 assistant: the label printer must stay in the attic",
    "> #3 [2026-03-04] user: the label printer must stay in the attic",
    "1. thread about the label printer in the attic, 2026-03-04 (today), score 3",
    "[thread of the label printer in the attic, 2026-03-04]",
    "[profile, 2026-03-04] the label printer must stay in the attic",
    "plan of thread attic (open): move the label printer",
)


@pytest.mark.parametrize("line", PERSONS_LINES)
async def test_a_line_that_only_looks_like_one_of_ours_is_found(tools: Tools, line: str) -> None:
    """Without the answer around it nothing says that it is not a person's own."""
    for thread, said in (("alone", line), ("among", f"Please note this:\n{line}\nThat is all.")):
        await tools.say(thread, said)
        assert "label printer" in await tools("recall_memory", query="label printer attic", thread_id=thread)


async def test_own_words_between_the_lines_of_a_pasted_answer_are_found(tools: Tools) -> None:
    await tools.say("work", "The printer is in the cellar.", "The printer needs blue ink.")
    answer = await tools("recall_memory", query="Where is the printer?")
    first, *rest = answer.split("\n")
    own = "No, that printer moved to the attic in June."
    for at in range(len(rest) + 1):
        await tools.say(f"pasted {at}", "\n".join([first, *rest[:at], own, *rest[at:]]))
        assert own in await tools("recall_memory", query="attic in June", thread_id=f"pasted {at}")


async def test_of_an_answer_that_a_host_cut_off_nothing_is_left(answers: list[tuple[str, Json, str]]) -> None:
    """It stands as plain text, and nothing says whose it is but its beginning."""
    for tool, given, answer in answers:
        if tool in ("recall_memory", "get_messages", "get_briefing") or given.get("format") == "json":
            for cut in range(130, len(answer), 37):
                left = index({"role": "user", "content": f"{answer[:cut]}"})
                assert {"zebra", "quagga", "peppermint"}.isdisjoint(left), (tool, given, answer[:cut])


FACT = "My zebra Quagga drinks peppermint tea."


@pytest.mark.databases
async def test_recalling_and_storing_the_answer_brings_no_second_hit(tools: Tools) -> None:
    """Each message is added on its own, as hosts do, in the shape of OpenAI or of Anthropic."""
    await tools.add("main", {"role": "user", "content": FACT, "id": "fact"})
    for thread in ("openai", "anthropic", "text"):
        for tool, given in READS[:5]:
            answer = text_of(await tools.raw(tool, **given))
            name = f"mcp__layerlore__{tool}"
            call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            use = {"type": "tool_use", "id": "c1", "name": name, "input": given}
            result = {"type": "tool_result", "tool_use_id": "c1", "content": f"{answer} cut off"}
            said: dict[str, list[Json]] = {
                "openai": [
                    {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "c1", "content": answer.replace("layerlore", "")},
                ],
                "anthropic": [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}],
                "text": [{"role": "assistant", "content": f"Let me see.\n\n{answer}\n\nHum."}],
            }
            for message in said[thread]:
                await tools.add(thread, message)
            hits = await tools.hits("zebra Quagga peppermint", kinds=["message"], limit=20)
            assert [hit["id"] for hit in hits] == ["fact"]


@pytest.mark.databases
async def test_what_was_indexed_of_echoes_before_is_cleaned_up_by_reindex(
    tools: Tools, settings_for: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "mcp__layerlore__plan", "arguments": "{}"}}
    await tools.add("main", {"role": "user", "content": FACT, "id": "fact"})
    recalled = await tools("recall_memory", query="zebra")
    with monkeypatch.context() as former:
        former.setattr(index_texts, "strip_parts", lambda parts, answered=(): list(parts))
        former.setattr(lexical, "TEXT_VERSION", lexical.TEXT_VERSION - 1)
        await tools.add("other", {"role": "assistant", "content": None, "tool_calls": [call]})
        await tools.add("other", {"role": "tool", "tool_call_id": "c1", "content": "zebra, peppermint"})
        await tools.add(
            "other", {"role": "assistant", "content": f"It says:\n{recalled}\nThe zebra it is.", "id": "own"}
        )
    assert len(await tools.hits("zebra peppermint", limit=20)) > 2
    reindexed = functools.partial(run_reindex, settings_for(), rebuild=False)
    assert await anyio.to_thread.run_sync(reindexed) == 0
    assert [hit["id"] for hit in await tools.hits("peppermint", limit=20)] == ["fact"]
    assert {hit["id"] for hit in await tools.hits("zebra", limit=20)} == {"fact", "own"}


async def test_every_tool_and_every_argument_of_ours_is_known() -> None:
    assert set(TELLING) == {each.name for each in DECLARATIONS}
    given = {each.name: set(inspect.signature(each.function).parameters) - {"call"} for each in DECLARATIONS}
    assert set().union(*given.values()) == ARGUMENTS
    assert all(telling <= given[tool] for tool, telling in TELLING.items())


async def test_whatever_a_tool_answers_is_known_again_without_its_call(all_tools: Tools) -> None:
    await make_small_world(all_tools)
    for tool, given in SAMPLE_CALLS.items():
        result = await all_tools.raw(tool, **given)
        if not result.is_error:
            assert index({"role": "tool", "tool_call_id": "c9", "content": text_of(result)}) == [], tool
