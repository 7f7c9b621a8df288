"""layerlore with its threads named to the system, so that their CPU can be told apart: ``python named_threads.py ARGUMENTS``.

Python names its threads only to itself before 3.14.
"""

import contextlib
import threading
from pathlib import Path
from typing import Any

from layerlore.server.__main__ import main

DATABASE_THREAD = "connection"


def name_threads() -> None:
    begin: Any = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def named(thread: threading.Thread) -> None:
        # aiosqlite's threads are called "Thread-3 (_connection_worker_thread)"; Linux keeps 15 characters.
        name = thread.name.partition("(")[2].lstrip("_") or thread.name
        with contextlib.suppress(OSError):
            Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name[:15], encoding="ascii")
        begin(thread)

    threading.Thread._bootstrap_inner = named  # type: ignore[attr-defined]


if __name__ == "__main__":
    name_threads()
    main()
