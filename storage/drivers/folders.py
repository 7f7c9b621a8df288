"""Folders that the server writes into."""

import tempfile
from pathlib import Path


def find_obstacle(folder: Path) -> str:
    """Why nothing can be written into a folder, which need not be there yet; "" if it can. It is tried with an empty
    folder, which is gone at once, in the nearest one that is there: what a mode allows a file system may still refuse."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".layerlore-", dir=there):
            return ""
    except OSError as error:
        return f"nothing can be written into {there} ({error.strerror})"
