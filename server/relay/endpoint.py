"""Where the shared server of a launch is found: a Unix socket that only its user reaches or, where there are none, a port of
this machine with a key in a file."""

import os
import socket
import sys

UNIX = hasattr(socket, "AF_UNIX") and sys.platform != "win32"
CONNECT_SECONDS = 5.0
_BACKLOG = 128
# Darwin's SOL_LOCAL and LOCAL_PEERCRED, and where its struct xucred has the user's id.
_DARWIN = (0, 1, 76, 4)


class Foreign(OSError):
    """What was reached, or reaches us, runs as another user."""


class Listener:
    """A listening socket, the key that a connection must show ("" on a Unix socket), and the file that names it."""

    __slots__ = ("_identity", "_path", "key", "socket")

    def __init__(self, listening: socket.socket, key: str, path: str) -> None:
        self.socket = listening
        self.key = key
        self._path = path
        self._identity = _identity(path)

    @property
    def is_current(self) -> bool:
        """Whether those who look for a server still find this one."""
        return _identity(self._path) == self._identity

    def withdraw(self) -> None:
        """Let nobody find this server any more. Connections that have been made stay."""
        if self.is_current:
            os.unlink(self._path)


def prepare_folder(base: str) -> None:
    """Make the folder of sockets, for its user alone. Raises OSError; Foreign if it is somebody else's."""
    folder = os.path.dirname(base)
    for each in (os.path.dirname(folder), folder):
        os.makedirs(each, mode=0o700, exist_ok=True)
    if UNIX:
        _check_owner(folder)
        if os.stat(folder).st_mode & 0o077:
            os.chmod(folder, 0o700)


def _check_owner(folder: str) -> None:
    """Raise Foreign if somebody else made a folder of sockets, or a link in its place: in the folder for temporary files,
    anybody may."""
    if {os.lstat(folder).st_uid, os.stat(folder).st_uid} != {os.geteuid()}:
        raise Foreign(f"{folder} belongs to another user")


def connect(base: str, *, unix: bool = UNIX) -> tuple[socket.socket, str]:
    """Reach the server. Returns the connection and the key that it wants to see. Raises OSError if there is none."""
    if unix:
        _check_owner(os.path.dirname(base))
        connection, key = socket.socket(socket.AF_UNIX), ""
        address: str | tuple[str, int] = f"{base}.sock"
    else:
        with open(f"{base}.port", encoding="utf-8") as file:
            port, key = file.read().split()
        connection, address = socket.socket(socket.AF_INET), ("127.0.0.1", int(port))
    try:
        connection.settimeout(CONNECT_SECONDS)
        connection.connect(address)
        check_peer(connection)
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection, key


def listen(base: str, *, unix: bool = UNIX) -> Listener:
    """Listen in place of whatever listened there before. The caller holds the launch's lock. Raises OSError."""
    if unix:
        path, key = f"{base}.sock", ""
        if os.path.lexists(path):
            os.unlink(path)
        listening = socket.socket(socket.AF_UNIX)
        mask = os.umask(0o177)
        try:
            listening.bind(path)
        finally:
            os.umask(mask)
        listening.listen(_BACKLOG)
        return Listener(listening, key, path)
    path, key = f"{base}.port", os.urandom(24).hex()
    listening = socket.socket(socket.AF_INET)
    listening.bind(("127.0.0.1", 0))
    listening.listen(_BACKLOG)
    new = f"{path}.new"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{listening.getsockname()[1]} {key}")
    os.replace(new, path)
    return Listener(listening, key, path)


def check_peer(connection: socket.socket) -> None:
    """Raise Foreign if the other end of a Unix socket runs as another user."""
    if not UNIX or connection.family != socket.AF_UNIX:
        return
    if sys.platform == "darwin":
        level, name, size, at = _DARWIN
        user = int.from_bytes(connection.getsockopt(level, name, size)[at : at + 4], sys.byteorder)
    elif hasattr(socket, "SO_PEERCRED"):
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        user = int.from_bytes(found[4:8], sys.byteorder)
    else:  # the folder's mode keeps others out
        return
    if user != os.geteuid():
        raise Foreign("the other end of the socket runs as another user")


def _identity(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns
