"""``layerlore recall``: show people what an agent would recall, and why."""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.command_line.known_engine import calling
from layerlore.server.command_line.options import AsJson, TenantOption, read_settings
from layerlore.server.command_line.owner import scope_of
from layerlore.server.command_line.tables import print_table
from layerlore.server.relay.server_query import MOST_TOKENS, mask_controls
from layerlore.server.settings.settings import Settings
from layerlore.server.tools.recall import recall_memory
from layerlore.storage.core.records import Json, Scope

# The parts of a score before and after its signals.
_FIRST, _LAST = ("relevance", "ranking"), ("cosine", "recency")
_NO_NUMBERS = ("query", "words", "context_words")


def run_recall(
    settings: Settings,
    tenant: str,
    question: str,
    *,
    limit: int,
    thread_id: str,
    min_score: float = 0.0,
    explain: bool,
    as_json: bool,
) -> int:
    """Print the answer of recall_memory to a tenant's agent about the resource of the settings. ``explain``: also print a
    table with the parts of each hit's score. Returns the exit code.

    Raises InvalidInput, LimitExceeded, NotFound, StorageUnavailable or DatabaseTooNew.
    """
    request: Json = {
        "query": question,
        "limit": limit,
        "thread_id": thread_id,
        "max_tokens": MOST_TOKENS,
        "min_score": min_score,
    }
    forms: list[Json]
    if as_json:
        forms = [{"format": "json", "explain": explain}]
    else:
        forms = [{"format": "text"}]
    # The table comes after the normal answer, which an agent would see.
    if explain and not as_json:
        forms.append({"format": "json", "explain": True})
    answer, *explained = asyncio.run(_call(settings, scope_of(settings, tenant), [request | form for form in forms]))
    sys.stdout.write(mask_controls(json.dumps(answer, ensure_ascii=False, indent=2) if as_json else answer) + "\n")
    for parts in explained:
        _show(parts["hits"])
    return 0


async def _call(settings: Settings, scope: Scope, requests: list[Json]) -> list[Any]:
    """Call the tool once with each set of arguments. Returns its answers."""
    absent = {"off": "nothing can be recalled", "absent": "nothing is remembered"}
    async with calling(settings, scope, **absent, by_meaning=True) as ask:
        return [await ask(recall_memory, **arguments) for arguments in requests]


def _show(hits: list[Json]) -> None:
    if not hits:
        return
    signals = _find_signals(hits)
    parts = (*_FIRST, *signals, *_LAST)
    rows = [[str(number), mask_controls(_place(hit)), *_scores(hit, parts)] for number, hit in enumerate(hits, 1)]
    print_table(("hit", "from", "score", *parts, "words"), rows, numbers=("hit", "score", *parts))
    sys.stdout.write(
        "score = relevance x e^(ranking - the best ranking of its query); "
        f"ranking = {' + '.join(signals) or '0'}, above 0 x recency\n"
    )


def _find_signals(hits: list[Json]) -> list[str]:
    """The signals that contributed to a hit. The others would only add columns of zeros."""
    others = (*_FIRST, *_LAST, *_NO_NUMBERS)
    return [name for name in hits[0]["parts"] if name not in others and any(hit["parts"][name] for hit in hits)]


def _place(hit: Json) -> str:
    if hit["kind"] == "entry":
        return f"entry {hit['id']}"
    if hit["kind"] == "message":
        return f"{hit['thread_id']} #{hit['seq']}"
    kind = hit["kind"].replace("_", " ")
    return f"{kind} of {hit['thread_id']}" if "thread_id" in hit else kind


def _scores(hit: Json, shown: Sequence[str]) -> list[str]:
    parts = hit["parts"]
    words = [*parts["words"], *(f"({word})" for word in parts["context_words"])]
    numbers = ["" if parts.get(name) is None else f"{parts[name]:.2f}" for name in shown]
    return [f"{hit['score']:.2f}", *numbers, mask_controls(", ".join(words))]


def recall(
    flags: dict[str, Any],
    question: Annotated[str, typer.Argument(help="What to search for.", show_default=False)],
    explain: Annotated[bool, typer.Option("--explain", help="Show how each hit got its score.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=50, help="The most hits to show.")] = 5,
    thread: Annotated[str, typer.Option(help="Only this conversation.", show_default=False)] = "",
    min_score: Annotated[
        float, typer.Option(min=0, max=1, help="Hold back hits of a lower score.", show_default=False)
    ] = 0,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show what an agent gets when it recalls this."""
    return run_recall(
        read_settings(flags),
        tenant,
        question,
        limit=limit,
        thread_id=thread,
        min_score=min_score,
        explain=explain,
        as_json=as_json,
    )
