"""The window's policy (seed 001): what of a thread goes to the model, as a record that is checked before it is used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from layerlore.memory.parts.message_shapes import parse_messages
from layerlore.memory.parts.parts import text_part
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.rules.validation import Limits, check_keys, check_text, describe, describe_choices, load_json
from layerlore.memory.settings.context_settings import PREDEFINED, PROMPT_CHARS, WindowFields, bounds
from layerlore.storage.core.errors import InvalidInput, LayerloreError, LimitExceeded
from layerlore.storage.core.records import Json, Message, StoredJson, Thread

Mask = Callable[[list[Json]], tuple[list[Json], int]]
"""Masks the secrets in a message's parts and returns how many it masked: `Engine.masked_parts` is one."""

DEFAULT_PROFILE = "default"
"""The name by which the server's default is a profile, too."""


class WindowPolicy(WindowFields):
    """A policy, ready for use. Tokens are counts as messages are stored with; messages are counts. Make it with
    ``read_policy``, or hold what you made to ``check_policy``."""

    predefined: tuple[Message, ...] = ()
    """Messages in front of the thread's own, with seqs up to 0."""


NAMES = tuple(WindowPolicy.model_fields)
_CHOICES = {
    name: get_args(option.annotation)
    for name, option in WindowFields.model_fields.items()
    if get_origin(option.annotation) is Literal
}
_FLAGS = {name for name, option in WindowFields.model_fields.items() if option.annotation is bool}
_BOUNDS = {name: bounds(option) for name, option in WindowFields.model_fields.items() if option.annotation is int}
"""The least and the most that each number may be."""


def check_policy(policy: WindowPolicy) -> WindowPolicy:
    """The policy itself. Raises InvalidInput for numbers out of their range, and for what cannot be had together: the
    text names both fields and says what is allowed."""
    for name in _BOUNDS:
        _read_number(getattr(policy, name), name, name)
    if policy.target >= policy.threshold:
        raise InvalidInput(
            f"target must be below threshold: the window is cut from threshold messages down to target, and they are "
            f"{policy.target:,} and {policy.threshold:,}"
        )
    if policy.trim == "threshold" and policy.limit != "messages":
        raise InvalidInput(
            f'trim="threshold" goes with limit="messages" only, and limit is "{policy.limit}": set limit to '
            '"messages", or trim to "continuous"'
        )
    # The window needs room for all messages that always stay.
    if policy.trim == "continuous":
        room = "max_messages"
    else:
        room = "target"
    if policy.drop == "middle" and policy.limit == "messages" and policy.keep_first > getattr(policy, room):
        raise InvalidInput(
            f'with drop="middle" keep_first may be {room} at most, and they are {policy.keep_first:,} and '
            f"{getattr(policy, room):,}"
        )
    if policy.summarise and policy.limit == "tokens" and policy.summary_tokens >= policy.max_tokens:
        raise InvalidInput(
            f"summary_tokens must be below max_tokens, which it is a part of, and they are {policy.summary_tokens:,} "
            f"and {policy.max_tokens:,}"
        )
    return policy


def read_policy(
    raw: Any, where: str, base: WindowPolicy, counter: TokenCounter, limits: Limits, mask: Mask
) -> WindowPolicy:
    """The policy that an object of ``NAMES`` (or its JSON as text) makes of ``base``; null leaves a field as it is.

    ``predefined`` takes what add_messages takes, at most ``PREDEFINED`` messages; their role, name and parts stay.
    ``mask`` gets these parts, and names and the prompt, each as a part of text.

    Raises InvalidInput, LimitExceeded; the text begins with ``where``.
    """
    given = _read(raw, where)
    if not isinstance(given, dict):
        raise InvalidInput(f"{where}: must be an object such as {{'limit': 'messages'}}, not {describe(given)}")
    check_keys(given, where, NAMES)
    read: Json = {}
    for name, value in given.items():
        if value is None:
            continue
        place = f"{where}.{name}"
        if name == "predefined":
            read[name] = _read_predefined(value, place, counter, limits, mask)
        elif name == "summary_prompt":
            read[name] = _read_prompt(value, place, mask)
        elif name in _FLAGS:
            if not isinstance(value, bool):
                raise InvalidInput(f"{place}: must be true or false, not {describe(value)}")
            read[name] = value
        elif name in _CHOICES:
            if value not in _CHOICES[name]:
                raise InvalidInput(
                    f"{place}: unknown value {describe(value)}; {describe_choices(value, _CHOICES[name])}"
                )
            read[name] = value
        else:
            read[name] = _read_number(value, place, name)
    try:
        # The policy is checked as a whole, since two valid fields may not fit each other.
        return check_policy(base.model_copy(update=read))
    except InvalidInput as error:
        raise type(error)(f"{where}: {error}") from None


def dump_policy(policy: WindowPolicy) -> StoredJson:
    """``limit``, and what is not as by default: what ``read_policy`` reads over the defaults as the same policy."""
    plain = WindowPolicy()
    written: Json = {"limit": policy.limit}
    for name in NAMES:
        value = getattr(policy, name)
        if name == "predefined":
            if value:
                written[name] = [
                    {"role": each.role, **({"name": each.name} if each.name else {}), "parts": each.parts}
                    for each in policy.predefined
                ]
        elif value != getattr(plain, name):
            written[name] = value
    return written


def _read(raw: Any, where: str) -> Any:
    if not isinstance(raw, str):
        return raw
    try:
        return load_json(raw, where)
    except ValueError as error:
        raise InvalidInput(f"{where}: a string must hold JSON; it cannot be read: {error}") from None


def _read_number(value: Any, where: str, name: str) -> int:
    least, most = _BOUNDS[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{where}: must be a whole number, {least:,} to {most:,}, not {describe(value)}")
    if not least <= value <= most:
        raise InvalidInput(f"{where}: must be {least:,} to {most:,}, not {_spelled(value)}")
    return value


def _spelled(value: int) -> str:
    # Python refuses to write very long integers, and a caller may send one.
    if abs(value) < 10**12:
        return f"{value:,}"
    return "a number of more than twelve digits"


def _read_prompt(value: Any, where: str, mask: Mask) -> str:
    text = check_text(value, where)
    if not text.strip():
        raise InvalidInput(f"{where}: must not be empty; 1 to {PROMPT_CHARS:,} characters are allowed")
    if len(text) > PROMPT_CHARS:
        raise LimitExceeded(f"{where}: {len(text):,} characters; at most {PROMPT_CHARS:,} are allowed")
    return _mask_text(text, mask)


def _mask_text(text: str, mask: Mask) -> str:
    (part,), _ = mask([text_part(text)])
    return str(part["text"])


def _read_predefined(value: Any, where: str, counter: TokenCounter, limits: Limits, mask: Mask) -> tuple[Message, ...]:
    entries = _read(value, where)
    if isinstance(entries, dict):
        entries = [entries]
    if not isinstance(entries, list):
        raise InvalidInput(f"{where}: must be a list of messages or one message, not {describe(entries)}")
    if not entries:
        return ()
    if len(entries) > PREDEFINED:
        raise LimitExceeded(f"{where}: {len(entries):,} messages; at most {PREDEFINED} are allowed")
    try:
        # This list has a limit of its own, not that of add_messages.
        incoming = parse_messages(entries, limits.model_copy(update={"messages_per_call": PREDEFINED}))
    except InvalidInput as error:
        raise type(error)(f"{where}: {error}") from None
    messages: list[Message] = []
    for index, each in enumerate(incoming):
        parts, _ = mask(each.parts)
        messages.append(
            Message(
                thread_id="",
                # These seqs end at 0, so that they never equal those of a thread.
                seq=index + 1 - len(incoming),
                id=f"predefined-{index + 1}",
                role=each.role,
                name=_mask_text(each.name, mask) if each.name else None,
                parts=parts,
                metadata={},
                tokens=counter.parts(parts),
                encoding=counter.name,
                created_at=0,
                said_at=0,
                revision=1,
            )
        )
    return tuple(messages)


@dataclass(frozen=True, slots=True)
class WindowRules:
    """The policies of the configuration: the server's default, and the profiles by name."""

    default: WindowPolicy = field(default_factory=WindowPolicy)
    named: Mapping[str, WindowPolicy] = field(default_factory=dict)

    def profile(self, name: str, where: str) -> WindowPolicy:
        """The policy of that name. Raises InvalidInput, which lists the ones there are."""
        if name == DEFAULT_PROFILE:
            return self.default
        if name not in self.named:
            raise InvalidInput(
                f"{where}: unknown profile {describe(name)}; {describe_choices(name, [DEFAULT_PROFILE, *self.named])}"
            )
        return self.named[name]


def choose_policy(
    rules: WindowRules, thread: Thread, counter: TokenCounter, limits: Limits
) -> tuple[WindowPolicy, str]:
    """The policy of a thread's window; and "", or why it is not the one that was set: then the default serves.

    Raises nothing: what was stored under another configuration or version is not a caller's mistake.
    """
    if thread.window_policy is None:
        return rules.default, ""
    try:
        kept = load_json(thread.window_policy, "window")
        # A text names a profile of the settings, an object is the thread's own policy.
        if isinstance(kept, str):
            return rules.profile(kept, "window"), ""
        return read_policy(kept, "window", WindowPolicy(), counter, limits, _as_stored), ""
    except (LayerloreError, ValueError) as error:
        return rules.default, f"the server's default serves, since the thread's own cannot: {error}"


def _as_stored(parts: list[Json]) -> tuple[list[Json], int]:
    """Secrets were masked when the policy was set."""
    return parts, 0
