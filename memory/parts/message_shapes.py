"""Messages as callers send them (plain, ours, OpenAI's two shapes, Anthropic's, Gemini's, the AI SDK's, LangChain's) turned
into the one form we keep."""

from dataclasses import dataclass
from typing import Any, Literal

from layerlore.memory.parts.ai_sdk_shape import (
    AI_SDK_MARKS,
    AI_SDK_PASSED_OVER,
    AI_SDK_READERS,
    OPTIONS,
    read_reasoning_block,
    read_sdk_file_block,
    read_sdk_image_block,
    read_ui_tool_block,
)
from layerlore.memory.parts.chat_shapes import (
    ANSWER_KEYS,
    CANONICAL_READERS,
    LANGCHAIN_MEDIA_MARKS,
    LANGCHAIN_READERS,
    OPENAI_READERS,
    Reader,
    find_langchain,
    read_answer,
    read_chain_call,
    read_chain_media,
    read_chain_reasoning,
    read_custom_part,
    read_file_part,
    read_openai_file_block,
    read_reasoning,
    read_tool_message,
    split_calls,
)
from layerlore.memory.parts.parts import (
    custom_part,
    media_bytes,
    part_text_bytes,
    read_list,
    read_object,
    says_something,
    text_part,
)
from layerlore.memory.parts.provider_shapes import (
    ANTHROPIC_READERS,
    is_gemini_part,
    name_calls,
    read_gemini_part,
    read_image_block,
    read_tool_result_block,
)
from layerlore.memory.parts.responses_shape import (
    OPAQUE_ITEMS,
    RESPONSES_ITEMS,
    RESPONSES_READERS,
    read_item,
    refuse_item,
)
from layerlore.memory.rules.validation import (
    Limits,
    check_id,
    check_json,
    check_keys,
    check_metadata,
    check_text,
    describe,
    describe_choices,
    load_json,
    parse_time,
)
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.records import CUSTOM, ROLES, Json, Role, StoredJson, TurnMark

# Other APIs' names of the same speakers: OpenAI's developer and function, Gemini's model, LangChain's human and ai.
_ROLE_OF: dict[str, Role] = {
    **{role: role for role in ROLES},
    "developer": "system",
    "function": "tool",
    "model": "assistant",
    "human": "user",
    "ai": "assistant",
}

_KNOWN = (
    "role",
    "content",
    "parts",
    "id",
    "name",
    "metadata",
    "created_at",
    "said_at",
    "files",
    "tool_call_id",
    *ANSWER_KEYS,
)
_KNOWN_OF_ROUTERS = ("reasoning_content", "reasoning", "thinking_blocks", "images")

_PASSED_OVER = frozenset(
    {
        "annotations",
        "cache_control",
        "container",
        "context_management",
        "diagnostics",
        "finish_reason",
        "hidden_characters",
        "index",
        "input_transformations",
        "logprobs",
        "model",
        "origin",
        "phase",
        "prefix",
        "providerMetadata",
        "providerOptions",
        "provider_specific_fields",
        "reasoning_details",
        "reasoning_items",
        "seq",
        "status",
        "stop_details",
        "stop_reason",
        "stop_sequence",
        "tokens",
        "usage",
    }
)
"""The keys that providers write on an answer for themselves, or that we count ourselves. They are not part of the
message."""

_READERS: dict[str, Reader] = {
    **CANONICAL_READERS,
    **OPENAI_READERS,
    **ANTHROPIC_READERS,
    **RESPONSES_READERS,
    **AI_SDK_READERS,
    **LANGCHAIN_READERS,
}

_MARKED_READERS: dict[str, tuple[tuple[tuple[str, ...], Reader], ...]] = {
    "image": (
        (("source",), read_image_block),
        (("image",), read_sdk_image_block),
        (LANGCHAIN_MEDIA_MARKS, read_chain_media),
    ),
    "file": (
        (("file",), read_openai_file_block),
        ((*AI_SDK_MARKS, "fileRef"), read_sdk_file_block),
        (LANGCHAIN_MEDIA_MARKS, read_chain_media),
    ),
    "tool_call": ((("args",), read_chain_call),),
    "tool_result": ((("tool_use_id",), read_tool_result_block),),
    "reasoning": ((OPTIONS, read_reasoning_block), (("reasoning",), read_chain_reasoning)),
}
"""Types that others share with us, and the keys that only their blocks have."""


_PLAIN = frozenset({"role", "content", "parts", "id", "metadata", "said_at", "created_at"})
_PLAIN_PART = {"type", "text"}
_PLAIN_ROLES: tuple[Role, ...] = ("user", "assistant", "system")

_MARKS = ("turn", "set")
_SETS = ("history", "input", "response")
_NOTHING: tuple[Any, ...] = (None, "", [], {})
_HEADING = frozenset({"role", "type", "id", "name", "metadata", "created_at", "createdAt", "said_at"})
_OF_CUSTOM = frozenset({"createdAt", "hidden_characters", "seq", "tokens"})


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """One accepted message. ``created_at`` is milliseconds since 1970 (UTC) as the caller gave it, or None."""

    id: str | None
    role: Role
    name: str | None
    parts: list[Json]
    metadata: Json
    created_at: int | None
    mark: TurnMark | None = None


@dataclass(frozen=True, slots=True)
class SkippedMessage:
    """A message that is not stored: its place in the list that was sent, and why."""

    index: int
    reason: Literal["empty"]


@dataclass(frozen=True, slots=True)
class SentMessages:
    """The messages of a call, in order, and those of them that say nothing."""

    messages: list[IncomingMessage]
    skipped: list[SkippedMessage]


def parse_messages(raw: Any, limits: Limits) -> list[IncomingMessage]:
    """Reads messages as ``read_messages`` does. Raises InvalidInput for a message that says nothing, too."""
    sent = read_messages(raw, limits)
    if sent.skipped:
        raise InvalidInput(
            f"messages[{sent.skipped[0].index}]: has no content; give a text or at least one part, or leave the message out"
        )
    if not sent.messages:
        raise InvalidInput("messages: the list is empty; at least one message is needed")
    return sent.messages


def read_messages(raw: Any, limits: Limits) -> SentMessages:
    """Reads a list of messages, one message, or a JSON string of either; the shapes may be mixed in one list.

    An item of OpenAI's Responses API is a message, too, and so are LangChain's with their `type`, and Gemini's contents.
    Else a message has a `role` and either `content` (a string, or a list of strings and blocks) or our own `parts`, and may
    have `id`, `name`, `metadata`, `created_at` (or `said_at`) and `files`, besides the keys of the OpenAI and Anthropic
    shapes. `turn` and `set` (history, input, response) mark what it was in a turn. Text without a character is not a
    part. The bookkeeping of providers' answers is passed over, and so is a key that is null. A message that says
    nothing is skipped: programs send one for each turn, whatever it holds. The role `developer` becomes `system`,
    `function` becomes `tool`, and so does `user` if all there is are tool results; `model` becomes `assistant`.

    Raises LimitExceeded for what is over a limit, InvalidInput for everything else that is wrong; the text names the
    place (`messages[3].content[1]`) and what is allowed there.
    """
    entries = _entries(raw)
    if len(entries) > limits.messages_per_call:
        raise LimitExceeded(f"messages: {len(entries):,} in one call; at most {limits.messages_per_call:,} are allowed")
    sent = SentMessages([], [])
    first_use: dict[str, int] = {}
    for index, entry in enumerate(entries):
        # Programs send an empty entry for a turn without words. It must not fail the messages around it.
        if entry in _NOTHING:
            message = None
        else:
            message = _message(entry, f"messages[{index}]", limits)
        if message is None:
            sent.skipped.append(SkippedMessage(index, "empty"))
            continue
        if message.id is not None and first_use.setdefault(message.id, index) != index:
            raise InvalidInput(
                f"messages[{index}].id: {describe(message.id)} is already the id of messages[{first_use[message.id]}]; "
                "every message needs an id of its own, or none to be given one"
            )
        sent.messages.append(message)
    return sent


def _entries(raw: Any) -> list[Any]:
    if isinstance(raw, str) and raw.strip():
        try:
            raw = load_json(raw, "messages")
        except ValueError as error:
            raise InvalidInput(
                'messages: a string must hold JSON, such as [{"role": "user", "content": "Good morning"}]; '
                f"this one cannot be read ({error})"
            ) from None
    if isinstance(raw, dict) and isinstance(raw.get("messages"), list):
        raw = _mark_list(raw)
    if raw in _NOTHING or isinstance(raw, dict):
        if raw:
            return [raw]
        return []
    if not isinstance(raw, list):
        raise InvalidInput(f"messages: must be a list of messages or one message, not {describe(raw)}")
    return raw


def _mark_list(raw: Json) -> list[Any]:
    """The messages of a turn as seed 002 writes it down, {"messages", "historyIds", "inputIds", "responseIds"}; each marked
    with its set. A turn without a name (``turn``) has the id of its first message, so that it keeps it as it grows."""
    known = ("messages", "turn", "historyIds", "inputIds", "responseIds")
    check_keys(raw, "messages", known, ("thread_id", "total", "next"))
    sets: dict[str, str] = {}
    for of in _SETS:
        for id_ in read_list(raw.get(f"{of}Ids"), f"messages.{of}Ids"):
            if isinstance(id_, str):
                sets[id_] = of
    turn = raw.get("turn") or next((id_ for name in ("inputIds", "responseIds") for id_ in raw.get(name) or []), None)
    marked: list[Any] = []
    for entry in raw["messages"]:
        if isinstance(entry, dict):
            which = sets.get(str(entry.get("id")))
        else:
            which = None
        marked.append({**entry, "turn": turn, "set": which} if which else entry)
    return marked


def _message(raw: Any, where: str, limits: Limits) -> IncomingMessage | None:
    """The message; None if it says nothing."""
    if not isinstance(raw, dict):
        raise InvalidInput(
            f"{where}: must be an object such as {{'role': 'user', 'content': '...'}}, not {describe(raw)}"
        )
    if (plain := _read_plain(raw, where, limits)) is not None:
        return plain
    raw = _read_gemini(find_langchain(raw) or raw)
    if _is_bare(raw):
        return None
    # These keys are ours alone, and the readers of the other shapes refuse keys that they do not know.
    marks = {name: raw[name] for name in _MARKS if raw.get(name) is not None}
    if marks:
        raw = {name: value for name, value in raw.items() if name not in _MARKS}
    role, said = _read_said(raw, where, limits)
    parts = [part for part in said if says_something(part)]
    if not parts:
        return None
    # Anthropic sends the results of tools under the role user.
    if role == "user" and all(part["type"] == "tool_result" for part in parts):
        role = "tool"
    _check_role_and_parts(role, parts, where)
    _check_size(parts, where, limits)
    message_id, name = raw.get("id"), raw.get("name")
    # A message that get_messages gave can be sent as it is: there said_at is the time that the caller once gave.
    timed = next((key for key in ("said_at", "createdAt") if raw.get(key) is not None), "created_at")
    # In a tool's answer and in an item without a role, the name is the tool's, not a speaker's.
    named = name not in (None, "") and raw.get("role") is not None and not _is_tool_answer(raw)
    return IncomingMessage(
        id=None if message_id in _NOTHING else check_id(message_id, f"{where}.id", limits.id_chars),
        role=role,
        name=check_id(name, f"{where}.name", limits.name_chars) if named else None,
        parts=parts,
        metadata=check_metadata(raw.get("metadata"), f"{where}.metadata", limits),
        created_at=None if raw.get(timed) in _NOTHING else parse_time(raw[timed], f"{where}.{timed}"),
        mark=_read_mark(marks, where, limits),
    )


def _is_bare(raw: Json) -> bool:
    """Whether a message is only a heading. Items of the Responses API and a function's answer say something anyway."""
    if raw.get("role") == "function" or raw.get("type") not in (None, "message", "llm", CUSTOM):
        return False
    return all(value in _NOTHING for key, value in raw.items() if key not in _HEADING)


def _read_plain(raw: Json, where: str, limits: Limits) -> IncomingMessage | None:
    """A message that says one text in our own shape, as most do. None: it is read as all shapes are, which gives the same of
    this one, and takes ten times as long."""
    role, text, place = raw.get("role"), raw.get("content"), "content"
    if "parts" in raw:
        parts = raw["parts"]
        if isinstance(parts, list) and len(parts) == 1 and "content" not in raw:
            part = parts[0]
        else:
            part = None
        if not isinstance(part, dict) or part.keys() != _PLAIN_PART or part["type"] != "text":
            return None
        text, place = part["text"], "parts[0].text"
    if role not in _PLAIN_ROLES or not isinstance(text, str) or not text or not raw.keys() <= _PLAIN:
        return None
    check_text(text, f"{where}.{place}")
    # A character has at most four bytes, so only a text near the limit is encoded to measure it.
    if len(text) * 4 > limits.message_text_bytes and len(text.encode()) > limits.message_text_bytes:
        return None
    message_id, key = raw.get("id"), "said_at" if raw.get("said_at") is not None else "created_at"
    return IncomingMessage(
        None if message_id in _NOTHING else check_id(message_id, f"{where}.id", limits.id_chars),
        role,
        None,
        [text_part(text)],
        check_metadata(raw.get("metadata"), f"{where}.metadata", limits),
        None if raw.get(key) in _NOTHING else parse_time(raw[key], f"{where}.{key}"),
    )


def _read_mark(marks: Json, where: str, limits: Limits) -> TurnMark | None:
    """Which set of which turn a message belongs to; what is history belongs to none."""
    if not marks:
        return None
    of = marks.get("set")
    if of not in _SETS:
        raise InvalidInput(f"{where}.set: {describe(of)} with a turn; {describe_choices(of, _SETS)}")
    if of == "history":
        return None
    return TurnMark(check_id(marks.get("turn"), f"{where}.turn", limits.id_chars), of)


def _read_gemini(raw: Json) -> StoredJson:
    """The message, each call of a content of Gemini's with an id; one without a role is a user's."""
    parts = raw.get("parts")
    if not isinstance(parts, list) or not any(map(is_gemini_part, parts)):
        return raw
    return {**raw, "role": raw.get("role") or "user", "parts": name_calls(parts)}


def _read_said(raw: Json, where: str, limits: Limits) -> tuple[Role, list[Json]]:
    """The speaker and the content."""
    # An item of the Responses API has no role. A LangChain message already got one from its type.
    if raw.get("role") is None and isinstance(raw.get("type"), str) and raw["type"] in RESPONSES_ITEMS:
        return read_item(raw, where, limits)
    if _is_custom(raw):
        return CUSTOM, _read_custom(raw, where, limits)
    if raw.get("type") not in (None, "message", "llm"):
        refuse_item(raw["type"], where)
    role = _role(raw, where)
    # LangChain and OpenAI both use ``tool_calls``: LangChain's come out before OpenAI's reader sees that key.
    raw, calls = split_calls(raw, where, limits)
    _check_message_keys(raw, where)
    return role, [*_parts(raw, where, limits), *calls]


def _is_custom(raw: Json) -> bool:
    kind = raw.get("type")
    return raw.get("role") == CUSTOM or (raw.get("role") is None and kind in (CUSTOM, *OPAQUE_ITEMS))


def _read_custom(raw: Json, where: str, limits: Limits) -> list[Json]:
    """Fields that a user interface keeps for itself (seed 002): its `data`, a part that holds it, or an item that says
    nothing."""
    if raw.get("type") in OPAQUE_ITEMS:
        check_json(raw, where, depth=limits.json_depth)
        return [custom_part(raw)]
    check_keys(raw, where, ("role", "type", "data", "parts", "id", "metadata", "created_at", "said_at"), _OF_CUSTOM)
    parts = read_list(raw.get("parts"), f"{where}.parts") or [{"type": CUSTOM, "data": raw.get("data")}]
    if len(parts) > 1 or not isinstance(parts[0], dict) or parts[0].get("type") != CUSTOM:
        raise InvalidInput(
            f"{where}.parts: a message of the role custom has one part, {{'type': 'custom', 'data': ...}}"
        )
    return read_custom_part(parts[0], where if raw.get("parts") is None else f"{where}.parts[0]", limits)


def _role(raw: Json, where: str) -> Role:
    role = raw.get("role")
    if not isinstance(role, str) or role not in _ROLE_OF:
        if role is None:
            what = "is missing"
        else:
            what = f"unknown role {describe(role)}"
        raise InvalidInput(f"{where}.role: {what}; {describe_choices(role, tuple(_ROLE_OF))}")
    return _ROLE_OF[role]


def _check_message_keys(raw: Json, where: str) -> None:
    check_keys(raw, where, _KNOWN, {"type", "createdAt", "artifact", *_PASSED_OVER, *_KNOWN_OF_ROUTERS})
    if raw.get("parts") is not None and raw.get("content"):
        raise InvalidInput(f"{where}: has both parts and content; give one of them")
    if raw.get("tool_call_id") is not None and (raw["role"] != "tool" or raw.get("parts") is not None):
        raise InvalidInput(f"{where}.tool_call_id: is allowed only in a message of the role tool with content")


def _is_tool_answer(raw: Json) -> bool:
    """Whether the message as a whole is one tool result, as in the OpenAI shape."""
    return raw.get("parts") is None and (raw["role"] == "function" or raw.get("tool_call_id") is not None)


def _parts(raw: Json, where: str, limits: Limits) -> list[Json]:
    if raw.get("parts") is None:
        key = "content"
    else:
        key = "parts"
    said = read_content(raw.get(key), f"{where}.{key}", limits, untyped=key == "parts")
    if _is_tool_answer(raw):
        said = [read_tool_message(raw, said, where, limits)]
    thoughts = read_content(raw.get("thinking_blocks"), f"{where}.thinking_blocks", limits)
    images = read_content(raw.get("images"), f"{where}.images", limits)
    # Reasoning comes first: Anthropic wants signed thinking back in front of the answer.
    return [
        # ``thinking_blocks`` hold the same text as ``reasoning_content``, with its signatures, so only one of them is
        # stored.
        *(thoughts or read_reasoning(raw, where)),
        *said,
        *read_answer(raw, where, limits),
        *images,
        *_files(raw.get("files"), f"{where}.files", limits),
    ]


def _files(raw: Any, where: str, limits: Limits) -> list[Json]:
    """File parts of a list of files, which may also lie in an object under the key `files`."""
    if isinstance(raw, dict):
        check_keys(raw, where, ("files",))
        raw, where = raw.get("files"), f"{where}.files"
    parts: list[Json] = []
    for index, entry in enumerate(read_list(raw, where)):
        place = f"{where}[{index}]"
        file = read_object(entry, place)
        if file.get("type") not in (None, "file"):
            raise InvalidInput(f"{place}.type: unknown type {describe(file['type'])}; allowed: file, or no type")
        parts += read_file_part(file, place, limits)
    return parts


def _check_role_and_parts(role: Role, parts: list[Json], where: str) -> None:
    kinds = {part["type"] for part in parts}
    if role == "tool" and "tool_result" not in kinds:
        raise InvalidInput(
            f"{where}: a message of the role tool answers a call; give tool_call_id beside its content, or a "
            "tool_result part"
        )
    if role != "assistant" and "tool_call" in kinds:
        raise InvalidInput(f"{where}: only a message of the role assistant may hold tool calls, not one of {role}")


def _check_size(parts: list[Json], where: str, limits: Limits) -> None:
    text = sum(map(part_text_bytes, parts))
    if text > limits.message_text_bytes:
        raise LimitExceeded(
            f"{where}: {text:,} bytes of text; at most {limits.message_text_bytes:,} are allowed in one message, so split it"
        )
    media = sum(map(media_bytes, parts))
    if media > limits.message_media_bytes:
        raise LimitExceeded(
            f"{where}: {media:,} bytes of base64; at most {limits.message_media_bytes:,} are allowed in one message, so send "
            "images and files by URL"
        )


def read_content(raw: Any, where: str, limits: Limits, *, untyped: bool = False) -> list[Json]:
    """Turn a message's content into parts: null, a text, or a list of texts and blocks of any known shape; ``untyped``: also
    of Gemini's, which name no type.

    Raises InvalidInput, naming the place."""
    if raw is None:
        return []
    if isinstance(raw, str):
        return [text_part(check_text(raw, where))]
    if not isinstance(raw, list):
        raise InvalidInput(f"{where}: must be a string or a list of strings and parts, not {describe(raw)}")
    parts: list[Json] = []
    for index, entry in enumerate(raw):
        place = f"{where}[{index}]"
        if isinstance(entry, str):
            parts.append(text_part(check_text(entry, place)))
        elif entry in _NOTHING:
            continue
        elif isinstance(entry, dict):
            read = read_gemini_part if untyped and is_gemini_part(entry) else _reader(entry, place)
            parts += read(entry, place, limits)
        else:
            raise InvalidInput(
                f"{place}: must be a string or a part such as {{'type': 'text', ...}}, not {describe(entry)}"
            )
    return parts


def _reader(block: Json, where: str) -> Reader:
    kind = block.get("type")
    if isinstance(kind, str) and kind in AI_SDK_PASSED_OVER:
        return AI_SDK_PASSED_OVER[kind]
    # The AI SDK names a UI part after its tool, so this set of types is open. "tool-call" and "tool-result" are
    # fixed.
    if isinstance(kind, str) and kind.startswith("tool-") and kind not in _READERS:
        return read_ui_tool_block
    if not isinstance(kind, str) or kind not in _READERS:
        if kind is None:
            what = "the part has no type"
        else:
            what = f"unknown part type {describe(kind)}"
        raise InvalidInput(f"{where}: {what}; {describe_choices(kind, tuple(_READERS))}")
    marked = _MARKED_READERS.get(kind, ())
    return next((reader for marks, reader in marked if any(mark in block for mark in marks)), _READERS[kind])
