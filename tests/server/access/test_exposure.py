"""Who may reach `layerlore serve`: it does not start where others could reach it without credentials."""

import re
import socket
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from layerlore.server.access.exposure import ServedClients, allowed, refusal, warning
from layerlore.server.settings.settings import Settings

from ..conftest import Cli
from ..gated_server import http_client
from ..http.test_http_command import ACCEPT, PING, run, serving

pytestmark = pytest.mark.anyio

PUBLIC = ["0.0.0.0", "::", "", "192.168.1.5", "fd00::1", "mem.example.com", "127.9.9.9", "localhost.example.com"]
LOOPBACK = ["127.0.0.1", "::1", "localhost"]
NAMES_OF_OTHERS: list[dict[str, Any]] = [
    {"allowed_hosts": ["mem.example.com"]},
    {"allowed_hosts": ["localhost", "192.168.1.5:*"]},
    {"allowed_hosts": ["localhost.example.com:*"]},
    {"allowed_hosts": ["[fd00::1]"]},
    {"allowed_hosts": ["*"]},
    {"public_url": "https://mem.example.com"},
]
JWT = {"issuer": "https://login.example.com/", "audience": "layerlore"}


def settings(jwt: dict[str, str] | None = None, **http: Any) -> Settings:
    return Settings(http=http, jwt=jwt or {})


def never() -> ServedClients:
    raise AssertionError("nobody need ask for keys")


@pytest.mark.parametrize("host", PUBLIC)
def test_other_machines_need_a_key_that_exists_or_an_issuer(host: str) -> None:
    told = refusal(settings(host=host), lambda: ServedClients(False))
    assert all(part in told for part in (host, "layerlore keys create", "[jwt]"))
    assert "\n" not in told
    assert refusal(settings(host=host), lambda: ServedClients(True)) == ""
    assert refusal(settings(JWT, host=host), never) == ""


@pytest.mark.parametrize("host", LOOPBACK)
def test_this_machine_needs_neither(host: str) -> None:
    assert refusal(settings(host=host), never) == ""
    assert refusal(settings(host=host, auth=False), never) == ""


@pytest.mark.parametrize("host", PUBLIC)
def test_nothing_makes_up_for_no_auth_where_others_can_reach(host: str) -> None:
    for jwt in ({}, JWT):
        told = refusal(settings(jwt, host=host, auth=False), never)
        assert all(part in told for part in (host, "--no-auth", "other machines"))


@pytest.mark.parametrize("names", NAMES_OF_OTHERS)
def test_no_auth_and_a_name_of_others_do_not_go_together(names: dict[str, Any]) -> None:
    """A proxy before it, or a name that leads here, would be a way in for everybody."""
    assert "--no-auth" in refusal(settings(auth=False, **names), never)


@pytest.mark.parametrize("names", NAMES_OF_OTHERS)
def test_a_name_of_others_on_this_machine_s_address_needs_a_key_that_exists_or_an_issuer(names: dict[str, Any]) -> None:
    told = refusal(settings(**names), lambda: ServedClients(False))
    assert all(part in told for part in ("layerlore keys create", "[jwt]", "http.allowed_hosts"))
    assert refusal(settings(**names), lambda: ServedClients(True)) == ""
    assert refusal(settings(JWT, **names), never) == ""


def test_more_names_of_this_machine_do_no_harm() -> None:
    own = ["localhost", "LOCALHOST:*", "127.0.0.1:81", "[::1]", "[::1]:*"]
    assert refusal(settings(auth=False, allowed_hosts=own), never) == ""
    assert refusal(settings(allowed_hosts=own), never) == ""


def test_who_listens_everywhere_and_has_no_name_is_told_so() -> None:
    for host in ("0.0.0.0", "::", ""):
        assert "421" in warning(settings(host=host))
        assert "421" in warning(settings(host=host, allowed_hosts=["localhost:*"]))
        assert socket.gethostname().lower() in warning(settings(host=host))
        assert warning(settings(host=host, allowed_hosts=["mem.example.com"])) == ""
        assert warning(settings(host=host, public_url="https://mem.example.com")) == ""
    assert warning(settings(host="192.168.1.5")) == warning(settings()) == ""


def test_a_public_url_is_a_name_with_any_port() -> None:
    assert "mem.example.com:*" in allowed(settings(public_url="https://mem.example.com:8443/")).hosts
    assert "[fd00::1]:*" in allowed(settings(public_url="https://[fd00::1]")).hosts


@pytest.mark.parametrize(
    "url",
    [
        "http://mem.example.com",
        "mem.example.com",
        "https://",
        "https://me@a.test",
        "https://a?b",
        "https://a.test/x#y",
        "https://a.test/x/../y",
        "https://a.test//x",
        "https://a.test/%41",
        'https://a.test/"',
    ],
)
def test_a_public_url_is_https_a_host_and_perhaps_a_path(url: str) -> None:
    with pytest.raises(ValueError, match="https://HOST"):
        settings(public_url=url)
    assert settings(public_url="https://a.test/").http.public_url == "https://a.test"
    below = settings(public_url="https://a.test:8443/team/memory/").http
    assert (below.public_origin, below.public_path) == ("https://a.test:8443", "/team/memory")


@pytest.mark.parametrize("url", ["https://a.test/mcp", "https://a.test/memory/sse/"])
def test_a_public_url_with_an_endpoint_is_refused_since_endpoints_are_added(url: str) -> None:
    with pytest.raises(ValueError, match="leave out /mcp or /sse"):
        settings(public_url=url)


def test_an_issuer_needs_an_audience_or_the_public_url_which_is_one() -> None:
    with pytest.raises(ValueError, match=r"issuer needs audience or http\.public_url"):
        settings({"issuer": "https://login.example.com/"})
    assert settings({"issuer": "https://login.example.com/"}, public_url="https://a.test").jwt.audience == ""


BEHIND_A_PROXY = {"LAYERLORE_HTTP__PUBLIC_URL": "https://mem.example.com"}


@pytest.mark.programs
@pytest.mark.parametrize(("host", "named"), [("0.0.0.0", {}), ("127.0.0.1", BEHIND_A_PROXY)])
async def test_a_server_that_others_reach_takes_api_keys_and_no_local_key(
    tmp_path: Path, cli: Cli, host: str, named: dict[str, str]
) -> None:
    folder = ["--data-dir", str(tmp_path)]
    ended = run(*folder, "--host", host, LAYERLORE_EMBEDDING__EMBEDDER="none", **named)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "layerlore keys create" in ended.stderr
    assert not (tmp_path / "http-key").exists()
    key = await made_key(cli, *folder, "--tenant", "acme")
    (tmp_path / "http-key").write_text("ll_a_local_key_of_an_earlier_start\n")
    with serving(tmp_path, "--host", host, **named) as running:
        url = running.url.replace("0.0.0.0", "127.0.0.1")
        async with http_client(base_url=url, headers=ACCEPT) as client:
            for sent, status in ((key, 400), ("ll_a_local_key_of_an_earlier_start", 401), ("", 401)):
                answer = await client.post("/messages/", json=PING, headers={"X-API-Key": sent})
                assert answer.status_code == status
            named_so = await client.get("/health", headers={"Host": "mem.example.com"})
            assert named_so.status_code == (200 if named else 421)
            assert (await client.get("/.well-known/oauth-protected-resource")).status_code == 404
    # A port may have these digits, too.
    assert bool(re.search(r"\b421\b", running.said)) is not bool(named)
    assert "its key is in" not in running.said
    assert key not in running.said


@pytest.mark.programs
async def test_a_key_works_beside_the_local_key_until_it_is_revoked(tmp_path: Path, cli: Cli) -> None:
    folder = ["--data-dir", str(tmp_path)]
    key = await made_key(cli, *folder, "--tenant", "acme", "--agent", "helper", "--resource", "ana", "--rights", "read")
    key_id = key.split("_")[1]
    with serving(tmp_path) as running:
        async with running.client(Authorization=f"Bearer {key}") as client:
            status = (await client.call_tool("memory_status", {})).structured_content
            assert status is not None
            assert status["caller"] == {"principal": f"key:{key_id}", "tenant": "acme", "rights": ["read"]}
            assert status["scope"] == {"agent": "helper", "resource": "ana"}
        async with running.client() as client:
            status = (await client.call_tool("memory_status", {})).structured_content
            assert status is not None
            assert (status["caller"]["principal"], status["caller"]["tenant"]) == ("local", "local")
        async with http_client(base_url=running.url, headers=ACCEPT) as client:
            async with client.stream("GET", "/sse", headers={"X-API-Key": key}) as stream:
                assert stream.status_code == 200
                assert (await to_thread.run_sync(cli, "keys", "revoke", *folder, key_id))[0] == 0
                assert [line async for line in stream.aiter_lines()]  # it ends by itself
            answer = await client.post("/messages/", json=PING, headers={"X-API-Key": key})
            assert answer.status_code == 401


async def made_key(cli: Cli, *arguments: str) -> str:
    code, out, err = await to_thread.run_sync(cli, "keys", "create", *arguments)
    assert code == 0, err
    found = re.search(r"llk_\S+", out)
    assert found
    return found[0]
