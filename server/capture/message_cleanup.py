"""Cleans messages of transcripts before they are stored: private parts, our own tools' calls, work of sub-agents and the
middle of long texts stay out.

``.layerloreignore`` keeps paths out of the memory. It has the syntax of ``.gitignore`` and may be in a session's folder and
above it, up to the top of the repository. The file must belong to the user or to the owner of its folder.
"""

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pathspec import GitIgnoreSpec

from layerlore.memory.text.own_tools import is_own_call, is_own_tool, is_tool_search
from layerlore.server.capture.host_lines import IMAGE, TranscriptMessage
from layerlore.server.process.safe_files import find_top, read_regular
from layerlore.server.relay.spool import strip_private
from layerlore.server.settings.sections import CaptureSettings
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json

FILE = ".layerloreignore"
_MOST_BYTES = 64 * 1024
_MOST_LINES = 2_000
# No pattern names this, so only a pattern that leaves out everything matches it.
_ANY = "layerlore-any/layerlore-any"
_PATH_KEY = linear_re.compile("path|file|dir|folder|uri|root|cwd", linear_re.IGNORECASE)
_COMMAND_KEYS = ("command", "cmd", "script", "input", "patch", "CommandLine")
_LINE_PATH = linear_re.compile(r"(?:[A-Za-z]:[\\/])?[^:\s]*")
_WORD = linear_re.compile(r"""[^\s"'`;|&<>()=,]+""")
_PATCHED = linear_re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", linear_re.MULTILINE)
_LONGEST_PATH = 4096
_MOST_WORDS = 2000


class IgnoredPaths:
    """The rules of the ignore files in a folder and above it."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(os.path.normpath(Path(folder or os.sep).absolute()))
        self._rules = [*_read_rules(self._folder)]

    @property
    def is_everything(self) -> bool:
        """Whether the folder itself is left out, with all its conversations."""
        return any(spec.match_file(_ANY) for at, spec in self._rules if at == self._folder) or self._has(
            self._folder, "/"
        )

    def has(self, path: str) -> bool:
        """Whether a path, absolute or in the folder, is left out."""
        # Without a rule nothing is left out, and most folders have none: this is the fast way.
        if not self._rules or not path or len(path) > _LONGEST_PATH or "\0" in path:
            return False
        plain = os.path.expanduser(path.removeprefix("file://"))  # noqa: PTH111 - Path raises where no home is known
        whole = Path(os.path.normpath(self._folder / plain))
        # A pattern that ends in a slash matches folders only, and the path may be one that no longer exists.
        return self._has(whole, "") or self._has(whole, "/")

    def has_any(self, arguments: Any) -> bool:
        """Whether a tool's arguments name a path that is left out."""
        return bool(self._rules) and any(map(self.has, _find_paths(arguments)))

    def strip_lines(self, text: str) -> str:
        """The text without lines that begin with an ignored path, as in the output of a search through files."""
        if not self._rules:
            return text
        return "\n".join(line for line in text.split("\n") if not self.has(_LINE_PATH.match(line)[0]))  # type: ignore[index]

    def _has(self, path: Path, ending: str) -> bool:
        for at, spec in self._rules:
            # As in Git, a file's patterns are relative to the folder that it lies in.
            if path != at and path.is_relative_to(at) and spec.match_file(path.relative_to(at).as_posix() + ending):
                return True
        return False


def _read_rules(folder: Path) -> Iterator[tuple[Path, GitIgnoreSpec]]:
    top = Path(find_top(str(folder / FILE)))
    above = [each for each in folder.parents if each.is_relative_to(top)]
    for at in (folder, *above):
        try:
            # Another user's file in a shared folder could otherwise switch off the memory.
            owners = (os.geteuid(), at.stat().st_uid) if hasattr(os, "geteuid") else ()
            # Links are not followed, and one byte more than allowed shows that a file is too large.
            content = read_regular(str(at / FILE), _MOST_BYTES + 1, follow=False, owners=owners)
        except OSError:
            continue
        yield at, _compile(content)


@lru_cache(maxsize=16)
def _compile(content: bytes) -> GitIgnoreSpec:
    """The rules of a file, matched in linear time. A file that is too large or complex for that ignores everything, because
    its owner's wish is unknown."""
    lines = content.decode("utf-8-sig", "replace").splitlines()
    if len(content) <= _MOST_BYTES and len(lines) <= _MOST_LINES:
        with contextlib.suppress(Exception):  # pathspec raises several, and RE2 its own
            # RE2 matches in linear time; a repository's pattern could otherwise stall the server.
            return GitIgnoreSpec.from_lines(lines, backend="re2")
    return GitIgnoreSpec.from_lines(["*"], backend="re2")


def _find_paths(arguments: Any, key: str = "") -> Iterator[str]:
    """The texts among a tool's arguments that are paths, or words of a command."""
    if isinstance(arguments, dict):
        for name, value in arguments.items():
            yield from _find_paths(value, str(name))
    elif isinstance(arguments, list):
        for value in arguments:
            yield from _find_paths(value, key)
    elif isinstance(arguments, str):
        if key in _COMMAND_KEYS:
            yield from _PATCHED.findall(arguments)
            # The number is bounded, since each word is matched against each rule.
            yield from _WORD.findall(arguments)[:_MOST_WORDS]
        elif _PATH_KEY.search(key):
            yield arguments


_NAME = linear_re.compile(r"/?([A-Za-z][\w-]{0,63})")


@dataclass(frozen=True, slots=True)
class _HostMarks:
    """Texts that a host adds to a user's message. ``notes``: tags around the host's own words and data. ``words``: tags
    around a part of the user's words. ``query``: the tag around all of the user's words. ``openings``: beginnings of texts
    without any words of the user. ``files``: the texts around files that the user named. ``heading``: the first line of
    such a message, and the line before the user's words."""

    notes: Collection[str] = ()
    words: Collection[str] = ()
    query: str = ""
    openings: tuple[str, ...] = ()
    files: tuple[str, str] = ("", "")
    heading: tuple[str, str] = ("", "")


_MARKS = {
    "claude-code": _HostMarks(
        notes=(
            *("system-reminder", "ide_opened_file", "ide_selection", "ide_diagnostics", "task-notification"),
            *("local-command-caveat", "local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr"),
            *("command-name", "command-message", "command-contents"),
        ),
        words=("command-args", "bash-input"),
        openings=(
            *("[Request interrupted by user", "Caveat: The messages below were generated"),
            *("<bash-stdout>", "<bash-stderr>", "<local-command-stdout>", "<local-command-stderr>"),
            "<task-notification>",
        ),
    ),
    "codex": _HostMarks(
        notes=(
            *("environment_context", "user_instructions", "INSTRUCTIONS", "turn_aborted", "user_shell_command"),
            *("subagent_notification", "hook_prompt"),
        ),
        openings=("# AGENTS.md instructions", "<user_instructions>", "<turn_aborted>", "<user_shell_command>"),
        heading=("# Context from my IDE setup:", "## My request for Codex:"),
    ),
    "cursor": _HostMarks(
        notes=(
            *("timestamp", "attached_files", "open_and_recently_viewed_files", "system_reminder", "system-reminder"),
            *("user_info", "git_status", "project_layout", "always_applied_workspace_rules", "agent_skills"),
            *("agent_requestable_workspace_rules", "manually_attached_skills", "agent_transcripts", "user_rules"),
        ),
        query="user_query",
    ),
    "gemini-cli": _HostMarks(
        notes=("hook_context", "session_context"),
        files=("--- Content from referenced files ---", "--- End of content ---"),
    ),
    "vscode": _HostMarks(notes=("reminderInstructions", "editorContext"), query="userRequest"),
}


@dataclass(frozen=True, slots=True)
class _Tag:
    """A tag of a text: from ``starts`` to ``ends``. ``closes``: it ends an element."""

    name: str
    closes: bool
    starts: int
    ends: int


def find_user_words(texts: Sequence[str], host: str) -> list[str]:
    """The user's words in each text of one message in a transcript of ``host``; "" for a text without any. ``host`` "": no
    transcript, so the texts are the user's own."""
    marks = _MARKS.get(host)
    if marks is None:
        return list(texts)
    if marks.query:
        queries = [_find_query(text, marks) for text in texts]
    else:
        queries = []
    # The last query counts, since an earlier text may quote one.
    last_query = max((at for at, query in enumerate(queries) if query is not None), default=None)
    if last_query is None:
        # The host may have sent the text without its tag, for example in an older version.
        return [_strip_notes(text, marks).strip() for text in texts]
    # The host wrote every other text, except that an image is the user's.
    words = [text if text == IMAGE else "" for text in texts]
    words[last_query] = (queries[last_query] or "").strip()
    return words


def _find_query(text: str, marks: _HostMarks) -> str | None:
    """The user's words in the tag around all of them; None without such a tag."""
    # Most texts have no such tag, and the search for a literal is far cheaper than a list of tags.
    if f"<{marks.query}" not in text:
        return None
    # A host writes the query last. Its closing tag at the very end cannot come from data of the host.
    text = text.rstrip()
    if not text.endswith(f"</{marks.query}>"):
        text = _strip_notes(text, marks)
    outermost = _find_elements([*_list_tags(text, (marks.query,))])
    if not outermost:
        return None
    last = max(outermost)
    return text[outermost[last][0].ends : outermost[last][1].starts]


def _strip_notes(text: str, marks: _HostMarks) -> str:
    if text.lstrip().startswith(marks.openings):
        return ""
    text = _cut_between(text, *marks.files)
    first, heading = marks.heading
    if heading and text.lstrip().startswith(first):
        # Without a request, the message holds only what the editor showed.
        if heading in text:
            # The last heading is the real one, since a file in the editor may contain the same words.
            text = text.rpartition(heading)[2]
        else:
            text = ""
    tags = [*_list_tags(text, (*marks.notes, *marks.words))]
    # The last closing tag of a name ends its note, since the text inside may quote one.
    last_close = {tag.name: tag.ends for tag in tags if tag.closes}
    of_user = _find_elements([tag for tag in tags if tag.name in marks.words])
    if tags and _is_cut_off(tags[0], text, last_close, marks):
        return ""
    kept: list[str] = []
    at, in_note = 0, False
    for tag in tags:
        if tag.starts >= at:
            in_note = False
        if tag.closes:
            continue
        if tag.name in marks.notes:
            end = last_close.get(tag.name, 0)
            # A note that begins inside another one, and ends behind it, belongs to it.
            if end > max(at, tag.starts) and (in_note or tag.starts >= at):
                kept.append(text[at : tag.starts])
                at, in_note = end, True
        elif tag.starts >= at and tag.starts in of_user:
            begin, close = of_user[tag.starts]
            kept += [text[at : begin.starts], text[begin.ends : close.starts]]
            at = close.ends
    words = "".join([*kept, text[at:]])
    # Such an opening may come after a note.
    if words.lstrip().startswith(marks.openings):
        return ""
    return words


def _is_cut_off(first: _Tag, text: str, last_close: Mapping[str, int], marks: _HostMarks) -> bool:
    """Whether a text begins with a note that is never closed, so that the whole text is the host's."""
    begins_note = first.name in marks.notes and not first.closes and not text[: first.starts].strip()
    return begins_note and first.name not in last_close


def _cut_between(text: str, begin: str, end: str) -> str:
    """The text without the two marks and everything between them. An empty ``begin`` changes nothing."""
    starts = text.find(begin)
    if not begin or starts < 0:
        return text
    ends = text.rfind(end, starts)
    return text[:starts] + (text[ends + len(end) :] if ends >= 0 else "")


def _list_tags(text: str, names: Collection[str]) -> Iterator[_Tag]:
    """The tags of these names, in order."""
    at = text.find("<")
    while at >= 0:
        behind = text.find("<", at + 1)
        found = _NAME.match(text, at + 1)
        if found is not None and found[1] in names:
            # The tag ends before the next "<", so that an unclosed one does not swallow another.
            closing = text.find(">", found.end(), behind if behind >= 0 else len(text))
            ends = closing + 1 if closing >= 0 else found.end()
            yield _Tag(found[1], text[at + 1] == "/", at, ends)
        at = behind


def _find_elements(tags: Sequence[_Tag]) -> Mapping[int, tuple[_Tag, _Tag]]:
    """The outermost complete elements, by the positions of their opening tags."""
    opened: list[_Tag] = []
    found: dict[int, tuple[_Tag, _Tag]] = {}
    for tag in tags:
        if not tag.closes:
            opened.append(tag)
        # Only the innermost open element can be closed here; a stray closing tag is ignored.
        elif opened and opened[-1].name == tag.name:
            begin = opened.pop()
            found[begin.starts] = (begin, tag)
    outermost: dict[int, tuple[_Tag, _Tag]] = {}
    end = 0
    for starts in sorted(found):
        if starts >= end:
            outermost[starts] = found[starts]
            end = found[starts][1].ends
    return outermost


LONGEST_TEXT = 60_000
"""The most characters of a message's text, at most four bytes each. The middle of a longer text is left out."""
_CUT = "\n[{} characters left out]\n"
_MOST_DEPTH = 40
_MOST_ITEMS = 200


class Cleaner:
    """Cleans the messages of one conversation, in order. ``left_out``: the ids of calls that were left out and whose
    results are still to come."""

    def __init__(self, rules: CaptureSettings, ignored: IgnoredPaths, left_out: Iterable[str]) -> None:
        self.left_out = set(left_out)
        self._rules = rules
        self._ignored = ignored
        self._found_own: set[str] = set()

    def clean(self, said: Sequence[TranscriptMessage]) -> list[TranscriptMessage]:
        """The cleaned messages, without those that are empty then."""
        # A search may find our tools without naming them, and its result comes after its call.
        self._found_own = {part["tool_call_id"] for each in said for part in each.parts if _names_own_tools(part)}
        return [kept for each in said if (kept := self._clean_message(each)) is not None]

    def _clean_message(self, said: TranscriptMessage) -> TranscriptMessage | None:
        if said.by_subagent and not self._rules.subagents:
            return None
        if said.role == "assistant":
            # Only hosts write notes into a user's message; a model's own text may show such tags as an example.
            own = said.parts
        else:
            own = _keep_user_words(said)
        parts = [kept for part in own if (kept := self._clean_part(part)) is not None]
        if parts:
            return replace(said, parts=parts)
        return None

    def _clean_part(self, part: Json) -> Json | None:
        match part["type"]:
            case "text":
                text = shorten(strip_private(part["text"]), LONGEST_TEXT)
                if text.strip():
                    return {**part, "text": text}
                return None
            case "tool_call":
                if self._is_own_call(part) or self._ignored.has_any(part["arguments"]):
                    # A recall stored as a message would be recalled again and grow with each turn.
                    self.left_out.add(part["id"])
                    return None
                return {**part, "arguments": self._clean_value(part["arguments"])}
            case "tool_result":
                if part["tool_call_id"] in self.left_out:
                    # A call has one result, so the id is not needed again.
                    self.left_out.discard(part["tool_call_id"])
                    return None
                return {**part, "result": self._clean_value(part["result"])}
        return None

    def _is_own_call(self, part: Json) -> bool:
        finds_own = is_tool_search(part["name"]) and part["id"] in self._found_own
        return finds_own or is_own_call(part["name"], part["arguments"])

    def _clean_value(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            return shorten(strip_private(self._ignored.strip_lines(value)), self._rules.tool_chars)
        # A transcript is foreign input, and deep nesting would exceed Python's recursion limit.
        if depth > _MOST_DEPTH:
            return None
        if isinstance(value, dict):
            return {name: self._clean_value(each, depth + 1) for name, each in [*value.items()][:_MOST_ITEMS]}
        if isinstance(value, list):
            return [self._clean_value(each, depth + 1) for each in value[:_MOST_ITEMS]]
        return value


def _names_own_tools(part: Json) -> bool:
    """Whether a part is the result of a tool and consists of our tools' names only."""
    names = part["result"].split() if part["type"] == "tool_result" and isinstance(part["result"], str) else []
    return bool(names) and all(map(is_own_tool, names))


def shorten(text: str, most: int) -> str:
    """The text without characters that cannot be stored. In a text of more than ``most`` characters, a note replaces the
    middle."""
    # PostgreSQL stores no NUL in text, and a lone surrogate is not valid UTF-8.
    text = text.replace("\0", "").encode("utf-8", "replace").decode()
    if len(text) <= most:
        return text
    note = _CUT.format(f"{len(text) - most:,}")
    # Two thirds of the room go to the beginning, where a text says what it is about.
    kept = max(0, most - len(note))
    return text[: kept - kept // 3] + note + text[len(text) - kept // 3 :]


def _keep_user_words(said: TranscriptMessage) -> list[Json]:
    """The parts, with only the user's own words in their texts."""
    texts = iter(find_user_words([part["text"] for part in said.parts if part["type"] == "text"], said.host))
    return [{**part, "text": next(texts)} if part["type"] == "text" else part for part in said.parts]
