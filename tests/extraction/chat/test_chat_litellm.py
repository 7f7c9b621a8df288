"""The chat: litellm itself, against a server that answers as told and misbehaves in more than twenty ways."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from fake_openai import FakeOpenAI, fake_openai, misbehaviours, refusing, saying

from layerlore.extraction.chat.chat_port import ChatAnswer, ChatFailed, Models
from layerlore.extraction.chat.litellm_chat import LitellmChat
from layerlore.extraction.kinds.kind import MODEL_KINDS, Material

pytestmark = pytest.mark.anyio

LISTED = "openai/gpt-5.4-mini"
UNLISTED = "openai/a-model-of-ones-own"
SCHEMA = {
    "type": "object",
    "properties": {
        "entries": {
            "type": "array",
            "maxItems": 5,
            "items": {
                "type": "object",
                "properties": {"content": {"type": "string", "maxLength": 100}},
                "required": ["content"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["entries"],
    "additionalProperties": False,
}
GOOD = {"entries": [{"content": "Ada likes tea, {not} coffee"}]}
MATERIAL = Material(
    "Extract what is worth keeping.", '[{"role": "user", "text": "I like tea"}]', SCHEMA, "entries/1", None
)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with fake_openai(reply=GOOD) as server:
        yield server


def chat(fake: FakeOpenAI, model: str = LISTED, **options: Any) -> LitellmChat:
    chosen: dict[str, Any] = {"timeout_seconds": 20.0, "api_base": fake.url} | options
    return LitellmChat(Models(dict.fromkeys(MODEL_KINDS, model)), **chosen)


async def answered(request: LitellmChat) -> ChatAnswer:
    return await request.answer("entries", MATERIAL)


async def failure(request: LitellmChat) -> ChatFailed:
    with pytest.raises(ChatFailed) as caught:
        await answered(request)
    return caught.value


async def test_an_answer_comes_with_its_model_and_what_it_cost(fake: FakeOpenAI) -> None:
    answer = await answered(chat(fake))
    assert (answer.json, answer.model) == (GOOD, LISTED)
    sent = len(MATERIAL.instructions) + len(MATERIAL.content)
    assert (answer.usage.calls, answer.usage.input_tokens) == (1, sent // 4)
    assert answer.usage.cost_nano_usd == answer.usage.input_tokens * 750 + answer.usage.output_tokens * 4_500
    assert answer.usage.unpriced_calls == 0


async def test_material_is_sent_as_the_users_and_instructions_as_the_systems(fake: FakeOpenAI) -> None:
    await answered(chat(fake, max_answer_tokens=1000))
    (request,) = fake.requests
    assert request["messages"] == [
        {"role": "system", "content": MATERIAL.instructions},
        {"role": "user", "content": MATERIAL.content},
    ]
    assert request["max_completion_tokens"] == 1000


async def test_a_model_that_is_listed_gets_the_schema_from_its_provider_only(fake: FakeOpenAI) -> None:
    await answered(chat(fake))
    form = fake.requests[0]["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["strict"] is True
    items = form["json_schema"]["schema"]["properties"]["entries"]
    assert "maxItems" not in items
    assert items["items"]["required"] == ["content"]


async def test_a_model_that_nobody_lists_gets_it_in_words_too(fake: FakeOpenAI) -> None:
    answer = await answered(chat(fake, UNLISTED))
    assert (answer.json, answer.usage.unpriced_calls) == (GOOD, 1)
    (request,) = fake.requests
    assert json.dumps(SCHEMA) in request["messages"][0]["content"]
    assert request["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("model", [LISTED, UNLISTED])
async def test_a_server_that_refuses_the_schema_is_asked_in_words_from_then_on(fake: FakeOpenAI, model: str) -> None:
    fake.chat_faults.append(400)
    asked = chat(fake, model)
    assert (await answered(asked)).json == GOOD
    assert (await answered(asked)).json == GOOD
    assert ["response_format" in request for request in fake.requests] == [True, False, False]
    assert all(json.dumps(SCHEMA) in request["messages"][0]["content"] for request in fake.requests[1:])


async def test_a_server_that_breaks_at_the_schema_is_asked_in_words(fake: FakeOpenAI) -> None:
    broken = "1 validation error: {'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text'\"}"
    fake.chat_faults.append(refusing(500, broken))
    assert (await answered(chat(fake, UNLISTED))).json == GOOD
    assert ["response_format" in request for request in fake.requests] == [True, False]


# What becomes of an answer when the first request is misbehaved to: it is read all the same, it is there after a second
# request, or it fails with this text.
READ, AGAIN = "read", "again"
OUTCOMES = {
    "no answer": "no answer in time",
    "an answer that never ends": "no answer in 0.5 s",
    "closed without an answer": "no connection",
    "too many requests": "too many requests",
    "an error there": "an error there",
    "unavailable": "unavailable",
    "a key that is refused": "its key is missing or was refused",
    "a model that is not there": "no such model there",
    "a request that is refused": AGAIN,
    "no JSON": "an error there",
    "no choices": "its answer is empty",
    "nothing said": "its answer is empty",
    "null": "its answer is empty",
    "a refusal": "it refused to answer",
    "a content filter": "content filter",
    "cut off": "cut off",
    "cut off in silence": AGAIN,
    "in a fence": READ,
    "in prose": READ,
    "thoughts before it": READ,
    "without its last bracket": READ,
    "another shape": AGAIN,
    "a list": READ,
    "prose alone": AGAIN,
    "too long": "characters",
    "too deep": AGAIN,
    "NaN": AGAIN,
    "half a character": AGAIN,
    "nothing counted": READ,
}


@pytest.mark.parametrize(("name", "outcome"), OUTCOMES.items(), ids=OUTCOMES)
async def test_whatever_comes_is_an_answer_that_fits_or_a_failure_that_says_why(
    fake: FakeOpenAI, name: str, outcome: str
) -> None:
    ways = misbehaviours(fake)
    assert set(ways) == set(OUTCOMES)
    fake.chat_faults.append(ways[name])
    quick = name in ("no answer", "an answer that never ends")
    request = chat(fake, timeout_seconds=0.5 if quick else 20.0, grace=0.5)
    if outcome in (READ, AGAIN):
        answer = await answered(request)
        assert answer.json == GOOD
        assert len(fake.requests) == (1 if outcome == READ else 2)
        assert answer.usage.input_tokens > 0
    else:
        error = await failure(request)
        assert outcome in str(error)
        assert str(error).startswith(LISTED)
        assert error.retryable
        assert len(str(error)) <= 300
        assert len(fake.requests) == 1
        assert (await answered(request)).json == GOOD


@pytest.mark.parametrize("name", [name for name, outcome in OUTCOMES.items() if outcome == AGAIN])
async def test_what_stays_wrong_fails_after_two_requests_and_counts_both(fake: FakeOpenAI, name: str) -> None:
    fake.chat_faults.extend([misbehaviours(fake)[name]] * 9)
    error = await failure(chat(fake))
    assert len(fake.requests) == 2
    if name == "a request that is refused":
        assert (error.retryable, error.spent.calls) == (False, 0)
    else:
        assert "its answer cannot be used" in str(error)
        assert (error.retryable, error.spent.calls) == (True, 2)
        assert error.spent.input_tokens > 0


async def test_the_second_request_shows_the_model_its_answer_and_what_is_wrong_with_it(fake: FakeOpenAI) -> None:
    fake.replies.append({"entries": [{"content": 5, "mood": "Ada is sad"}]})
    await answered(chat(fake))
    *before, shown, request = fake.requests[1]["messages"]
    assert before == fake.requests[0]["messages"]
    assert json.loads(shown["content"]) == {"entries": [{"content": 5, "mood": "Ada is sad"}]}
    assert (shown["role"], request["role"]) == ("assistant", "user")
    assert "answer.entries[0].content: must be a string, not a number" in request["content"]
    assert "unknown key 'mood'" in request["content"]
    assert json.dumps(SCHEMA) in request["content"]


async def test_a_failure_repeats_nothing_of_what_the_model_wrote(fake: FakeOpenAI) -> None:
    fake.reply = {"entries": [{"content": ["Ada is sad"], "Ada is sad": 1}]}
    told = str(await failure(chat(fake)))
    assert told == f"{LISTED}: its answer cannot be used: it does not fit its schema at answer.entries[0].content"


async def test_limits_that_no_provider_enforces_are_enforced_here(fake: FakeOpenAI) -> None:
    fake.replies.append({"entries": [{"content": "x" * 101}]})
    assert (await answered(chat(fake))).json == GOOD
    assert "at most 100 characters" in fake.requests[1]["messages"][-1]["content"]


async def test_what_is_spent_before_a_second_request_fails_is_not_forgotten(fake: FakeOpenAI) -> None:
    fake.chat_faults.extend([saying("no"), 500])
    assert (await failure(chat(fake))).spent.calls == 1


@pytest.mark.parametrize(
    ("fault", "least", "most"),
    [
        (refusing(429, retry_after="7"), 7_000, 7_000),
        (refusing(429, retry_after="0.5"), 500, 500),
        (refusing(429, retry_after_ms="1500"), 1_500, 1_500),
        (refusing(503, retry_after="20"), 20_000, 20_000),
        (refusing(429, retry_after="Fri, 31 Dec 2999 23:59:59 GMT"), 3_600_000, 3_600_000),
        (refusing(429, retry_after="Fri, 31 Dec 1999 23:59:59 GMT"), 0, 0),
        (refusing(429, retry_after="999999999999"), 3_600_000, 3_600_000),
        (refusing(429, '{"retryDelay": "17.5s"}'), 17_500, 17_500),
    ],
)
async def test_the_time_that_a_provider_asks_for_is_passed_on(
    fake: FakeOpenAI, fault: Any, least: int, most: int
) -> None:
    fake.chat_faults.append(fault)
    waits = (await failure(chat(fake))).retry_after_ms
    assert waits is not None
    assert least <= waits <= most


@pytest.mark.parametrize("said", [{}, {"retry_after": "soon"}, {"retry_after": "nan"}])
async def test_without_a_time_that_can_be_read_none_is_passed_on(fake: FakeOpenAI, said: dict[str, str]) -> None:
    fake.chat_faults.append(refusing(429, **said))
    assert (await failure(chat(fake))).retry_after_ms is None


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (401, "its key is missing or was refused"),
        (402, "the account has no credit left"),
        (403, "its key may not use it"),
        (404, "no such model there"),
        (refusing(429, "insufficient_quota"), "the account has no credit left"),
    ],
)
async def test_what_no_job_could_do_anything_about_is_a_failure_of_the_setup(
    fake: FakeOpenAI, fault: Any, told: str
) -> None:
    fake.chat_faults.append(fault)
    error = await failure(chat(fake))
    assert (str(error), error.of_setup, error.retry_after_ms) == (f"{LISTED}: {told}", True, 300_000)


async def test_material_that_is_too_long_is_not_sent_again(fake: FakeOpenAI) -> None:
    fake.chat_faults.append(refusing(400, "This model's maximum context length is 10 tokens. context_length_exceeded"))
    error = await failure(chat(fake))
    assert (str(error), error.retryable, error.of_setup) == (f"{LISTED}: the material is too long for it", False, False)
    assert len(fake.requests) == 1


async def test_a_kind_without_a_model_asks_nobody(fake: FakeOpenAI) -> None:
    request = LitellmChat(Models({"title": LISTED}), api_base=fake.url)
    assert (request.model("title"), request.model("entries")) == (LISTED, "")
    assert str(await failure(request)) == "no model is set for entries"
    assert fake.requests == []


async def test_an_unknown_name_and_a_missing_key_are_told(fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "auto, none, or PROVIDER/MODEL" in str(await failure(chat(fake, "nonsense")))
    monkeypatch.delenv("OPENAI_API_KEY")
    error = await failure(chat(fake, LISTED, api_base=""))
    assert (str(error), error.of_setup) == (f"{LISTED}: its key is missing or was refused", True)
    assert fake.requests == []


async def test_the_key_is_the_one_that_is_set_else_the_providers_else_none_for_a_server_of_ones_own(
    fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    await answered(chat(fake, api_key="sk-set"))
    await answered(chat(fake))
    monkeypatch.delenv("OPENAI_API_KEY")
    await answered(chat(fake))
    assert fake.keys == ["sk-set", "sk-test", "none"]


async def test_a_key_in_an_error_reaches_the_log_only(fake: FakeOpenAI, caplog: pytest.LogCaptureFixture) -> None:
    fake.chat_faults.append(refusing(401, "Incorrect API key provided: sk-abc"))
    with caplog.at_level(logging.WARNING):
        assert "sk-" not in str(await failure(chat(fake)))
    assert "sk-abc" in caplog.text


async def test_who_is_cancelled_does_not_wait_for_the_model(fake: FakeOpenAI) -> None:
    request = chat(fake)
    await answered(request)
    fake.chat_faults.append(fake.hang)  # for a minute
    with anyio.fail_after(30), anyio.move_on_after(0.2) as scope:
        await answered(request)
    assert scope.cancelled_caught


async def test_answers_do_not_wait_for_each_other(fake: FakeOpenAI) -> None:
    request = chat(fake)
    await answered(request)
    fake.chat_faults.append(fake.hang)
    late: list[ChatAnswer] = []

    async def held() -> None:
        late.append(await answered(request))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(held)
        while fake.chat_faults:
            await anyio.sleep(0.005)
        assert (await answered(request)).json == GOOD
        assert late == []
        fake.closing.set()
    assert late[0].json == GOOD


async def test_requests_that_never_end_are_not_piled_up(fake: FakeOpenAI) -> None:
    request = chat(fake, timeout_seconds=0.5, grace=-0.4)
    await answered(chat(fake))
    fake.chat_faults.extend([misbehaviours(fake)["an answer that never ends"]] * 20)
    for _ in range(8):
        assert "no answer in 0.5 s" in str(await failure(request))
    error = await failure(request)
    assert str(error) == f"{LISTED}: 8 requests were given up and have not ended"
    assert error.retryable
    assert len(fake.requests) == 9
