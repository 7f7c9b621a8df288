"""The routes of the explorer: its page, and the session of the browser that opens it.

A person signs in with a key, or with a link that `layerlore explore` printed and that is good once.
"""

import base64
import gzip
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from importlib import resources
from typing import Any, Literal, NotRequired, TypedDict

from mcp.server.mcpserver import MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from layerlore.server.access.browser_sessions import (
    PAGE_HEADER,
    SESSION_SECONDS,
    is_own_page,
    make_cookie,
    sent_by_page,
    split,
)
from layerlore.server.access.credentials import RIGHTS, Principal, Right
from layerlore.server.access.gate import Gate
from layerlore.server.process.version import VERSION


@dataclass(frozen=True, slots=True)
class ExplorerPage:
    """The file, the same packed with gzip, its entity tag, and the policy that a browser enforces."""

    html: bytes
    packed: bytes
    etag: str
    policy: str


@cache
def read_page() -> ExplorerPage:
    """The page, read once."""
    html = resources.files("layerlore.server.explorer").joinpath("explorer.html").read_bytes()
    return ExplorerPage(
        html,
        # Without a time the packed bytes are the same in each process, and so are all workers' answers.
        gzip.compress(html, mtime=0),
        f'"{hashlib.sha256(html).hexdigest()[:32]}"',
        write_policy(html),
    )


class _InlineReader(HTMLParser):
    """Keeps the content of scripts and styles, in ``found``."""

    def __init__(self) -> None:
        # A browser hashes the source as it is, so references must not be resolved.
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[str, str]] = []
        self._kind = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._kind = tag if tag in ("script", "style") else ""
        if self._kind:
            self.found.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        self._kind = ""

    def handle_data(self, data: str) -> None:
        if self._kind:
            self.found[-1] = (self._kind, self.found[-1][1] + data)


def _read_inline(html: bytes) -> list[tuple[str, bytes]]:
    reader = _InlineReader()
    reader.feed(html.decode())
    reader.close()
    return [(kind, text.encode()) for kind, text in reader.found]


def write_policy(html: bytes) -> str:
    """The Content-Security-Policy of a page: the scripts and styles that stand in it run, by their hashes, and no others."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _read_inline(html):
        digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
    allowed = {kind: " ".join(each) or "'none'" for kind, each in hashes.items()}
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {allowed['script']}",
            f"style-src {allowed['style']}",
            "connect-src 'self'",
            "img-src data: blob:",
            "media-src data: blob:",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            # Sign-in is sent to this server only.
            "form-action 'self'",
        )
    )


PAGE, SESSION = "/explore", "/explore/session"
LINK_SECONDS = 60.0
MOST_BYTES = 8 * 1024
"""Of a body that signs in."""

SignIn = Literal["key", "link", "nothing"]
_NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class OneTimeLinks:
    """The links that each sign in once, within a minute; ``credential`` is the one that they sign in with."""

    def __init__(self, credential: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._credential = credential
        self._clock = clock
        self._until: dict[bytes, float] = {}

    def add(self, word: str) -> None:
        """Let this word of a link sign in once."""
        self._until[_digest(word)] = self._clock() + LINK_SECONDS

    def use(self, word: str) -> str:
        """The credential; "" for a word that is not known, was used, or is too old."""
        # Popped before the clock is checked, so that a link is spent at its first use.
        until = self._until.pop(_digest(word), 0.0)
        return self._credential if self._clock() < until else ""


def _digest(word: str) -> bytes:
    return hashlib.sha256(word.encode()).digest()


class Explorer:
    """The page and its sessions. ``public_origin`` is where others reach this server; ``links`` are those of this process;
    ``open_to_all``: no credential is needed."""

    def __init__(
        self, *, public_origin: str = "", links: OneTimeLinks | None = None, open_to_all: bool = False
    ) -> None:
        self._public_origin = public_origin
        self._links = links
        self._sign_in: SignIn = "nothing" if open_to_all else "key" if links is None else "link"

    def add_to(self, server: MCPServer[Any], gate: Gate) -> None:
        """Serve the page and its sessions, whose credentials the gate knows."""

        async def answer_session(request: Request) -> Response:
            if request.method == "GET":
                return JSONResponse({"sign_in": self._sign_in, "version": VERSION}, headers=_NO_STORE)
            # Otherwise a foreign page could sign the browser in or out.
            if not (
                sent_by_page(request.scope["headers"]) and is_own_page(request.scope["headers"], self._public_origin)
            ):
                return _refuse(403, f"only the explorer's own page signs in and out: its Origin, and {PAGE_HEADER}")
            if request.method == "DELETE":
                ended = make_cookie(request.scope["headers"], "", seconds=0)
                return Response(status_code=204, headers={**_NO_STORE, "Set-Cookie": ended})
            return await self._begin(request, gate)

        server.custom_route(PAGE, methods=["GET"])(answer_page)
        server.custom_route(SESSION, methods=["GET", "POST", "DELETE"])(answer_session)

    async def _begin(self, request: Request, gate: Gate) -> Response:
        """Sign in: who knows a key, or a link's word, gets the halves of a credential."""
        sent = await _read_body(request)
        if sent is None:
            return _refuse(400, 'send JSON, {"key": "..."} or {"once": "..."}')
        credential = sent.get("key", "")
        if once := sent.get("once", ""):
            if self._links is not None:
                credential = self._links.use(once)
            else:
                credential = ""
            if not credential:
                return _refuse(401, "this link was used or is too old: run `layerlore explore` again")
        found = await gate.principal(credential)
        if isinstance(found, Response):
            return found
        try:
            kept, token = split(credential)
        except ValueError as error:
            return _refuse(413, str(error))
        cookie = make_cookie(request.scope["headers"], kept)
        return JSONResponse({"token": token, **_describe(found)}, headers={**_NO_STORE, "Set-Cookie": cookie})


async def answer_page(request: Request) -> Response:
    """The page. It holds no memory."""
    page = read_page()
    headers = {
        "Content-Security-Policy": page.policy,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        # The browser may keep the page, but asks each time whether it has changed.
        "Cache-Control": "no-cache",
        "ETag": page.etag,
        "Vary": "Accept-Encoding",
    }
    if page.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    packed = "gzip" in request.headers.get("accept-encoding", "")
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(page.packed if packed else page.html, headers=headers, media_type="text/html; charset=utf-8")


async def _read_body(request: Request) -> dict[str, str] | None:
    body = b""
    async for piece in request.stream():
        body += piece
        # Any program may send a body here without a credential, so its size is bounded while it is read.
        if len(body) > MOST_BYTES:
            return None
    try:
        sent = json.loads(body)
        # A lone surrogate is valid in JSON, but no key or link has one and nothing can encode it.
        json.dumps(sent, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    whole = isinstance(sent, dict) and all(isinstance(each, str) for each in sent.values())
    # Exactly one field: a request with a key and a link would be ambiguous.
    return sent if whole and len(sent) == 1 and sent.keys() <= {"key", "once"} else None


class SignedInUser(TypedDict):
    """The signed-in user: what the page offers to do, and whose memory there is to choose."""

    name: str
    tenant: str
    agents: list[str] | None
    resource: str | None
    rights: list[Right]
    every_tenant: NotRequired[bool]
    seconds: int


class _Reach(TypedDict, total=False):
    every_tenant: bool


def _describe(principal: Principal) -> SignedInUser:
    reach: _Reach = {}
    if principal.every_tenant:
        reach["every_tenant"] = True
    return {
        "name": principal.name,
        "tenant": principal.tenant,
        "agents": None if principal.agents is None else sorted(principal.agents),
        "resource": principal.resource,
        "rights": [right for right in RIGHTS if right in principal.rights],
        **reach,
        "seconds": SESSION_SECONDS,
    }


def _refuse(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status, headers=_NO_STORE)
