"""What a model sees of a conversation: the server's default policy, and named ones. What each field does stands with
its default in ``memory/window/policy.py``.

Only the form is looked at here, at the start; what goes together is told where the engine is made (window_rules.py).
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from layerlore.server.settings_section import Section

_PROFILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST = 100_000


def _read_json(value: Any) -> Any:
    """JSON in a string, as a variable has it. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not valid JSON: {error}") from None


class WindowSettings(Section):
    """A policy of the window."""

    limit: Literal["observed", "messages", "tokens"] = Field(
        default="observed", description="observed: what is not yet in the observations; messages or tokens: the newest."
    )
    last_messages: int = Field(default=20, ge=1, le=_MOST, description="observed: never fewer messages.")
    trim: Literal["continuous", "threshold"] = Field(
        default="continuous", description="messages: the oldest leave one by one, or many at once at a threshold."
    )
    max_messages: int = Field(default=20, ge=1, le=_MOST, description="continuous: messages at most.")
    threshold: int = Field(default=500, ge=1, le=_MOST, description="threshold: the count that is cut.")
    target: int = Field(default=100, ge=1, le=_MOST, description="threshold: the count that is left.")
    max_tokens: int = Field(default=2000, ge=1, le=_MOST, description="tokens: tokens at most.")
    min_messages: int = Field(default=0, ge=0, le=_MOST, description="tokens: kept, even beyond max_tokens.")
    drop: Literal["oldest", "middle"] = Field(
        default="oldest", description="What leaves: the oldest, or what stands between the first and the newest."
    )
    keep_first: int = Field(default=2, ge=0, le=100, description="middle: messages at the beginning that stay.")
    blank_tool_results: bool = Field(default=False, description="Whether tool results are shown empty.")
    spare_tool_results: int = Field(default=0, ge=0, le=_MOST, description="The newest so many are shown all the same.")
    max_images: int = Field(default=1, ge=0, le=_MOST, description="Images that are shown, the newest.")
    predefined: Annotated[list[dict[str, Any]], BeforeValidator(_read_json)] = Field(
        default=[], max_length=50, description="Messages in front of every conversation's: role and content of each."
    )
    summarise: bool = Field(default=False, description="Whether a summary stands for the messages that left.")
    summary_prompt: str = Field(
        default="", max_length=4000, description="What a model is told to put in it; empty: a prompt that is built in."
    )
    summary_tokens: int = Field(default=200, ge=20, le=_MOST, description="Tokens of a summary.")


def _named(value: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in value:
        if name == "default":
            raise ValueError("the profile 'default' is the section [window]; another name is needed")
        if not _PROFILE_NAME.fullmatch(name):
            raise ValueError("a profile's name is 1 to 64 letters, digits, _ and -")
    return value


Profiles = Annotated[dict[str, WindowSettings], BeforeValidator(_read_json), AfterValidator(_named)]
"""Named policies, each over the defaults that are built in."""
