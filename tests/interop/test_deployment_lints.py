"""What is deployed, as the programs of others see it: hadolint, dclint, and Caddy before two servers on one Postgres."""

import os
import re
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import asyncpg
import httpx2
import pytest
from composed import OURS, ROOT, SITE_NAME, make_secrets, run_as, serving, told
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from .conftest import NODE_FOLDER, PATIENCE
from .python_environments import REQUIRED

CADDYFILE = ROOT / "configs" / "compose" / "Caddyfile"


def program(name: str) -> Path:
    """One of the programs that check what is shipped. Skips the test if it is not installed."""
    found = ROOT / ".interop" / "release" / ("Scripts" if os.name == "nt" else "bin") / name
    if not found.exists():
        message = f"{name} is not installed; `make interop` installs it"
        if os.environ.get(REQUIRED):
            pytest.fail(message)
        pytest.skip(message)
    return found


def run(*words: str | Path, **variables: str) -> str:
    done = subprocess.run(
        words, env={**os.environ, **variables}, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    # Layers of the first stage are not in the image.
    assert run(program("hadolint"), "--ignore", "DL3059", ROOT / "Dockerfile") == ""


def test_dclint_finds_nothing_in_the_compose_file_and_sees_a_wrong_key(node: Path, tmp_path: Path) -> None:
    words = (node, NODE_FOLDER / "node_modules" / "dclint" / "bin" / "dclint.cjs")
    options = ("--config", NODE_FOLDER / "dclint.json", "--max-warnings", "0")
    compose = ROOT / "configs" / "compose.yaml"
    assert run(*words, *options, compose).strip() == ""
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(compose.read_text(encoding="utf-8").replace("read_only:", "read_onyl:"), encoding="utf-8")
    found = subprocess.run([*words, *options, wrong], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert found.returncode != 0
    assert "must NOT have additional properties" in found.stdout


def test_caddy_takes_its_file_as_it_is_written() -> None:
    caddy = program("caddy")
    run(caddy, "validate", "--config", CADDYFILE, SITE_NAME=SITE_NAME)
    assert run(caddy, "fmt", CADDYFILE) == CADDYFILE.read_text(encoding="utf-8")


@pytest.fixture
async def secrets(postgres_admin_url: str, tmp_path: Path) -> AsyncIterator[Path]:
    """Secrets that name a real server, which has the roles and the database of its first start."""
    made = make_secrets(tmp_path)
    admin = await asyncpg.connect(postgres_admin_url)
    address, _, query = postgres_admin_url.partition("@")[2].partition("/")
    options = query.partition("?")[2]
    try:
        for statement in (made / "roles.sql").read_text(encoding="utf-8").splitlines():
            await admin.execute(statement)
        for file in made.glob("*.toml"):
            text = file.read_text(encoding="utf-8").replace("postgres:5432", address)
            file.write_text(text.replace('/layerlore"', f'/layerlore?{options}"') if options else text)
        yield made
    finally:
        await admin.execute("DROP DATABASE IF EXISTS layerlore WITH (FORCE)")
        for role in ("layerlore_owner", "layerlore_app"):
            await admin.execute(f"DROP ROLE IF EXISTS {role}")
        await admin.close()


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        taken = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in taken]


@contextmanager
def proxied(folder: Path, servers: list[int]) -> Iterator[tuple[int, ssl.SSLContext]]:
    """Caddy with our file on this machine, before servers at these ports: its own port, and whom to trust.

    Only where it finds the servers and gets its certificate is other than in the file.
    """
    plain, secure = free_ports(2)
    told_here = CADDYFILE.read_text(encoding="utf-8")
    for name, port in zip(OURS[1:], servers, strict=True):
        told_here = told_here.replace(f"{name}:8765", f"127.0.0.1:{port}")
    here = f"{{\nadmin off\nlocal_certs\nskip_install_trust\nhttp_port {plain}\nhttps_port {secure}\n}}\n"
    (folder / "Caddyfile").write_text(here + told_here, encoding="utf-8")
    environment = {**os.environ, "SITE_NAME": SITE_NAME, "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    words = [program("caddy"), "run", "--config", str(folder / "Caddyfile")]
    root = folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as caddy:
        assert caddy.stderr is not None
        try:
            # It may serve before it has made its certificate, and then refuses every connection.
            awaited = {"serving initial configuration", "certificate obtained successfully"}
            while awaited:
                logged = caddy.stderr.readline()
                assert logged, "Caddy has ended"
                awaited -= {each for each in awaited if each in logged}
            yield secure, ssl.create_default_context(cafile=str(root))
        finally:
            caddy.terminate()
            caddy.stderr.read()


class ByName(httpx2.AsyncHTTPTransport):
    """Reaches this machine by the name that the certificate is for."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.extensions["sni_hostname"] = SITE_NAME
        return await super().handle_async_request(request)


@pytest.mark.anyio
async def test_two_servers_behind_caddy_share_what_one_migration_made(secrets: Path, tmp_path: Path) -> None:
    early = subprocess.run(**run_as("server-1", secrets), check=False, capture_output=True, timeout=PATIENCE)
    assert (early.returncode, "layerlore migrate --owner-url" in early.stderr) == (1, True)
    assert "owned by layerlore_owner" in told("migrate", secrets)
    key = told("server-1", secrets, "keys", "create", "--tenant", "acme", "--resource", "ana").strip()
    headers = {"Authorization": f"Bearer {key}", "Host": SITE_NAME}
    message = {"role": "user", "content": "I am allergic to peanuts."}
    with ExitStack() as running:
        servers = [running.enter_context(serving(name, secrets)) for name in OURS[1:]]
        port, trusted = running.enter_context(proxied(tmp_path, servers))

        def client(**_: object) -> httpx2.AsyncClient:
            return httpx2.AsyncClient(headers=headers, transport=ByName(verify=trusted), timeout=PATIENCE)

        url = f"https://127.0.0.1:{port}"
        async with client() as http, Client(streamable_http_client(f"{url}/mcp", http_client=http)) as modern:
            await modern.call_tool("add_messages", {"thread_id": "kitchen", "messages": [message]})
        for server in servers:
            plain = httpx2.AsyncClient(headers=headers, timeout=PATIENCE)
            async with (
                plain as http,
                Client(streamable_http_client(f"http://127.0.0.1:{server}/mcp", http_client=http)) as each,
            ):
                assert "peanuts" in str(await each.call_tool("get_messages", {"thread_id": "kitchen"}))
        # A stream that stays open: what it says arrives while it is open, and its posts reach the same server.
        with anyio.fail_after(PATIENCE):
            async with Client(sse_client(f"{url}/sse", headers=headers, httpx_client_factory=client)) as older:
                assert "peanuts" in str(await older.call_tool("get_messages", {"thread_id": "kitchen"}))
        # A migration that finds nothing to do is done at once, while the servers serve.
        assert re.search(r"version \d+, owned by layerlore_owner", told("migrate", secrets))
