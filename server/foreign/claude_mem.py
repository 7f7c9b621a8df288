"""claude-mem's database: each session becomes a conversation of what the user asked and what was noted of it."""

import json
from pathlib import Path
from typing import Any

from layerlore.server.foreign.content import Foreign, ForeignConversation, as_text, read_ms, say
from layerlore.storage.core.records import Json
from layerlore.storage.drivers.foreign_file import ForeignFile

# Newer names first: versions before 8 named the two sessions after the programs that had them.
_CONTENT_SESSION = ("content_session_id", "claude_session_id")
_MEMORY_SESSION = ("memory_session_id", "sdk_session_id")
_SUMMARY = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def read(path: Path) -> Foreign:
    """All sessions, one after the other."""
    with ForeignFile(path) as file:
        for session in file.rows("sdk_sessions", "started_at_epoch"):
            asked_by, noted_by = _first(session, _CONTENT_SESSION), _first(session, _MEMORY_SESSION)
            messages = [
                *(_read_prompt(row) for row in file.rows("user_prompts", "id", _CONTENT_SESSION, asked_by)),
                *(_read_observation(row) for row in file.rows("observations", "id", _MEMORY_SESSION, noted_by)),
                *(_read_summary(row) for row in file.rows("session_summaries", "id", _MEMORY_SESSION, noted_by)),
            ]
            said = sorted((each for some in messages for each in some), key=lambda each: each["created_at"] or 0)
            if not said:
                continue
            metadata = {"source": "claude-mem", "project": as_text(session.get("project"))[:200]}
            title = as_text(session.get("custom_title")) or as_text(session.get("user_prompt"))
            yield ForeignConversation(f"claude-mem-{asked_by}", title, said, metadata)


def _first(row: Json, names: tuple[str, ...]) -> str:
    return next((as_text(row[name]) for name in names if row.get(name)), "")


def _read_prompt(row: Json) -> list[Json]:
    return say(f"prompt-{row['id']}", "user", [as_text(row.get("prompt_text"))], read_ms(row.get("created_at_epoch")))


def _read_observation(row: Json) -> list[Json]:
    heading = ": ".join(text for name in ("title", "subtitle") if (text := as_text(row.get(name))))
    facts = [f"- {text}" for each in _list(row.get("facts")) if (text := as_text(each))]
    told = [heading, as_text(row.get("narrative")) or as_text(row.get("text")), "\n".join(facts)]
    files = [
        text for name in ("files_read", "files_modified") for each in _list(row.get(name)) if (text := as_text(each))
    ]
    metadata = {"kind": as_text(row.get("type")), **({"files": files[:50]} if files else {})}
    text = "\n".join(each for each in told if each)
    at = read_ms(row.get("created_at_epoch"))
    return say(f"observation-{row['id']}", "assistant", [text], at, metadata=metadata)


def _read_summary(row: Json) -> list[Json]:
    told = [f"{name.replace('_', ' ')}: {text}" for name in _SUMMARY if (text := as_text(row.get(name)))]
    at = read_ms(row.get("created_at_epoch"))
    return say(f"summary-{row['id']}", "assistant", ["\n".join(told)], at, metadata={"kind": "summary"})


def _list(stored: Any) -> list[Any]:
    try:
        if isinstance(stored, str):
            found = json.loads(stored)
        else:
            found = []
    except (ValueError, RecursionError):
        return []
    if isinstance(found, list):
        return found
    return []
