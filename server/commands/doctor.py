"""``layerlore doctor``: what memory needs, what of it is there, what will degrade and how to mend it."""

import asyncio
import json
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from itertools import groupby

from rich.console import Console

from layerlore.extraction.chat.automatic import told
from layerlore.memory.embedding.minilm import installed_weights
from layerlore.memory.embedding.port import EmbeddingFailed
from layerlore.memory.tokens import ESTIMATE, load_counter, shipped_encodings
from layerlore.server.commands.database_check import DatabaseState, look_at_database
from layerlore.server.commands.findings import Finding, on_disk, wanted
from layerlore.server.exposure import reached_by_others
from layerlore.server.local_key import KeyUnusable, key_file, read_key
from layerlore.server.program import shell_command
from layerlore.server.settings import Settings
from layerlore.server.thinking import chosen_models
from layerlore.storage import sqlite_driver
from layerlore.storage.sqlite_damage import WAY_OUT
from layerlore.storage.sqlite_database import MEMORY

MODEL_KEYS = (
    *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY"),
    *("OPENROUTER_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY", "COHERE_API_KEY", "TOGETHERAI_API_KEY"),
    *("FIREWORKS_AI_API_KEY", "AZURE_API_KEY", "AWS_ACCESS_KEY_ID", "VOYAGE_API_KEY"),
)
_NEWER_SQLITE = "use a Python for which pysqlite3 has a wheel, or one that was built with a current SQLite"
_STYLES = {"ok": ("ok  ", "green"), "degraded": ("!   ", "yellow"), "failed": ("FAIL", "bold red")}


def doctor(settings: Settings, *, as_json: bool) -> int:
    """Print what was found. Returns the exit code: 1 if the database cannot be used. Raises InvalidInput."""
    findings = [*examine(settings)]
    healthy = all(finding.state != "failed" for finding in findings)
    if as_json:
        report = {"usable": healthy, "findings": [asdict(finding) for finding in findings]}
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    else:
        _show(Console(soft_wrap=True, markup=False, highlight=False), findings)
    return 0 if healthy else 1


def examine(settings: Settings) -> Iterator[Finding]:
    """All findings, section by section. Nothing is made or changed."""
    state = asyncio.run(look_at_database(settings, whole=True))
    yield Finding("layerlore", "version", version("layerlore"))
    yield Finding("layerlore", "Python", f"{platform.python_version()} ({sys.executable})")
    yield from _settings(settings)
    yield from _database(settings, state)
    yield from _sqlite(state)
    yield from _search(state)
    yield _embedder(settings)
    yield _tokens()
    yield from _http(settings)
    yield from _models(settings)


def _settings(settings: Settings) -> Iterator[Finding]:
    yield Finding("layerlore", "scope", f"agent {settings.agent}, resource {settings.resource}")
    off = "nothing is stored and nothing is remembered: set memory = on"
    yield wanted("layerlore", "memory", settings.memory == "on", yes="on", no="off", mend=off)
    as_sent = f"stored as sent (redaction = {settings.redaction})"
    yield wanted(
        "layerlore",
        "secrets",
        settings.redaction == "all",
        yes="masked before they are stored",
        no=as_sent,
        mend="set redaction = all, and secrets in messages are masked",
    )


def _database(settings: Settings, state: DatabaseState) -> Iterator[Finding]:
    yield Finding("database", "kind", f"{state.kind} {state.server}".strip())
    where = "in memory: all is gone when the server ends" if state.where == MEMORY else state.where
    yield Finding("database", "where", where)
    mend = (
        "start its server, or mend the URL"
        if state.kind == "postgres"
        else state.mend or "mend it, or name another database"
    )
    there = "yes" if state.exists else "yes; the first start makes it"
    yield wanted(
        "database", "reachable", not state.failure, yes=there, no=f"no: {state.failure}", mend=mend, state="failed"
    )
    if state.exists and not state.failure:
        yield _schema(state)
    if state.file is not None and not state.failure:
        yield wanted(
            "database",
            "integrity",
            not state.damage,
            yes="nothing is damaged",
            no="; ".join(state.damage),
            mend=WAY_OUT,
            state="failed",
        )
    file, folder = state.file, settings.data_dir
    if file is not None and file.is_file():
        size = f"{file.stat().st_size:,} bytes"
        yield on_disk("database", "file", size, file, closed="rwx", risk="can read what is remembered")
    if folder.is_dir():
        yield on_disk("database", "data folder", str(folder), folder, closed="w", risk="can replace the files in it")
    else:
        yield Finding("database", "data folder", f"{folder}, made by the first start that needs it")


def _schema(state: DatabaseState) -> Finding:
    behind = f"version {state.version} of {state.latest}: the next start brings them up to date"
    return wanted(
        "database",
        "tables",
        state.version <= state.latest,
        yes=behind if state.version < state.latest else f"up to date (version {state.version})",
        no=f"version {state.version}, but this layerlore knows versions up to {state.latest}",
        mend="a newer layerlore wrote this database: upgrade layerlore, or name another database",
        state="failed",
    )


def _sqlite(state: DatabaseState) -> Iterator[Finding]:
    able = sqlite_driver.abilities()
    yield Finding("SQLite", "version", f"{able.version}, from {able.module}")
    if state.kind != "sqlite":
        return
    yield wanted(
        "SQLite",
        "several processes",
        able.wal_safe,
        yes="may share one file",
        no="can corrupt a file that they write together",
        mend=f"SQLite before {_version(sqlite_driver.SAFE_WAL_VERSION)} has that defect: "
        f"let one process write, or {_NEWER_SQLITE}",
    )
    yield wanted(
        "SQLite",
        "secure delete",
        able.fts5_secure_delete,
        yes="rows and words of the index",
        no="rows only",
        mend=f"erased words stay in the index's pages for a while: {_NEWER_SQLITE}",
    )
    yield Finding("SQLite", "extensions", "can be loaded" if able.extensions else "cannot be loaded by this Python")


def _version(numbers: tuple[int, int, int]) -> str:
    return ".".join(str(number) for number in numbers)


def _search(state: DatabaseState) -> Iterator[Finding]:
    able = sqlite_driver.abilities()
    if state.kind == "postgres":
        yield Finding("search", "full text", "tsvector")
        yield Finding("search", "vectors", "compared by Postgres itself, without an extension")
        return
    yield wanted(
        "search", "full text", able.fts5, yes="FTS5", no="this SQLite has no FTS5", mend=_NEWER_SQLITE, state="failed"
    )
    yield wanted(
        "search",
        "vectors",
        able.vector_extension is not None,
        yes=f"sqlite-vec {able.vector_extension}",
        no="compared in Python, which takes several times as long: sqlite-vec cannot be loaded",
        mend=_NEWER_SQLITE,
    )


def _embedder(settings: Settings) -> Finding:
    name = settings.embedding.embedder
    match name:
        case "none":
            mend = "set embedding.embedder = use, and what was said in other words is found, too"
            return Finding("search", "embedder", "none: recall finds words only", "degraded", mend)
        case "use":
            return Finding("search", "embedder", "use: multilingual, on this machine")
        case "english":
            try:
                installed_weights()
            except EmbeddingFailed as error:
                return Finding("search", "embedder", "english, which is not installed", "degraded", str(error))
            return Finding("search", "embedder", "english, on this machine")
    return Finding("search", "embedder", f"{name}: what is stored and asked is sent to its provider")


def _tokens() -> Finding:
    counter = load_counter()
    folder = shipped_encodings()
    mend = "no encoding file was found, so four characters count as one token: reinstall litellm, which ships it"
    counts = counter.name != ESTIMATE
    return wanted("tokens", "encoding", counts, yes=f"{counter.name}, from {folder}", no=counter.name, mend=mend)


def _http(settings: Settings) -> Iterator[Finding]:
    http, file = settings.http, key_file(settings.data_dir)
    host = f"[{http.host}]" if ":" in http.host else http.host
    yield Finding("HTTP", "address", f"http://{host}:{http.port}/mcp once `{shell_command('serve')}` runs")
    try:
        key = read_key(settings.data_dir)
    except (KeyUnusable, OSError) as error:
        yield Finding("HTTP", "key", f"cannot be used: {file}", "degraded", str(error))
        return
    if not http.auth:
        yield Finding("HTTP", "key", "none is asked for (http.auth = false)")
    elif reached_by_others(settings):
        yield Finding("HTTP", "key", f"those that `{shell_command('keys')}` makes, and [jwt]")
    elif key is None:
        yield Finding("HTTP", "key", f"written to {file} by the first `{shell_command('serve')}`")
    else:
        yield on_disk("HTTP", "key", f"in {file}", file, closed="rwx", risk="can read the key")


def _models(settings: Settings) -> Iterator[Finding]:
    chosen = chosen_models(settings.llm)
    yield wanted(
        "models",
        "background",
        bool(chosen.distinct) or not chosen.asked_for_auto,
        yes=told(chosen),
        no=told(chosen),
        mend="set the key of a provider, or name a model in llm.model",
    )
    if chosen.distinct:
        limits = [f"{settings.llm.daily_tokens:,} tokens"] if settings.llm.daily_tokens else []
        limits += [f"${settings.llm.daily_usd:g}"] if settings.llm.daily_usd else []
        yield Finding("models", "daily budget", " and ".join(limits) or "none is set")
    present = [name for name in MODEL_KEYS if os.environ.get(name)]
    local = not settings.embedding.is_remote
    needed = [
        *(["the background model's provider may need one"] if chosen.distinct else []),
        *([] if local else ["the embedder's provider may need one"]),
    ]
    told_needed = "; ".join(needed) or "no model is called that needs one"
    yield Finding("models", "keys", f"{', '.join(present) or 'none'}; {told_needed}")


def _show(console: Console, findings: list[Finding]) -> None:
    for section, members in groupby(findings, lambda finding: finding.section):
        console.print(section, style="bold")
        for finding in members:
            mark, style = _STYLES[finding.state]
            console.print(f"  {mark} ", style=style, end="")
            console.print(f"{finding.name:<18} {finding.value}")
    wrong = [finding for finding in findings if finding.state != "ok"]
    console.print()
    if not wrong:
        console.print("Nothing is degraded.", style="green")
        return
    console.print("What to mend:", style="bold")
    for finding in wrong:
        console.print(f"  {finding.section}, {finding.name}: {finding.mend}", style=_STYLES[finding.state][1])
