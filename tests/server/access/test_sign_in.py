"""Clients that sign in: they find the issuer from the URL alone, and their token is for that URL."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from fake_issuer import Issuer, claims, token
from fake_issuer import serving as issuing
from fake_sign_in import SignIn
from mcp import Client
from mcp.client.auth import OAuthClientProvider, OAuthRegistrationError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from layerlore.server.http.request_guards import open_listener

from ..gated_server import ACCEPT, INITIALIZE, PATIENCE, PING, answer, http_client
from ..http.test_http_command import ServedClients, serving

pytestmark = [pytest.mark.anyio, pytest.mark.programs]

PUBLIC = "https://mem.example.com"
BELOW = "https://example.com/team/memory"
WELL_KNOWN = "/.well-known/oauth-protected-resource"
CLIENT_DOCUMENT = "https://client.example.com/oauth.json"
BACK = "http://localhost:3000/callback"


@dataclass
class Kept:
    """What a client keeps between its starts: here, for one test."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Proxy(httpx2.AsyncBaseTransport):
    """Takes requests for the public URL to the server, with their Host, as a proxy for TLS does; others go their own way.
    ``cut``: the path that it cuts off."""

    def __init__(self, public_url: str, server: str, trusted: ssl.SSLContext, cut: str = "") -> None:
        self._host = urlsplit(public_url).netloc
        self._server = httpx2.URL(server)
        self._cut = cut
        self._sent = httpx2.AsyncHTTPTransport(verify=trusted)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.host == self._host:
            path = request.url.raw_path.decode().removeprefix(self._cut)
            request.url = self._server.copy_with(raw_path=path.encode())
        return await self._sent.handle_async_request(request)

    async def aclose(self) -> None:
        await self._sent.aclose()


@dataclass
class Browser:
    """The user's browser, which agrees to everything. It keeps where it was sent back to."""

    trusted: ssl.SSLContext
    answered: dict[str, str] = field(default_factory=dict)

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient(verify=self.trusted, timeout=PATIENCE) as http:
            reply = await http.get(url)
        assert reply.status_code == 302, reply.text
        self.answered = dict(parse_qsl(urlsplit(reply.headers["location"]).query))

    async def wait(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(
            code=self.answered["code"], state=self.answered["state"], iss=self.answered["iss"]
        )


@pytest.fixture
def issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with issuing(tmp_path) as running:
        yield running


@contextlib.contextmanager
def serving_tokens_of(
    issuer: Issuer, sign_in: SignIn, folder: Path, *arguments: str, **http: str
) -> Iterator[ServedClients]:
    jwt = {"issuer": sign_in.name, "ca_file": str(issuer.ca_file), "audience": http.pop("audience", "")}
    variables = {f"LAYERLORE_JWT__{name.upper()}": value for name, value in jwt.items() if value}
    variables |= {f"LAYERLORE_HTTP__{name.upper()}": value for name, value in http.items()}
    with serving(folder / "data", *arguments, **variables) as running:
        yield running


def metadata_of(resource: str, sign_in: SignIn) -> dict[str, Any]:
    return {
        "resource": resource,
        "authorization_servers": [sign_in.name],
        "scopes_supported": ["memory:read", "memory:write", "memory:forget"],
        "bearer_methods_supported": ["header"],
        "resource_name": "layerlore",
    }


def make_auth(url: str, browser: Browser, client_document: str | None = None) -> OAuthClientProvider:
    return OAuthClientProvider(
        url,
        OAuthClientMetadata(redirect_uris=[AnyUrl(BACK)], client_name="test", token_endpoint_auth_method="none"),
        Kept(),
        browser.open,
        browser.wait,
        client_metadata_url=client_document,
    )


@contextlib.asynccontextmanager
async def signed_in(
    url: str, mode: str, proxy: httpx2.AsyncBaseTransport, trusted: ssl.SSLContext, client_document: str | None = None
) -> AsyncIterator[Client]:
    """The official client after it has signed in at the issuer of the server at ``url``."""
    auth = make_auth(url, Browser(trusted), client_document)

    def make_http(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
        **_: Any,
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=proxy, headers=headers, timeout=timeout or PATIENCE, auth=auth)

    if url.endswith("/sse"):
        transport = sse_client(url, auth=auth, httpx_client_factory=make_http)
        async with Client(transport, mode=mode) as client:
            yield client
        return
    async with make_http(auth=auth) as http, Client(streamable_http_client(url, http_client=http), mode=mode) as client:
        yield client


@pytest.mark.parametrize("client_document", [None, CLIENT_DOCUMENT], ids=["registered", "by its document"])
@pytest.mark.parametrize(
    ("public", "ways"),
    [
        (PUBLIC, [("", "/mcp", "auto"), ("", "/mcp", "legacy"), ("", "/sse", "legacy")]),
        (
            BELOW,
            [("", "/mcp", "auto"), ("/team/memory", "/mcp", "auto"), ("/team/memory", "/sse", "legacy")],
        ),
    ],
    ids=["of its own host", "below a path"],
)
async def test_the_official_client_signs_in_with_the_url_alone_and_calls_a_tool(
    tmp_path: Path, issuer: Issuer, public: str, ways: list[tuple[str, str, str]], client_document: str | None
) -> None:
    """Each way is the path that the proxy cuts off, the endpoint and the era of the client."""
    sign_in = SignIn(issuer, client_document or "")
    trusted = ssl.create_default_context(cafile=issuer.ca_file)
    with serving_tokens_of(issuer, sign_in, tmp_path, public_url=public) as running:
        for cut, endpoint, mode in ways:
            proxy = Proxy(public, running.url, trusted, cut)
            async with signed_in(public + endpoint, mode, proxy, trusted, client_document) as client:
                status = await answer(client, "memory_status")
            assert status["caller"] == {
                "principal": "jwt:ada@127.0.0.1",
                "tenant": "acme",
                "rights": ["read", "write", "forget"],
            }
    assert sign_in.resources == [public + endpoint for _, endpoint, _ in ways]
    assert sign_in.granted == ["memory:read memory:write memory:forget"] * len(ways)
    assert len(sign_in.registered) == (0 if client_document else len(ways))


async def test_a_client_of_this_machine_signs_in_without_a_public_url(tmp_path: Path, issuer: Issuer) -> None:
    sign_in = SignIn(issuer)
    trusted = ssl.create_default_context(cafile=issuer.ca_file)
    # The audience is the URL, so the port must be known before the server starts.
    with open_listener("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with serving_tokens_of(issuer, sign_in, tmp_path, "--port", str(port), audience=f"{url}/mcp") as running:
        async with signed_in(
            f"{running.url}/mcp", "auto", httpx2.AsyncHTTPTransport(verify=trusted), trusted
        ) as client:
            assert (await answer(client, "memory_status"))["caller"]["principal"] == "jwt:ada@127.0.0.1"
    assert sign_in.resources == [f"{url}/mcp"]


@pytest.mark.parametrize("public", [PUBLIC, BELOW])
async def test_each_endpoint_is_a_resource_whose_metadata_its_refusal_points_to(
    tmp_path: Path, issuer: Issuer, public: str
) -> None:
    sign_in = SignIn(issuer)
    origin, path = f"https://{urlsplit(public).netloc}", urlsplit(public).path
    with serving_tokens_of(issuer, sign_in, tmp_path, public_url=public) as running:
        async with http_client(base_url=running.url, headers={**ACCEPT, "Host": urlsplit(public).netloc}) as client:
            for method, requested, endpoint in (
                ("POST", "/mcp", "/mcp"),
                ("GET", "/sse", "/sse"),
                ("POST", "/messages/", "/sse"),
            ):
                place = f"{WELL_KNOWN}{path}{endpoint}"
                for prefix in {"", path}:
                    refused = await client.request(method, prefix + requested, json=PING)
                    assert refused.status_code == 401
                    assert f'resource_metadata="{origin}{place}"' in refused.headers["www-authenticate"]
                for asked in (place, f"{place}/", f"{WELL_KNOWN}{endpoint}"):
                    assert (await client.get(asked)).json() == metadata_of(public + endpoint, sign_in)
            for asked in (WELL_KNOWN, f"{WELL_KNOWN}/", WELL_KNOWN + path):
                assert (await client.get(asked)).json() == metadata_of(f"{public}/mcp", sign_in)
            for asked in (f"{WELL_KNOWN}/other", f"{WELL_KNOWN}mcp", f"{WELL_KNOWN}/mcp/more"):
                assert (await client.get(asked)).status_code == 404


async def test_a_token_counts_for_the_urls_of_this_server_and_the_audience_of_the_settings(
    tmp_path: Path, issuer: Issuer
) -> None:
    sign_in = SignIn(issuer)
    good = [
        "ours",
        ["x", "ours"],
        *(url + slash for url in (BELOW, f"{BELOW}/mcp", f"{BELOW}/sse") for slash in ("", "/")),
    ]
    bad = ["https://example.com", "https://example.com/", "https://example.com/team", f"{BELOW}x", f"{BELOW}/mcp/x", ""]
    with serving_tokens_of(issuer, sign_in, tmp_path, public_url=BELOW, audience="ours") as running:
        async with http_client(base_url=running.url, headers=ACCEPT) as client:
            for audience in (*good, *bad):
                sent = token(claims(iss=sign_in.name, aud=audience))
                reply = await client.post("/mcp", json=INITIALIZE, headers={"Authorization": f"Bearer {sent}"})
                assert reply.status_code == (200 if audience in good else 401), audience


async def test_a_client_that_wants_to_sign_in_with_a_server_of_keys_is_told_that_it_needs_one(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        auth = make_auth(f"{running.url}/mcp", Browser(ssl.create_default_context()))
        async with http_client(auth=auth, headers=ACCEPT) as client:
            with pytest.raises(OAuthRegistrationError, match=r"needs a key: .* Authorization: Bearer KEY"):
                await client.post(f"{running.url}/mcp", json=PING)


async def test_a_client_that_the_issuer_does_not_register_is_told_where_clients_are(
    tmp_path: Path, issuer: Issuer
) -> None:
    sign_in = SignIn(issuer)
    with serving_tokens_of(issuer, sign_in, tmp_path, public_url=PUBLIC) as running:
        async with http_client(base_url=running.url) as client:
            refused = await client.post("/register", json={"redirect_uris": [BACK]})
    assert refused.status_code == 403
    assert refused.json()["error"] == "access_denied"
    assert f"clients are registered at {sign_in.name}" in refused.json()["error_description"]


async def test_a_name_that_no_public_url_gives_gets_no_metadata(tmp_path: Path, issuer: Issuer) -> None:
    sign_in = SignIn(issuer)
    allowed = {"allowed_hosts": "mem.lan:*", "audience": "ours"}
    with serving_tokens_of(issuer, sign_in, tmp_path, **allowed) as running:
        async with http_client(base_url=running.url, headers=ACCEPT) as client:
            for host, known in (("mem.lan", False), ("localhost:8765", True)):
                refused = await client.post("/mcp", json=PING, headers={"Host": host})
                place = f'resource_metadata="http://{host}{WELL_KNOWN}/mcp"'
                assert (place in refused.headers["www-authenticate"]) is known
                asked = await client.get(f"{WELL_KNOWN}/mcp", headers={"Host": host})
                assert asked.status_code == (200 if known else 404)
