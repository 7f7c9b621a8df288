"""A page of messages as lines for a model to read: each message under a head of thread and day.

    [thread kitchen, 2026-11-22]
    #31 user Ana: I am allergic to peanuts.
    #32 assistant: Noted.
    [same thread, 2026-11-24]
    #33 user Ana: And to sesame, as it seems.
    [messages #31-#33; 33 in all; earlier ones: before=31]

Only the first line of a message begins without a space, so that nothing in a text can pass for a line of ours.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from layerlore.memory.messages.message_answers import MessagePage, NextPage, ShownMessage
from layerlore.memory.parts.parts import MEDIA, plain_text, result_parts
from layerlore.memory.text.blocks import PREAMBLE
from layerlore.memory.text.quotation import format_speaker, indent_lines, quote_line, quote_text
from layerlore.storage.core.records import Json

_NEXT: Mapping[str, str] = {"before": "earlier ones", "after": "later ones", "offset": "the next ones"}
_SETS: tuple[Literal["historyIds", "inputIds", "responseIds"], ...] = ("historyIds", "inputIds", "responseIds")
_DAY_CHARS = len("2026-11-22")


def render_page(page: MessagePage) -> str:
    """Render an answer of ``memory.messages.reader`` as text. The last line names what is needed to go on."""
    lines: list[str] = []
    before: ShownMessage | None = None
    thread = page.get("thread_id", "")
    for entry in page["messages"]:
        lines.append(f"{render_head(entry, before, thread)}{render_entry(entry)}")
        before = entry
    return "\n".join([*([PREAMBLE] if lines else []), *lines, render_closing(page)])


def render_head(entry: ShownMessage, before: ShownMessage | None, page_thread: str) -> str:
    """The line that the entry needs above it beside another one; "" if that is of the same thread and day."""
    thread, day = _find_place(entry, page_thread)
    thread_before, day_before = _find_place(before, page_thread) if before else ("", "")
    if (thread, day) == (thread_before, day_before):
        return ""
    return f"[{'same thread' if thread == thread_before else f'thread {quote_line(thread)}'}, {day}]\n"


def render_entry(entry: ShownMessage) -> str:
    """``#12 user Anna: the text``; behind it the places of images, files and what was cut, as ``part`` takes them."""
    speaker = entry.get("speaker") or format_speaker(entry["role"], entry.get("name"))
    text = quote_text(entry["text"]) if "text" in entry else _render_parts(entry["parts"])
    named = "".join(f' [part="{place}"]' for place in _list_places(entry.get("parts", ())))
    return f"#{entry['seq']} {speaker}: {indent_lines(text)}{named}{_describe_cut(entry)}"


def _render_parts(parts: Sequence[Json]) -> str:
    # A part that was cut inside is the beginning of its JSON.
    return "\n".join(quote_text(part["json"]) if "json" in part else plain_text([part], quote_text) for part in parts)


def _list_places(parts: Sequence[Json]) -> Iterator[str]:
    for part in parts:
        inner = result_parts(part.get("result")) if part["type"] == "tool_result" else ()
        yield from (each["part"] for each in (part, *inner) if each["type"] in MEDIA and "part" in each)


def _describe_cut(entry: ShownMessage) -> str:
    cut = entry.get("cut")
    if cut is None:
        return ""
    goes_on = f', goes on with part="{cut["part"]}"' if "part" in cut else ""
    return f" [cut: {cut['bytes']:,} bytes in all{goes_on}]"


def _find_place(entry: ShownMessage, page_thread: str) -> tuple[str, str]:
    """The thread and the day of a message."""
    return entry.get("thread_id") or page_thread, entry["said_at"][:_DAY_CHARS]


def render_closing(page: MessagePage) -> str:
    """The last line: which messages these are, whether something is cut, and what continues."""
    entries = page["messages"]
    following: NextPage = page.get("next", {})
    said = [
        f"messages{_describe_range(page, entries) if entries else _describe_empty(page)}",
        *([page["cut"]] if "cut" in page else []),
        *(f"{_NEXT[name]}: {name}={value}" for name, value in following.items() if name in _NEXT),
        *([f'goes on: part="{following["part"]}"'] if "part" in following else []),
        *(f"{name}: {', '.join(page[name])}" for name in _SETS if page.get(name)),
    ]
    return f"[{'; '.join(said)}]"


def _describe_range(page: MessagePage, entries: Sequence[ShownMessage]) -> str:
    if "thread_id" not in page:
        return f": {len(entries):,} shown; {page['total']:,} in all"
    first, last = entries[0]["seq"], entries[-1]["seq"]
    return f" #{first}{'' if first == last else f'-#{last}'}; {page['total']:,} in all"


def _describe_empty(page: MessagePage) -> str:
    if page["total"]:
        return f": none from here on; {page['total']:,} in all"
    return f": none in thread {quote_line(page['thread_id'])}" if "thread_id" in page else ": none"
