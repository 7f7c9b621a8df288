"""Claude's export (``conversations.json``): the messages of each conversation, of which the branch that was written last is
read."""

from typing import Any

from layerlore.memory.parts.parts import text_part, tool_call_part, tool_result_part
from layerlore.server.foreign.content import ForeignConversation, as_list, as_object, as_text, clean, read_ms
from layerlore.storage.core.records import Json, Role

_ROLES: dict[str, Role] = {"human": "user", "user": "user", "assistant": "assistant"}


def reads(item: Json) -> bool:
    """Whether an item is one of these conversations."""
    return isinstance(item.get("chat_messages"), list)


def read(item: Json) -> ForeignConversation:
    """A conversation."""
    messages: list[Json] = []
    for each in _branch(item):
        role = _ROLES.get(str(each.get("sender")))
        if role:
            parts = _read_parts(each)
        else:
            parts = []
        if parts:
            id_, at = as_text(each.get("uuid")), read_ms(each.get("created_at"))
            messages.append({"id": id_, "role": role, "parts": parts, "created_at": at})
    project = as_text(as_object(item.get("project")).get("name"))
    metadata = {"source": "claude", **({"project": project} if project else {})}
    return ForeignConversation(f"claude-{as_text(item.get('uuid'))}", as_text(item.get("name")), messages, metadata)


def _branch(item: Json) -> list[Json]:
    """The messages from the first to the one that the conversation ends with. Exports of older days have no branches."""
    messages = [each for each in item["chat_messages"] if isinstance(each, dict)]
    by_id = {id_: each for each in messages if (id_ := as_text(each.get("uuid")))}
    parents = {as_text(each.get("parent_message_uuid")) for each in messages}
    if not parents & by_id.keys():
        return messages
    leaves = [each for each in messages if as_text(each.get("uuid")) not in parents]
    named = by_id.get(as_text(item.get("current_leaf_message_uuid")))
    at = named or max(leaves, key=lambda each: read_ms(each.get("created_at")) or 0, default=None)
    found: list[Json] = []
    while at is not None and len(found) < len(messages):
        found.append(at)
        at = by_id.get(as_text(at.get("parent_message_uuid")))
    return found[::-1]


def _read_parts(message: Json) -> list[Json]:
    found = [
        part for number, block in enumerate(as_list(message.get("content"))) if (part := _read(message, number, block))
    ]
    if not any(part["type"] == "text" for part in found) and (text := as_text(message.get("text"))):
        found.append(text_part(text))
    for attachment in map(as_object, as_list(message.get("attachments"))):
        text = as_text(attachment.get("extracted_content"))
        if text:
            found.append(text_part(f"{as_text(attachment.get('file_name')) or 'attachment'}:\n{text}"))
    names = [as_text(as_object(each).get("file_name")) for each in as_list(message.get("files"))]
    return found + [text_part(f"[file {name}]") for name in names if name]


def _read(message: Json, number: int, block: Any) -> Json | None:
    given = as_object(block)
    match given.get("type"):
        case "text":
            text = as_text(given.get("text"))
            if text:
                return text_part(text)
            return None
        case "tool_use":
            id_ = as_text(given.get("id")) or f"{message.get('uuid')}-{number}"
            return tool_call_part(id_, as_text(given.get("name")) or "tool", as_object(clean(given.get("input"))))
        case "tool_result":
            # A result without an id answers the call before it.
            id_ = as_text(given.get("tool_use_id")) or f"{message.get('uuid')}-{number - 1}"
            name = as_text(given.get("name")) or None
            return tool_result_part(
                id_, name, _read_result(given.get("content")), is_error=given.get("is_error") is True
            )
    return None


def _read_result(content: Any) -> str:
    if isinstance(content, str):
        return as_text(content)
    return "\n".join(text for each in as_list(content) if (text := as_text(as_object(each).get("text"))))
