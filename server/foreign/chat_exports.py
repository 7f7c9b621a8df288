"""Exports of ChatGPT and Claude as conversations, and the content of their messages."""

import hashlib
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import ijson  # type: ignore[import-untyped]
import numpy

from layerlore.memory.moving.foreign_notes import ForeignNote, UnreadableItem
from layerlore.memory.parts.parts import text_part, tool_call_part, tool_result_part
from layerlore.memory.rules.ages import parse_expiry
from layerlore.memory.rules.validation import parse_time
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json, Role

# The memory of Claude's export comes as one file, or as one for each account in a folder.
_READ_FILES = ("conversations", "memories")
_BEGINNING = 64 * 1024
_MOST_DEPTH = 500
_MOST_UNPACKED = 4 * 1024 * 1024 * 1024
"""Bytes that an archive may unpack to; exports of years are a tenth of it."""
_MOST_TIMES = 200
"""How many times its own size a part of an archive may unpack to: text comes to twenty."""


@contextmanager
def open_items(path: Path) -> Iterator[Iterator[tuple[Any, int]]]:
    """The items of a list (or the one value that there is), each with how many bytes were read until then.
    In an archive, all files that are named after conversations or memories. Raises InvalidInput for what is not JSON, and
    OSError."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield _read_archive(archive)
    else:
        with path.open("rb") as file:
            yield _parse(file, path.name, 0)


def _read_archive(archive: zipfile.ZipFile) -> Iterator[tuple[Any, int]]:
    _check_sizes(archive)
    done = 0
    # Sorted, so that numbered parts come in the same order in each import.
    for member in sorted(archive.infolist(), key=lambda each: each.filename):
        name = member.filename.rpartition("/")[2]
        in_folder = f"/{member.filename}".endswith(f"/memories/{name}")
        if (name.startswith(_READ_FILES) or in_folder) and name.endswith(".json"):
            with archive.open(member) as file:
                yield from _parse(file, member.filename, done)
            # Compressed sizes, since the progress is measured against the archive's own size.
            done += member.compress_size


def _check_sizes(archive: zipfile.ZipFile) -> None:
    """An archive that claims little and unpacks to much is refused before anything of it is read. Raises InvalidInput."""
    members = archive.infolist()
    total = sum(each.file_size for each in members)
    if total > _MOST_UNPACKED:
        raise InvalidInput(f"the archive unpacks to {total:,} bytes; at most {_MOST_UNPACKED:,} are allowed")
    for each in members:
        # Small files compress well without being an attack.
        if each.file_size > 1_000_000 and each.file_size > _MOST_TIMES * max(each.compress_size, 1):
            raise InvalidInput(
                f"{each.filename} unpacks to {each.file_size:,} bytes, more than {_MOST_TIMES} times what it takes in the "
                "archive; no export does"
            )


def _parse(file: IO[bytes], name: str, before: int) -> Iterator[tuple[Any, int]]:
    # The beginning distinguishes a list from a single object, since the whole file may not fit into memory.
    beginning = file.read(_BEGINNING).lstrip(b"\xef\xbb\xbf \t\r\n")
    file.seek(0)
    counted = _CountedFile(file)
    if beginning.startswith(b"["):
        prefix = "item"
    else:
        prefix = ""
    try:
        # Decimal numbers, the parser's default, cannot be stored as JSON.
        for item in ijson.items(counted, prefix, use_float=True):
            yield item, before + counted.done
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from None
    except ijson.JSONError as error:
        raise InvalidInput(f"{name} is no JSON, or cut off: {error}; what came before was stored") from None
    except RecursionError:
        raise InvalidInput(f"{name} is nested too deeply; what came before was stored") from None
    except zipfile.BadZipFile as error:
        raise InvalidInput(f"{name} cannot be unpacked: {error}; what came before was stored") from None


class _CountedFile:
    """A file that counts what is read, leaves out a byte order mark, and is not nested deeper than anything that is
    exported: a parser's memory grows with the square of the depth."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._nesting = _Nesting()
        self.done = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        # Only at the file's beginning is it a mark.
        if not self.done:
            data = data.removeprefix(b"\xef\xbb\xbf")
        self.done += len(data)
        self._nesting.read(data)
        return data


class _Nesting:
    """How deep the JSON is nested that was read so far, piece by piece."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._rest = b""

    def read(self, data: bytes) -> None:
        """Raises InvalidInput where it is too deep."""
        data = self._rest + data
        # A backslash at the end of a piece escapes a character of the next one.
        backslashes = len(data) - len(data.rstrip(b"\\"))
        self._rest = b"\\" if backslashes % 2 else b""
        whole = data[: len(data) - len(self._rest)]
        # Escapes are blanked first, so that each quote left over begins or ends a text.
        plain = whole.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
        codes = numpy.frombuffer(plain, numpy.uint8)
        if not len(codes):
            return
        # An odd number of quotes before a place means that it lies inside a text.
        is_text = (numpy.cumsum(codes == ord('"')) + self._in_text) % 2 == 1
        opens = (codes == ord("[")) | (codes == ord("{"))
        closes = (codes == ord("]")) | (codes == ord("}"))
        steps = numpy.where(is_text, 0, opens.astype(numpy.int64) - closes)
        depths = self._depth + numpy.cumsum(steps)
        if depths.max() > _MOST_DEPTH:
            raise InvalidInput(f"it is nested more than {_MOST_DEPTH} levels deep; what came before was stored")
        self._depth = int(depths[-1])
        self._in_text = bool(is_text[-1])


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """The values of a file of JSON lines, with their numbers; None for a line that is not JSON."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                # One bad line must not end the import of the others.
                except (ValueError, RecursionError):
                    yield number, None


IMAGE = "[image]"
"""Stands for an image, which the exports hold in files of their own, if at all."""


@dataclass(frozen=True, slots=True)
class ForeignConversation:
    """Messages in the shape that add_messages takes, each with an id that is the same whenever the file is read. They may
    be given in several pieces. ``resource``: their speaker, if the file names several people."""

    thread_id: str
    title: str
    messages: list[Json]
    metadata: Json = field(default_factory=dict)
    resource: str = ""


Foreign = Iterator[ForeignConversation | ForeignNote | UnreadableItem]


def find_files(path: Path, pattern: str) -> Iterator[Path | UnreadableItem]:
    """The path itself if it is a file; else the files below it that match, in order. A link in a folder is not followed,
    since it may lead out of the folder."""
    if path.is_file():
        yield path
        return
    for found in sorted(path.rglob(pattern)):
        if found.is_symlink() and not found.exists():
            yield UnreadableItem(str(found), "it is a link that leads nowhere")
        elif found.is_symlink():
            yield UnreadableItem(str(found), "it is a link; import the file that it leads to by its own name")
        elif found.is_file():
            yield found
        # The files in a folder are found by their own names.
        elif not found.is_dir():
            yield UnreadableItem(str(found), "it is no regular file")


def clean(value: Any) -> Any:
    """A JSON value with what no database stores taken out of its texts."""
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [clean(each) for each in value]
    if isinstance(value, dict):
        return {clean(key): clean(each) for key, each in value.items()}
    return value


def as_object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    return clean(value).strip() if isinstance(value, str) else ""


def read_ms(value: Any) -> int | None:
    """A time as milliseconds: from ISO 8601, or from seconds or milliseconds since 1970. None for anything else."""
    try:
        return parse_time(value, "time")
    except InvalidInput:
        return None


def read_expiry(value: Any) -> int | None:
    """When something expires, in milliseconds: a date alone counts whole. None for anything else."""
    try:
        return parse_expiry(value, "time") if isinstance(value, str) else read_ms(value)
    except InvalidInput:
        return None


def say(id_: str, role: str, texts: list[str], at: int | None, **more: Any) -> list[Json]:
    """A message of texts; none if they are empty."""
    parts = [text_part(text) for text in texts if text]
    return [{"id": id_, "role": role, "parts": parts, "created_at": at, **more}] if parts else []


def list_unread(item: Json, where: str) -> Iterator[UnreadableItem]:
    """The messages of a conversation that are no objects, and so cannot be read."""
    messages = item["mapping"].values() if is_chatgpt(item) else item["chat_messages"]
    for number, each in enumerate(messages, 1):
        if not isinstance(each, dict):
            yield UnreadableItem(f"{where}, message {number}", "it is no object")


def _mark_item(item: Json) -> str:
    """An id for a conversation that has none: the same whenever the same conversation is read."""
    return hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()[:32]


_NOT_SAID = ("user_editable_context", "model_editable_context", "reasoning_recap", "thoughts")


def is_chatgpt(item: Json) -> bool:
    """Whether an item is one of these conversations."""
    return isinstance(item.get("mapping"), dict)


def read_chatgpt(item: Json) -> ForeignConversation:
    """A conversation."""
    id_ = as_text(item.get("conversation_id")) or as_text(item.get("id")) or _mark_item(item)
    messages: list[Json] = []
    last = read_ms(item.get("create_time"))
    call = ""
    for node in _list_chatgpt_branch(item):
        message = as_object(node.get("message"))
        # A message without a time gets that of the message before it, so that the order stays.
        last = read_ms(message.get("create_time")) or last
        found = _read_message(message, as_text(node.get("id")), last, call)
        messages += found
        if found:
            # Results in ChatGPT's export do not name their call: they belong to the last call before them.
            called = [part["id"] for part in found[0]["parts"] if part["type"] == "tool_call"]
            if called:
                call = called[0]
    model = as_text(item.get("default_model_slug"))
    metadata = {"source": "chatgpt", **({"model": model} if model else {})}
    return ForeignConversation(f"chatgpt-{id_}", as_text(item.get("title")), messages, metadata)


def _list_chatgpt_branch(item: Json) -> list[Json]:
    """The nodes from the root to the one that was shown last."""
    nodes = item["mapping"]
    at = item.get("current_node")
    # A deleted or missing current node: the newest leaf is what the user saw last.
    if not isinstance(at, str) or at not in nodes:
        leaves = [key for key, node in nodes.items() if not as_list(as_object(node).get("children"))]
        at = max(leaves, key=lambda key: _time_of(nodes[key]), default=None)
    found: list[Json] = []
    seen: set[str] = set()
    # A damaged export may have a cycle.
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
    # Hidden messages and those of weight 0 are edits or system data that the user never saw.
    if metadata.get("is_visually_hidden_from_conversation") or message.get("weight") == 0 or kind in _NOT_SAID:
        return []
    texts = _read_texts(content)
    text = "\n".join(texts)
    recipient = as_text(message.get("recipient")) or "all"
    # A recipient other than all means that the model called a tool.
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
        # A quoted web page names its title and address beside its text.
        beside = [content.get("title"), content.get("url"), *beside]
    return [text for each in (*found, *beside) if (text := as_text(each))]


def _read_part(part: Any) -> str:
    if isinstance(part, str):
        return clean(part) if part.strip() else ""
    given = as_object(part)
    if "image" in str(given.get("content_type", "")):
        return IMAGE
    return as_text(given.get("text"))


_ROLES: dict[str, Role] = {"human": "user", "user": "user", "assistant": "assistant"}


def is_claude(item: Json) -> bool:
    """Whether an item is one of these conversations."""
    return isinstance(item.get("chat_messages"), list)


def read_claude(item: Json) -> ForeignConversation:
    """A conversation."""
    messages: list[Json] = []
    for number, each in enumerate(_list_claude_branch(item), 1):
        role = _ROLES.get(str(each.get("sender")))
        if role:
            parts = _read_parts(each)
        else:
            parts = []
        if parts:
            id_, at = as_text(each.get("uuid")) or f"message-{number}", read_ms(each.get("created_at"))
            messages.append({"id": id_, "role": role, "parts": parts, "created_at": at})
    project = as_text(as_object(item.get("project")).get("name"))
    metadata = {"source": "claude", **({"project": project} if project else {})}
    id_ = as_text(item.get("uuid")) or _mark_item(item)
    return ForeignConversation(f"claude-{id_}", as_text(item.get("name")), messages, metadata)


def _list_claude_branch(item: Json) -> list[Json]:
    """The messages from the first to the one that the conversation ends with. Exports of older days have no branches."""
    messages = [each for each in item["chat_messages"] if isinstance(each, dict)]
    by_id = {id_: each for each in messages if (id_ := as_text(each.get("uuid")))}
    parents = {as_text(each.get("parent_message_uuid")) for each in messages}
    # Old exports are a plain list without parents.
    if not parents & by_id.keys():
        return messages
    leaves = [each for each in messages if as_text(each.get("uuid")) not in parents]
    named = by_id.get(as_text(item.get("current_leaf_message_uuid")))
    at = named or max(leaves, key=lambda each: read_ms(each.get("created_at")) or 0, default=None)
    found: list[Json] = []
    # The count stops a cycle in a damaged export.
    while at is not None and len(found) < len(messages):
        found.append(at)
        at = by_id.get(as_text(at.get("parent_message_uuid")))
    return found[::-1]


def _read_parts(message: Json) -> list[Json]:
    found = [
        part for number, block in enumerate(as_list(message.get("content"))) if (part := _read(message, number, block))
    ]
    # Older exports have the text outside the list of content blocks.
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
