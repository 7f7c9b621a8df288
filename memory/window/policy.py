"""The window's policy (seed 001): what of a thread goes to the model, as a record that is checked before it is used."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from layerlore.memory.acceptance import check_keys, check_text, load_json, one_of, shown
from layerlore.memory.limits import Limits
from layerlore.memory.message_shapes import parse_messages
from layerlore.memory.parts import text_part
from layerlore.memory.tokens import TokenCounter
from layerlore.storage.errors import InvalidInput, LimitExceeded
from layerlore.storage.records import Json, Message

Mask = Callable[[list[Json]], tuple[list[Json], int]]
"""What masks the secrets in a message's parts: `Engine.masked_parts` is one."""

# Seed 001's.
SUMMARY_PROMPT = "Summarize the key points of the removed messages, preserving important context and decisions made."
MOST = 100_000
PREDEFINED = 50
PROMPT_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class WindowPolicy:
    """Tokens are counts as messages are stored with; messages are counts. Make it with ``policy_from``, or hold what
    you made to ``checked``."""

    limit: Literal["observed", "messages", "tokens"] = "observed"
    """observed: everything that is not yet observed, and never fewer than ``last_messages``."""
    last_messages: int = 20
    trim: Literal["continuous", "threshold"] = "continuous"
    """By messages: keep ``max_messages``, or grow to ``threshold`` and be cut to ``target`` when it is reached."""
    max_messages: int = 20
    threshold: int = 500
    target: int = 100
    max_tokens: int = 2000
    """By tokens."""
    min_messages: int = 0
    """By tokens: so many of the newest are kept whole, even beyond ``max_tokens``."""
    drop: Literal["oldest", "middle"] = "oldest"
    keep_first: int = 2
    """middle: how many of the first stay."""
    blank_tool_results: bool = False
    spare_tool_results: int = 0
    """How many of the newest results keep their content all the same."""
    max_images: int = 1
    """The newest stay, the others become a note; 0: none stays."""
    predefined: tuple[Message, ...] = ()
    """In front of the thread's messages, with seqs up to 0."""
    summarise: bool = False
    """Whether what was trimmed is replaced by a summary of it."""
    summary_prompt: str = SUMMARY_PROMPT
    summary_tokens: int = 200


_CHOICES: dict[str, tuple[str, ...]] = {
    "limit": ("observed", "messages", "tokens"),
    "trim": ("continuous", "threshold"),
    "drop": ("oldest", "middle"),
}
_FLAGS = ("blank_tool_results", "summarise")
_LEAST = {
    **dict.fromkeys(("last_messages", "max_messages", "threshold", "target", "max_tokens"), 1),
    **dict.fromkeys(("min_messages", "keep_first", "spare_tool_results", "max_images"), 0),
    "summary_tokens": 20,
}
# They are read whatever the window's budget is.
_MOST = {"keep_first": 100}
NAMES = tuple(field.name for field in fields(WindowPolicy))


def checked(policy: WindowPolicy) -> WindowPolicy:
    """The policy itself. Raises InvalidInput for numbers out of their range, and for what cannot be had together: the
    text names both fields and says what is allowed."""
    for name, least in _LEAST.items():
        _number(getattr(policy, name), name, least, _MOST.get(name, MOST))
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
    room = "max_messages" if policy.trim == "continuous" else "target"
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


def policy_from(
    raw: Any, where: str, base: WindowPolicy, counter: TokenCounter, limits: Limits, mask: Mask
) -> WindowPolicy:
    """The policy that an object of ``NAMES`` (or its JSON as text) makes of ``base``; null leaves a field as it is.

    ``predefined`` takes what add_messages takes, at most ``PREDEFINED`` messages; of them are kept role, name and
    parts. ``mask`` is asked for these parts, and for names and the prompt, each as a part of text.

    Raises InvalidInput, LimitExceeded; the text begins with ``where``.
    """
    given = _read(raw, where)
    if not isinstance(given, dict):
        raise InvalidInput(f"{where}: must be an object such as {{'limit': 'messages'}}, not {shown(given)}")
    check_keys(given, where, NAMES)
    read: Json = {}
    for name, value in given.items():
        if value is None:
            continue
        place = f"{where}.{name}"
        if name == "predefined":
            read[name] = _predefined(value, place, counter, limits, mask)
        elif name == "summary_prompt":
            read[name] = _prompt(value, place, mask)
        elif name in _FLAGS:
            if not isinstance(value, bool):
                raise InvalidInput(f"{place}: must be true or false, not {shown(value)}")
            read[name] = value
        elif name in _CHOICES:
            if value not in _CHOICES[name]:
                raise InvalidInput(f"{place}: unknown value {shown(value)}; {one_of(value, _CHOICES[name])}")
            read[name] = value
        else:
            read[name] = _number(value, place, _LEAST[name], _MOST.get(name, MOST))
    try:
        return checked(replace(base, **read))
    except InvalidInput as error:
        raise type(error)(f"{where}: {error}") from None


def as_json(policy: WindowPolicy) -> Json:
    """``limit``, and what is not as by default: what ``policy_from`` reads over the defaults as the same policy."""
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


def _number(value: Any, where: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{where}: must be a whole number, {least:,} to {most:,}, not {shown(value)}")
    if not least <= value <= most:
        raise InvalidInput(f"{where}: must be {least:,} to {most:,}, not {_spelled(value)}")
    return value


def _spelled(value: int) -> str:
    return f"{value:,}" if abs(value) < 10**12 else "a number of more than twelve digits"


def _prompt(value: Any, where: str, mask: Mask) -> str:
    text = check_text(value, where)
    if not text.strip():
        raise InvalidInput(f"{where}: is empty; 1 to {PROMPT_CHARS:,} characters are allowed")
    if len(text) > PROMPT_CHARS:
        raise LimitExceeded(f"{where}: {len(text):,} characters; {PROMPT_CHARS:,} are allowed")
    return _masked_text(text, mask)


def _masked_text(text: str, mask: Mask) -> str:
    (part,), _ = mask([text_part(text)])
    return str(part["text"])


def _predefined(value: Any, where: str, counter: TokenCounter, limits: Limits, mask: Mask) -> tuple[Message, ...]:
    entries = _read(value, where)
    entries = [entries] if isinstance(entries, dict) else entries
    if not isinstance(entries, list):
        raise InvalidInput(f"{where}: must be a list of messages or one message, not {shown(entries)}")
    if not entries:
        return ()
    if len(entries) > PREDEFINED:
        raise LimitExceeded(f"{where}: {len(entries):,} messages; {PREDEFINED} are allowed")
    try:
        incoming = parse_messages(entries, replace(limits, messages_per_call=PREDEFINED))
    except InvalidInput as error:
        raise type(error)(f"{where}: {error}") from None
    messages: list[Message] = []
    for index, each in enumerate(incoming):
        parts, _ = mask(each.parts)
        messages.append(
            Message(
                thread_id="",
                seq=index + 1 - len(incoming),
                id=f"predefined-{index + 1}",
                role=each.role,
                name=_masked_text(each.name, mask) if each.name else None,
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
