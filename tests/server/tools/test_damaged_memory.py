"""Bytes of the file are overwritten: what is damaged hides nothing else, and the answers, the log and doctor say so."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from sqlalchemy import text

from layerlore.server.command_line.commands.doctor import run_doctor
from layerlore.server.command_line.commands.erase import run_redact
from layerlore.server.command_line.owner import OwnerFilter
from layerlore.server.command_line.suggestions import complete
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import Settings, load_settings
from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.json_text import NOTE
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.backup import WAY_OUT

from .calling import Tools

pytestmark = pytest.mark.anyio

SAID = [f"number {n}: the walrus likes oysters" for n in range(12)]
BROKEN = 5  # which of them is damaged
LONG = "y" * 20_000
PAGE = 4096


def settings_of(folder: Path) -> Settings:
    return load_settings({"data_dir": str(folder), "embedding": {"embedder": "none"}}, environ={})


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Tools]:
    async with Client(build_server(settings_of(folder))) as client:
        yield Tools(client)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with three conversations, closed."""
    folder = tmp_path_factory.mktemp("whole")

    async def fill() -> None:
        async with opened(folder) as tools:
            await tools.say("main", *SAID)
            await tools.say("long", "before", LONG, "after")
            await tools("update_thread", thread_id="named", metadata={"customer": "Ana Berg"})

    asyncio.run(fill())
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    shutil.copy(whole / "memory.db", tmp_path / "memory.db")
    return tmp_path


def overwrite(folder: Path, found: bytes, by: bytes) -> None:
    """Change bytes wherever they are in the file; its length stays."""
    file = folder / "memory.db"
    before = file.read_bytes()
    assert found in before
    assert len(found) == len(by)
    file.write_bytes(before.replace(found, by))


def cut_chain(folder: Path) -> None:
    """Have a page in the middle of the long text lead nowhere."""
    file = folder / "memory.db"
    data = bytearray(file.read_bytes())
    pages = [at for at in range(0, len(data), PAGE) if data[at + 4 : at + PAGE] == b"y" * (PAGE - 4)]
    data[pages[0] : pages[0] + 4] = b"\xff\xff\xff\x00"
    file.write_bytes(data)


NO_JSON = (f'"text":"{SAID[BROKEN]}'.encode(), f'"text"#"{SAID[BROKEN]}'.encode())
NO_PART = (f'"text":"{SAID[BROKEN]}'.encode(), f'"tezt":"{SAID[BROKEN]}'.encode())
NO_TEXT = (
    f'"text":"{SAID[BROKEN]}'.encode(),
    f'"text":"{SAID[BROKEN]}'.encode().replace(b"walrus", b"w\xff\xfe\xfdus"),
)


@pytest.mark.parametrize(("found", "by"), [NO_JSON, NO_PART, NO_TEXT], ids=["no-json", "no-part", "no-utf-8"])
async def test_a_damaged_message_hides_no_other_wherever_it_is_read(folder: Path, found: bytes, by: bytes) -> None:
    overwrite(folder, found, by)
    async with opened(folder) as tools:
        texts = await tools.texts("main")
        assert [each for n, each in enumerate(texts) if n != BROKEN] == [*SAID[:BROKEN], *SAID[BROKEN + 1 :]]
        assert texts[BROKEN] == (NOTE if by != NO_TEXT[1] else SAID[BROKEN].replace("walrus", "w\ufffd\ufffd\ufffdus"))
        assert SAID[BROKEN + 1] in await tools("get_context", thread_id="main")
        found = await tools("recall_memory", query=SAID[BROKEN], limit=10, max_tokens=20_000)
        assert SAID[BROKEN + 1] in found
        read = await tools.client.read_resource("memory://threads/main/messages")
        assert SAID[BROKEN - 1] in read.contents[0].text  # type: ignore[union-attr]
        await tools.say("main", "and more")
        assert (await tools.texts("main"))[-1] == "and more"


async def test_a_row_that_cannot_be_read_at_all_is_left_out_and_said(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cut_chain(folder)
    async with opened(folder) as tools:
        for _ in range(2):
            assert await tools.texts("long") == ["before", "after"]
            then = await tools("get_messages", format="json", since="2000-01-01", limit=200)
            assert {"before", "after"} < {message["parts"][0]["text"] for message in then["messages"]}
        assert "after" in await tools("get_context", thread_id="long")
        status = await tools("memory_status")
    assert any("rows that cannot be read are left out" in each for each in status["degraded"])
    assert len([each for each in caplog.records if "are left out" in each.getMessage()]) == 1
    assert WAY_OUT in caplog.text
    assert "yyyy" not in caplog.text


async def test_a_damaged_conversation_is_listed_and_written_to(folder: Path) -> None:
    overwrite(folder, b'{"customer":"Ana Berg"}', b'{"customer";"Ana Berg"}')
    async with opened(folder) as tools:
        listed = {row["thread_id"]: row for row in (await tools("list_threads"))["threads"]}
        assert listed.keys() == {"main", "long", "named"}
        assert listed["named"]["metadata"] == {"damaged": NOTE}
        assert await tools.say("named", "hello")


@pytest.mark.parametrize("time", [-(2**47), 2**62])
async def test_a_date_that_no_calendar_has_hides_no_message(folder: Path, time: int) -> None:
    with contextlib.closing(driver.connect(str(folder / "memory.db"), synchronous="FULL")) as file:
        file.execute("UPDATE messages SET said_at = ?, created_at = ? WHERE seq = ?", (time, time, BROKEN + 1))
    async with opened(folder) as tools:
        assert await tools.texts("main") == SAID
        assert SAID[BROKEN] in await tools("get_context", thread_id="main")
        assert SAID[BROKEN] in await tools("recall_memory", query=SAID[BROKEN])


def test_secrets_beside_a_damaged_message_are_masked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A part whose type cannot be read is text: it is masked, too."""
    overwrite(
        folder, f'"type":"text","text":"{SAID[BROKEN]}'.encode(), f'"tyqe":"text","text":"{SAID[BROKEN]}'.encode()
    )
    overwrite(folder, SAID[BROKEN].encode(), b"password=Tr0ub4dor99x ".ljust(len(SAID[BROKEN]), b"."))
    assert run_redact(settings_of(folder), OwnerFilter(), everything=True, dry_run=False, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["secrets"]["messages"] == 1


async def test_an_error_of_a_damaged_file_shows_no_stored_text(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The index of the words is damaged, so that nothing can be searched; everything else is served."""
    engine = await open_engine(settings_of(folder))
    page = await engine.database.read_installation(_root_of_words)
    await close_engine(engine)
    data = bytearray((folder / "memory.db").read_bytes())
    data[(page - 1) * PAGE : page * PAGE] = b"walrus!!" * (PAGE // 8)
    (folder / "memory.db").write_bytes(data)
    async with opened(folder) as tools:
        told = await tools.refused("recall_memory", query="walrus")
        assert "could not be read" in told
        assert "walrus" not in told
        assert await tools.texts("main") == SAID
    assert "Traceback" not in caplog.text


async def _root_of_words(tx: Any) -> int:
    row = await tx.one(text("SELECT rootpage FROM sqlite_master WHERE name = 'search_text_data'"))
    return int(row[0])


async def test_damage_is_noticed_at_the_start_and_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    cut_chain(folder)
    engine = await open_engine(settings_of(folder))
    await engine.database.check_quickly(30.0)
    assert any("messages" in each for each in engine.database.health.damage), engine.database.health.damage
    await engine.database.check_quickly(30.0)
    await close_engine(engine)
    said = [each.getMessage() for each in caplog.records if "the memory is damaged" in each.getMessage()]
    assert len(said) == len(set(said)) == len(engine.database.health.damage)
    assert WAY_OUT in said[0]


async def test_the_check_at_the_start_ends_in_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.sqlite.backup._STEPS", 1)
    cut_chain(folder)
    engine = await open_engine(settings_of(folder))
    await engine.database.check_quickly(0.0)
    assert engine.database.health.damage == []
    await close_engine(engine)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (cut_chain, "table messages"),
        (lambda folder: overwrite(folder, *NO_JSON), "table messages: parts of 1 row cannot be read"),
    ],
    ids=["chain", "json"],
)
def test_doctor_names_what_is_damaged_and_the_way_out_and_changes_nothing(
    folder: Path, damage: Callable[[Path], None], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run_doctor(settings_of(folder), as_json=True) == 0
    assert '"nothing is damaged"' in capsys.readouterr().out
    damage(folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert run_doctor(settings_of(folder), as_json=True) == 1
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["findings"]}["integrity"]
    assert named in found["value"]
    assert found["mend"] == complete(WAY_OUT)
    assert "walrus" not in found["value"]
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


async def test_a_file_that_is_no_database_any_more_is_refused_with_the_way_out(folder: Path) -> None:
    data = bytearray((folder / "memory.db").read_bytes())
    data[:100] = b"walrus!!!!" * 10
    (folder / "memory.db").write_bytes(data)
    with pytest.raises(StorageUnavailable) as raised:
        await open_engine(settings_of(folder))
    assert WAY_OUT in str(raised.value)
    assert "walrus" not in str(raised.value)
