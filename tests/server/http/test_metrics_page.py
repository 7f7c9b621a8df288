"""The page of metrics, the log and the spans of ``layerlore serve``, as an operator gets them."""

import contextlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from prometheus_client.parser import text_string_to_metric_families

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.programs,
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),
]

PATIENCE = 120.0  # seconds: only a hang takes so long
SECRET = "the heron sleeps in Trondheim"
METHODS = {"server", "tools", "initialize", "notifications", "ping"}
"""How the names of the protocol's methods begin."""
Key = tuple[str, tuple[tuple[str, str], ...]]
RECORDING = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from layerlore.server.__main__ import main

class Lines(SpanExporter):
    def export(self, spans):
        for span in spans:
            sys.stdout.write(span.to_json(indent=None) + "\\n")
        sys.stdout.flush()
        return SpanExportResult.SUCCESS

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Lines()))
trace.set_tracer_provider(provider)
sys.exit(main())
"""


class Served:
    """A server without credentials, and what it says."""

    def __init__(self, folder: Path, *arguments: str, program: tuple[str, ...] = ("-m", "layerlore.server")) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
        options = ("--no-auth", "--port", "0", "--data-dir", str(folder), "--log-level", "info")
        self.process = subprocess.Popen(
            [sys.executable, *program, "serve", *options, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=kept | {"LAYERLORE_EMBEDDING__EMBEDDER": "none", "LAYERLORE_METRICS__ADDRESS": "127.0.0.1:0"},
        )
        self.said: list[str] = []
        self.spans: list[dict[str, Any]] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._threads = [threading.Thread(target=self._read_errors), threading.Thread(target=self._read_spans)]
        for thread in self._threads:
            thread.start()
        self.url = self.wait_for(r"listens on (http://\S+/mcp)")[1]
        self.page = self.wait_for(r"metrics are at (http://\S+)")[1]

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put("")

    def _read_spans(self) -> None:
        assert self.process.stdout is not None
        self.spans += [json.loads(line) for line in self.process.stdout]

    def wait_for(self, pattern: str) -> re.Match[str]:
        while line := self._lines.get(timeout=PATIENCE):
            self.said.append(line)
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"the server ended: {self.said}")

    def scrape(self, page: str = "") -> dict[Key, float]:
        """Every sample of the page by its name and labels."""
        text = httpx2.get(page or self.page, timeout=PATIENCE).text
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def logged(self) -> list[dict[str, Any]]:
        """The lines of calls. The server has ended."""
        while not self._lines.empty():
            self.said.append(self._lines.get())
        lines = [json.loads(line) for line in self.said if line.startswith("{")]
        return [line for line in lines if "outcome" in line]

    def end(self) -> None:
        self.process.terminate()
        try:
            assert self.process.wait(PATIENCE) == 0, self.said
        finally:
            self.process.kill()
            for thread in self._threads:
                thread.join(PATIENCE)
            self.process.stderr.close()  # type: ignore[union-attr]
            self.process.stdout.close()  # type: ignore[union-attr]


@contextlib.asynccontextmanager
async def serving(folder: Path, *arguments: str, **options: Any) -> AsyncIterator[Served]:
    served = await anyio.to_thread.run_sync(lambda: Served(folder, *arguments, **options))
    try:
        yield served
    finally:
        await anyio.to_thread.run_sync(served.end)


def sample(name: str, **labels: str) -> Key:
    return f"layerlore_{name}", tuple(sorted({"worker": "0", **labels}.items()))


async def use(client: Client) -> Any:
    """A call that writes, one that reads, one that is the caller's mistake, and one of a tool that is not there. Returns
    the answer with the mistake."""
    message = {"role": "user", "content": SECRET}
    assert not (await client.call_tool("add_messages", {"messages": [message]})).is_error
    assert not (await client.call_tool("recall_memory", {"query": SECRET})).is_error
    with pytest.raises(MCPError):
        await client.call_tool(SECRET, {})
    return await client.call_tool("recall_memory", {"query": "", "thread_id": SECRET})


async def test_a_scrape_counts_calls_by_tool_and_outcome(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        async with Client(served.url) as client:
            assert (await use(client)).is_error
        found = served.scrape()
    assert found[sample("calls_total", tool="add_messages", outcome="ok")] == 1
    assert found[sample("calls_total", tool="recall_memory", outcome="ok")] == 1
    assert found[sample("calls_total", tool="recall_memory", outcome="error")] == 1
    assert found[sample("calls_total", tool="unknown", outcome="error")] == 1
    assert found[sample("call_seconds_count", tool="recall_memory")] == 2
    assert found[sample("recall_total", degraded="no", unsure="no")] == 1
    assert found[sample("tx_seconds_count", mode="write")] >= 1
    assert found[sample("pool_size")] == 3
    assert found[sample("schema_version")] >= 1
    assert found[sample("journal_lost_total")] == 0
    assert "heron" not in str(found)


async def test_each_worker_has_a_page_that_names_it(tmp_path: Path) -> None:
    async with serving(tmp_path, "--workers", "2") as served:
        second = served.wait_for(r"metrics of worker 1 are at (http://[^\s\"]+)")[1]
        # It can be ended from now on.
        served.wait_for("Application startup complete")
        pages = [served.scrape(), served.scrape(second)]
    for worker, found in zip("01", pages, strict=True):
        ours = [dict(labels) for name, labels in found if name.startswith("layerlore_")]
        assert {labels["worker"] for labels in ours} == {worker}


async def test_the_line_of_a_call_says_whose_it_was_and_how_it_ended(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, Client(served.url) as client:
        await use(client)
    lines = served.logged()
    assert [(line["tool"], line["outcome"]) for line in lines] == [
        ("add_messages", "ok"),
        ("recall_memory", "ok"),
        ("unknown", "error"),
        ("recall_memory", "error"),
    ]
    assert {line["tenant"] for line in lines} == {"local"}
    assert len({line["request_id"] for line in lines}) == len(lines)
    assert all(line["seconds"] > 0 for line in lines)
    assert SECRET not in "".join(served.said)


async def test_spans_name_what_a_call_does_and_hold_nothing_of_what_was_said(tmp_path: Path) -> None:
    async with serving(tmp_path, program=("-c", RECORDING)) as served, Client(served.url) as client:
        refused = await use(client)
    names = [span["name"] for span in served.spans]
    for name in ("wait for a connection", "write transaction", "match words", "rank", "upsert_memory"):
        assert name in names
    assert SECRET not in json.dumps(served.spans)
    # What the server does for itself begins no trace.
    assert {span["name"].partition("/")[0] for span in served.spans if span["parent_id"] is None} <= METHODS
    calls = [span for span in served.spans if span["name"] == "tools/call recall_memory"]
    recall, mistake = (span["context"]["trace_id"].removeprefix("0x") for span in calls)
    assert refused.meta["layerlore/trace_id"] == mistake
    assert [line["trace_id"] for line in served.logged() if line["tool"] == "recall_memory"] == [recall, mistake]
    (searched,) = [
        span
        for span in served.spans
        if span["name"] == "search_memory" and span["context"]["trace_id"] == f"0x{recall}"
    ]
    assert searched["attributes"]["gen_ai.operation.name"] == "search_memory"
    assert searched["attributes"]["gen_ai.memory.record.count"] == 1
    assert re.fullmatch(r"[0-9a-f]{32}", searched["attributes"]["gen_ai.memory.store.id"])


def test_without_the_extra_the_server_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from layerlore.server.__main__ import main\nsys.exit(main())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, "serve", "--no-auth", "--port", "0", "--data-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "LAYERLORE_METRICS__ADDRESS": "127.0.0.1:0"},
    )
    assert ended.returncode == 2
    assert "metrics.address: the extra is missing: install layerlore[metrics]" in ended.stderr
    assert "Traceback" not in ended.stderr
