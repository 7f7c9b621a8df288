"""The key of a local HTTP server: written at the first start, for the user's eyes only."""

import os
import secrets
import time
from pathlib import Path

from memstrata.storage.errors import MemstrataError

FILE = "http-key"
_SHORTEST = 16
# Another process that has just made the file writes the key into it at once.
_WRITTEN_WITHIN_SECONDS = 1.0


class KeyUnusable(MemstrataError):
    pass


def key_file(data_dir: Path) -> Path:
    return data_dir / FILE


def read_key(data_dir: Path) -> str | None:
    """The key in ``data_dir``, or None if there is none yet. Raises OSError, or KeyUnusable for a file without a key."""
    path = key_file(data_dir)
    try:
        key = path.read_bytes().decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    if len(key) < _SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
        raise KeyUnusable(
            f"{path} holds no usable key: at least {_SHORTEST} characters of printable ASCII without spaces are needed; "
            "delete the file, and the next `memstrata serve` makes a new one"
        )
    return key


def read_or_make_key(data_dir: Path) -> str:
    """The key in ``data_dir``, made (file 0600, folder 0700) if there is none. Raises OSError or KeyUnusable."""
    path = key_file(data_dir)
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _written_by_another(data_dir)
    key = f"ms_{secrets.token_urlsafe(32)}"
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(key + "\n")
    return key


def _written_by_another(data_dir: Path) -> str:
    give_up = time.monotonic() + _WRITTEN_WITHIN_SECONDS
    while True:
        try:
            key = read_key(data_dir)
        except KeyUnusable:
            if key_file(data_dir).stat().st_size or time.monotonic() > give_up:
                raise
        else:
            return key if key is not None else read_or_make_key(data_dir)
        time.sleep(0.01)
