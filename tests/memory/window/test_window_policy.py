"""The window's policy: what may be set, what cannot be had together, and how it is written down."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.rules.validation import Limits
from layerlore.memory.settings.context_settings import SUMMARY_PROMPT
from layerlore.memory.window.policy import NAMES, WindowPolicy, check_policy, dump_policy, read_policy
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.records import Json

from ..window_threads import ROUGH, policies

PLAIN = WindowPolicy()
LIMITS = Limits()


def unmasked(parts: list[Json]) -> tuple[list[Json], int]:
    return parts, 0


def read(raw: object, base: WindowPolicy = PLAIN, limits: Limits = LIMITS) -> WindowPolicy:
    return read_policy(raw, "window", base, ROUGH, limits, unmasked)


def test_the_defaults_are_those_of_the_seed() -> None:
    assert check_policy(PLAIN) is PLAIN
    assert (PLAIN.limit, PLAIN.last_messages, PLAIN.trim, PLAIN.drop) == ("observed", 20, "continuous", "oldest")
    assert (PLAIN.max_messages, PLAIN.threshold, PLAIN.target) == (20, 500, 100)
    assert (PLAIN.max_tokens, PLAIN.min_messages, PLAIN.max_images) == (2000, 0, 1)
    assert (PLAIN.blank_tool_results, PLAIN.summarise, PLAIN.predefined) == (False, False, ())
    assert PLAIN.summary_prompt == SUMMARY_PROMPT


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"threshold": 100, "target": 100}, ("target", "threshold", "below", "100")),
        ({"threshold": 50}, ("target", "threshold")),
        ({"limit": "messages", "drop": "middle", "max_messages": 3, "keep_first": 4}, ("keep_first", "max_messages")),
        (
            *({"limit": "messages", "trim": "threshold", "drop": "middle", "target": 3, "keep_first": 4},),
            ("keep_first", "target", "at most"),
        ),
        ({"trim": "threshold"}, ("trim", "limit", '"messages"', "continuous")),
        ({"limit": "tokens", "trim": "threshold"}, ("trim", "limit")),
        (
            {"limit": "tokens", "summarise": True, "max_tokens": 200, "summary_tokens": 200},
            ("summary_tokens", "max_tokens", "below"),
        ),
    ],
)
def test_what_cannot_be_had_together_is_refused_by_both_names(given: Json, names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_policy(WindowPolicy(**given))
    assert all(name in str(refused.value) for name in names), refused.value
    with pytest.raises(InvalidInput, match=r"^window: "):
        read(given)


@pytest.mark.parametrize(
    "given",
    [
        {"limit": "messages", "drop": "middle", "max_messages": 2, "keep_first": 2},
        {"limit": "messages", "max_messages": 1},  # two are kept first, but only of what is dropped in the middle
        {"limit": "tokens", "drop": "middle", "max_messages": 1},
        {"limit": "tokens", "max_tokens": 100},
        {"limit": "messages", "trim": "threshold", "threshold": 2, "target": 1},
    ],
)
def test_what_is_not_in_use_together_is_not_held_against_each_other(given: Json) -> None:
    assert read(given) == WindowPolicy(**given)


@pytest.mark.parametrize("name", [name for name in NAMES if type(getattr(PLAIN, name)) is int])
def test_numbers_have_a_range_that_the_refusal_tells(name: str) -> None:
    least = {
        "summary_tokens": 20,
        **dict.fromkeys(("min_messages", "keep_first", "spare_tool_results", "max_images"), 0),
    }
    bottom = least.get(name, 1)
    base = (
        PLAIN.model_copy(update={"target": 1})
        if name == "threshold"
        else PLAIN.model_copy(update={"threshold": 100_000})
    )
    top = 100 if name == "keep_first" else 100_000
    for value in (-1, bottom - 1, top + 1, 10**9000):
        with pytest.raises(InvalidInput, match=f"window.{name}: must be {bottom} to {top:,}"):
            read({name: value}, base)
        with pytest.raises(InvalidInput, match=name):
            check_policy(base.model_copy(update={name: value}))
    for value in (True, 5.0, "5", [5], {}):
        with pytest.raises(InvalidInput, match=f"window.{name}: must be a whole number"):
            read({name: value}, base)
    if name != "threshold":
        assert getattr(read({name: bottom}, base), name) == bottom
    if name != "target":
        assert getattr(read({name: top}, base), name) == top


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"max_mesages": 3}, "did you mean 'max_messages'"),
        ({"limit": "token"}, "did you mean 'tokens'"),
        ({"limit": 3}, "observed, messages, tokens"),
        ({"drop": ["oldest"]}, "oldest, middle"),
        ({"blank_tool_results": 1}, "must be true or false"),
        ({"summarise": "yes"}, "must be true or false"),
        ({"summary_prompt": ""}, "must not be empty"),
        ({"summary_prompt": 5}, "must be a string"),
        ({"summary_prompt": "x\x00"}, "NUL"),
        ({"summary_prompt": "x" * 4001}, "4,000 are allowed"),
        ({"predefined": 5}, "must be a list of messages or one message, not a number"),
        ({"max_messages": 1_234_567}, "must be 1 to 100,000, not 1,234,567"),
        ({"max_messages": 10**12}, "must be 1 to 100,000, not a number of more than twelve digits"),
        ({"predefined": "[5"}, "cannot be read"),
        ({"predefined": [{"role": "user", "content": "hi"}] * 51}, "50 are allowed"),
        ({"predefined": [{"role": "user", "content": "hi"}, {"role": "chef", "content": "hi"}]}, "messages[1].role"),
        ([], "must be an object"),
        ("limit", "must hold JSON"),
        ("5", "must be an object"),
        (None, "must be an object"),
    ],
)
def test_a_refusal_names_the_place_and_says_what_is_allowed(given: object, text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(given)
    assert str(refused.value).startswith("window")
    assert text in str(refused.value)


def test_a_prompt_may_be_as_long_as_its_limit() -> None:
    assert read({"limit": "messages", "summarise": True, "summary_prompt": "x" * 4000}).summary_prompt == "x" * 4000


def test_what_is_set_goes_over_the_base_and_null_leaves_it() -> None:
    base = WindowPolicy(limit="messages", max_messages=7, max_images=3)
    assert read({"max_messages": 9, "max_images": None}, base) == base.model_copy(update={"max_messages": 9})
    assert read({"max_images": None, "max_messages": 9}, base) == base.model_copy(update={"max_messages": 9})
    assert read('{"max_messages": 9}', base) == base.model_copy(update={"max_messages": 9})
    assert read(dict.fromkeys(NAMES), base) == read({}, base) == base


def test_predefined_messages_are_read_masked_counted_and_put_before_the_first_seq() -> None:
    request: list[Json] = []

    def masking(parts: list[Json]) -> tuple[list[Json], int]:
        request.extend(parts)
        return [{**part, "text": part["text"].replace("secret", "[masked]")} for part in parts], 1

    raw = {
        "predefined": [
            {"role": "user", "content": "my secret", "name": "Ann secret", "id": "x", "metadata": {"a": 1}},
            {"role": "assistant", "content": [{"type": "text", "text": "understood"}]},
        ],
        "summary_prompt": "keep the secret",
    }
    policy = read_policy(raw, "window", PLAIN, ROUGH, Limits(messages_per_call=1), masking)
    first, second = policy.predefined
    assert [(each.seq, each.id, each.role) for each in policy.predefined] == [
        (-1, "predefined-1", "user"),
        (0, "predefined-2", "assistant"),
    ]
    assert (first.parts, first.name, first.metadata) == ([{"type": "text", "text": "my [masked]"}], "Ann [masked]", {})
    assert (first.tokens, first.encoding) == (ROUGH.parts(first.parts), ROUGH.name)
    assert policy.summary_prompt == "keep the [masked]"
    assert second.parts == [{"type": "text", "text": "understood"}]
    assert {part["text"] for part in request} == {"my secret", "Ann secret", "understood", "keep the secret"}
    assert read({"predefined": []}, policy).predefined == ()
    assert read({"predefined": {"role": "user", "content": "hi"}}).predefined[0].seq == 0


def test_a_predefined_message_obeys_the_limits_of_messages() -> None:
    with pytest.raises(LimitExceeded, match="10 are allowed"):
        read({"predefined": [{"role": "user", "content": "far too long"}]}, limits=Limits(message_text_bytes=10))


def test_only_what_is_not_by_default_is_written() -> None:
    assert dump_policy(PLAIN) == {"limit": "observed"}
    policy = read(
        {"limit": "tokens", "max_tokens": 900, "predefined": {"role": "user", "content": "hi", "name": "Ann"}}
    )
    assert dump_policy(policy) == {
        "limit": "tokens",
        "max_tokens": 900,
        "predefined": [{"role": "user", "name": "Ann", "parts": [{"type": "text", "text": "hi"}]}],
    }


@given(policy=policies(), prompt=st.text('ab é字🜁\n"{', min_size=1))
def test_what_is_written_is_read_as_the_same_policy(policy: WindowPolicy, prompt: str) -> None:
    policy = policy.model_copy(
        update={"summary_prompt": prompt if prompt.strip() else "x", "summarise": policy.limit == "observed"}
    )
    written = dump_policy(policy)
    assert read(written) == policy
    assert read(json.dumps(written)) == policy
