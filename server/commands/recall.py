"""``layerlore recall``: what an agent would be told, for people to see, and why."""

import asyncio
import json
import re
import sys
from dataclasses import replace
from typing import Any

from layerlore.server.access.credentials import local_principal
from layerlore.server.actions.call import Call
from layerlore.server.actions.recall import recall_memory
from layerlore.server.caller import Caller
from layerlore.server.commands.stored import stored_memory
from layerlore.server.commands.tables import print_table
from layerlore.server.commands.whose import scope_of
from layerlore.server.settings import Settings
from layerlore.server.tool_server import checked
from layerlore.server.tools.recall import TOOLS
from layerlore.storage.records import Json, Scope

PATIENCE_MS = 20_000
"""A person waits anyway: for the embedder, which has to be loaded first."""
# As much as the tool gives in one answer.
_MOST_TOKENS = 20_000
# What was said may hold any character: none of them is to move a terminal's cursor, or to colour what follows.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_SHOWN_FOR_CONTROL = "\ufffd"
_PARTS = ("relevance", "ranking", "lexical", "context", "semantic", "cosine", "speaker", "role", "session", "recency")


def recall(
    settings: Settings, tenant: str, question: str, *, limit: int, thread_id: str, explain: bool, as_json: bool
) -> int:
    """Print what recall_memory answers to a tenant's agent about the resource of the settings, with a table of each hit's parts to explain it. Returns
    the exit code.

    Raises InvalidInput, LimitExceeded, NotFound, StorageUnavailable or DatabaseTooNew.
    """
    asked: Json = {"query": question, "limit": limit, "thread_id": thread_id, "max_tokens": _MOST_TOKENS}
    forms: list[Json] = [{"format": "json", "explain": explain}] if as_json else [{"format": "text"}]
    if explain and not as_json:
        forms.append({"format": "json", "explain": True, "neighbours": False})
    answer, *explained = asyncio.run(_answers(settings, scope_of(settings, tenant), [asked | form for form in forms]))
    sys.stdout.write(_harmless(json.dumps(answer, ensure_ascii=False, indent=2) if as_json else answer) + "\n")
    for parts in explained:
        _show(parts["hits"])
    return 0


async def _answers(settings: Settings, scope: Scope, asked: list[Json]) -> list[Any]:
    """The tool's answers, one for each call's arguments."""
    patient = settings.embedding.model_copy(update={"query_patience_ms": PATIENCE_MS})
    settings = settings.model_copy(update={"embedding": patient})
    async with stored_memory(settings, off="nothing can be recalled", absent="nothing is remembered") as engine:
        person = replace(local_principal(scope.agent_id, scope.resource_id), tenant=scope.tenant_id)
        caller = Caller(person, scope, settings.thread, "", "command line")
        (declared,) = TOOLS
        tool = declared.tool
        answers = []
        for arguments in asked:
            values, given = checked(tool, arguments)
            answers.append(await recall_memory(Call(tool.name, engine, settings, caller, given), **values))
        return answers


def _show(hits: list[Json]) -> None:
    if not hits:
        return
    rows = [[str(number), _harmless(_place(hit)), *_scores(hit)] for number, hit in enumerate(hits, 1)]
    headings = ("hit", "from", "score", *_PARTS, "words")
    print_table(headings, rows, numbers=("hit", "score", *_PARTS))
    sys.stdout.write("score = relevance x ranking / the best ranking; ranking = (lexical + ... + session) x recency\n")


def _place(hit: Json) -> str:
    return f"entry {hit['id']}" if hit["kind"] == "entry" else f"{hit['thread_id']} #{hit['seq']}"


def _scores(hit: Json) -> list[str]:
    parts = hit["parts"]
    words = [*parts["words"], *(f"({word})" for word in parts["context_words"])]
    numbers = ["" if parts[name] is None else f"{parts[name]:.2f}" for name in _PARTS]
    return [f"{hit['score']:.2f}", *numbers, _harmless(", ".join(words))]


def _harmless(text: str) -> str:
    return _CONTROL.sub(_SHOWN_FOR_CONTROL, text)
