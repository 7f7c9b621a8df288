"""The thin client: it passes lines between the host and the shared server, even when the server ends.

One thread reads the host, another one the server. If the server ends, the second thread connects to another server, which
it starts if necessary, and sends the unanswered requests again. The host only notices a delay.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence

from layerlore.server.process.lines import LineSplitter, TooLong
from layerlore.server.process.standard_streams import ANSWER_SECONDS, LAUNCHED_BY
from layerlore.server.relay.channels import OwnChannel, SharedChannel, connect, prepare_folder, reach
from layerlore.server.relay.conversation import MOST_DEATHS, Conversation
from layerlore.server.relay.kept_answers import KeptAnswers
from layerlore.server.relay.launch import Launch

PARENT_POLL_SECONDS = 1.0
MOST_UNSERVED = 3
"""After this many servers in a row that end before they serve, the host gets a server of its own."""
MOST_FAILURES = MOST_DEATHS
"""The same after this many servers in a row that end soon and answer no call."""
GREETING_SECONDS = 60.0
"""How long a server may take from a connection to its greeting; it may have to load first."""
FAILURE_SECONDS = 10.0
_CHUNK_BYTES = 64 * 1024
_LONGEST_PAUSE = 1.0


def relay(launch: Launch, fds: tuple[int, int], arguments: Sequence[str]) -> None:
    """Pass lines on until the host leaves or SIGTERM or SIGINT arrives, then end the process. Runs in the main thread.

    Args:
        fds: the input and output that `claim_stdio` returned.
        arguments: the command line for a server of this host alone.

    Returns:
        Only if no shared server is possible; nothing was read then.
    """
    reached = None
    try:
        # Tried before the threads begin, since a running server needs no stored answers.
        reached = connect(launch.base)
    except (OSError, ValueError):
        try:
            prepare_folder(launch.base)
        # The folder may belong to another user. The host then needs a server of its own.
        except OSError:
            return
    session = os.urandom(6).hex()
    if reached is None:
        channel = None
    else:
        channel = SharedChannel(*reached, launch, session)
    _Relay(launch, fds, arguments, session, cold=channel is None).run(channel)


class _Relay:
    def __init__(
        self, launch: Launch, fds: tuple[int, int], arguments: Sequence[str], session: str, *, cold: bool
    ) -> None:
        self._launch = launch
        self._input, self._output = fds
        self._arguments = arguments
        self._session = session
        self._conversation = Conversation(KeptAnswers(launch, cold=cold))
        self._channel: SharedChannel | OwnChannel | None = None
        self._served = False  # whether the connected server has greeted
        self._left = False  # whether the host has closed its input
        self._left_at = 0.0
        self._met = False  # whether any server has greeted
        self._failures = 0
        self._unserved = 0
        self._attached = 0.0
        self._answered = 0
        self._code = 0
        self._done = False  # whether the connection that ends now was the last one
        # _state guards the fields above. Senders hold _sending instead, so that no thread waits while it holds _state.
        self._state = threading.Condition()
        self._sending = threading.Lock()
        self._writing = threading.Lock()

    def run(self, channel: SharedChannel | None) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            # There is nothing to clean up, and a thread may be blocked in a read.
            signal.signal(number, lambda *_: os._exit(self._code))
        threading.Thread(target=self._serve, args=(channel,), daemon=True).start()
        threading.Thread(target=self._watch_parent, daemon=True).start()
        self._read_host()
        while True:  # an endless wait would hold back signals on Windows
            time.sleep(PARENT_POLL_SECONDS)

    def _read_host(self) -> None:
        lines = LineSplitter()
        while chunk := self._read():
            for line in lines.feed(chunk):
                self._take(line)
        for line in lines.flush():
            self._take(line)
        with self._state:
            self._left, self._left_at = True, time.monotonic()
            channel = self._channel
            self._state.notify()
        # The last lines must be sent before the end of the input.
        if channel is not None:
            with self._sending:
                channel.end_input()

    def _read(self) -> bytes:
        try:
            return os.read(self._input, _CHUNK_BYTES)
        except OSError:  # a terminal that hung up
            return b""

    def _take(self, line: bytes | TooLong) -> None:
        with self._state:
            channel = self._channel
            framed, answer = self._conversation.take(line, connected=channel is not None, served=self._served)
            self._state.notify()
        # Written outside the lock: a host that reads slowly must not stop the other thread.
        if answer:
            self._write(answer)
        if channel is not None:
            with self._sending, contextlib.suppress(OSError):  # a replay sends it again if the server has ended
                channel.send(framed)

    def _serve(self, first: SharedChannel | None) -> None:
        """Connect to servers until the host has left and no request waits, then end the process, even while the main
        thread waits for input."""
        channel: SharedChannel | OwnChannel | None = first
        try:
            while not self._done:
                channel = channel or self._reach()
                with contextlib.suppress(OSError, ValueError):  # another program may listen at an old port
                    self._attach(channel)
                    self._listen(channel)
                self._end(channel)
                channel = None
        except Exception:  # noqa: BLE001 - a defect: it is shown, and the process ends so that the host does not wait
            self._code = 1
            sys.excepthook(*sys.exc_info())
        finally:
            # The lock waits for a line that is being written, so that the host gets it whole.
            with self._writing:
                os._exit(self._code)

    def _reach(self) -> SharedChannel | OwnChannel:
        why: object = f"it has ended again and again; {self._launch.base}.log may say why"
        if self._failures < MOST_FAILURES and self._unserved < MOST_UNSERVED:
            try:
                return SharedChannel(*reach(self._launch), self._launch, self._session)
            except OSError as error:
                why = error
        self._failures = MOST_FAILURES
        _explain(f"no shared server, so this host gets its own: {why}")
        return OwnChannel(self._arguments)

    def _attach(self, channel: SharedChannel | OwnChannel) -> None:
        """Bring a server into the state of the last one. Raises OSError."""
        # Held until the replayed lines are sent, so that no new line overtakes them; _send_all releases it.
        self._sending.acquire()
        with self._state:
            self._channel = channel
            self._served = not channel.greets
            self._met = self._met or self._served
            self._attached, self._answered = time.monotonic(), self._conversation.answered
            lines, left = self._conversation.replay(), self._left
        threading.Thread(target=self._send_all, args=(channel, lines, left), daemon=True).start()

    def _send_all(self, channel: SharedChannel | OwnChannel, lines: Sequence[bytes], left: bool) -> None:
        """Send the lines of a replay, in a thread of its own: a server may only take more when its answers are read."""
        try:
            with contextlib.suppress(OSError):
                channel.open()
                for line in lines:
                    channel.send(line)
            if left:
                channel.end_input()
        finally:
            self._sending.release()

    def _listen(self, channel: SharedChannel | OwnChannel) -> None:
        greeted = not channel.greets
        # A new server may load for long, but one without a greeting for a minute hangs.
        if isinstance(channel, SharedChannel) and not channel.answers_within(GREETING_SECONDS):
            return
        while (lines := channel.receive()) is not None:
            if lines and not greeted:
                greeted = True
                if not self._greet(json.loads(lines.pop(0))):
                    return
            for line in lines:
                with self._state:
                    heard = self._conversation.hear(line)
                if heard:
                    self._write(heard)

    def _greet(self, greeting: object) -> bool:
        """Read the greeting. Returns whether the server serves. Raises ValueError if it is not a server of ours."""
        if not isinstance(greeting, dict):
            raise ValueError("no greeting")
        if "error" in greeting:
            _explain(str(greeting["error"]))
            # Wrong settings stay wrong for the next server, too.
            self._code, self._done = 2, True
            return False
        if greeting.get("leaving"):
            return False
        if "version" not in greeting:
            raise ValueError("no greeting")
        with self._state:
            self._served = self._met = True
        return True

    def _end(self, channel: SharedChannel | OwnChannel) -> None:
        """Close a connection, and wait until another one is needed."""
        with self._state:
            served = self._served
            self._channel, self._served = None, False
            if served and channel.greets:
                # A server of our own ends with its host, so its requests are not sent again.
                answers = self._conversation.lose()
            else:
                answers = []
        for answer in answers:
            self._write(answer)
        code = channel.close()
        if self._done:
            return
        if not channel.greets:  # this process ends with the code of its own server
            self._code, self._done = code if code >= 0 else 1, True
            return
        # The next server starts only when it is needed.
        if not self._may_leave():
            self._count_failure(served=served)
            with self._state:
                while not (self._conversation.waits or self._left):
                    self._state.wait()
        self._done = self._may_leave()

    def _count_failure(self, *, served: bool) -> None:
        """Count a server that ended soon without an answer as failed, and pause before the next one."""
        late = time.monotonic() > self._attached + FAILURE_SECONDS
        if served and (late or self._conversation.answered > self._answered):
            self._failures = self._unserved = 0
            return
        self._failures += 1
        if served:
            self._unserved = 0
        elif late:
            self._unserved = MOST_UNSERVED
        else:
            self._unserved += 1
        # The pause grows from 80 ms to a second.
        time.sleep(min(_LONGEST_PAUSE, 0.02 * 4**self._failures))

    def _may_leave(self) -> bool:
        """Whether the host has left, and all requests are answered or have taken too long for a server without a host."""
        with self._state:
            waited = time.monotonic() - max(self._attached, self._left_at)
            return self._left and self._met and (not self._conversation.owes or waited >= ANSWER_SECONDS)

    def _write(self, line: bytes) -> None:
        """Write a line to the host."""
        with self._writing:
            try:
                while line:
                    # A pipe may take only a part of a line.
                    line = line[os.write(self._output, line) :]
            except OSError:  # the reader has left
                os._exit(self._code)

    def _watch_parent(self) -> None:
        # A killed host closes no pipe that one of its children holds open.
        while os.getppid() == LAUNCHED_BY:
            time.sleep(PARENT_POLL_SECONDS)
        os._exit(self._code)


def _explain(text: str) -> None:
    with contextlib.suppress(OSError):  # the host has stopped reading
        sys.stderr.write(f"layerlore: {text}\n")
        sys.stderr.flush()
