"""Reaching the shared server of a launch, which is started where there is none."""

import contextlib
import importlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

from layerlore.server.relay.endpoint import connect, prepare_folder
from layerlore.server.relay.launch import OWN_VARIABLES, Launch

START_SECONDS = 30.0
"""How long a server may take until it listens, and how long another client that starts one is waited for."""
PROGRAM = "layerlore.server.local"
_POLL_SECONDS = 0.005
_LOG_BYTES = 4 * 1024 * 1024


class NotStarted(OSError):
    """No shared server can be had: the text says why."""


def reach(launch: Launch, seconds: float = START_SECONDS) -> tuple[socket.socket, str]:
    """A connection to the shared server, and the key that it wants to see. ``seconds``: how long one that is started may
    take until it listens.

    Raises:
        OSError: none is reached, and none can be started.
    """
    with contextlib.suppress(OSError, ValueError):
        return connect(launch.base)
    prepare_folder(launch.base)
    until = time.monotonic() + seconds
    with lock(launch.base, until):
        with contextlib.suppress(OSError, ValueError):
            return connect(launch.base)  # another client has started it meanwhile
        ended = _spawn(launch)
        while True:
            with contextlib.suppress(OSError, ValueError):
                return connect(launch.base)
            if (code := ended()) is not None:
                raise NotStarted(f"the server ended with {code}; {launch.base}.log may say why")
            if time.monotonic() > until:
                raise NotStarted(f"the server does not listen after {seconds:.0f} s")
            time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def lock(base: str, until: float) -> Iterator[None]:
    """Hold the lock of a launch's socket: whoever starts or withdraws its server does. ``until``: of the monotonic clock.

    Raises:
        OSError: the lock cannot be had, or somebody else holds it for too long.
    """
    descriptor = os.open(f"{base}.lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        while not _take(descriptor):
            if time.monotonic() > until:
                raise NotStarted("another client has been starting the server for too long")
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt = importlib.import_module("msvcrt")
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl = importlib.import_module("fcntl")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _spawn(launch: Launch) -> Callable[[], int | None]:
    """Start the server, detached: it outlives this client and the host's terminal. Returns what asks for its exit code."""
    subprocess = importlib.import_module("subprocess")
    log = f"{launch.base}.log"
    with contextlib.suppress(OSError):
        if os.path.getsize(log) > _LOG_BYTES:
            os.replace(log, f"{log}.old")
    flags = [part for name, value in launch.flags.items() for part in ("--" + name.replace("_", "-"), value)]
    environ = {name: value for name, value in os.environ.items() if name.upper() not in OWN_VARIABLES}
    apart: dict[str, object] = {"start_new_session": True}
    if sys.platform == "win32":
        apart = {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as output:
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", PROGRAM, launch.base, *flags],  # no modules of the folder that it runs in
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=launch.directory,
            env=environ,
            **apart,
        )
    # Whoever starts a process must collect its end, or it stays in the system's table.
    threading.Thread(target=server.wait, daemon=True).start()
    poll: Callable[[], int | None] = server.poll
    return poll
