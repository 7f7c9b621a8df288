"""Which Host and Origin headers are served: against web pages that reach for a server on the user's machine."""

import socket
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from layerlore.server.access.exposure import AllowedHeaders, HostGuard, allowed
from layerlore.server.settings.settings import Settings

from ..gated_server import ACCEPT, ANA, INITIALIZE, PATIENCE, Told, http_client, served, settings_in

pytestmark = pytest.mark.anyio

PUBLIC: dict[str, Any] = {
    "public_url": "https://mem.example.com",
    "allowed_hosts": ["memory.test", "lan.test:*"],
    "allowed_origins": ["https://app.test", "http://tools.test:*"],
}
PASSES = 200  # GET /health
MACHINE = socket.gethostname()

# Host, Origin, and the status of GET /health.
CASES: list[tuple[str | None, str | None, int]] = [
    # this machine's names
    ("127.0.0.1", None, PASSES),
    ("127.0.0.1:8765", None, PASSES),
    ("localhost", None, PASSES),
    ("localhost:1", None, PASSES),
    ("LOCALHOST:8765", None, PASSES),
    ("[::1]", None, PASSES),
    ("[::1]:8765", None, PASSES),
    # those that the settings add
    ("mem.example.com", None, PASSES),
    ("Mem.Example.com:443", None, PASSES),
    ("memory.test", None, PASSES),
    ("memory.test:81", None, 421),
    ("lan.test", None, PASSES),
    ("lan.test:81", None, PASSES),
    # rebinding: a name of the attacker's that leads to this machine
    ("evil.example", None, 421),
    ("evil.example:8765", None, 421),
    ("127.0.0.1.evil.example", None, 421),
    ("localhost.evil.example:8765", None, 421),
    ("evil.localhost", None, 421),
    ("sub.mem.example.com", None, 421),
    ("mem.example.com.evil.example", None, 421),
    ("xmem.example.com", None, 421),
    ("rebind.127.0.0.1.nip.io", None, 421),
    # other addresses, and other ways to write an address
    ("0.0.0.0", None, 421),
    ("192.168.1.5:8765", None, 421),
    ("2130706433", None, 421),
    ("127.1", None, 421),
    ("0x7f.0.0.1", None, 421),
    ("[::]", None, 421),
    ("::1", None, 421),
    ("[::1", None, 421),
    ("[::ffff:127.0.0.1]", None, 421),
    ("[::1%25eth0]", None, 421),
    # what is no authority
    (None, None, 421),
    ("", None, 421),
    ("localhost.", None, 421),
    ("localhost:", None, 421),
    ("localhost:x", None, 421),
    ("localhost:65535", None, PASSES),
    ("localhost:65536", None, 421),
    ("localhost:99999", None, 421),
    ("localhost:80:80", None, 421),
    ("localhost:80@evil.example", None, 421),
    ("localhost@evil.example", None, 421),
    ("localhost:8765.evil.example", None, 421),
    ("localhost/evil.example", None, 421),
    ("localhost evil.example", None, 421),
    ("localhost,evil.example", None, 421),
    ("http://localhost", None, 421),
    ("localhost:*", None, 421),
    ("*", None, 421),
    # pages of this machine, and those that the settings add
    ("localhost", "http://localhost", PASSES),
    ("localhost", "http://localhost:5173", PASSES),
    ("localhost", "http://127.0.0.1:3000", PASSES),
    ("localhost", "http://[::1]:3000", PASSES),
    ("localhost", "HTTP://LocalHost:3000", PASSES),
    ("localhost", "https://app.test", PASSES),
    ("localhost", "http://tools.test:81", PASSES),
    # other pages
    ("localhost", "http://evil.example", 403),
    ("localhost", "https://evil.example:8765", 403),
    ("localhost", "null", 403),
    ("localhost", "", 403),
    ("localhost", "https://localhost:5173", 403),
    ("localhost", "ftp://localhost", 403),
    ("localhost", "file://", 403),
    ("localhost", "chrome-extension://abcdefgh", 403),
    ("localhost", "https://app.test:81", 403),
    ("localhost", "http://app.test", 403),
    ("localhost", "https://sub.app.test", 403),
    ("localhost", "https://app.test.evil.example", 403),
    ("localhost", "https://app.test.", 403),
    ("localhost", "http://localhost.", 403),
    ("localhost", "http://localhost.evil.example:80", 403),
    ("localhost", "http://localhost:80@evil.example", 403),
    ("localhost", "http://localhost@evil.example", 403),
    ("localhost", "http://localhost:80.evil.example", 403),
    ("localhost", "http://localhost/", 403),
    ("localhost", "http://localhost:5173/page", 403),
    ("localhost", "localhost", 403),
    ("localhost", "//localhost", 403),
    ("localhost", "http://localhost http://evil.example", 403),
    ("localhost", "*", 403),
    # pages of this server, by the name that it was asked by, or its public one
    ("mem.example.com", "https://mem.example.com", PASSES),
    ("mem.example.com:443", "https://mem.example.com", PASSES),
    ("127.0.0.1:8765", "https://mem.example.com", PASSES),
    ("lan.test:81", "http://lan.test:81", PASSES),
    ("lan.test:80", "http://lan.test", PASSES),
    ("lan.test:81", "http://lan.test:82", 403),
    ("lan.test", "http://memory.test", 403),
    ("lan.test", "ftp://lan.test", 403),
    ("lan.test", "http://lan.test/", 403),
    ("lan.test", "http://lan.test@lan.test", 403),
    # the host is looked at first
    ("evil.example", "http://evil.example", 421),
    ("evil.example", "http://localhost", 421),
]

# What a server that listens on every address answers to: who reaches it knows an address or a name of the machine.
EVERYWHERE: list[tuple[str, int]] = [
    ("localhost:8765", PASSES),
    ("192.168.1.5", PASSES),
    ("192.168.1.5:8765", PASSES),
    ("[fd00::1]:8765", PASSES),
    ("[::1]", PASSES),
    (MACHINE, PASSES),
    (f"{MACHINE}:8765", PASSES),
    *([] if "." in MACHINE else [(f"{MACHINE}.local:8765", PASSES)]),
    ("evil.example", 421),
    ("192.168.1.5.evil.example", 421),
    (f"{MACHINE}.evil.example", 421),
    ("rebind.192.168.1.5.nip.io", 421),
    ("192.168.1.5:99999", 421),
    ("192.168.1", 421),
    ("3232235781", 421),
    ("[192.168.1.5]", 421),
    ("fd00::1", 421),
    ("[fd00::1%25eth0]", 421),
]

ROUTES = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("OPTIONS", "/mcp"),
    ("GET", "/sse"),
    ("OPTIONS", "/sse"),
    ("POST", "/messages/"),
    ("POST", "/messages/?session_id=00000000000000000000000000000000"),
    ("OPTIONS", "/messages/"),
    ("GET", "/health"),
    ("OPTIONS", "/health"),
    ("GET", "/nowhere"),
    ("GET", "//health"),
    ("GET", "/mcp/"),
    ("GET", "/.well-known/oauth-protected-resource"),
]


async def status(url: str, request: str) -> int:
    """Of a request that is sent as it is written, which no client would do."""
    port = int(url.rpartition(":")[2])
    with anyio.fail_after(PATIENCE):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(request.encode("latin-1"))
            return int((await stream.receive()).split()[1])


def request(method: str, path: str, *headers: str) -> str:
    lines = [f"{method} {path} HTTP/1.1", *headers, "Connection: close"]
    if method == "POST":
        lines += ["Content-Type: application/json", "Content-Length: 2"]
    return "\r\n".join(lines) + "\r\n\r\n" + ("{}" if method == "POST" else "")


async def test_only_named_hosts_and_origins_are_served(tmp_path: Path) -> None:
    found = []
    async with guarded(tmp_path) as url:
        for host, origin, _ in CASES:
            named = (("Host", host), ("Origin", origin))
            headers = [f"{name}: {value}" for name, value in named if value is not None]
            found.append((host, origin, await status(url, request("GET", "/health", *headers))))
    assert found == CASES


async def test_a_server_on_every_address_answers_to_the_machines_name_and_addresses(tmp_path: Path) -> None:
    found = []
    async with served(settings_in(tmp_path, http={"host": "0.0.0.0"}), Told(ana=ANA)) as url:
        for host, _ in EVERYWHERE:
            found.append((host, await status(url, request("GET", "/health", f"Host: {host}"))))
    assert found == EVERYWHERE


async def test_nobody_is_sent_on_to_another_url_with_what_they_carry(tmp_path: Path) -> None:
    async with guarded(tmp_path) as url, http_client(base_url=url, headers={"X-API-Key": "ana", **ACCEPT}) as client:
        for path, expected in (("/mcp/", 200), ("/sse/", 404), ("/messages", 404), ("/health/", 404)):
            answer = await client.post(path, json=INITIALIZE)
            assert (answer.status_code, "location" in answer.headers) == (expected, False), path


def test_without_credentials_no_page_of_this_machine_is_served_unless_it_is_named() -> None:
    assert not allowed(Settings(http={"auth": False})).origins
    named = allowed(Settings(http={"auth": False, "allowed_origins": ["http://localhost:6274"]}))
    assert list(named.origins) == ["http://localhost:6274"]


async def test_no_route_and_no_method_is_left_out(tmp_path: Path) -> None:
    """Neither is a preflight: a page that is refused does not learn what would be allowed."""
    preflight = ["Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization"]
    async with guarded(tmp_path) as url:
        for method, path in ROUTES:
            for key in ([], ["Authorization: Bearer ana"]):
                for headers, expected in (
                    (["Host: evil.example"], 421),
                    (["Host: localhost", "Origin: http://evil.example"], 403),
                    (["Host: localhost", "Origin: null"], 403),
                ):
                    asked = request(method, path, *headers, *key, *preflight)
                    assert await status(url, asked) == expected, asked
            allowed = await status(url, request(method, path, "Host: localhost", "Origin: http://localhost:1"))
            assert allowed not in (403, 421), (method, path)


async def test_a_header_that_comes_twice_is_refused(tmp_path: Path) -> None:
    async with guarded(tmp_path) as url:
        for headers, expected in (
            (["Host: localhost", "Host: evil.example"], 400),
            (["Host: evil.example", "Host: localhost"], 400),
            (["Host: localhost", "Origin: http://localhost", "Origin: http://evil.example"], 400),
        ):
            assert await status(url, request("GET", "/health", *headers)) == expected, headers


def guarded(folder: Path) -> AbstractAsyncContextManager[str]:
    return served(settings_in(folder, http=PUBLIC), Told(ana=ANA))


@pytest.mark.parametrize(
    ("host", "served_names"),
    [
        ("192.168.1.5", ["192.168.1.5", "192.168.1.5:8765"]),
        ("fd00::5", ["[fd00::5]", "[fd00::5]:8765"]),
        ("mem.test", ["mem.test:8765"]),
    ],
)
async def test_the_address_that_is_listened_on_is_served_by_its_name(host: str, served_names: list[str]) -> None:
    names = allowed(Settings(http={"host": host}))
    for name in served_names:
        assert await passes(names, name)
        assert not await passes(allowed(Settings()), name)
    assert not await passes(allowed(Settings(http={"host": "0.0.0.0"})), "0.0.0.0")


async def passes(names: AllowedHeaders, host: str) -> bool:
    reached = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope)

    async def ignored(*_: Any) -> Any:
        return None

    scope = {"type": "http", "headers": [(b"host", host.encode())]}
    await HostGuard(app, names)(scope, ignored, ignored)
    return bool(reached)
