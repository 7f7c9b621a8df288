"""``layerlore recall`` and ``layerlore reindex``: what people see of what agents are told, and of the vectors."""

import functools
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from told_embedder import ToldEmbedder

from layerlore.memory.embedding import choice as embedding_choice
from layerlore.memory.embedding.sentence_encoder import UseEmbedder
from layerlore.memory.recall import vector_writer
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
def kept(cli: Cli, folder: Path) -> Cli:
    """Calls the command line on the folder's memory."""
    return functools.partial(cli, "--data-dir", str(folder))


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> Iterator[ToldEmbedder]:
    made = ToldEmbedder()
    monkeypatch.setattr(embedding_choice, "make_embedder", lambda choice, **_: made)
    yield made
    made.gate.set()


def say(folder: Path, *texts: str, **flags: Any) -> None:
    """What a client says, on a server without an embedder."""

    messages = [{"role": "user", "content": text} for text in texts]
    call(folder, "add_messages", {"messages": messages, "thread_id": "main"}, **flags)


def remember(folder: Path, text: str) -> str:
    """An entry that a client keeps: its id."""
    return str(call(folder, "remember", {"content": text})["id"])


def call(folder: Path, tool: str, arguments: dict[str, Any], **flags: Any) -> Any:
    async def called() -> Any:
        given = {"data_dir": str(folder), "embedding": {"embedder": "none"}, **flags}
        async with Client(build_server(load_settings(given, environ={}))) as client:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            return result.structured_content

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding_choice, "make_embedder", lambda choice, **_: None)
        return anyio.run(called)


def test_reindex_makes_the_missing_vectors_of_every_scope_and_then_has_nothing_to_do(
    kept: Cli, folder: Path, embedder: ToldEmbedder
) -> None:
    say(folder, "an apple", "a pear")
    say(folder, "a plum", resource="ben")
    code, out, err = kept("reindex")
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first == "words: up to date"
    assert re.fullmatch(r"vectors of told: 3 made, [\d,]+ a second; 3 of 3 texts have one", second)
    assert kept("reindex")[1].splitlines() == [
        "words: up to date",
        "vectors of told: up to date; 3 of 3 texts have one",
    ]
    assert len(embedder.texts) == 3


def test_reindex_rebuild_makes_words_and_vectors_of_everything_anew(
    kept: Cli, folder: Path, embedder: ToldEmbedder
) -> None:
    say(folder, "an apple", "a pear")
    kept("reindex")
    code, out, err = kept("reindex", "--rebuild")
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert re.fullmatch(r"words: 2 messages indexed, [\d,]+ a second", first)
    assert re.fullmatch(r"vectors of told: .*; 2 of 2 texts have one", second)
    assert len(embedder.texts) == 4


def test_reindex_says_how_far_it_is_where_there_is_no_terminal(
    kept: Cli, folder: Path, embedder: ToldEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.server.command_line.commands.reindex.LINE_SECONDS", 0.0)
    monkeypatch.setattr(vector_writer, "BATCH", 2)
    say(folder, *(f"text {n}" for n in range(5)))
    lines = kept("reindex")[1].splitlines()
    assert lines[:4] == ["words: up to date", "vectors: 2 of 5", "vectors: 4 of 5", "vectors: 5 of 5"]


def test_reindex_without_an_embedder_sees_to_the_words(
    kept: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAYERLORE_EMBEDDING__EMBEDDER", "none")
    say(folder, "an apple")
    code, out, _ = kept("reindex", "--rebuild")
    assert code == 0
    assert re.search("words: 1 messages indexed", out)
    assert "vectors: none, because no embedder is set" in out


def test_reindex_with_an_embedder_that_fails_says_why(kept: Cli, folder: Path, embedder: ToldEmbedder) -> None:
    say(folder, "an apple")
    embedder.failure = "out of order"
    code, _, err = kept("reindex")
    assert (code, err) == (1, "layerlore: out of order\n")


def test_recall_shows_what_the_tool_answers_with_the_embedder(kept: Cli, folder: Path, embedder: ToldEmbedder) -> None:
    say(folder, "an apple", "a pear", "a violin")
    kept("reindex")
    code, out, err = kept("recall", "which apple?", "--limit", "1")
    assert (code, err) == (0, "")
    assert "\n#1 user: an apple\n" in out
    assert "signals: lexical, semantic" in out
    code, out, _ = kept("recall", "which apple?", "--limit", "1", "--json")
    assert code == 0
    (hit,) = json.loads(out)["hits"]
    assert hit["text"] == "an apple"
    assert "parts" not in hit


def test_recall_explains_each_hit_in_a_table(kept: Cli, folder: Path, embedder: ToldEmbedder) -> None:
    say(folder, "an apple", "an apple and a pear")
    kept("reindex")
    code, out, _ = kept("recall", "--explain", "apple", "--limit", "2")
    assert code == 0
    heading = next(line for line in out.splitlines() if "relevance" in line and "cosine" in line)
    assert heading.split()[:3] == ["hit", "from", "score"]
    assert re.search(r"^\s+1\s+main #1 .*\bapple\b", out, re.MULTILINE)
    assert re.search(r"^\s+2\s+main #2 ", out, re.MULTILINE)
    (first, _) = json.loads(kept("recall", "--explain", "apple", "--json")[1])["hits"]
    assert first["parts"]["words"] == ["apple"]


def test_recall_explains_entries_beside_messages(kept: Cli, folder: Path, embedder: ToldEmbedder) -> None:
    say(folder, "an apple")
    entry = remember(folder, "The user likes an apple a day")
    code, out, err = kept("recall", "--explain", "apple")
    assert (code, err) == (0, "")
    assert re.search(r"^\s+\d\s+main #1 .*\bapple\b", out, re.MULTILINE)
    assert re.search(rf"^\s+\d\s+entry {entry} .*\bapple\b", out, re.MULTILINE)


def test_recall_prints_no_control_character_of_what_was_said(kept: Cli, folder: Path, embedder: ToldEmbedder) -> None:
    say(folder, "an apple \x1b[2J\x07\x9b1m and more")
    for arguments in ((), ("--explain",), ("--json",)):
        code, out, _ = kept("recall", "apple", *arguments)
        assert (code, [c for c in out if c != "\n" and unicodedata.category(c) == "Cc"]) == (0, [])


def test_recall_looks_in_one_thread_only_if_asked(kept: Cli, folder: Path, embedder: ToldEmbedder) -> None:
    say(folder, "an apple")
    assert "an apple" in kept("recall", "apple")[1]
    assert "an apple" in kept("recall", "apple", "--thread", "main")[1]
    code, _, err = kept("recall", "apple", "--thread", "other")
    assert (code, "there is no thread 'other'" in err) == (1, True)


def test_recall_goes_by_words_where_the_embedder_fails_and_says_so(
    kept: Cli, folder: Path, embedder: ToldEmbedder
) -> None:
    say(folder, "an apple")
    embedder.failure = "out of order"
    code, out, _ = kept("recall", "apple")
    assert code == 0
    assert "an apple" in out
    assert "degraded: out of order" in out


def test_recall_finds_by_meaning_with_the_built_in_embedder(
    kept: Cli, folder: Path, use: UseEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(folder, "My sister plays the cello", "The ferry leaves at nine", "I am allergic to peanuts")
    monkeypatch.setattr(embedding_choice, "make_embedder", lambda choice, **_: use)
    assert kept("reindex")[0] == 0
    assert "\n#2 user: The ferry leaves at nine\n" in kept("recall", "When does our boat depart?", "--limit", "1")[1]


@pytest.mark.parametrize("command", [("recall", "tea"), ("reindex",)])
def test_without_a_database_or_with_memory_off_there_is_nothing_to_do(kept: Cli, command: tuple[str, ...]) -> None:
    code, out, err = kept(*command)
    assert (code, out) == (1, "")
    assert re.fullmatch(r"layerlore: nothing is (remembered|stored): there is no database at .*\n", err)
    assert "memory is off" in kept(*command, "--memory", "off")[2]


def test_recall_refuses_a_limit_that_the_tool_does_not_take(kept: Cli) -> None:
    assert kept("recall", "tea", "--limit", "0")[0] == 2
    assert kept("recall", "tea", "--limit", "101")[0] == 2
    assert kept("recall")[0] == 2
