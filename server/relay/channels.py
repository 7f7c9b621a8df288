"""The two ways to a server: the socket of the shared server, or a process of our own if none can be shared. Also names the
host that launched this process."""

import contextlib
import importlib
import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from layerlore.server.process.lines import MAX_LINE_BYTES, LineSplitter, TooLong
from layerlore.server.process.version import VERSION
from layerlore.server.relay.launch import OWN_VARIABLES, Launch

# A host's variable with the id, and the variable by which it marks the processes of its tools.
_CONVERSATIONS = (
    ("CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION"),
    ("COPILOT_AGENT_SESSION_ID", "COPILOT_CLI"),
)


def find_conversation(environ: Mapping[str, str]) -> str:
    """The id of the conversation for which a host launched this process; "" if it gives none."""
    # A host that another host's tool launches inherits the id, but has its own conversation.
    if any(environ.get(child) for _, child in _CONVERSATIONS):
        return ""
    return next((environ[name] for name, _ in _CONVERSATIONS if environ.get(name)), "")


def name_host() -> str:
    """A name of the process that launched this one, the same in all processes that it launches."""
    parent = os.getppid()
    return f"{parent}-{_read_start(parent)}"


def _read_start(process: int) -> str:
    """When a process began, since the system reuses process ids; "" on a system without such a file."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # The program's own name comes before this in parentheses, and may hold anything.
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


_CHUNK_BYTES = 64 * 1024
# The server's settings limit answers, and may raise that limit, so this one is generous.
_LONGEST_ANSWER = 64 * MAX_LINE_BYTES


class SharedChannel:
    """A connection to the shared server. ``key``: the server's secret; ``session``: names the conversation."""

    greets = True
    """Whether the first line from the server is its greeting."""

    def __init__(self, connection: socket.socket, key: str, launch: Launch, session: str) -> None:
        self._connection = connection
        greeting = {
            "layerlore": VERSION,
            "key": key,
            "want": "session",
            "session": session,
            "conversation": find_conversation(os.environ),
            "host": name_host(),
            "flags": launch.own_flags,
            "variables": launch.own_variables,
        }
        self._greeting: bytes = json.dumps(greeting).encode() + b"\n"
        self._lines = LineSplitter(_LONGEST_ANSWER)

    def open(self) -> None:
        """Send the greeting. Raises OSError."""
        self._connection.sendall(self._greeting)

    def send(self, framed: bytes) -> None:
        """Raises OSError."""
        self._connection.sendall(framed)

    def answers_within(self, seconds: float) -> bool:
        """Whether the server sends something or closes the connection within that time."""
        return bool(select.select([self._connection], [], [], seconds)[0])

    def receive(self) -> list[bytes] | None:
        """The next lines, with their newlines; None at the end."""
        try:
            chunk = self._connection.recv(_CHUNK_BYTES)
        except OSError:
            return None
        if chunk:
            return _whole(self._lines.feed(chunk))
        return None

    def end_input(self) -> None:
        """Signal that the host sends no more."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> int:
        """Close the connection. Returns 0."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        return 0


class OwnChannel:
    """A server of this host alone, as a child process on pipes. Lines go to it without their frames."""

    greets = False

    def __init__(self, arguments: Sequence[str]) -> None:
        subprocess = importlib.import_module("subprocess")
        self._server = subprocess.Popen(
            # -P: a module in the host's folder must not take the place of one of ours.
            [sys.executable, "-P", "-m", "layerlore", "--alone", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._lines = LineSplitter(_LONGEST_ANSWER)

    def open(self) -> None:
        """Do nothing: such a server needs no greeting."""

    def send(self, framed: bytes) -> None:
        """Raises OSError."""
        line = framed.partition(b" ")[2]
        while line:
            # A pipe without a buffer may take only a part of a long line.
            line = line[self._server.stdin.write(line) :]

    def receive(self) -> list[bytes] | None:
        """The next lines, with their newlines; None at the end."""
        chunk = os.read(self._server.stdout.fileno(), _CHUNK_BYTES)
        if chunk:
            return _whole(self._lines.feed(chunk))
        return None

    def end_input(self) -> None:
        """Signal that the host sends no more."""
        with contextlib.suppress(OSError):
            self._server.stdin.close()

    def close(self) -> int:
        """Wait for its end. Returns its exit code, negative if a signal ended it."""
        self.end_input()
        return int(self._server.wait())


def framed_line(number: int, line: bytes | TooLong) -> bytes:
    """A line in the form for a server. Spaces replace the middle of a line that is too long."""
    if isinstance(line, TooLong):
        # The line stays too long, so that the server answers its id with an error.
        line = line.head + b" " * MAX_LINE_BYTES + line.tail
    return b"%d %s\n" % (number, line)


def _whole(lines: Sequence[bytes | TooLong]) -> list[bytes]:
    return [line + b"\n" for line in lines if isinstance(line, bytes)]


UNIX = hasattr(socket, "AF_UNIX") and sys.platform != "win32"
CONNECT_SECONDS = 5.0
_BACKLOG = 128
# Darwin's SOL_LOCAL and LOCAL_PEERCRED, and where its struct xucred has the user's id.
_DARWIN = (0, 1, 76, 4)


class Foreign(OSError):
    """The other end of the connection runs as another user."""


class Listener:
    """A listening socket, the key that a client must send ("" on a Unix socket), and the file by which clients find it."""

    __slots__ = ("_identity", "_path", "key", "socket")

    def __init__(self, listening: socket.socket, key: str, path: str) -> None:
        self.socket = listening
        self.key = key
        self._path = path
        self._identity = _identity(path)

    @property
    def is_current(self) -> bool:
        """Whether clients that look for a server still find this one."""
        return _identity(self._path) == self._identity

    def withdraw(self) -> None:
        """Stop other processes from finding this server. Existing connections stay."""
        if self.is_current:
            os.unlink(self._path)


def prepare_folder(base: str) -> None:
    """Make the folder of sockets, closed to other users. Raises OSError; Foreign if it belongs to another user."""
    folder = os.path.dirname(base)
    for each in (os.path.dirname(folder), folder):
        os.makedirs(each, mode=0o700, exist_ok=True)
    if UNIX:
        _check_owner(folder)
        # The mode is corrected, since an earlier version or an umask may have left the folder open.
        if os.stat(folder).st_mode & 0o077:
            os.chmod(folder, 0o700)


def _check_owner(folder: str) -> None:
    """Raise Foreign if another user made the folder, or a link in its place: any user may write to the folder for
    temporary files."""
    if {os.lstat(folder).st_uid, os.stat(folder).st_uid} != {os.geteuid()}:
        raise Foreign(f"{folder} belongs to another user")


def connect(base: str, *, unix: bool = UNIX) -> tuple[socket.socket, str]:
    """Connect to the running server. Returns the connection and the server's key. Raises OSError if there is none."""
    # Checked before the connection, since another user could have put a socket there.
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
        # A server that hangs must not hang its clients.
        connection.connect(address)
        check_peer(connection)
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection, key


def listen(base: str, *, unix: bool = UNIX) -> Listener:
    """Listen at this base path, also if a server did before. The caller holds the launch's lock. Raises OSError."""
    if unix:
        # A server that was killed leaves its socket file behind.
        path, key = f"{base}.sock", ""
        if os.path.lexists(path):
            os.unlink(path)
        listening = socket.socket(socket.AF_UNIX)
        # The mask makes the socket closed from its first moment on; a later chmod would not.
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
    # The port file appears with its whole content, or a client would read half a key.
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
    # The inode alone may be used again by the next file.
    return found.st_dev, found.st_ino, found.st_mtime_ns


START_SECONDS = 30.0
"""How long a server may take until it listens, and how long a client waits for another that starts one."""
PROGRAM = "layerlore.server.local"
_POLL_SECONDS = 0.005
_LOG_BYTES = 4 * 1024 * 1024


class NotStarted(OSError):
    """No shared server could be started; the text says why."""


def reach(launch: Launch, seconds: float = START_SECONDS) -> tuple[socket.socket, str]:
    """A connection to the shared server, and the server's key. Starts a server if none runs. ``seconds``: how long a new
    server may take until it listens.

    Raises:
        OSError: no server runs, and none can be started.
    """
    # The first attempt needs no lock, since nearly always a server runs.
    with contextlib.suppress(OSError, ValueError):
        return connect(launch.base)
    # The lock file needs the folder.
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
    """Hold the lock of a launch's socket, to start or withdraw its server. ``until``: the latest time, on the monotonic
    clock.

    Raises:
        OSError: the lock file cannot be opened, or another process holds the lock for too long.
    """
    descriptor = os.open(f"{base}.lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        while not _take(descriptor):
            if time.monotonic() > until:
                raise NotStarted("another client has been starting the server for too long")
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        # Closing releases the lock, also when the process is killed.
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
    """Start the server, detached: it outlives this client and the host's terminal. Returns a function that reads its exit
    code."""
    subprocess = importlib.import_module("subprocess")
    log = f"{launch.base}.log"
    with contextlib.suppress(OSError):
        if os.path.getsize(log) > _LOG_BYTES:
            os.replace(log, f"{log}.old")
    flags = [part for name, value in launch.flags.items() for part in ("--" + name.replace("_", "-"), value)]
    # Variables of one connection must not become those of the shared process.
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
    # The parent of a process must collect its end, or it stays in the system's table.
    threading.Thread(target=server.wait, daemon=True).start()
    poll: Callable[[], int | None] = server.poll
    return poll
