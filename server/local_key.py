"""The key of a local HTTP server: written at the first start, for the user's eyes only."""

import os
import secrets
from pathlib import Path

FILE = "http-key"


def key_file(data_dir: Path) -> Path:
    return data_dir / FILE


def read_or_make_key(data_dir: Path) -> str:
    """The key in ``data_dir``, made (file 0600, folder 0700) if there is none. Raises OSError."""
    path = key_file(data_dir)
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text(encoding="ascii").strip()
    key = f"ms_{secrets.token_urlsafe(32)}"
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(key + "\n")
    return key
