"""Arguments and values under the names of the systems that people come from."""

import pytest

from .calling import Connect, Json, Tools

pytestmark = pytest.mark.anyio

CHAT = [{"role": "user", "content": "I like green tea"}, {"role": "assistant", "content": "Green tea it is."}]
HERE = {"thread_id": "main"}

# A call under other names, and the same under ours.
SAME: list[tuple[str, Json, Json]] = [
    ("get_messages", {"conversationId": "main"}, HERE),
    ("get_messages", {"chat_id": "main"}, HERE),
    ("get_messages", {"sessionId": "main"}, HERE),
    ("get_messages", {"threadId": "main", "lastMessages": 1}, {**HERE, "limit": 1}),
    ("get_messages", {**HERE, "role": "human"}, {**HERE, "roles": ["user"]}),
    ("get_messages", {**HERE, "roles": "user"}, {**HERE, "roles": ["user"]}),
    ("get_messages", {**HERE, "roles": ["AI"]}, {**HERE, "roles": ["assistant"]}),
    ("get_messages", {**HERE, "maxTokens": 900, "detail": "full"}, {**HERE, "max_tokens": 900, "detail": "high"}),
    (
        "get_messages",
        {**HERE, "from": "2020-01-01", "to": "2020-02-01"},
        {**HERE, "since": "2020-01-01", "until": "2020-02-01"},
    ),
    ("recall_memory", {"query": "tea", "top_k": 1}, {"query": "tea", "limit": 1}),
    ("recall_memory", {"query": "tea", "topK": 1}, {"query": "tea", "limit": 1}),
    ("recall_memory", {"query": "tea", "semanticLimit": 1}, {"query": "tea", "limit": 1}),
    ("recall_memory", {"question": "tea", "semanticThreshold": 0.99}, {"query": "tea", "min_score": 0.99}),
    ("recall_memory", {"query": "tea", "type": "messages"}, {"query": "tea", "kinds": ["message"]}),
    ("recall_memory", {"q": "tea", "format": "markdown"}, {"query": "tea", "format": "text"}),
    ("get_context", {**HERE, "search": "tea", "format": "ai_sdk"}, {**HERE, "query": "tea", "format": "ai-sdk"}),
    ("get_working_memory", {"scope": "user"}, {"scope": "resource"}),
    ("get_working_memory", {**HERE, "scope": "conversation"}, {**HERE, "scope": "thread"}),
    ("list_threads", {"orderBy": "createdAt"}, {"order_by": "created_at"}),
    ("list_runs", {"status": "success"}, {"status": ["completed"]}),
    ("list_runs", {"status": ["waiting", "canceled"]}, {"status": ["suspended", "cancelled"]}),
    ("list_runs", {"workflowId": "w"}, {"workflow_id": "w"}),
    ("list_events", {**HERE, "type": "messages_added"}, {**HERE, "types": ["messages_added"]}),
]


async def test_a_call_may_use_the_names_of_another_system(connect: Connect) -> None:
    async with connect(toolsets="all") as tools:
        await tools.add("main", *CHAT)
        for tool, theirs, ours in SAME:
            assert await tools(tool, **theirs) == await tools(tool, **ours), (tool, theirs)


async def test_writes_take_the_names_of_another_system(connect: Connect) -> None:
    async with connect(toolsets="all") as tools:
        await tools("add_messages", message=CHAT, conversation_id="main")
        await tools("update_working_memory", text="Likes tea", scope="user", mode="set")
        assert "Likes tea" in await tools("get_working_memory", scope="resource")
        await tools("update_thread", name="Tea", conversationId="main")
        assert (await tools("list_threads"))["threads"][0]["title"] == "Tea"
        await tools("suspend_run", runId="r", checkpoint={"step": 1}, threadId="main")
        resumed = await tools("resume_run", runId="r", resumeData={"approved": True})
        ended = await tools("complete_run", runId="r", claim=resumed["claim"], status="success", result="done")
        assert ended["status"] == "completed"
        deleted = await tools("delete_messages", mode="by_latest", role="assistant", threadId="main")
        assert deleted["deleted"] == 1


# A call that cannot be made as it stands, and what the error names.
ELSEWHERE: list[tuple[str, Json, str]] = [
    ("recall_memory", {"query": "x", "offset": 5}, "'offset'; use limit"),
    ("list_threads", {"offset": 5}, "'offset'; use cursor"),
    ("list_runs", {"skip": 5}, "'skip'; use cursor"),
    ("get_messages", {"userId": "ana"}, "'userId'; no argument names a user or an agent"),
    ("get_context", {"resource_id": "ana"}, "no argument names a user or an agent"),
    ("recall_memory", {"query": "x", "agentId": "a"}, "no argument names a user or an agent"),
    ("plan", {"action": "create", "goal": "x"}, "'goal'; it is a key inside plan"),
    ("plan", {"action": "update", "currentPhase": "x"}, "'currentPhase'; it is a key inside plan"),
    ("plan", {"action": "update", "steps": []}, "'steps'; it is a key inside plan"),
    ("add_messages", {"messages": [], "role": "user"}, "'role'; it is a key of a message"),
    ("add_messages", {"messages": [], "historyIds": []}, "'historyIds'; it is a key inside messages"),
    ("update_working_memory", {"content": "x", "template": "y"}, "'template'; it is a setting"),
    ("update_thread", {"trimMode": "threshold"}, "'trimMode'; it is a key inside window"),
    ("get_context", {"trim_mode": "threshold"}, "update_thread(window={...})"),
    ("list_threads", {"direction": "asc"}, "'direction'; use descending"),
    ("resume_run", {"run_id": "r", "approved": True}, 'use data={"approved": true}'),
    ("recall_memory", {"query": "x", "limit": 2, "top_k": 3}, "it is the same as limit, which is given, too"),
]


async def test_an_argument_that_is_something_else_here_is_refused_with_its_counterpart(connect: Connect) -> None:
    async with connect(toolsets="all") as tools:
        for tool, arguments, told in ELSEWHERE:
            error = await tools.refused(tool, **arguments)
            assert told in error, (tool, arguments)
            assert "has no argument" in error


async def test_a_value_without_a_counterpart_is_refused_with_what_is_allowed(tools: Tools) -> None:
    assert "scope: Input should be 'thread' or 'resource'" in await tools.refused("get_working_memory", scope="team")
    assert "roles: unknown role 'narrator'" in await tools.refused("get_messages", roles="narrator", **HERE)
