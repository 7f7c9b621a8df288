"""``memstrata recall``: what an agent would be told, for people to see, and why."""

import asyncio
import json
import re
import sys
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from memstrata.server.access.credentials import local_principal
from memstrata.server.actions.call import Call
from memstrata.server.actions.recall import recall_memory
from memstrata.server.caller import Caller, scope_of
from memstrata.server.commands.stored import stored_memory
from memstrata.server.settings import Settings
from memstrata.server.tool_server import checked
from memstrata.server.tools.recall import TOOLS
from memstrata.storage.records import Json

PATIENCE_MS = 20_000
"""A person waits anyway: for the embedder, which has to be loaded first."""
# As much as the tool gives in one answer.
_MOST_TOKENS = 20_000
_NEVER_CUT = 10_000  # in columns: a terminal that is narrower wraps
# What was said may hold any character: none of them is to move a terminal's cursor, or to colour what follows.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_SHOWN_FOR_CONTROL = "\ufffd"
_PARTS = ("relevance", "ranking", "lexical", "context", "semantic", "cosine", "speaker", "role", "session", "recency")


def recall(settings: Settings, question: str, *, limit: int, thread_id: str, explain: bool, as_json: bool) -> int:
    """Print what recall_memory answers in the launch scope, with a table of each hit's parts to explain it. Returns
    the exit code.

    Raises InvalidInput, LimitExceeded, NotFound, StorageUnavailable or DatabaseTooNew.
    """
    asked: Json = {"query": question, "limit": limit, "thread_id": thread_id, "max_tokens": _MOST_TOKENS}
    forms: list[Json] = [{"format": "json", "explain": explain}] if as_json else [{"format": "text"}]
    if explain and not as_json:
        forms.append({"format": "json", "explain": True, "neighbours": False})
    answer, *explained = asyncio.run(_answers(settings, [asked | form for form in forms]))
    sys.stdout.write(_harmless(json.dumps(answer, ensure_ascii=False, indent=2) if as_json else answer) + "\n")
    for parts in explained:
        _show(Console(width=_NEVER_CUT, highlight=False, markup=False), parts["hits"])
    return 0


async def _answers(settings: Settings, asked: list[Json]) -> list[Any]:
    """The tool's answers, one for each call's arguments."""
    patient = settings.embedding.model_copy(update={"query_patience_ms": PATIENCE_MS})
    settings = settings.model_copy(update={"embedding": patient})
    async with stored_memory(settings, off="nothing can be recalled", absent="nothing is remembered") as engine:
        person = local_principal(settings.agent, settings.resource)
        caller = Caller(person, scope_of(person, "", ""), settings.thread, "", "command line")
        (declared,) = TOOLS
        tool = declared.tool
        return [
            await recall_memory(
                Call(tool.name, engine, settings, caller, frozenset(arguments)), **checked(tool, arguments)
            )
            for arguments in asked
        ]


def _show(console: Console, hits: list[Json]) -> None:
    if not hits:
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("hit", justify="right")
    table.add_column("message")
    table.add_column("score", justify="right")
    for name in _PARTS:
        table.add_column(name, justify="right")
    table.add_column("words", overflow="fold")
    for number, hit in enumerate(hits, 1):
        parts = hit["parts"]
        words = [*parts["words"], *(f"({word})" for word in parts["context_words"])]
        numbers = ["" if parts[name] is None else f"{parts[name]:.2f}" for name in _PARTS]
        place = f"{_harmless(hit['thread_id'])} #{hit['seq']}"
        table.add_row(str(number), place, f"{hit['score']:.2f}", *numbers, ", ".join(words))
    console.print(table)
    console.print("score = relevance x ranking / the best ranking; ranking = (lexical + ... + session) x recency")


def _harmless(text: str) -> str:
    return _CONTROL.sub(_SHOWN_FOR_CONTROL, text)
