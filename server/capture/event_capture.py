"""Stores the content of an event: the new lines of its transcript or, without one, the texts in the event itself."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from layerlore.memory.parts.parts import text_part
from layerlore.memory.rules.validation import parse_time
from layerlore.server.capture.hook_memory import CapturedMessage, HookMemory
from layerlore.server.capture.hook_sessions import Session, Sessions, mark_path, now_ms
from layerlore.server.capture.host_events import HookCall
from layerlore.server.capture.host_lines import CHUNK_BYTES, TranscriptCursor, TranscriptMessage, read_new
from layerlore.server.capture.message_cleanup import Cleaner, IgnoredPaths
from layerlore.server.process.safe_files import UnsafeFile, open_regular
from layerlore.server.settings.sections import CaptureSettings
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Scope

log = logging.getLogger(__name__)
T = TypeVar("T")

_TEXT_TRANSCRIPT = ".txt"
# These hosts write no transcript, or not always. Their events contain the messages.
_WITHOUT_TRANSCRIPT = ("cursor", "windsurf")
# These hosts write their transcript while their hooks run. The event itself is a line of it.
_WRITES_LATER = ("copilot-cli",)
# These hosts call the compaction hook before each request to the model, when they check whether they must compact.
_LOOKS_EACH_TIME = ("gemini-cli",)
_LOOK_SECONDS = 0.05
_MOST_LOOKS = 20


async def run_apart(call: Callable[[], T]) -> T:
    """The result of a call in a thread of its own. A call that hangs, for example on a drive that does not answer, takes no
    thread from other calls and does not delay the end of the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(error: BaseException | None, result: Any) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def run() -> None:
        error, result = None, None
        try:
            result = call()
        except BaseException as raised:  # noqa: BLE001 - raised again where the result is awaited
            error = raised
        # The thread may outlive the loop, since a hanging read cannot be ended.
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, error, result)

    threading.Thread(target=run, name="hook event", daemon=True).start()
    return await done


class Capture:
    """Stores the content of one session's events, one after the other."""

    def __init__(
        self, memory: HookMemory, rules: CaptureSettings, scope: Scope, sessions: Sessions, session: Session
    ) -> None:
        self._memory = memory
        self._rules = rules
        self._scope = scope
        self._sessions = sessions
        self._session = session

    async def store(self, call: HookCall, ignored: IgnoredPaths) -> None:
        """Store the new content, and note the position in the transcript. May be repeated with the same event. Raises
        LayerloreError and OSError."""
        cleaner = Cleaner(self._rules, ignored, self._session.left_out)
        await self._notice_older_store()
        for path, thread_id in self._list_transcripts(call):
            await self._store_transcript(call, path, thread_id, cleaner)
        if call.host in _WITHOUT_TRANSCRIPT and not _has_lines(call.transcript):
            # Some hosts give a transcript only in some versions; with both, each message would be stored twice.
            await self._store_said(call, call.session, [*_read_texts(call)], cleaner)
        is_compaction = call.event.moment == "compaction"
        if is_compaction and not (call.host in _LOOKS_EACH_TIME and call.source == "auto"):
            # A compaction removes earlier messages and recalled lines from the model's context.
            self._session.gone, self._session.told = self._session.last_seq, []

    def _list_transcripts(self, call: HookCall) -> Iterator[tuple[str, str]]:
        """The paths of the session's transcripts, and the thread of each."""
        if not _has_lines(call.transcript):
            return
        yield call.transcript, call.session
        if self._rules.subagents:
            for path in sorted(Path(call.transcript).with_suffix("").glob("subagents/*.jsonl")):
                yield str(path), f"{call.session}-{path.stem}"

    async def _notice_older_store(self) -> None:
        """Read the transcripts again if the thread has fewer messages than before, since a backup was restored. Deleted and
        erased threads do not come back: the name then means another thread, or none."""
        session = self._session
        thread = await self._memory.find_thread(session.session)
        if thread is None:
            return
        # The stored position belongs to a deleted thread of the same name.
        if thread.thread_uid != session.thread_uid:
            session.thread_uid, session.last_seq = thread.thread_uid, thread.last_seq
        elif thread.last_seq < session.last_seq:
            session.transcripts, session.last_seq = {}, 0

    async def _store_transcript(self, call: HookCall, path: str, thread_id: str, cleaner: Cleaner) -> None:
        transcripts, mark = self._session.transcripts, mark_path(path)
        # Earlier versions used the path as the key.
        cursor = TranscriptCursor.read(transcripts.get(mark) or transcripts.get(path, {}))
        ended = call.event.moment == "end"
        if call.host in _WRITES_LATER and call.event.moment in ("stop", "end"):
            await _await_line(path, cursor.offset, f'"hookType":"{call.event.name}"')
        # Hosts write a prompt after its hooks, and the model may cite it in its next call, before any other event. So wait.
        looks = _MOST_LOOKS if call.event.moment == "prompt" and thread_id == call.session else 0
        while True:
            try:
                found = await run_apart(partial(read_new, path, cursor, ended=ended))
            except FileNotFoundError:
                found = None
            except UnsafeFile as error:
                log.warning("the transcript %s is passed over: %s", path, error.strerror)
                return
            if found is None:
                if looks == 0:
                    return
                looks -= 1
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            said, cursor = found
            if any(each.role == "user" for each in said):
                looks = 0
            # The messages first, then the position: a crash between the two repeats the part, and ids prevent doubles.
            await self._store_said(call, thread_id, said, cleaner)
            self._session.transcripts.pop(path, None)
            self._session.transcripts[mark] = cursor.keep()
            # A tool's result may come in the next part, and stays out if its call did.
            self._session.left_out = sorted(cleaner.left_out)
            await self._sessions.write(self._session, self._scope)

    async def _store_said(
        self, call: HookCall, thread_id: str, said: Sequence[TranscriptMessage], cleaner: Cleaner
    ) -> None:
        kept = await run_apart(lambda: cleaner.clean(said))
        # A transcript may have one thing more than once; the last is the most complete.
        messages = [as_captured(each) for each in {each.id: each for each in kept}.values()]
        if not messages:
            return
        stored = await self._memory.store(call.host, thread_id, messages)
        self._session.note_captured(stored.added, now_ms())
        if thread_id == self._session.session:
            # The model sees inherited messages in its session, so they need not be shown as memories.
            self._session.note_told(stored.copied)
            self._session.last_seq = max(self._session.last_seq, stored.last_seq)


async def _await_line(path: str, offset: int, text: str) -> None:
    """Wait a short while until a transcript has a text after a position."""

    def has_text() -> bool:
        # The reader of the transcript reports a file that is not a regular one.
        with contextlib.suppress(OSError), open(open_regular(path), "rb") as file:  # noqa: PTH123 - a descriptor
            file.seek(offset)
            return text.encode() in file.read(CHUNK_BYTES).replace(b'": "', b'":"')
        return False

    for _ in range(_MOST_LOOKS):
        if await run_apart(has_text):
            return
        await asyncio.sleep(_LOOK_SECONDS)


def _has_lines(transcript: str) -> bool:
    """Whether the host writes a readable transcript, now or later."""
    return bool(transcript) and not transcript.endswith(_TEXT_TRANSCRIPT)


def _read_texts(call: HookCall) -> Iterator[TranscriptMessage]:
    """The messages in an event of a host that writes no transcript."""
    if call.event.moment == "prompt" and call.prompt:
        yield TranscriptMessage(f"{call.name}-prompt", "user", [text_part(call.prompt)])
    if call.event.moment == "reply" and call.reply:
        yield TranscriptMessage(f"{call.name}-reply", "assistant", [text_part(call.reply)])


def as_captured(said: TranscriptMessage) -> CapturedMessage:
    """A message of a transcript in the form for the store."""
    return {"id": said.id, "role": said.role, "parts": said.parts, "created_at": _read_time(said.at)}


def _read_time(at: Any) -> int | None:
    """The time of a message; None if the host wrote no readable time."""
    try:
        if at is None:
            return None
        return parse_time(at, "timestamp")
    except InvalidInput:
        return None
