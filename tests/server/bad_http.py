"""Requests that are wrong in their HTTP rather than in their JSON: whole heads and bodies, as bytes on the wire."""

from collections.abc import Iterator

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}'
_PATHS = (
    "/mcp",
    "/sse",
    "/messages/",
    "/health",
    "/ready",
    "/",
    "/nothing",
    "/mcp/",
    "/mcp/../mcp",
    "//mcp",
    "/MCP",
    "/%6dcp",
    "/mcp%00",
    "/mcp%ff",
    "/mcp%2f..",
)
_METHODS = ("PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "POST")
_JSON = ("Content-Type: application/json", "Accept: application/json, text/event-stream")
_MODERN = ("MCP-Protocol-Version: 2026-07-28",)


def http(method: str, path: str, *headers: str, body: bytes = b"", length: str | None = None) -> bytes:
    sent = ["Host: 127.0.0.1", "Connection: close", *headers]
    if body or length is not None:
        sent.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([f"{method} {path} HTTP/1.1", *sent, "", ""]).encode("latin-1") + body


def post(*headers: str, body: bytes = PING, path: str = "/mcp", length: str | None = None) -> bytes:
    return http("POST", path, *headers, body=body, length=length)


def chunked(*chunks: bytes) -> bytes:
    return post(*_JSON, "Transfer-Encoding: chunked", body=b"", path="/mcp") + b"".join(chunks)


def _wrong_methods() -> Iterator[tuple[str, bytes]]:
    for path in _PATHS:
        for method in _METHODS:
            yield f"{method} {path}", http(method, path, *_JSON, body=b"{}" if method == "POST" else b"")
    for target in (
        "*",
        "http://127.0.0.1/mcp",
        "127.0.0.1:80",
        "mcp",
        "",
        "/mcp?" + "x=1&" * 10_000,
        "/" + "x" * 50_000,
        "/\xff\xfe",
        "/mcp#x",
    ):
        yield f"target {target[:20]!r}", http("POST", target, *_JSON, body=PING)


def _wrong_headers() -> Iterator[tuple[str, bytes]]:
    for kind in (
        "",
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "application/json-rpc",
        "*/*",
        "application/xml",
        "text/html, application/json",
        "\xff",
        "application/json\x01",
    ):
        yield f"Content-Type {kind!r}", post(f"Content-Type: {kind}", _JSON[1])
    yield "no Content-Type", post(_JSON[1])
    for charset in ("utf-16", "latin-1", "nothing", '"'):
        yield f"charset {charset}", post(f"{_JSON[0]}; charset={charset}", _JSON[1], body='{"é":1}'.encode("utf-16"))
    for encoding in ("gzip", "deflate", "br", "zstd", "gzip, gzip", "nothing"):
        yield (
            f"Content-Encoding {encoding}",
            post(*_JSON, f"Content-Encoding: {encoding}", body=b"\x1f\x8b\x08\x00" + bytes(60)),
        )
    for accept in (
        "",
        "text/html",
        "application/json",
        "text/event-stream",
        "application/*;q=0",
        "*/*;q=x",
        "\xff",
        "x" * 5000,
    ):
        yield f"Accept {accept[:20]!r}", post(_JSON[0], f"Accept: {accept}")
        yield (
            f"Accept {accept[:20]!r}, modern",
            post(_JSON[0], f"Accept: {accept}", *_MODERN, "Mcp-Method: tools/list", body=LIST),
        )
    yield "no Accept", post(_JSON[0])
    yield "GET without Accept", http("GET", "/mcp")
    for session in ("", "x", "0" * 32, "../../x", "x" * 50_000, "\xff", "a, b", "null", "%00", "' OR 1=1--"):
        for method, body in (("POST", LIST), ("GET", b""), ("DELETE", b"")):
            yield (
                f"session {session[:12]!r} {method}",
                http(method, "/mcp", *_JSON, f"Mcp-Session-Id: {session}", body=body),
            )
    for query in (
        "",
        "?session_id=",
        "?session_id=x",
        "?session_id=" + "0" * 32,
        "?session_id=" + "0" * 5000,
        "?session_id=%ff",
        "?session_id=%00",
        "?session_id=../..",
        "?session_id[]=1",
        "?session_id=1&session_id=2",
        "?" + "&" * 5000,
    ):
        yield f"messages{query[:20]}", post(*_JSON, path="/messages/" + query)
    for version in (
        "",
        "1",
        "1999-01-01",
        "2025-11-25",
        "2026-07-28",
        "2099-01-01",
        "DRAFT",
        "x" * 9000,
        "\xff",
        "2026-07-28, 2025-11-25",
        "2025-11-25\x00",
    ):
        yield f"version {version[:14]!r}", post(*_JSON, f"MCP-Protocol-Version: {version}", body=LIST)
    for name in ("", "tools/call", "TOOLS/LIST", "=?base64?!!?=", "=?base64?/w==?=", "\xff", "x" * 9000):
        yield f"Mcp-Method {name[:14]!r}", post(*_JSON, *_MODERN, f"Mcp-Method: {name}", body=LIST)
        call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_threads"}}'
        yield (
            f"Mcp-Name {name[:14]!r}",
            post(*_JSON, *_MODERN, "Mcp-Method: tools/call", f"Mcp-Name: {name}", body=call),
        )
    yield "Mcp-Method twice", post(*_JSON, *_MODERN, "Mcp-Method: tools/list", "Mcp-Method: ping", body=LIST)
    yield "Mcp-Param of nobody", post(*_JSON, *_MODERN, "Mcp-Method: tools/list", "Mcp-Param-Thread: x", body=LIST)
    for origin in (
        "http://evil.example",
        "null",
        "file://",
        "http://127.0.0.1.evil.example",
        "http://127.0.0.1@evil.example",
        "\xff",
    ):
        yield f"Origin {origin!r}", post(*_JSON, f"Origin: {origin}")
    for host in (
        "",
        "evil.example",
        "127.0.0.1:x",
        "127.0.0.1@evil.example",
        "127.0.0.1, evil.example",
        "[::1",
        "\xff",
    ):
        yield f"Host {host!r}", post(*_JSON).replace(b"Host: 127.0.0.1", f"Host: {host}".encode("latin-1"))
    yield "no Host", post(*_JSON).replace(b"Host: 127.0.0.1\r\n", b"")
    yield "Host twice", post("Host: evil.example", *_JSON)
    for last in ("x", "0", "\xff", "x" * 5000):
        yield f"Last-Event-ID {last[:4]!r}", http("GET", "/mcp", "Accept: text/event-stream", f"Last-Event-ID: {last}")
    for upgrade in ("websocket", "h2c", "TLS/1.0"):
        yield (
            f"Upgrade {upgrade}",
            post(*_JSON, f"Upgrade: {upgrade}").replace(b"Connection: close", b"Connection: Upgrade, close"),
        )
    yield "a thousand headers", post(*_JSON, *(f"X-{number}: x" for number in range(1000)))
    yield "a header of 1 MB", post(*_JSON, "X-Long: " + "x" * 1_000_000)
    yield "a cookie of 60 KB", post(*_JSON, "Cookie: " + "a=b; " * 12_000)
    yield (
        "a thread of latin-1",
        post(*_JSON, *_MODERN, "Mcp-Method: tools/list", "Layerlore-Thread: \xe9\xff", body=LIST),
    )
    yield "Expect", post(*_JSON, "Expect: 200-ok")


def _wrong_bodies() -> Iterator[tuple[str, bytes]]:
    for length in (
        "0",
        "1",
        "39",
        "41",
        "4194304",
        "4194305",
        "99999999999999999999",
        "-1",
        "x",
        "4 0",
        "+40",
        "0x28",
        "40, 40",
    ):
        yield f"Content-Length {length}", post(*_JSON, length=length)
    yield "two lengths", post(*_JSON, "Content-Length: 5")
    yield "length and chunks", post(*_JSON, "Transfer-Encoding: chunked")
    yield "no length", http("POST", "/mcp", *_JSON)
    yield "no length, messages", http("POST", "/messages/?session_id=" + "0" * 32, *_JSON)
    yield "a body that ends early", post(*_JSON, body=PING[:10], length="40")
    yield "a body that ends early, modern", post(*_JSON, *_MODERN, "Mcp-Method: ping", body=PING[:10], length="40")
    yield "a body that does not begin", post(*_JSON, body=b"", length="40")
    yield "5 MB", post(*_JSON, body=b"x" * 5_000_000)
    for name, chunks in {
        "no chunks": (),
        "an empty chunk": (b"0\r\n\r\n",),
        "a chunk of no length": (b"zz\r\nhello\r\n",),
        "a chunk that is cut": (b"28\r\n" + PING[:5],),
        "a chunk that goes on": (b"5\r\n" + PING + b"\r\n0\r\n\r\n",),
        "a negative chunk": (b"-5\r\nhello\r\n",),
        "a chunk too long to count": (b"f" * 17 + b"\r\nhello\r\n",),
        "a chunk with an extension": (b"28;x=" + b"y" * 20_000 + b"\r\n" + PING + b"\r\n0\r\n\r\n",),
        "chunks of 5 MB": (*[b"10000\r\n" + b"x" * 65536 + b"\r\n"] * 80, b"0\r\n\r\n"),
        "bytes one by one": (*[b"1\r\n%c\r\n" % byte for byte in b"hello" * 2000], b"0\r\n\r\n"),
        "a trailer": (b"2\r\n{}\r\n0\r\nX-Trailer: x\r\n\r\n",),
    }.items():
        yield name, chunked(*chunks)
    for coding in ("gzip", "chunked, chunked", "gzip, chunked", "identity", "x", "chunked\x0b"):
        yield f"Transfer-Encoding {coding!r}", post(*_JSON, f"Transfer-Encoding: {coding}")


def _no_http() -> Iterator[tuple[str, bytes]]:
    yield "nothing", b""
    yield "JSON", PING + b"\n"
    yield "bare newlines", b"POST /mcp HTTP/1.1\nHost: 127.0.0.1\n\n"
    yield "HTTP/0.9", b"GET /mcp\r\n"
    yield "HTTP/1.0", b"GET /mcp HTTP/1.0\r\n\r\n"
    yield "HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield "HTTP/9", b"GET /mcp HTTP/9.9\r\n\r\n"
    yield "TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)
    yield "a method of 50 KB", b"X" * 50_000 + b" /mcp HTTP/1.1\r\n\r\n"
    yield "a header without end", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200_000
    yield "a header without a colon", b"POST /mcp HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n"
    yield "a header with a space", b"POST /mcp HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n"
    yield "a folded header", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n x\r\n\r\n"
    yield "NUL in a header", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: \x00\r\n\r\n"
    yield "random bytes", bytes(range(256)) * 20
    yield "two requests", post(*_JSON).replace(b"Connection: close\r\n", b"") + post(*_JSON)
    yield "a request and garbage", post(*_JSON).replace(b"Connection: close\r\n", b"") + b"\x00\xff garbage\r\n\r\n"


REQUESTS: tuple[tuple[str, bytes], ...] = (*_wrong_methods(), *_wrong_headers(), *_wrong_bodies(), *_no_http())

UNFINISHED = frozenset(
    {
        *(
            "Content-Length 41",
            "Content-Length 4194304",
            "Content-Length 4194305",
            "a body that ends early",
            "a body that ends early, modern",
        ),
        *("a body that does not begin", "no chunks", "a chunk that is cut", "nothing", "HTTP/0.9"),
    }
)
"""Those to which nothing can be said: their client leaves before they are whole."""
