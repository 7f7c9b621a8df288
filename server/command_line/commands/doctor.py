"""``layerlore doctor``: what the memory needs, what is missing or degraded, and how to fix it."""

import asyncio
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console

from layerlore.extraction.chat.chat_port import choose_models, describe_models
from layerlore.memory.embedding.minilm import find_weights
from layerlore.memory.embedding.port import EmbeddingFailed
from layerlore.memory.parts.tokens import ESTIMATE, load_counter, shipped_encodings
from layerlore.server.access.exposure import reached_by_others
from layerlore.server.command_line.hook_check import check_hooks
from layerlore.server.command_line.known_database import look_at_own_database
from layerlore.server.command_line.options import AsJson, read_settings
from layerlore.server.command_line.suggestions import complete, suggest
from layerlore.server.command_line.tables import Finding, check_mode, expect
from layerlore.server.process.version import VERSION
from layerlore.server.relay.server_query import find_servers
from layerlore.server.settings.local_key import KeyUnusable, key_file, read_key
from layerlore.server.settings.project import describe_claim, find_project
from layerlore.server.settings.settings import Settings
from layerlore.storage.drivers.dialect import HOME_NAME, DatabaseState, dialect_of, find_obstacle, look_at_database

MODEL_KEYS = (
    *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY"),
    *("OPENROUTER_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY", "COHERE_API_KEY", "TOGETHERAI_API_KEY"),
    *("FIREWORKS_AI_API_KEY", "AZURE_API_KEY", "AWS_ACCESS_KEY_ID", "VOYAGE_API_KEY"),
)
_STYLES = {"ok": ("ok  ", "green"), "degraded": ("!   ", "yellow"), "failed": ("FAIL", "bold red")}


def run_doctor(settings: Settings, *, as_json: bool, more: Iterable[Finding] = ()) -> int:
    """Print the findings, and ``more`` of others. Returns the exit code: 1 if the database cannot be used. Raises
    InvalidInput."""
    findings = [_complete(finding) for finding in (*examine(settings), *more)]
    healthy = all(finding.state != "failed" for finding in findings)
    if as_json:
        report = {"usable": healthy, "findings": [asdict(finding) for finding in findings]}
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    else:
        _show(Console(soft_wrap=True, markup=False, highlight=False), findings)
    if healthy:
        return 0
    return 1


def _complete(finding: Finding) -> Finding:
    """The finding, with the commands in it as they are to be typed: other floors do not know how this one was started."""
    return replace(finding, value=complete(finding.value), mend=complete(finding.mend))


def examine(settings: Settings) -> Iterator[Finding]:
    """All findings, section by section. Each trial is undone."""
    # One loop and one connection for all database findings; the rest needs no database.
    state = asyncio.run(look_at_own_database(settings, whole=True))
    yield Finding("layerlore", "version", VERSION)
    yield Finding("layerlore", "Python", f"{platform.python_version()} ({sys.executable})")
    yield from _settings(settings)
    yield _shared(settings)
    yield from _database(settings, state)
    yield from _shards(settings)
    yield from _abilities(settings)
    yield _embedder(settings)
    yield _tokens()
    yield from _http(settings)
    yield from _models(settings)


def _settings(settings: Settings) -> Iterator[Finding]:
    yield Finding("layerlore", "scope", f"agent {settings.agent}, resource {settings.resource}")
    if settings.project:
        yield Finding("layerlore", "project", f"{settings.project}, beside the memory of {settings.resource}")
    of_folder = find_project(os.curdir, str(settings.data_dir))
    if of_folder.claimed:
        mend = f"confirm it: `{suggest('project', '--confirm')}`"
        yield Finding("layerlore", "project's name", describe_claim(of_folder), "degraded", mend)
    off = "nothing is stored or remembered: set memory = on"
    yield expect("layerlore", "memory", settings.memory != "off", yes=settings.memory, no="off", mend=off)
    as_sent = f"stored as sent (redaction = {settings.redaction})"
    yield expect(
        "layerlore",
        "secrets",
        settings.redaction == "all",
        yes="masked before they are stored",
        no=as_sent,
        mend="set redaction = all to mask secrets in messages",
    )


def _shared(settings: Settings) -> Finding:
    """The server that the hosts of this machine share."""
    # A shared server that does not answer is left out by find_servers.
    running = [told for _, told in find_servers(str(settings.data_dir))]
    if running:
        shown = "; ".join(f"pid {told['pid']}, hosts connected: {told['hosts']}" for told in running)
    else:
        shown = "none runs now" if settings.local.share else "off: each host has a server of its own (local.share)"
    return Finding("layerlore", "shared server", shown)


def _shards(settings: Settings) -> Iterator[Finding]:
    """The other clusters; their tenants alone are concerned if one of them is away."""
    for shard in settings.shards:
        state = asyncio.run(look_at_database(shard.url.get_secret_value(), settings.database_file))
        failure, mend = state.failure, state.mend
        if not failure and state.shard not in (None, shard.name):
            failure, mend = f"it is the cluster {state.shard or HOME_NAME}", "correct the URLs in [[shards]]"
        yield expect(
            "shards",
            shard.name,
            not failure,
            yes=state.where,
            no=f"{state.where}: {failure}",
            mend=mend,
            state="failed",
        )


def _database(settings: Settings, state: DatabaseState) -> Iterator[Finding]:
    yield Finding("database", "kind", f"{state.kind} {state.server}".strip())
    yield Finding("database", "where", state.place)
    if state.exists:
        there = "yes"
    else:
        there = "yes; the first start creates it"
    yield expect(
        "database",
        "reachable",
        not state.failure,
        yes=there,
        no=f"no: {state.failure}",
        mend=state.mend,
        state="failed",
    )
    if state.exists and not state.failure:
        yield _schema(state)
    if state.weakness:
        yield Finding(
            "database", "notifications", state.weakness, "degraded", "docs/tenants.md says how, behind a pooler"
        )
    # A later check would only repeat the failure.
    if state.file is not None and not state.failure:
        yield expect(
            "database",
            "integrity",
            not state.damage,
            yes="nothing is damaged",
            no="; ".join(state.damage),
            mend=state.way_out,
            state="failed",
        )
    file = state.file
    if file is not None and file.is_file():
        # While a server runs, SQLite may keep most of the memory in the write-ahead log beside the file.
        log = file.with_name(f"{file.name}-wal")
        stored = file.stat().st_size + (log.stat().st_size if log.is_file() else 0)
        size = f"{stored:,} bytes"
        yield check_mode("database", "file", size, file, closed="rwx", risk="can read the memory")
    yield _data_folder(settings.data_dir)


def _data_folder(folder: Path) -> Finding:
    """Where the database is, unless another one is named, with the keys and what hosts share."""
    if obstacle := find_obstacle(folder):
        mend = "name in data_dir a folder that can be written to, or make this one writable"
        return Finding("database", "data folder", f"{folder}: {obstacle}", "degraded", mend)
    # A folder that others can write to lets them replace the database even if its file is closed.
    if folder.is_dir():
        return check_mode(
            "database", "data folder", str(folder), folder, closed="w", risk="can replace the files in it"
        )
    return Finding("database", "data folder", f"{folder}, created by the first start that needs it")


def _schema(state: DatabaseState) -> Finding:
    behind = f"version {state.version} of {state.latest}: the next start updates them"
    return expect(
        "database",
        "tables",
        state.version <= state.latest,
        yes=behind if state.version < state.latest else f"up to date (version {state.version})",
        # An older database is fine: the next start migrates it. A newer one cannot be read at all.
        no=f"version {state.version}, but this layerlore knows versions only up to {state.latest}",
        mend="a newer layerlore wrote this database: upgrade layerlore, or name another database",
        state="failed",
    )


def _abilities(settings: Settings) -> Iterator[Finding]:
    for each in dialect_of(settings.database.get_secret_value()).abilities():
        if each.has:
            yield Finding(each.section, each.name, each.value)
        else:
            yield Finding(each.section, each.name, each.value, "failed" if each.needed else "degraded", each.mend)


def _embedder(settings: Settings) -> Finding:
    name = settings.embedding.embedder
    match name:
        case "none":
            mend = "set embedding.embedder = use to find other wordings, too"
            return Finding("search", "embedder", "none: recall finds exact words only", "degraded", mend)
        case "use":
            return Finding("search", "embedder", "use: multilingual, on this machine")
        case "english":
            # The weights are a separate package, and the setting may name it without its being there.
            try:
                find_weights()
            except EmbeddingFailed as error:
                return Finding("search", "embedder", "english, which is not installed", "degraded", str(error))
            return Finding("search", "embedder", "english, on this machine")
    return Finding("search", "embedder", f"{name}: stored texts and queries are sent to its provider")


def _tokens() -> Finding:
    counter = load_counter()
    folder = shipped_encodings()
    mend = "no encoding file was found, so four characters count as one token; reinstall litellm, which includes it"
    counts = counter.name != ESTIMATE
    return expect("tokens", "encoding", counts, yes=f"{counter.name}, from {folder}", no=counter.name, mend=mend)


def _http(settings: Settings) -> Iterator[Finding]:
    http, file = settings.http, key_file(settings.data_dir)
    if ":" in http.host:
        host = f"[{http.host}]"
    else:
        host = http.host
    yield Finding("HTTP", "address", f"http://{host}:{http.port}/mcp once `{suggest('serve')}` runs")
    try:
        key = read_key(settings.data_dir)
    except (KeyUnusable, OSError) as error:
        yield Finding("HTTP", "key", f"cannot be used: {file}", "degraded", str(error))
        return
    if not http.auth:
        yield Finding("HTTP", "key", "none is required (http.auth = false)")
    # The local key counts only while no other machine can reach the server.
    elif reached_by_others(settings):
        yield Finding("HTTP", "key", f"the keys from `{suggest('keys', 'create')}`, and [jwt]")
    elif key is None:
        yield Finding("HTTP", "key", f"written to {file} by the first `{suggest('serve')}`")
    else:
        yield check_mode("HTTP", "key", f"in {file}", file, closed="rwx", risk="can read the key")


def _models(settings: Settings) -> Iterator[Finding]:
    chosen = choose_models(settings.llm.model, settings.llm.by_kind, os.environ)
    yield expect(
        # Without a chosen model nothing is wrong, unless the user asked for one.
        "models",
        "background",
        bool(chosen.distinct) or not chosen.asked_for_auto,
        yes=describe_models(chosen),
        no=describe_models(chosen),
        mend="set the key of a provider, or name a model in llm.model",
    )
    if chosen.distinct:
        if settings.llm.daily_tokens:
            limits = [f"{settings.llm.daily_tokens:,} tokens"]
        else:
            limits = []
        if settings.llm.daily_usd:
            limits += [f"${settings.llm.daily_usd:g}"]
        yield Finding("models", "daily budget", " and ".join(limits) or "none")
    present = [name for name in MODEL_KEYS if os.environ.get(name)]
    local = not settings.embedding.is_remote
    needed = [
        *(["the background model's provider may need one"] if chosen.distinct else []),
        *([] if local else ["the embedder's provider may need one"]),
    ]
    needs = "; ".join(needed) or "no model in use needs one"
    yield Finding("models", "keys", f"{', '.join(present) or 'none'}; {needs}")


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
    console.print("How to fix it:", style="bold")
    for finding in wrong:
        console.print(f"  {finding.section}, {finding.name}: {finding.mend}", style=_STYLES[finding.state][1])


def doctor(
    flags: dict[str, Any],
    as_json: AsJson = False,
) -> int:
    """Check everything that the memory needs, and say what is degraded and how to fix it. Changes nothing."""
    settings = read_settings(flags)
    hooks = check_hooks(settings)
    return int(run_doctor(settings, as_json=as_json, more=hooks))
