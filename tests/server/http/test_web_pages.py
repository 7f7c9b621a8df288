"""Web pages as clients: a browser lets an allowed page call the server and read its answers, and no other page."""

from pathlib import Path

import pytest

from ..gated_server import ACCEPT, ANA, INITIALIZE, Told, http_client, served, settings_in

pytestmark = pytest.mark.anyio

PAGE, OTHER = "https://app.test", "https://evil.example"
ASKED = ["authorization", "content-type", "mcp-protocol-version", "mcp-param-thread", "layerlore-thread", "x-api-key"]


@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages/", "/health"])
async def test_a_browser_may_ask_for_an_allowed_page_before_it_has_a_credential(path: str, tmp_path: Path) -> None:
    settings = settings_in(tmp_path, http={"allowed_origins": [PAGE]})
    asking = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": ", ".join(ASKED),
        "Access-Control-Request-Private-Network": "true",
    }
    async with served(settings, Told(ana=ANA)) as url, http_client(base_url=url) as client:
        for page in (PAGE, "http://localhost:5173"):
            answer = await client.options(path, headers={"Origin": page, **asking})
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == page
            allowed = {each.strip() for each in answer.headers["access-control-allow-headers"].split(",")}
            assert allowed >= set(ASKED)
            assert answer.headers["access-control-allow-private-network"] == "true"
            assert "access-control-allow-credentials" not in answer.headers
        refused = await client.options(path, headers={"Origin": OTHER, **asking})
        assert refused.status_code == 403
        assert not any(name.startswith("access-control") for name in refused.headers)


async def test_an_allowed_page_reads_what_it_needs_to_go_on_and_another_nothing(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, http={"allowed_origins": [PAGE]})
    async with served(settings, Told(ana=ANA)) as url, http_client(base_url=url, headers=ACCEPT) as client:
        for key, status, needed in (("ana", 200, "Mcp-Session-Id"), ("unknown", 401, "WWW-Authenticate")):
            sent = {"Authorization": f"Bearer {key}", "Origin": PAGE}
            answer = await client.post("/mcp", json=INITIALIZE, headers=sent)
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == PAGE
            assert "Origin" in answer.headers["vary"]
            assert needed in answer.headers
            assert needed in answer.headers["access-control-expose-headers"]
        refused = await client.post("/mcp", json=INITIALIZE, headers={"Authorization": "Bearer ana", "Origin": OTHER})
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers


async def test_who_is_no_web_page_hears_nothing_of_it(tmp_path: Path) -> None:
    async with served(settings_in(tmp_path), Told(ana=ANA)) as url, http_client(base_url=url) as client:
        answer = await client.get("/health")
        assert answer.status_code == 200
        assert not any(name.startswith("access-control") for name in answer.headers)
