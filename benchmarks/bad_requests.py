"""Sends generated bad requests to a real server over every transport and in both protocol eras, and counts what came.

Ends with exit code 1 if a request was not answered, one was answered twice, an answer or the log shows a stack trace or
an unexpected failure, HTTP answered with a status of 500 or above, or the server ended.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import anyio

from benchmarks.bad_inputs import BadInputs, Json
from benchmarks.raw_requests import ERAS, Era, Listening, Tally, listening, over_http, over_sse, over_stdio
from benchmarks.servers import Launch, ours
from benchmarks.servers import over_stdio as connected_over_stdio

# Shares of the requests: half over stdio, half over HTTP, a fifth of that over its predecessor.
_SHARES = (("stdio", 0.5), ("http", 0.4), ("sse", 0.1))


def launch(folder: Path, database: str = "") -> Launch:
    """layerlore with every tool, and nothing beside that takes time."""
    folder.mkdir(parents=True, exist_ok=True)
    return ours(folder, database=database, TOOLSETS="all", EMBEDDING__EMBEDDER="none")


async def tools_of(server: Launch) -> list[Json]:
    """What the server itself says its tools take."""
    async with connected_over_stdio(server) as connection:
        listed = await connection.client.list_tools()
    return [tool.model_dump(mode="json", by_alias=True) for tool in listed.tools]


async def run(folder: Path, count: int, seed: int, database: str = "") -> dict[str, Tally]:
    """Send ``count`` requests in all; by transport and era what came of them."""
    server = launch(folder, database)
    tools = await tools_of(server)
    tallies: dict[str, Tally] = {}

    def bodies(transport: str, share: float, era: Era) -> list[bytes]:
        inputs = BadInputs(tools, era, f"{transport} {seed}")
        return inputs.bodies(round(count * share / len(ERAS)))

    (_, stdio), (_, http), (_, sse) = _SHARES
    for era in ERAS:
        tallies[f"stdio {era}"] = await over_stdio(server, bodies("stdio", stdio, era), era)
    async with listening(server) as listener:
        for era in ERAS:
            own = Listening(listener.process, listener.url, Tally())
            await over_http(own, bodies("http", http, era), era)
            tallies[f"http {era}"] = own.tally
            own = Listening(listener.process, listener.url, Tally())
            await over_sse(own, bodies("sse", sse, era), era)
            tallies[f"sse {era}"] = own.tally
    tallies["http server"] = listener.tally
    return tallies


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="requests in all (10,000)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other requests (1)")
    parser.add_argument("--database", default="", help="a Postgres URL; without it a new SQLite file")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        tallies = anyio.run(run, Path(folder), chosen.count, chosen.seed, chosen.database)
        seconds = time.monotonic() - began
    total = Tally()
    print(
        f"{'':14}{'sent':>8}{'answers':>9}{'errors':>8}{'unanswered':>12}{'unasked':>9}{'unexpected':>12}{'5xx':>5}{'traces':>8}{'exits':>7}"
    )
    for name, tally in tallies.items():
        total += tally
        _print(name, tally)
    _print("all", total)
    print(f"in {seconds:.0f} s")
    for name, found in total.amiss().items():
        print(name, json.dumps(found[:20] if isinstance(found, list) else found, indent=1))
    if chosen.json:
        figures = {
            name: {each: getattr(tally, each) for each in tally.__dataclass_fields__} for name, tally in tallies.items()
        }
        chosen.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 1 if total.amiss() else 0


def _print(name: str, tally: Tally) -> None:
    lists = (tally.unanswered, tally.unasked, tally.unexpected, tally.server_errors)
    unanswered, unasked, unexpected, server_errors = map(len, lists)
    print(
        f"{name:14}{tally.sent:>8}{tally.answers:>9}{tally.errors:>8}{unanswered:>12}{unasked:>9}{unexpected:>12}"
        f"{server_errors:>5}{tally.tracebacks:>8}{tally.exits:>7}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
