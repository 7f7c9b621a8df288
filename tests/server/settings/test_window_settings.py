"""The settings of the window: the server's default policy, named ones, and what is said when one is impossible."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.settings.context_settings import MOST, PREDEFINED, PROMPT_CHARS, WindowSettings
from layerlore.memory.window.policy import NAMES, WindowPolicy, WindowRules
from layerlore.server.runtime.engines import close_engine, open_engine, window_rules
from layerlore.server.settings.settings import Settings, SettingsError, load_settings

COUNTER = TokenCounter(None)
HELLO = {"role": "user", "content": "hello"}


def rules(**sources: Any) -> WindowRules:
    return window_rules(load_settings(**{"environ": {}, **sources}), COUNTER)


def problem(**sources: Any) -> str:
    """What is said of them: where they are read, or where the engine is made."""
    with pytest.raises(SettingsError) as caught:
        rules(**sources)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def toml(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        (tmp_path / "settings.toml").write_text(text, encoding="utf-8")
        return str(tmp_path / "settings.toml")

    return write


def test_the_settings_have_the_policys_fields_with_its_defaults() -> None:
    assert tuple(WindowSettings.model_fields) == NAMES
    # Each one given, as a file does in which every line is a setting.
    assert rules(flags={"window": WindowSettings().model_dump()}).default == WindowPolicy()
    # Empty, it is the prompt that is built in.
    assert rules(flags={"window": {"summary_prompt": ""}}).default == WindowPolicy()
    assert rules() == WindowRules()


def test_the_settings_allow_what_a_policy_allows() -> None:
    most = {"predefined": [HELLO] * PREDEFINED, "summary_prompt": "x" * PROMPT_CHARS, "max_messages": MOST}
    found = rules(flags={"window": most}).default
    assert (len(found.predefined), len(found.summary_prompt), found.max_messages) == (PREDEFINED, PROMPT_CHARS, MOST)


def test_the_default_and_the_profiles_come_from_tables(toml: Any) -> None:
    text = """
    [window]
    limit = "tokens"
    max_tokens = 900
    summary_prompt = "Say what was decided."
    [windows.short]
    limit = "messages"
    max_messages = 8
    [[windows.short.predefined]]
    role = "user"
    content = "hello"
    [windows.bare-2]
    """
    found = rules(config=toml(text))
    assert found.default == WindowPolicy(limit="tokens", max_tokens=900, summary_prompt="Say what was decided.")
    short = found.named["short"]
    assert (short.limit, short.max_messages, short.max_tokens) == ("messages", 8, 2000)
    (hello,) = short.predefined
    assert (hello.role, hello.parts, hello.seq) == ("user", [{"type": "text", "text": "hello"}], 0)
    assert hello.tokens == COUNTER.parts(hello.parts)
    # Over the defaults that are built in, not over [window].
    assert found.named["bare-2"] == WindowPolicy()


def test_the_default_and_the_profiles_come_from_variables(toml: Any) -> None:
    environ = {
        "LAYERLORE_WINDOW__LIMIT": "messages",
        "LAYERLORE_WINDOW__MAX_MESSAGES": "8",
        "LAYERLORE_WINDOW__BLANK_TOOL_RESULTS": "true",
        "LAYERLORE_WINDOW__PREDEFINED": json.dumps([HELLO]),
        "LAYERLORE_WINDOWS": json.dumps({"short": {"max_images": 0}}),
    }
    found = rules(environ=environ, config=toml("[window]\nlimit = 'tokens'\nmax_tokens = 900"))
    policy = found.default
    assert (policy.limit, policy.max_messages, policy.blank_tool_results) == ("messages", 8, True)
    assert (policy.max_tokens, policy.predefined[0].parts[0]["text"]) == (900, "hello")
    assert found.named == {"short": WindowPolicy(max_images=0)}


@pytest.mark.parametrize(
    ("window", "told"),
    [
        ({"limit": "token"}, "window.limit (from flag --limit): Input should be 'observed', 'messages' or 'tokens'"),
        ({"limti": "tokens"}, "window.limti (from flag --limti): no such setting; did you mean window.limit?"),
        ({"max_messages": 0}, "window.max_messages (from flag --max-messages): Input should be greater than or equal"),
        ({"keep_first": -1}, "window.keep_first (from flag --keep-first): Input should be greater than or equal to 0"),
        ({"max_tokens": MOST + 1}, "window.max_tokens (from flag --max-tokens): Input should be less than or equal to"),
        ({"predefined": "hello"}, "window.predefined (from flag --predefined): it is not valid JSON"),
        ({"predefined": [5]}, "window.predefined (from flag --predefined): Input should be a valid dictionary"),
        ({"predefined": [HELLO] * (PREDEFINED + 1)}, "at most 50 items"),
        ({"summary_prompt": "x" * (PROMPT_CHARS + 1)}, "at most 4000 characters"),
        ({"target": 500}, "window: target must be below threshold"),
        ({"trim": "threshold"}, 'window: trim="threshold" goes with limit="messages" only, and limit is "observed"'),
        (
            {"limit": "messages", "drop": "middle", "max_messages": 1},
            'window: with drop="middle" keep_first may be max_messages at most',
        ),
        (
            {"limit": "tokens", "summarise": True, "max_tokens": 200},
            "window: summary_tokens must be below max_tokens",
        ),
        ({"predefined": [HELLO, {"role": "king", "content": "x"}]}, "messages[1].role: unknown role 'king'"),
        ({"predefined": [{"role": "user", "content": ""}]}, "window.predefined: messages[0]: has no content"),
        ({"summary_prompt": "  "}, "window.summary_prompt: must not be empty"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(window: dict[str, Any], told: str) -> None:
    assert told in problem(flags={"window": window})
    of_profile = told.replace("window.", "windows.short.").replace("window: ", "windows.short: ")
    assert of_profile in problem(flags={"windows": {"short": window}})


@pytest.mark.parametrize(
    ("windows", "told"),
    [
        ({"default": {}}, "windows (from flag --windows): the profile 'default' is the section [window]"),
        ({"": {}}, "a profile's name is 1 to 64 letters, digits, _ and -"),
        ({"x" * 65: {}}, "a profile's name is 1 to 64 letters, digits, _ and -"),
        ({"a b": {}}, "a profile's name is 1 to 64 letters, digits, _ and -"),
        ({"short": 5}, "windows.short (from flag --short): Input should be a valid dictionary"),
        ("[]", "windows (from flag --windows): Input should be a valid dictionary"),
        ("{no", "windows (from flag --windows): it is not valid JSON"),
    ],
)
def test_a_profile_needs_a_name_and_a_table(windows: Any, told: str) -> None:
    assert told in problem(flags={"windows": windows})


@pytest.mark.anyio
@pytest.mark.parametrize(
    "given", [{"window": {"target": 500}}, {"windows": {"short": {"predefined": [{"role": "x"}]}}}]
)
async def test_what_is_impossible_is_told_at_the_start_before_a_database_is_made(given: Any, tmp_path: Path) -> None:
    settings = load_settings({**given, "data_dir": str(tmp_path / "kept")}, environ={})
    with pytest.raises(SettingsError):
        await open_engine(settings)
    assert not (tmp_path / "kept").exists()


@pytest.mark.anyio
async def test_the_engine_has_the_policies_with_tokens_counted_as_messages_are() -> None:
    given = {"window": {"predefined": [HELLO]}, "windows": {"short": {"max_images": 0}}}
    settings = Settings(**given, database="sqlite://:memory:", embedding={"embedder": "none"})
    engine = await open_engine(settings)
    try:
        assert engine.windows == window_rules(settings, engine.tokens)
        (hello,) = engine.windows.default.predefined
        assert (hello.tokens, hello.encoding) == (engine.tokens.parts(hello.parts), "o200k_base")
        assert engine.windows.named == {"short": WindowPolicy(max_images=0)}
    finally:
        await close_engine(engine)
