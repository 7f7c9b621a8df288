"""Which policy a thread's window has."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.rules.validation import Limits
from layerlore.memory.window.policy import WindowPolicy, WindowRules, choose_policy, dump_policy, read_policy
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json, Thread

COUNTER, LIMITS = TokenCounter(None), Limits()
SHORT = WindowPolicy(limit="messages", max_messages=8)
RULES = WindowRules(WindowPolicy(limit="tokens"), {"short": SHORT})


def chosen(stored: str | None, rules: WindowRules = RULES) -> tuple[WindowPolicy, str]:
    return choose_policy(rules, Thread("u", "main", None, window_policy=stored), COUNTER, LIMITS)


def test_a_thread_without_a_policy_has_the_servers_default() -> None:
    assert chosen(None) == (RULES.default, "")
    assert choose_policy(WindowRules(), Thread("u", "main", None), COUNTER, LIMITS) == (WindowPolicy(), "")


def test_a_name_is_the_profile_that_has_it_now() -> None:
    assert chosen('"short"') == (SHORT, "")
    assert chosen('"default"') == (RULES.default, "")
    changed = WindowRules(named={"short": WindowPolicy(max_images=0)})
    assert chosen('"short"', changed) == (WindowPolicy(max_images=0), "")


def test_an_object_is_a_whole_policy_whatever_the_servers_default_is() -> None:
    assert chosen('{"limit":"observed"}') == (WindowPolicy(), "")
    assert chosen('{"limit":"messages","max_messages":8}') == (SHORT, "")


def test_where_the_configuration_lost_the_profile_the_default_serves_and_it_is_told() -> None:
    policy, why = chosen('"gone"')
    assert policy is RULES.default
    assert "unknown profile 'gone'; allowed: default, short" in why


@pytest.mark.parametrize(
    "stored",
    [
        *(
            "",
            "no JSON",
            "5",
            "null",
            "[]",
            '{"limit":"dreams"}',
            '{"colour":1}',
            '{"max_images":-1}',
            '{"target":900}',
        ),
        *('{"predefined":[{"role":"king","content":"x"}]}', '{"predefined":5}', "[" * 100_000),
    ],
)
def test_what_cannot_be_read_any_more_raises_nothing(stored: str) -> None:
    policy, why = chosen(stored)
    assert policy is RULES.default
    assert why.startswith("the server's default serves, since the thread's own cannot: ")
    assert "\n" not in why


def test_an_unknown_profile_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"^here: unknown profile 'shrot'; allowed: default, short; did you mean"):
        RULES.profile("shrot", "here")


def messages() -> Iterator[Json]:
    yield {"role": "user", "name": "Ana", "parts": [{"type": "text", "text": "hello"}]}
    yield {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": [1]}}]}
    yield {"role": "tool", "parts": [{"type": "tool_result", "tool_call_id": "c", "result": {"b": None}}]}
    yield {"role": "user", "parts": [{"type": "image", "url": "https://x.test/a.png"}]}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "limit": st.sampled_from(["observed", "messages", "tokens"]),
            "last_messages": st.integers(1, 99),
            "target": st.integers(1, 499),
            "drop": st.sampled_from(["oldest", "middle"]),
            "keep_first": st.integers(0, 20),
            "blank_tool_results": st.booleans(),
            "max_images": st.integers(0, 9),
            "summarise": st.booleans(),
            "summary_prompt": st.text("ab é", min_size=1).filter(str.strip),
            "predefined": st.lists(st.sampled_from(list(messages())), max_size=3),
        },
    )
)
def test_what_is_stored_is_the_policy_that_was_set(fields: Json) -> None:
    policy = read_policy(fields, "window", RULES.default, COUNTER, LIMITS, lambda parts: (parts, 0))
    assert chosen(to_json(dump_policy(policy))) == (policy, "")
    assert chosen(to_json(dump_policy(policy)), WindowRules(policy.model_copy(update={"max_images": 7}))) == (
        policy,
        "",
    )
