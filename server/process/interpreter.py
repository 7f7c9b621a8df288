"""The interpreter's settings for a server, so that no call waits for the work of others, and its end.

Measured beside a tenant that called 20 times as often as allowed: the 99th percentile of the others' calls was 180 ms, 50
with shorter pauses, and 40 with the frozen objects, too.
"""

import contextlib
import gc
import importlib
import logging
import os
import shlex
import shutil
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NoReturn

YOUNG_OBJECTS = 10_000
"""New objects until the cycle collector runs; with Python's 700 it checks all live objects every few seconds."""
SWITCH_SECONDS = 0.001
"""How long a thread may compute while another one waits, such as the one that answers; Python's default is 0.005."""


def shorten_pauses() -> None:
    """Shorten the pauses of garbage collection and thread switches, for the whole process. It may be repeated."""
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    sys.setswitchinterval(SWITCH_SECONDS)


# A parameter of mallopt(3).
_MOST_HEAPS = -8


def share_one_heap() -> None:
    """Have all threads take memory from one heap, where glibc keeps up to eight a core: what one thread has freed serves
    the others. Measured with 10,000 messages in scope: 231 MB instead of 277. Threads that run already keep theirs."""
    with contextlib.suppress(AttributeError, OSError, ImportError):
        if sys.platform == "linux":
            # Loaded later than a thin client and ``initialize`` need.
            importlib.import_module("ctypes").CDLL(None).mallopt(_MOST_HEAPS, 1)


@contextlib.contextmanager
def pause_collection() -> Iterator[None]:
    """Pause the cycle collector while modules are imported: they make a hundred thousand objects that all stay, and
    checking them again and again takes a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def load_program(name: str) -> ModuleType:
    """Import the module that a process runs, whose objects stay as long as it does."""
    with pause_collection():
        module = importlib.import_module(name)
        # Frozen objects are never checked again; those of the program stay until its end.
        gc.freeze()
    return module


@cache
def freeze_objects() -> None:
    """Exclude all present objects from cycle collection: some 200,000 that stay, which took 150 ms at a time. Once in a
    process, since garbage would be kept, too."""
    gc.freeze()


def end_process(exit_code: int) -> NoReturn:
    """End the process with that code, even while daemon threads run: one that loads a model, or waits for an answer
    that is no longer needed.

    The interpreter's own end stops such a thread anywhere, and code that runs afterwards (a library that imports when
    its objects are deleted) waits for ever for a lock that the thread held, such as the import lock.
    """
    # Without daemon threads the interpreter's normal end is safe.
    if not any(thread.daemon for thread in threading.enumerate()):
        sys.exit(exit_code)
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        # A full pipe or a closed terminal must not keep the process alive.
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(exit_code)


NAME = "layerlore"


def launch_command() -> tuple[str, ...]:
    """The absolute path of the program beside the running Python; if none exists, Python with the module."""
    beside = shutil.which(NAME, path=str(Path(sys.executable).parent))
    if beside:
        return (beside,)
    return (sys.executable, "-m", "layerlore.server")


def shell_command(*arguments: str) -> str:
    """The command to type in a shell: the bare name if it runs this program, else its path."""
    command = launch_command()
    found = shutil.which(NAME)
    if found is not None and len(command) == 1 and Path(found).resolve() == Path(command[0]).resolve():
        command = (NAME,)
    return shlex.join([*command, *arguments])
