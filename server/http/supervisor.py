"""The parent of ``layerlore serve --workers N``: it accepts connections, and passes each to the worker with the fewest.

It reads nothing of what clients send: a worker that finds that a request is for another one gives the connection back,
with what it has read of it. A worker that ends is replaced.
"""

import contextlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from layerlore.server.http.http_worker import SETTLED, Channel, Frame, Kind
from layerlore.server.http.request_guards import describe_failure, describe_listening, open_listener
from layerlore.server.settings.settings import Settings

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds until a worker is replaced: twice as long each time, until one has lived for a while."""
LIVED_SECONDS = 30.0
END_SECONDS = 6.0
"""How long workers may take to end once they are told to; then they are killed."""
_ACCEPTED_AT_ONCE = 64
_AGAIN_SECONDS = 1.0  # when to accept again if the system would not


Start = Callable[[int, int], "subprocess.Popen[bytes]"]
"""Starts the worker with this index, which inherits this descriptor as its end of the channel."""


@dataclass(slots=True)
class _Worker:
    """A running worker: ``open`` counts its connections; ``served_at`` is the turn in which it last got one."""

    index: int
    child: "subprocess.Popen[bytes]"
    channel: Channel
    began: float
    ready: bool = False
    open: int = 0
    served_at: int = 0


@dataclass(slots=True)
class _Place:
    """The place of a worker: the worker there has its index."""

    worker: _Worker | None = None
    pause: float = FIRST_PAUSE
    due: float | None = None


@dataclass(slots=True)
class _EndState:
    requested: bool = False
    exit_code: int = 0
    kill_at: float = 0.0
    signals: list[int] = field(default_factory=list)


def supervise(settings: Settings, arguments: Sequence[str]) -> int:
    """Serve with ``http.workers`` workers until SIGTERM or SIGINT, in the main thread. Returns the exit code: 2 for
    settings that are refused.

    ``arguments``: those of this program, which each worker is started with, too.
    """
    if refused := _refusal(settings):
        sys.stderr.write(f"layerlore: --workers (http.workers): {refused}\n")
        return 2
    host, port = settings.http.host, settings.http.port
    try:
        # The parent listens, so a worker's end closes no connection that waits.
        listener = open_listener(host, port)
    except OSError as error:
        sys.stderr.write(describe_failure(host, port, error))
        return 1
    command = [sys.executable, "-m", "layerlore.server", *arguments, "--port", str(listener.getsockname()[1])]

    def start(index: int, end: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - this program itself
            [*command, "--worker", str(index), str(end)], stdin=subprocess.DEVNULL, pass_fds=(end,)
        )

    with listener:
        return Supervisor(listener, settings.http.workers, start).run()


def _refusal(settings: Settings) -> str:
    """Why there cannot be several workers; "" if there can."""
    if sys.platform == "win32":
        return "on Windows one process serves; leave it out"
    if settings.memory != "off" and settings.database.get_secret_value() == "sqlite://:memory:":
        return "a database in memory belongs to one process; name a file, or leave it out"
    return ""


class Supervisor:
    """Keeps ``workers`` workers running, and spreads the connections of ``listener`` over them."""

    def __init__(
        self, listener: socket.socket, workers: int, start: Start, clock: Callable[[], float] = time.monotonic
    ) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._start = start
        self._clock = clock
        self._places = [_Place() for _ in range(workers)]
        self._selector = selectors.DefaultSelector()
        self._ending = _EndState()
        self._accepts = False
        self._accept_again: float | None = None
        self._told = False
        self._turn = 0

    def run(self) -> int:
        """Run until a signal ends it, or no worker can be started. Returns the exit code."""
        # Python runs a signal's handler only between two calls; the socket wakes the selector for it.
        woken, wake = socket.socketpair()
        for end in (woken, wake):
            end.setblocking(False)
        kept = {number: signal.signal(number, self._note_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        # SIGCHLD needs a handler to wake the selector; its default does not.
        kept[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        before = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self._selector.register(woken, selectors.EVENT_READ, lambda _: woken.recv(4096))
        try:
            # One worker first: it migrates the database, and the others start when it is ready.
            self._begin(0)
            while not self._over():
                for key, events in self._selector.select(self._wait()):
                    key.data(events)
                self._act()
        finally:
            signal.set_wakeup_fd(before)
            for number, restored in kept.items():
                signal.signal(number, restored)
            self._selector.close()
            for end in (woken, wake):
                end.close()
        return self._ending.exit_code

    @property
    def _workers(self) -> list[_Worker]:
        return [place.worker for place in self._places if place.worker is not None]

    def _over(self) -> bool:
        return self._ending.requested and not self._workers

    def _note_signal(self, number: int, _: object) -> None:
        self._ending.signals.append(number)

    def _wait(self) -> float | None:
        """Seconds until something is due; None if nothing is."""
        due = [place.due for place in self._places if place.due is not None and not self._ending.requested]
        if self._accept_again is not None:
            due.append(self._accept_again)
        if self._ending.requested:
            due.append(self._ending.kill_at)
        if due:
            return max(0.0, min(due) - self._clock())
        return None

    def _act(self) -> None:
        """The work that is due after each look at the sockets."""
        # Signals are acted on here and not in the handler, which may interrupt any line above.
        if self._ending.signals and not self._ending.requested:
            self._end(0)
        for worker in self._workers:
            if worker.child.poll() is not None:
                self._bury(worker)
        now = self._clock()
        if self._ending.requested:
            if now >= self._ending.kill_at:
                self._kill()
        else:
            for index, place in enumerate(self._places):
                if place.due is not None and now >= place.due:
                    self._begin(index)
        self._accept_if_served()

    def _accept_if_served(self) -> None:
        if self._accept_again is not None and self._clock() >= self._accept_again:
            self._accept_again = None
        wanted = not self._ending.requested and self._accept_again is None and any(each.ready for each in self._workers)
        if wanted and not self._accepts:
            # Without a ready worker, connections wait in the kernel's queue rather than be refused.
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        elif self._accepts and not wanted:
            self._selector.unregister(self._listener)
        self._accepts = wanted

    def _accept(self, _: int) -> None:
        # A limit, so that a flood of connections does not keep the parent from its workers.
        for _each in range(_ACCEPTED_AT_ONCE):
            try:
                connection, _address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("no connection can be accepted now: %s", error.strerror)
                self._accept_again = self._clock() + _AGAIN_SECONDS
                return
            self._pass(Frame(Kind.CONNECTION, file=connection.detach()), None)

    def _pass(self, frame: Frame, wanted: _Worker | None) -> None:
        """Give a connection to the worker that it is for, or to the one that has the fewest, in turn if several have."""
        ready = [worker for worker in self._workers if worker.ready]
        worker = wanted or min(ready, key=lambda each: (each.open, each.served_at), default=None)
        if worker is None:
            os.close(frame.file)
            return
        self._turn += 1
        worker.open += 1
        worker.served_at = self._turn
        self._send(worker, frame)

    def _send(self, worker: _Worker, frame: Frame) -> None:
        with contextlib.suppress(OSError):  # it has ended: that is noticed by itself
            worker.channel.put(frame)
        self._watch(worker)

    # The writer is watched only while something waits, or the selector would wake all the time.
    def _watch(self, worker: _Worker) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.channel.waiting else 0)
        if self._selector.get_key(worker.channel).events != events:
            self._selector.modify(worker.channel, events, self._selector.get_key(worker.channel).data)

    def _hear(self, worker: _Worker, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            with contextlib.suppress(OSError):
                worker.channel.flush()
        if not events & selectors.EVENT_READ:
            self._watch(worker)
            return
        frames = worker.channel.take()
        if frames is None:
            # It cannot serve without its channel.
            self._selector.unregister(worker.channel)
            worker.child.kill()
            worker.child.wait()
            self._bury(worker)
            return
        for frame in frames:
            self._obey(worker, frame)
        self._watch(worker)

    def _obey(self, worker: _Worker, frame: Frame) -> None:
        if frame.kind == Kind.READY:
            self._welcome(worker, frame.text)
        # The counts decide which worker gets the next connection.
        elif frame.kind == Kind.CLOSED:
            worker.open -= 1
        elif frame.kind == Kind.PASSED:
            worker.open -= 1
            if frame.worker < len(self._places):
                wanted = self._places[frame.worker].worker
            else:
                wanted = None
            if wanted is None or not wanted.ready:
                # The session has ended with its worker, as any other will say.
                wanted = worker
            self._pass(Frame(Kind.CONNECTION, SETTLED, frame.text, frame.file), wanted)

    def _welcome(self, worker: _Worker, text: bytes) -> None:
        worker.ready = True
        if not self._told:
            # The others find a database that is up to date, and settings that are accepted.
            self._told = True
            sys.stderr.write(describe_listening(*self._listener.getsockname()[:2]) + text.decode())
            sys.stderr.flush()
        for index, place in enumerate(self._places):
            if place.worker is None and place.due is None and not self._ending.requested:
                self._begin(index)

    def _begin(self, index: int) -> None:
        place = self._places[index]
        # The worker's end is closed here at once, so that the channel ends with the worker.
        ours, its = socket.socketpair()
        with its:
            child = self._start(index, its.fileno())
        worker = _Worker(index, child, Channel(ours), self._clock())
        place.worker, place.due = worker, None
        self._selector.register(worker.channel, selectors.EVENT_READ, lambda events: self._hear(worker, events))

    def _bury(self, worker: _Worker) -> None:
        place = self._places[worker.index]
        # The end of a worker shows twice, at its channel and as its exit; the second has nothing to do.
        if place.worker is not worker:
            return
        place.worker = None
        with contextlib.suppress(KeyError):
            self._selector.unregister(worker.channel)
        worker.channel.close()
        code = worker.child.returncode
        if self._ending.requested:
            # A code below zero means that a signal has killed the worker, which is a failure.
            self._ending.exit_code = self._ending.exit_code or (code if code >= 0 else 1)
            return
        if not worker.ready and not any(each.ready for each in self._workers):
            # Nobody serves, and who should cannot: its own message has said why.
            self._end(code if code > 0 else 1)
            return
        now = self._clock()
        if now - worker.began >= LIVED_SECONDS:
            place.pause = FIRST_PAUSE
        place.due = now + place.pause
        if code >= 0:
            why = f"code {code}"
        else:
            why = signal.Signals(-code).name
        log.warning("worker %d has ended (%s); it is replaced in %g s", worker.index, why, place.pause)
        place.pause = min(2 * place.pause, LONGEST_PAUSE)

    def _end(self, exit_code: int) -> None:
        self._ending.requested = True
        self._ending.exit_code = exit_code
        self._ending.kill_at = self._clock() + END_SECONDS
        self._accept_if_served()
        # After the selector has forgotten it, new clients are refused at once.
        self._listener.close()
        for worker in self._workers:
            worker.child.terminate()

    def _kill(self) -> None:
        for worker in self._workers:
            log.warning("worker %d was killed: it did not end within %g s", worker.index, END_SECONDS)
            worker.child.kill()
        self._ending.kill_at = self._clock() + END_SECONDS
        self._ending.exit_code = 1
