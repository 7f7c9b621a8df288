"""The key of a local HTTP server: written at the first start, for the user's eyes only."""

import os
import secrets
import tempfile
from pathlib import Path

from layerlore.server.process.interpreter import shell_command
from layerlore.storage.core.errors import LayerloreError

FILE = "http-key"
_SHORTEST = 16


class KeyUnusable(LayerloreError):
    """The file of the key holds none; the text says how to get a new one."""


def key_file(data_dir: Path) -> Path:
    """The path of the key's file, which may not be there yet."""
    return data_dir / FILE


def read_key(data_dir: Path) -> str | None:
    """The key in ``data_dir``, or None if none exists yet. Raises OSError, or KeyUnusable for a file without a key."""
    path = key_file(data_dir)
    try:
        # The file may have been edited; a byte that is not ASCII makes the key unusable instead of raising.
        key = path.read_bytes().decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    if len(key) < _SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
        raise KeyUnusable(
            f"{path} holds no usable key: at least {_SHORTEST} characters of printable ASCII without spaces are needed; "
            f"delete the file, and the next `{shell_command('serve')}` makes a new one"
        )
    return key


def read_or_make_key(data_dir: Path) -> str:
    """The key in ``data_dir``, made (file 0600, folder 0700) if none exists. Raises OSError or KeyUnusable."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (key := read_key(data_dir)) is not None:
        return key
    key = f"ll_{secrets.token_urlsafe(32)}"
    descriptor, written = tempfile.mkstemp(prefix=f"{FILE}-", dir=data_dir)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key + "\n")
        # The file appears with the key in it, or not at all: a process that starts at the same time reads a whole one.
        os.link(written, key_file(data_dir))
    # The other process was faster, so its key counts.
    except FileExistsError:
        return read_or_make_key(data_dir)
    finally:
        # The link above is a second name of the same file.
        Path(written).unlink()
    return key
