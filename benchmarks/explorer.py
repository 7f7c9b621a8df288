"""How the explorer's page bears a large memory: when its views are there, and whether they scroll without a stutter.

A real server over a new store with 10,000 conversations, one of which has 100,000 messages, and Chromium without a window.
It needs what `make explorer-test` needs: Node and Chromium.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.conversations import Json
from benchmarks.filling import AGENT, MESSAGES_PER_TRANSACTION, SENT, opened_engine
from benchmarks.sample_text import SampleText
from benchmarks.tables import figure, table, write_json
from layerlore.memory.messages.addition import add_messages
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.storage.core.records import Scope

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path(__file__).with_name("explorer_page.mjs")
PROGRAM = str(Path(sys.executable).with_name("layerlore"))
FRAME_MS = 1000 / 60
LONG = "long"
FILLED = "filled-for-the-explorer"
"""Marks a folder whose store this benchmark filled: it opens no other, since a server changes what it opens."""
_TOGETHER = 100
_ROLES = ("user", "assistant")


async def fill(folder: Path, threads: int, messages: int) -> None:
    """Fill a store: a conversation with so many messages, and the others with one each."""
    text = SampleText(7)
    sentences = [text.text(2, 60) for _ in range(2000)]
    names = {"EMBEDDING__EMBEDDER": "none", "LIMITS__MESSAGES_PER_CALL": str(MESSAGES_PER_TRANSACTION)}
    async with opened_engine(folder, **names) as engine:
        scope = Scope(LOCAL_TENANT, AGENT, "default")

        async def say(thread: str, said: list[Json]) -> None:
            await add_messages(engine, scope, thread, said, replace=False, sent=SENT)

        for at in range(0, threads - 1, _TOGETHER):
            names_of = range(at, min(at + _TOGETHER, threads - 1))
            said = ([{"role": "user", "content": sentences[n % 2000]}] for n in names_of)
            await asyncio.gather(*(say(f"thread-{n}", each) for n, each in zip(names_of, said, strict=True)))
        for at in range(0, messages, MESSAGES_PER_TRANSACTION):
            numbers = range(at, min(at + MESSAGES_PER_TRANSACTION, messages))
            await say(LONG, [{"role": _ROLES[n % 2], "content": f"{n + 1}. {sentences[n % 2000]}"} for n in numbers])


def look(folder: Path, loads: int, seconds: float) -> Json:
    """Serve the store, look at it in Chromium, and return what that measured."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    node = shutil.which("node")
    if chromium is None or node is None or not (ROOT / "explorer" / "node_modules" / "playwright-core").exists():
        raise SystemExit(
            "this needs Node 20 with the packages of explorer/, and Chromium: make explorer-test gets them"
        )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
    environment |= {
        "LAYERLORE_HTTP__PORT": "0",
        "LAYERLORE_DATA_DIR": str(folder),
        "LAYERLORE_EMBEDDING__EMBEDDER": "none",
    }
    with subprocess.Popen([PROGRAM, "serve"], stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stderr is not None
            listening = re.search(r"listens on (http://127\.0\.0\.1:\d+)/mcp", server.stderr.readline())
            if listening is None:
                raise SystemExit("the server does not start")
            shown = {
                "MEMORY_URL": listening[1],
                "MEMORY_KEY": (folder / "http-key").read_text().strip(),
                "CHROMIUM": chromium,
                "EXPLORER_ROOT": str(ROOT),
                "LOADS": str(loads),
                "SECONDS": str(seconds),
            }
            done = subprocess.run(
                [node, PAGE], env={**os.environ, **shown}, stdout=subprocess.PIPE, text=True, check=True
            )
        finally:
            server.terminate()
    found: Json = json.loads(done.stdout)
    return found


def of_share(values: Sequence[float], share: float) -> float:
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def summarize(found: Json) -> Json:
    """The figures of what was measured."""
    views = {
        name: {
            "loaded_ms": statistics.median(each["loaded"] for each in loads),
            "shown_ms": statistics.median(each["shown"] for each in loads),
            "after_ms": statistics.median(each["after"] for each in loads),
            "after_most_ms": max(each["after"] for each in loads),
        }
        for name, loads in found["first"].items()
    }
    ways = {name: _summarize_frames(each) for name, each in found["scrolled"].items()}
    return {"views": views, "scrolling": ways, "search_ms": found["searched"], "browser": found["browser"]}


def _summarize_frames(scrolled: Any) -> Json:
    frames = scrolled["frames"]
    return {
        "frames_per_second": 1000 * len(frames) / sum(frames),
        "p50_ms": of_share(frames, 0.5),
        "p95_ms": of_share(frames, 0.95),
        "p99_ms": of_share(frames, 0.99),
        "most_ms": max(frames),
        "late_share": sum(each > 1.5 * FRAME_MS for each in frames) / len(frames),
        "long_tasks": len(scrolled["long"]),
        "gap_share": scrolled["gaps"] / len(frames),
        "rows": scrolled["most"],
    }


def show(figures: Json) -> str:
    """The figures as two tables."""
    views = [
        [name, *(figure(each[of], 0) for of in ("loaded_ms", "shown_ms", "after_ms", "after_most_ms"))]
        for name, each in figures["views"].items()
    ]
    ways = [
        [
            name,
            *(figure(each[of], 1) for of in ("frames_per_second", "p50_ms", "p95_ms", "p99_ms", "most_ms")),
            f"{each['late_share']:.1%}",
            str(each["long_tasks"]),
            f"{each['gap_share']:.1%}",
            str(each["rows"]),
        ]
        for name, each in figures["scrolling"].items()
    ]
    return "\n\n".join(
        (
            table(["view", "page loaded (ms)", "view shown", "after the load", "at most"], views),
            table(
                ["scrolled", "frames/s", "p50 (ms)", "p95", "p99", "most", "late", "long tasks", "with gaps", "rows"],
                ways,
            ),
            f"A search among the conversations: {figures['search_ms']:.0f} ms. Chromium {figures['browser']}.",
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=10_000, help="conversations")
    parser.add_argument("--messages", type=int, default=100_000, help="messages of the longest one")
    parser.add_argument("--loads", type=int, default=7, help="how often each view is loaded")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long it scrolls in each way")
    parser.add_argument("--kept", type=Path, help="a folder in which the store stays, and is found the next time")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = given.kept or Path(made)
        filled = folder / FILLED
        if not filled.exists():
            if folder.exists() and any(folder.iterdir()):
                raise SystemExit(
                    f"{folder} has files that this benchmark did not make: name a folder that is new or empty"
                )
            began = time.monotonic()
            asyncio.run(fill(folder, given.threads, given.messages))
            filled.touch()
            print(
                f"{given.threads:,} conversations and {given.messages:,} messages filled in {time.monotonic() - began:.0f} s\n"
            )
        figures = summarize(look(folder, given.loads, given.seconds))
    print(show(figures))
    write_json(given.json, figures)


if __name__ == "__main__":
    main()
