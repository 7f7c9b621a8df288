"""Files of programs that keep notes about people and things: server-memory's graph, and what mem0 gives of its memories."""

from collections.abc import Iterator
from pathlib import Path

from layerlore.server.foreign.content import (
    Foreign,
    ForeignNote,
    Unread,
    as_list,
    as_object,
    as_text,
    read_expiry,
    read_ms,
)
from layerlore.server.foreign.json_files import open_items, read_lines
from layerlore.storage.core.records import Json

_MEM0_LISTS = ("results", "memories")


def read_server_memory(path: Path) -> Foreign:
    """The observations of each entity, and the relations, as notes. The file has no times: its own counts."""
    at = int(path.stat().st_mtime * 1000)
    for number, line in read_lines(path):
        given = as_object(line)
        if given.get("type") == "entity":
            name, kind = as_text(given.get("name")), as_text(given.get("entityType"))
            if kind:
                about = f"{name} ({kind})"
            else:
                about = name
            observations = [text for each in as_list(given.get("observations")) if (text := as_text(each))]
            yield from (ForeignNote(text, at, about) for text in observations or ["known, and nothing noted"] if name)
        elif given.get("type") == "relation":
            words = [as_text(given.get(key)) for key in ("from", "relationType", "to")]
            if all(words):
                yield ForeignNote(" ".join(words), at)
        else:
            yield Unread(f"line {number}", "neither an entity nor a relation")


def read_mem0(path: Path) -> Foreign:
    """Memories, each with the person it is about."""
    at = int(path.stat().st_mtime * 1000)
    with open_items(path) as items:
        for number, item in enumerate(_list_memories(item for item, _ in items), 1):
            text = as_text(item.get("memory")) or as_text(item.get("content")) or as_text(item.get("data"))
            if not text:
                yield Unread(f"memory {number}", "it has no text")
                continue
            said = read_ms(item.get("updated_at")) or read_ms(item.get("created_at")) or at
            expires = read_expiry(item.get("expiration_date"))
            yield ForeignNote(text, said, resource=as_text(item.get("user_id")), expires_at=expires)


def is_mem0(item: Json) -> bool:
    """Whether an item is a memory, or what holds a list of them."""
    held = next((as_list(item.get(name)) for name in _MEM0_LISTS if name in item), [item])
    return all(isinstance(as_object(each).get("memory"), str) for each in held[:1])


def _list_memories(items: Iterator[Json]) -> Iterator[Json]:
    for item in items:
        held = next((as_list(item[name]) for name in _MEM0_LISTS if name in item), [item])
        yield from map(as_object, held)
