"""Cursor's transcripts: a line of JSON for each message, with blocks as Anthropic has them, and neither an id nor a time.
What tools answered is not in them."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from layerlore.memory.parts.parts import tool_call_part
from layerlore.server.capture.host_tags import HostTags
from layerlore.server.capture.said import Said, as_object, read_texts, read_users_words
from layerlore.storage.core.records import Json

_TAGS = HostTags(
    added=frozenset(
        (
            "timestamp",
            "user_info",
            "rules",
            "always_applied_workspace_rules",
            "agent_requestable_workspace_rules",
            "user_rules",
            "project_layout",
            "git_status",
            "open_and_recently_viewed_files",
            "attached_files",
            "manually_attached_skills",
            "code_selection",
            "terminal_selection",
            "linter_errors",
            "image_files",
            "external_links",
            "cursor_commands",
            "additional_data",
            "system_reminder",
        )
    ),
    request="user_query",
)


def reads(record: Json) -> bool:
    """Whether a line is one of these."""
    return record.get("role") in ("user", "assistant") and isinstance(record.get("message"), dict)


def read(record: Json) -> list[Said]:
    """What a line says."""
    content = record["message"].get("content")
    if record["role"] == "user":
        return [Said("", "user", [*read_users_words(content, _TAGS)])]
    return [Said("", "assistant", [*_read_blocks(content)])]


def _read_blocks(content: Any) -> Iterator[Json]:
    for block in content if isinstance(content, list) else [content]:
        if as_object(block).get("type") == "tool_use":
            id_ = block.get("id") or hashlib.blake2b(json.dumps(block).encode(), digest_size=8).hexdigest()
            yield tool_call_part(str(id_), str(block.get("name")), as_object(block.get("input")))
        else:
            yield from read_texts([block])
