"""Answers as they are sent, none of them larger than ``limits.answer_bytes``.

What is a list was cut to that where it was read, and says how it goes on. Here the rest is held to it: a text is cut, and
a structure that alone is as large as that (a run's state) is sent once, not a second time as text.
"""

import json
from typing import Any

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

from layerlore.memory.parts.media import Media
from layerlore.memory.rules.pages import count_sent_bytes, write_answer
from layerlore.server.resources.uris import uri_of
from layerlore.server.tools.call import AnswerWithMedia


def make_result(answer: Any, most: int) -> CallToolResult:
    """Text as it is; a structure as compact JSON, and beside it as itself, each complete on its own."""
    if isinstance(answer, str):
        return CallToolResult(content=[TextContent(type="text", text=cut_text(answer, most))])
    structure = answer.structure if isinstance(answer, AnswerWithMedia) else answer
    if isinstance(structure, str):
        shown = TextContent(type="text", text=cut_text(structure, most))
        return CallToolResult(content=[shown, _block(answer.media, answer.thread_id)])
    text = write_answer(structure)
    if count_sent_bytes(text) > most:
        text = f"[the answer has {len(text.encode()):,} bytes of JSON: it is in the structured content alone]"
    content: list[ContentBlock] = [TextContent(type="text", text=text)]
    if isinstance(answer, AnswerWithMedia):
        content.append(_block(answer.media, answer.thread_id))
    return CallToolResult(content=content, structured_content=structure)


def make_contents(
    uri: str, media_type: str, answer: Any, most: int
) -> list[TextResourceContents | BlobResourceContents]:
    """A resource: its text, or one image or file as it is."""
    if isinstance(answer, AnswerWithMedia):
        return [BlobResourceContents(uri=uri, mime_type=answer.media.media_type, blob=answer.media.data)]
    text = answer if isinstance(answer, str) else write_answer(answer)
    return [TextResourceContents(uri=uri, mime_type=media_type, text=cut_text(text, most))]


def cut_text(text: str, most: int) -> str:
    """The text, cut where it has more bytes than that as JSON; the last line says so."""
    size = _bytes(text)
    if size <= most:
        return text
    said = f"\n[cut: {size:,} bytes in all; at most {most:,} in one answer: ask for less at a time]"
    fits, over = 0, min(len(text), most) + 1
    while over - fits > 1:
        middle = (fits + over) // 2
        if _bytes(text[:middle]) <= most - len(said):
            fits = middle
        else:
            over = middle
    return text[:fits] + said


def _bytes(text: str) -> int:
    # Half of a surrogate pair counts as it is sent.
    return len(json.dumps(text, ensure_ascii=False).encode(errors="surrogatepass"))


def _block(media: Media, thread_id: str) -> ContentBlock:
    kind = media.media_type.partition("/")[0]
    if media.kind == "image":
        return ImageContent(type="image", data=media.data, mime_type=media.media_type)
    if kind == "audio":
        return AudioContent(type="audio", data=media.data, mime_type=media.media_type)
    uri = f"{uri_of('messages', thread_id)}?part={media.place}"
    return EmbeddedResource(
        type="resource", resource=BlobResourceContents(uri=uri, mime_type=media.media_type, blob=media.data)
    )
