"""The text written into each file, so that an uninstall removes exactly that: ``hosts.json`` in the data folder."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from layerlore.storage.core.errors import LayerloreError

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
    made = data_dir / f"{FILE}.new"
    made.write_text(json.dumps({path: asdict(each) for path, each in records.items()}, indent=2), encoding="utf-8")
    made.replace(data_dir / FILE)
