"""Background work of a real server over HTTP, with a model that misbehaves: nothing is stored without evidence, nothing
is lost, nothing is stuck, and every failure is seen in memory_status, which repeats no words of a conversation."""

import json
import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import anyio
import pytest
from fake_openai import FakeOpenAI, fake_openai, misbehaviours
from sqlalchemy import and_, select

from layerlore.conformance.seeing_all import see_all
from layerlore.memory.text.echoes import strip_echoes
from layerlore.storage.core.tables import (
    entries,
    entry_sources,
    jobs,
    messages,
    session_memories,
    threads,
    user_profiles,
)
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.dialect import open_database

from ..misbehaving import KINDS, OF_A_TURN, REFUSED, SECRET, Misbehaving, Way, exchange, good_entry, taking_turns, ways
from ..thinking_server import Calls, thinking

pytestmark = [pytest.mark.anyio, pytest.mark.programs]

PATIENCE = 120.0
BASE_URL = os.environ.get("LAYERLORE_TEST_LLM_BASE_URL", "")
NAME = os.environ.get("LAYERLORE_TEST_LLM_MODEL", "qwen2.5:0.5b")
QUICK = {"LLM__TIMEOUT_SECONDS": "2", "LLM__CONCURRENCY": "4"}
A_FEW = (
    "closed without an answer",
    "an error there",
    "cut off in silence",
    REFUSED,
    "an invented quote",
    "too many entries",
)


@pytest.mark.soak
async def test_whatever_a_model_does_its_jobs_are_done_once_it_behaves(tmp_path: Path) -> None:
    with fake_openai() as fake:
        await shown_and_mended(fake, tmp_path, f"sqlite:///{tmp_path}/memory.db", ways(fake))


async def test_a_few_ways_in_which_its_jobs_fail_and_are_done_once_it_behaves(tmp_path: Path) -> None:
    with fake_openai() as fake:
        found = ways(fake)
        url = f"sqlite:///{tmp_path}/memory.db"
        await shown_and_mended(fake, tmp_path, url, {name: found[name] for name in A_FEW})


@pytest.mark.soak
async def test_and_so_on_postgres(tmp_path: Path, postgres_url: str) -> None:
    with fake_openai() as fake:
        found = ways(fake)
        await shown_and_mended(fake, tmp_path, postgres_url, {name: found[name] for name in A_FEW})


async def shown_and_mended(fake: FakeOpenAI, folder: Path, url: str, told: dict[str, Way]) -> None:
    model = Misbehaving(fake)
    cases = {f"w{number}": each for number, each in enumerate(taking_turns(told))}
    named = {case: name for case, (name, _) in cases.items()}
    model.cases = {case: way for case, (_, way) in cases.items()}
    with thinking(folder, fake.url, DATABASE=url, **QUICK) as server:
        async with server.client() as client:
            for case in cases:
                await client.add(case, exchange(case))
            await seen(client, model, lambda: not model.unseen())
            dead = [case for case, way in model.cases.items() if way.dead]
            assert {job["thread_id"] for job in (await client.status())["jobs"].get("dead", [])} == set(dead)
            assert server.resume() == len(dead) * len(KINDS)
            await all_done(client, model)
            for (kind, case), errors in model.seen.items():
                way = model.cases[case]
                assert way.fails(kind), (named[case], kind, errors)
                assert any(way.error in error for error in errors), (named[case], kind, errors)
                assert not any(SECRET in error or "Case" in error for error in errors), (named[case], kind, errors)
            assert (await client.status())["jobs"].get("dead", []) == []
            for case in model.cases:
                assert tells(await client.observations(case), case), named[case]
    await each_entry_has_its_evidence(folder, url, model)


@pytest.mark.soak
async def test_a_wrong_key_and_an_end_while_a_model_thinks_cost_no_job(tmp_path: Path) -> None:
    with fake_openai() as fake:
        model = Misbehaving(fake)
        model.cases["one"] = Way()
        model.instead = misbehaviours(fake)["a key that is refused"]
        with thinking(tmp_path, fake.url) as server:
            async with server.client() as client:
                await client.add("one", exchange("one"))
                await until(client, lambda status: "its key is missing" in status["thinking"].get("paused", ""))
                status = await client.status()
                assert any("no model is asked until" in told for told in status["degraded"])
                assert not {"failing", "dead"} & set(status["jobs"])
        model.instead = fake.hang
        with thinking(tmp_path, fake.url) as server:
            async with server.client() as client:
                await until(client, lambda _: len(fake.requests) >= 3)
                assert await client.waiting(*KINDS) == len(KINDS)
        assert set(await of_database(tmp_path, "", _holders)) == {(None,)}
        model.instead = None
        with thinking(tmp_path, fake.url) as server:
            async with server.client() as client:
                await until(client, is_done)
                assert tells(await client.observations("one"), "one")
        await each_entry_has_its_evidence(tmp_path, "", model)


async def test_all_that_a_turn_is_made_into_outlives_an_outage(tmp_path: Path) -> None:
    with fake_openai() as fake:
        model = Misbehaving(fake, OF_A_TURN)
        model.cases["one"] = ways(fake)["nothing said"]
        named = {f"LLM__MODELS__{kind.upper()}": "openai/told" for kind in OF_A_TURN}
        with thinking(tmp_path, fake.url, **QUICK, **named) as server:
            async with server.client() as client:
                await client.add("one", exchange("one"))
                await seen(client, model, lambda: not model.unseen())
                await until(client, lambda status: not status["jobs"]["waiting"])
                assert tells(await client.observations("one"), "one")
        await each_entry_has_its_evidence(tmp_path, "", model)
        ((title, by, document, profile),) = await of_database(tmp_path, "", _made_of_a_turn)
        assert (title, by, document) == ("The gate at dock one", "openai/told", "Dock one stays open.")
        assert "- Has a gate at dock one" in profile


@pytest.mark.skipif(not BASE_URL, reason="LAYERLORE_TEST_LLM_BASE_URL names no server")
async def test_a_real_model_notes_a_turn_and_keeps_what_has_evidence(tmp_path: Path) -> None:
    with thinking(tmp_path, BASE_URL, LLM__MODEL=f"openai/{NAME}", LLM__TIMEOUT_SECONDS="300") as server:
        async with server.client() as client:
            await client.add("one", exchange("one"))
            await until(client, is_done, patience=1800)
            assert await client.observations("one")
    for thread_id, content, role, _, starts, ends in await of_database(tmp_path, "", _kept):
        assert (thread_id, role in ("user", "assistant"), starts < ends) == ("one", True, True), content


def is_done(status: Any) -> bool:
    return not any(row["kind"] in KINDS for row in status["jobs"]["waiting"])


async def until(client: Calls, met: Callable[[Any], bool], patience: float = PATIENCE) -> None:
    """Wait until memory_status is so."""
    with anyio.fail_after(patience):
        while not met(await client.status()):
            await anyio.sleep(0.2)


async def seen(client: Calls, model: Misbehaving, done: Any) -> None:
    """Look at memory_status, and note every failure in it, until there is nothing to wait for any more."""
    with anyio.fail_after(PATIENCE):
        while True:
            found = (await client.status())["jobs"]
            for job in [*found.get("failing", []), *found.get("dead", [])]:
                model.saw(job["kind"], job["thread_id"], job["error"])
            if done():
                return
            await anyio.sleep(0.2)


async def all_done(client: Calls, model: Misbehaving) -> None:
    with anyio.fail_after(PATIENCE):
        while await client.waiting(*KINDS):
            await seen(client, model, lambda: True)
            await anyio.sleep(0.2)


def tells(found: Collection[dict[str, Any]], case: str) -> bool:
    """Whether the notes tell of the whole conversation but its very end, each part once."""
    texts = [each["text"] for each in found]
    return bool(texts) and len(set(texts)) == len(texts) and all(f"Dock {case} " in text for text in texts)


async def each_entry_has_its_evidence(folder: Path, url: str, model: Misbehaving) -> None:
    by_case: dict[str, list[str]] = {case: [] for case in model.cases}
    for thread_id, content, role, parts, starts, ends in await of_database(folder, url, _kept):
        said = "\n".join(strip_echoes(part["text"]) for part in json.loads(parts) if part["type"] == "text")
        assert role == "user"
        assert re.fullmatch(rf"gate at dock {thread_id} opens( with)?", said[starts:ends]), (content, said[starts:ends])
        by_case[thread_id].append(content)
    for case, contents in by_case.items():
        assert len(contents) == model.cases[case].entries, (case, contents)
        if len(contents) == 1:
            assert contents == [good_entry(case)["content"]]


async def of_database(folder: Path, url: str, request: Callable[[Tx], Any]) -> Any:
    """What a database answers, when its server has ended."""
    database = await open_database(url, folder / "memory.db")
    try:
        return await database.read_installation(_asked, request)
    finally:
        await database.close()


async def _asked(tx: Tx, request: Callable[[Tx], Any]) -> Any:
    await see_all(tx)
    return await request(tx)


async def _holders(tx: Tx) -> Any:
    """Of the jobs that are not done."""
    rows = await tx.all(select(jobs.c.holder).where(jobs.c.requested_seq > jobs.c.done_seq))
    return [tuple(row) for row in rows]


async def _made_of_a_turn(tx: Tx) -> Any:
    return await tx.all(
        select(threads.c.title, threads.c.title_by, session_memories.c.content, user_profiles.c.content)
        .select_from(threads.join(session_memories, threads.c.thread_uid == session_memories.c.thread_uid))
        .join(user_profiles, user_profiles.c.resource_id == threads.c.resource_id)
    )


async def _kept(tx: Tx) -> Any:
    """Every entry with its source, whose message it is, and where in it the evidence stands; without one, no thread."""
    return await tx.all(
        select(
            threads.c.thread_id,
            entries.c.content,
            messages.c.role,
            messages.c.parts,
            entry_sources.c.starts,
            entry_sources.c.ends,
        )
        .select_from(
            entries.outerjoin(entry_sources, entry_sources.c.entry_id == entries.c.entry_id)
            .outerjoin(
                messages,
                and_(
                    messages.c.thread_uid == entry_sources.c.thread_uid, messages.c.seq == entry_sources.c.message_seq
                ),
            )
            .outerjoin(threads, threads.c.thread_uid == entry_sources.c.thread_uid)
        )
        .where(entries.c.status == "active")
    )
