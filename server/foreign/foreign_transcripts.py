"""Transcripts of Claude Code and Codex, read and cleaned as capture by hooks does, so that a message that both bring
is stored once."""

import json
from pathlib import Path

from layerlore.server.capture.ignored import IgnoredPaths
from layerlore.server.capture.message_cleanup import Cleaner
from layerlore.server.capture.new_lines import TranscriptCursor, read_new
from layerlore.server.capture.said import Said, as_object
from layerlore.server.foreign.content import Foreign, ForeignConversation, Unread, find_files
from layerlore.server.process.safe_files import UnsafeFile, open_regular
from layerlore.server.settings.capture import CaptureSettings
from layerlore.storage.core.records import Json

_LOOKED_AT = 50
"""Lines in which the session and its folder are named."""


def read_transcripts(path: Path, rules: CaptureSettings) -> Foreign:
    """The transcripts of a folder and those below it, or the one file, each a conversation under its session's id."""
    for file in find_files(path, "*.jsonl"):
        if isinstance(file, Unread):
            yield file
            continue
        try:
            session, folder = _identify(file)
        except UnsafeFile as error:
            yield Unread(str(file), error.strerror or "")
            continue
        ignored = IgnoredPaths(folder or str(file.parent))
        if ignored.is_everything:
            yield Unread(str(file), "its folder is left out by a .layerloreignore")
            continue
        cleaner, cursor = Cleaner(rules, ignored, set()), TranscriptCursor()
        while (found := read_new(str(file), cursor, ended=True)) is not None:
            said, cursor = found
            kept = [clean for each in said if (clean := cleaner.clean(each)) is not None]
            messages = [_as_message(each) for each in {each.id: each for each in kept}.values()]
            if messages:
                yield ForeignConversation(session, "", messages)


def is_transcript(line: object) -> bool:
    """Whether a line is one of Claude Code's or Codex's."""
    given = as_object(line)
    of_codex = isinstance(given.get("payload"), dict) and isinstance(given.get("type"), str)
    return of_codex or ("sessionId" in given and "type" in given)


def _identify(file: Path) -> tuple[str, str]:
    """The session of a transcript, and the folder that it was in. A sub-agent's lies under the name of its file."""
    session = folder = ""
    with open(open_regular(str(file)), "rb") as lines:  # noqa: PTH123 - a descriptor
        for _, line in zip(range(_LOOKED_AT), lines, strict=False):
            try:
                given = as_object(json.loads(line))
            except (ValueError, RecursionError):
                continue
            payload = as_object(given.get("payload"))
            if given.get("type") == "session_meta":
                named = payload.get("id")
            else:
                named = given.get("sessionId")
            session = session or str(named or "")
            folder = folder or str(payload.get("cwd") or given.get("cwd") or "")
    return (session if session and session in file.name else file.stem), folder


def _as_message(said: Said) -> Json:
    return {"id": said.id, "role": said.role, "parts": said.parts, "created_at": said.at}
