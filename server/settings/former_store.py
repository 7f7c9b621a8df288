"""The default data folder under the product's former name: what lies in it is taken over once."""

import importlib
import sys
from pathlib import Path

import platformdirs

from layerlore.server.settings.local_key import key_file
from layerlore.server.settings.settings import Settings

FORMER_NAME = "memstrata"


def adopt_former_store(settings: Settings) -> None:
    """Move the memory and the HTTP key from the former default folder, if they are there and nothing is here yet.

    Raises StorageUnavailable if they are there and cannot be moved.
    """
    former = Path(platformdirs.user_data_dir(FORMER_NAME, appauthor=False))
    old, new = former / settings.database_file.name, settings.database_file
    if _chosen(settings) or new.exists() or not old.exists():
        return
    # SQLite is loaded only where there is something to move.
    if not importlib.import_module("layerlore.storage.drivers.sqlite.former_store").move_store(old, new):
        return
    if key_file(former).exists() and not key_file(settings.data_dir).exists():
        key_file(former).rename(key_file(settings.data_dir))
    sys.stderr.write(f"layerlore: moved the memory that was kept under the former name, from {old} to {new}\n")


def _chosen(settings: Settings) -> bool:
    return bool({"data_dir", "database"} & settings.model_fields_set) or settings.memory == "off"
