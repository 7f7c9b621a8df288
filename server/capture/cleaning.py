"""What is kept of what was said: without what is private, what is ours, what sub-agents did, and what is too long."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from layerlore.memory.text.own_tools import is_own_call
from layerlore.server.capture.host_notes import find_user_words
from layerlore.server.capture.ignored import IgnoredPaths
from layerlore.server.capture.said import Said
from layerlore.server.relay.spool import strip_private
from layerlore.server.settings.capture import CaptureSettings
from layerlore.storage.core.records import Json

LONGEST_TEXT = 60_000
"""Characters of what somebody said; the middle of a longer text is left out. Four bytes each at most."""
_CUT = "\n[{} characters left out]\n"
_MOST_DEPTH = 40
_MOST_ITEMS = 200


class Cleaner:
    """Cleans what was said in one conversation, in order. ``left_out``: the ids of calls that were left out, and whose
    results are still to come."""

    def __init__(self, rules: CaptureSettings, ignored: IgnoredPaths, left_out: Iterable[str]) -> None:
        self.left_out = set(left_out)
        self._rules = rules
        self._ignored = ignored

    def clean(self, said: Said) -> Said | None:
        """What is kept; None where nothing is."""
        if said.by_subagent and not self._rules.subagents:
            return None
        own = said.parts if said.role == "assistant" else _keep_user_words(said)
        parts = [kept for part in own if (kept := self._clean_part(part)) is not None]
        return replace(said, parts=parts) if parts else None

    def _clean_part(self, part: Json) -> Json | None:
        match part["type"]:
            case "text":
                text = shorten(strip_private(part["text"]), LONGEST_TEXT)
                return {**part, "text": text} if text.strip() else None
            case "tool_call":
                if is_own_call(part["name"], part["arguments"]) or self._ignored.has_any(part["arguments"]):
                    self.left_out.add(part["id"])
                    return None
                return {**part, "arguments": self._clean_value(part["arguments"])}
            case "tool_result":
                if part["tool_call_id"] in self.left_out:
                    self.left_out.discard(part["tool_call_id"])
                    return None
                return {**part, "result": self._clean_value(part["result"])}
        return None

    def _clean_value(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            return shorten(strip_private(self._ignored.strip_lines(value)), self._rules.tool_chars)
        if depth > _MOST_DEPTH:
            return None
        if isinstance(value, dict):
            return {name: self._clean_value(each, depth + 1) for name, each in [*value.items()][:_MOST_ITEMS]}
        if isinstance(value, list):
            return [self._clean_value(each, depth + 1) for each in value[:_MOST_ITEMS]]
        return value


def shorten(text: str, most: int) -> str:
    """The text as it can be stored, with a note in place of the middle of one that is longer than ``most`` characters."""
    text = text.replace("\0", "").encode("utf-8", "replace").decode()
    if len(text) <= most:
        return text
    note = _CUT.format(f"{len(text) - most:,}")
    kept = max(0, most - len(note))
    return text[: kept - kept // 3] + note + text[len(text) - kept // 3 :]


def _keep_user_words(said: Said) -> list[Json]:
    """The parts, with only the user's own words in their texts."""
    texts = iter(find_user_words([part["text"] for part in said.parts if part["type"] == "text"], said.host))
    return [{**part, "text": next(texts)} if part["type"] == "text" else part for part in said.parts]
