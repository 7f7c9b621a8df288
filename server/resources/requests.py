"""resources/list, resources/templates/list and resources/read.

A resource is a view of a tool's answer or, where no tool serves, of a function's.
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import parse_qsl, quote, unquote

from mcp.server.apps import APP_MIME_TYPE, client_supports_apps
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)

from layerlore.memory.parts.media import Media
from layerlore.memory.rules.answers import count_sent_bytes, write_answer
from layerlore.memory.rules.validation import Limits, check_id, describe_choices
from layerlore.server.access.caller import RequestContext, caller_of, principal_of, settings_of
from layerlore.server.explorer.routes import read_page
from layerlore.server.resources.kinds import (
    JSON,
    KINDS,
    OF_A_THREAD,
    TEMPLATED,
    TEXT_QUERIES,
    Address,
    Kind,
    describe_kind,
)
from layerlore.server.tools.declaration import AnswerWithMedia, Declaration, call_function, call_tool
from layerlore.server.tools.explorer import EXPLORER_URI
from layerlore.server.tools.threads import list_threads
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import Json

SCHEME = "memory://"

# Rows with an id of their own, and their place.
_OF_IDS: Mapping[Kind, str] = {
    "run": "runs/{run_id}",
    "run-state": "runs/{run_id}/state",
    "entry": "entries/{entry_id}",
}
# A resource without a thread and an id has its own name as its place.
_ALONE: Mapping[str, Kind] = {kind: kind for kind in KINDS if kind not in (*OF_A_THREAD, "thread", *_OF_IDS)}
# As many digits as the databases' integers have.
_DIGITS = 19
_LONGEST_SHOWN = 80


def parse(uri: str) -> Address | None:
    """The address of a URI; None if it is not the address of a resource here."""
    # Subscriptions may name URIs of other servers, which is not an error.
    with contextlib.suppress(InvalidInput, NotFound):
        return address_of(uri)
    return None


def address_of(uri: str) -> Address:
    """The address of a URI. Raises NotFound, or InvalidInput for an invalid URI; the errors name what is allowed."""
    path, _, raw_query = uri.removeprefix(SCHEME).partition("?")
    address = _place(path.split("/")) if uri.startswith(SCHEME) else None
    if address is None:
        raise NotFound(
            f"there is no resource {_shown(uri)}; there are {', '.join(map(template_of, KINDS))} (ids percent-encoded)"
        )
    return Address(address.kind, address.thread_id, _query(address.kind, raw_query), address.run_id, address.entry_id)


def _place(path: Sequence[str]) -> Address | None:
    match path:
        case [alone] if alone in _ALONE:
            return Address(_ALONE[alone])
        case ["runs", run_id] if run_id:
            return Address("run", run_id=_decoded(run_id))
        case ["runs", run_id, "state"] if run_id:
            return Address("run-state", run_id=_decoded(run_id))
        case ["entries", entry_id] if entry_id:
            return Address("entry", entry_id=_decoded(entry_id))
        case ["threads", thread_id] if thread_id:
            return Address("thread", _decoded(thread_id))
        case ["threads", thread_id, name] if thread_id:
            kind = next((each for each in OF_A_THREAD if each == name), None)
            if kind is None:
                raise NotFound(f"a thread has no resource {_shown(name)}; {describe_choices(name, OF_A_THREAD)}")
            return Address(kind, _decoded(thread_id))
    return None


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput(f"{_shown(text)} is not percent-encoded UTF-8, as an id in a URI must be") from None


def _query(kind: Kind, raw: str) -> Mapping[str, str]:
    allowed = KINDS[kind].query
    found: dict[str, str] = {}
    try:
        pairs = parse_qsl(raw, keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput(f"{_shown(raw)} is not percent-encoded UTF-8, as a query in a URI must be") from None
    for name, value in pairs:
        if name not in allowed:
            if allowed:
                takes = describe_choices(name, allowed)
            else:
                takes = "this resource takes no query"
            raise InvalidInput(f"unknown query {_shown(name)}; {takes}")
        # With two values, a proxy and this server might use different ones.
        if name in found:
            raise InvalidInput(f"{name}: comes twice; once is allowed")
        if name not in TEXT_QUERIES and not (value.isascii() and value.isdigit() and len(value) <= _DIGITS):
            raise InvalidInput(
                f"{name}: must be a whole number of at most {_DIGITS} digits, as in ?{name}=20, not {_shown(value)}"
            )
        found[name] = value
    return found


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…")


def uri_of(kind: Kind, thread_id: str = "") -> str:
    """The URI of a resource that is neither a run nor an entry, without a query."""
    return _joined(kind, quote(thread_id, safe=""))


def uri_of_run(run_id: str) -> str:
    """The URI of a run."""
    return f"{SCHEME}runs/{quote(run_id, safe='')}"


def uri_of_entry(entry_id: str) -> str:
    """The URI of an entry."""
    return f"{SCHEME}entries/{quote(entry_id, safe='')}"


def template_of(kind: Kind) -> str:
    """The URI template (RFC 6570) of a kind; a kind without a thread and an id has a plain URI."""
    if kind in _OF_IDS:
        return SCHEME + _OF_IDS[kind]
    query = ""
    if kind in TEMPLATED and KINDS[kind].query:
        query = f"{{?{','.join(KINDS[kind].query)}}}"
    return _joined(kind, "" if kind in _ALONE else "{thread_id}") + query


def _joined(kind: Kind, thread: str) -> str:
    if not thread:
        return SCHEME + kind
    place = f"{SCHEME}threads/{thread}"
    if kind == "thread":
        return place
    return f"{place}/{kind}"


def make_result(answer: Any, most: int) -> CallToolResult:
    """The result of a tool: a text, or a structure together with the same as compact JSON."""
    if isinstance(answer, str):
        return CallToolResult(content=[TextContent(type="text", text=cut_text(answer, most))])
    structure = answer.structure if isinstance(answer, AnswerWithMedia) else answer
    if isinstance(structure, str):
        shown = TextContent(type="text", text=cut_text(structure, most))
        return CallToolResult(content=[shown, _block(answer.media, answer.thread_id)])
    # Its size counts as sent: escaped once more inside the JSON of the answer.
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
    """The contents of a resource: a text, or an image or file."""
    if isinstance(answer, AnswerWithMedia):
        return [BlobResourceContents(uri=uri, mime_type=answer.media.media_type, blob=answer.media.data)]
    text = answer if isinstance(answer, str) else write_answer(answer)
    return [TextResourceContents(uri=uri, mime_type=media_type, text=cut_text(text, most))]


def cut_text(text: str, most: int) -> str:
    """The text, cut if it has more than ``most`` bytes as JSON. The last line of a cut text says so."""
    size = _bytes(text)
    if size <= most:
        return text
    # The notice itself must fit into the limit.
    said = f"\n[cut: {size:,} bytes in all; at most {most:,} in one answer: ask for less at a time]"
    fits, over = 0, min(len(text), most) + 1
    # A search by halves, since characters take different numbers of bytes.
    while over - fits > 1:
        middle = (fits + over) // 2
        if _bytes(text[:middle]) <= most - len(said):
            fits = middle
        else:
            over = middle
    return text[:fits] + said


def _bytes(text: str) -> int:
    # Half of a surrogate pair is sent, too, so it counts.
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


PAGE = 50
# The templates change with the server's version only.
_HOUR_MS = 3_600_000
# The page loads nothing and calls no server, so a host need not give it the network.
_PAGE_META = {"ui": {"csp": {"connectDomains": [], "resourceDomains": []}, "prefersBorder": False}}


async def list_resources(ctx: RequestContext, params: PaginatedRequestParams) -> ListResourcesResult:
    """The resources that always exist and those of the current thread, then every thread of the caller, the last updated
    first. A caller that may not read gets none."""
    if "read" not in principal_of(ctx).rights:
        return ListResourcesResult(resources=[])
    if settings_of(ctx).memory == "off":
        return ListResourcesResult(resources=[_of_caller("status")])
    cursor = params.cursor or ""
    try:
        page = await call_tool(ctx, list_threads, {"limit": PAGE, "cursor": cursor})
    except InvalidInput as error:
        # The cursor is that of the tool, whose error would name the tool.
        if not str(error).startswith("cursor"):
            raise
        raise InvalidInput(
            "cursor: not one that resources/list gave; leave it out to begin at the first page"
        ) from error
    threads = [_of_listed_thread(row) for row in page["threads"]]
    return ListResourcesResult(
        resources=threads if cursor else [*_always(ctx), *threads], next_cursor=page.get("next_cursor")
    )


def _always(ctx: RequestContext) -> list[Resource]:
    fixed = [_of_caller(kind) for kind in ("profile", "entries", "threads", "status")]
    caller = caller_of(ctx)
    own = check_id(caller.default_thread, "thread_id", Limits().thread_id_chars)
    current, page = [], []
    # A conversation that begins with this request has nothing to read.
    if caller.default != "new":
        current = [_of_current_thread(kind, own) for kind in OF_A_THREAD]
    if client_supports_apps(ctx):
        explorer = Resource(
            uri=EXPLORER_URI,
            name="explorer",
            title="Memory explorer",
            description="A page that shows what is remembered, and mends it.",
            mime_type=APP_MIME_TYPE,
            _meta=_PAGE_META,
        )
        page = [explorer]
    return fixed + current + page


async def list_templates(ctx: RequestContext, _: PaginatedRequestParams) -> ListResourceTemplatesResult:
    """The URI templates. A caller that may not read gets none."""
    templates = []
    if settings_of(ctx).memory != "off" and "read" in principal_of(ctx).rights:
        templates = [ResourceTemplate(uri_template=template_of(kind), **describe_kind(kind)) for kind in TEMPLATED]
    return ListResourceTemplatesResult(resource_templates=templates, ttl_ms=_HOUR_MS, cache_scope="private")


def _of_caller(kind: Kind) -> Resource:
    """A resource that every caller has, even if it is empty."""
    return Resource(uri=uri_of(kind), **describe_kind(kind))


def _of_current_thread(kind: Kind, thread_id: str) -> Resource:
    """A resource of the caller's default thread."""
    record = describe_kind(kind)
    record["name"] = f"current-{kind}"
    record["title"] = f"{KINDS[kind].title} of the current conversation"
    return Resource(uri=uri_of(kind, thread_id), **record)


def _of_listed_thread(row: Mapping[str, Any]) -> Resource:
    """A stored thread, from its row in list_threads."""
    thread_id = row["thread_id"]
    return Resource(
        uri=uri_of("thread", thread_id),
        name=thread_id,
        title=row.get("title"),
        description=f"Messages: {row['messages']}",
        mime_type=JSON,
        annotations=KINDS["thread"].annotations(row["updated_at"]),
    )


async def read_resource(ctx: RequestContext, params: ReadResourceRequestParams) -> ReadResourceResult:
    """Read a resource. A part that a thread does not have yet is empty. Raises LayerloreError, ToolError."""
    uri = str(params.uri)
    if uri == EXPLORER_URI:
        html = read_page().html.decode()
        page = TextResourceContents(uri=uri, mime_type=APP_MIME_TYPE, text=html, _meta=_PAGE_META)
        return ReadResourceResult(contents=[page])
    address = address_of(uri)
    if settings_of(ctx).memory == "off" and address.kind != "status":
        raise InvalidInput("memory is switched off (memory = off); only memory://status can be read")
    answer = await _answer(ctx, address)
    most = ctx.lifespan_context.settings.limits.answer_bytes
    return ReadResourceResult(contents=make_contents(uri, KINDS[address.kind].mime_type, answer, most))


async def _answer(ctx: RequestContext, address: Address) -> str | Json | AnswerWithMedia:
    kind = KINDS[address.kind]
    arguments = kind.arguments(address)
    answer: str | Json | AnswerWithMedia
    if isinstance(kind.source, Declaration):
        answer = await call_tool(ctx, kind.source, arguments)
    else:
        answer = await call_function(ctx, kind.source, arguments)
    if not kind.rows or not isinstance(answer, dict):
        return answer
    # A thread without messages has resources already, so it is shown as empty instead of missing.
    nothing = {"thread_id": address.thread_id, "messages": 0, "tokens": 0}
    return cast(Json, next(iter(answer[kind.rows]), nothing))
