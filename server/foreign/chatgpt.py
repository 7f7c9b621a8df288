"""ChatGPT's export (``conversations.json``): a tree of messages for each conversation, of which the branch that was shown last
is read."""

from typing import Any

from layerlore.memory.parts.parts import tool_call_part, tool_result_part
from layerlore.server.foreign.content import (
    IMAGE,
    ForeignConversation,
    as_list,
    as_object,
    as_text,
    clean,
    read_ms,
    say,
)
from layerlore.storage.core.records import Json

_NOT_SAID = ("user_editable_context", "model_editable_context", "reasoning_recap", "thoughts")


def reads(item: Json) -> bool:
    """Whether an item is one of these conversations."""
    return isinstance(item.get("mapping"), dict)


def read(item: Json) -> ForeignConversation:
    """A conversation."""
    id_ = as_text(item.get("conversation_id")) or as_text(item.get("id"))
    messages: list[Json] = []
    last = read_ms(item.get("create_time"))
    call = ""
    for node in _branch(item):
        message = as_object(node.get("message"))
        last = read_ms(message.get("create_time")) or last
        found = _read_message(message, as_text(node.get("id")), last, call)
        messages += found
        if found:
            called = [part["id"] for part in found[0]["parts"] if part["type"] == "tool_call"]
            if called:
                call = called[0]
    model = as_text(item.get("default_model_slug"))
    metadata = {"source": "chatgpt", **({"model": model} if model else {})}
    return ForeignConversation(f"chatgpt-{id_}", as_text(item.get("title")), messages, metadata)


def _branch(item: Json) -> list[Json]:
    """The nodes from the root to the one that was shown last."""
    nodes = item["mapping"]
    at = item.get("current_node")
    if not isinstance(at, str) or at not in nodes:
        leaves = [key for key, node in nodes.items() if not as_list(as_object(node).get("children"))]
        at = max(leaves, key=lambda key: _time_of(nodes[key]), default=None)
    found: list[Json] = []
    seen: set[str] = set()
    while isinstance(at, str) and at in nodes and at not in seen:
        seen.add(at)
        node = as_object(nodes[at])
        found.append({"id": at, **node})
        at = node.get("parent")
    return found[::-1]


def _time_of(node: Any) -> int:
    return read_ms(as_object(as_object(node).get("message")).get("create_time")) or 0


def _read_message(message: Json, node_id: str, at: int | None, call: str) -> list[Json]:
    content, metadata = as_object(message.get("content")), as_object(message.get("metadata"))
    author = as_object(message.get("author"))
    role, id_ = author.get("role"), as_text(message.get("id")) or node_id
    kind = content.get("content_type")
    if metadata.get("is_visually_hidden_from_conversation") or message.get("weight") == 0 or kind in _NOT_SAID:
        return []
    texts = _read_texts(content)
    text = "\n".join(texts)
    recipient = as_text(message.get("recipient")) or "all"
    if role == "assistant" and recipient != "all" and text:
        part = tool_call_part(id_, recipient, {"input": text})
        return [{"id": id_, "role": role, "parts": [part], "created_at": at}]
    if role == "tool":
        part = tool_result_part(call or id_, as_text(author.get("name")) or None, text)
        return [{"id": id_, "role": role, "parts": [part], "created_at": at}] if text else []
    return say(id_, role, texts, at) if role in ("user", "assistant", "system") else []


def _read_texts(content: Json) -> list[str]:
    found = [_read_part(part) for part in as_list(content.get("parts"))]
    beside = [content.get(name) for name in ("text", "result") if isinstance(content.get(name), str)]
    if content.get("content_type") == "code" and beside:
        language = as_text(content.get("language"))
        beside = [f"```{'' if language == 'unknown' else language}\n{beside[0]}\n```"]
    if content.get("content_type") == "tether_quote":
        beside = [content.get("title"), content.get("url"), *beside]
    return [text for each in (*found, *beside) if (text := as_text(each))]


def _read_part(part: Any) -> str:
    if isinstance(part, str):
        return clean(part) if part.strip() else ""
    given = as_object(part)
    if "image" in str(given.get("content_type", "")):
        return IMAGE
    return as_text(given.get("text"))
