"""The program that hosts start, and the record of the hosts that have it."""

import json
import os
import shutil
import sys
import sysconfig
import tempfile
import venv
from dataclasses import asdict, dataclass
from pathlib import Path

from layerlore.server.process.program import launch_command
from layerlore.server.process.version import VERSION
from layerlore.storage.core.errors import LayerloreError

_CACHES = ("archive-v0", "builds-v0", "environments-v2", "_npx")
"""Folders in which package runners keep environments that they may remove at any time."""
RUNTIMES = "runtime"
_PYTHON = "Scripts/python.exe" if os.name == "nt" else "bin/python"


def find_command(data_dir: Path) -> tuple[str, ...]:
    """The program and its first arguments, at an absolute path that no cache evicts.

    Where this process runs from such a cache, that is the copy that ``stage_runtime`` makes.
    """
    if not is_evictable(Path(sys.prefix)):
        return launch_command()
    return (str(_find_staged(data_dir) / _PYTHON), "-m", "layerlore.server")


def stage_runtime(data_dir: Path) -> None:
    """Copy this process's environment once, to ``runtime/VERSION`` in the data folder, if it runs from a cache."""
    target = _find_staged(data_dir)
    # One copy for each version: an existing one is complete, since it is renamed into place at the end.
    if is_evictable(Path(sys.prefix)) and not target.exists():
        _stage(target)


def is_evictable(prefix: Path) -> bool:
    """Whether an environment lies in a folder that a package runner may empty."""
    inside = set(prefix.parts)
    pipx = "pipx" in inside and ".cache" in inside
    return pipx or bool(inside.intersection(_CACHES))


def is_temporary() -> bool:
    """Whether this process's environment lies below the folder for temporary files. It is not copied, since a user made it
    there: it may be a whole checkout with its tools."""
    return Path(sys.prefix).resolve().is_relative_to(Path(tempfile.gettempdir()).resolve())


def _find_staged(data_dir: Path) -> Path:
    return data_dir / RUNTIMES / VERSION


def _stage(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".staged-", dir=target.parent))
    try:
        # Windows needs a privilege for links. Without pip the copy is smaller and nothing can change it by accident.
        venv.EnvBuilder(symlinks=os.name != "nt", with_pip=False).create(made)
        own = Path(sysconfig.get_path("purelib"))
        copied = made / own.relative_to(sys.prefix)
        # With the compiled code: without it, the first start takes seconds.
        shutil.copytree(own, copied, dirs_exist_ok=True)
        made.rename(target)
    # Also when it is interrupted: a half copy would fill the data folder.
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


FILE = "hosts.json"


class RecordsDamaged(LayerloreError):
    """The file of records cannot be read. The message names it."""


@dataclass(frozen=True, slots=True)
class Record:
    """One file that was written. ``host`` whose it is; ``keys``: what was set in it, and ``made``: the objects that were
    made around that; ``defaults``: the keys of what was set since it was missing; ``digest`` of the text that was
    written, ``backup`` of the one before (empty: there was none, or another program wrote the file later), ``folders``
    that were made for it, ``new``: whether it was not there before."""

    host: str
    keys: list[list[str]]
    made: list[list[str]]
    defaults: list[list[str]]
    digest: str
    backup: str
    folders: list[str]
    new: bool


def read_records(data_dir: Path) -> dict[str, Record]:
    """The records by the path of their file. Raises RecordsDamaged."""
    file = data_dir / FILE
    try:
        return {path: Record(**each) for path, each in json.loads(file.read_text(encoding="utf-8")).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError, TypeError, AttributeError) as error:
        raise RecordsDamaged(f"{file} is damaged ({error}): move it away, and run this again") from None


def write_records(data_dir: Path, records: dict[str, Record]) -> None:
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A new file takes the old one's place, since a torn record would make uninstalling impossible.
    made = data_dir / f"{FILE}.new"
    made.write_text(json.dumps({path: asdict(each) for path, each in records.items()}, indent=2), encoding="utf-8")
    made.replace(data_dir / FILE)
