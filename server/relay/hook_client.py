"""``layerlore hook HOST EVENT``: hands over a host's report of an event, and prints the text for the model.

A host waits for this command, so it never fails and never takes long: it writes the event to a file, notifies the shared
server, which it starts if necessary, and waits only if the answer can show something.
"""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence

from layerlore.server.process.version import VERSION
from layerlore.server.relay.channels import name_host, reach
from layerlore.server.relay.hook_events import (
    MEMORY_FILES,
    MEMORY_FILES_FLAG,
    REMOTE_FLAGS,
    SECONDS,
    find_event,
    render_answer,
)
from layerlore.server.relay.launch import Launch, read_launch
from layerlore.server.relay.spool import HookEvent, hand_over, strip_private
from layerlore.server.settings.launch import FLAGS

WANT = "hook"
TAKEN = b"taken\n"
"""Confirms to the server that the answer came in time."""
ANSWER_SECONDS = 2.5
"""How long the command waits for text for the model."""
_GIVE_UP_SECONDS = SECONDS - 3.0
# An event needs no longer report.
_MOST_INPUT_BYTES = 32 * 1024 * 1024
_OF_COPILOT = "COPILOT_PROJECT_DIR"
"""Only Copilot CLI gives its hooks this variable."""
_PROJECT_FOLDERS = ("CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "GEMINI_PROJECT_DIR", _OF_COPILOT)
_LONGEST_ANSWER = 4 * 1024 * 1024
_MOST_DEPTH = 100
_EXIT_LOCK = threading.Lock()


def run_hook(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Serve an event and end the process, always with 0: other codes would stop the host's work. Returns only if the
    arguments name no event or request help, which the command line handles."""
    named = [each for each in arguments if not each.startswith("-")]
    if len(named) < 2 or {"-h", "--help"} & set(arguments):
        return
    host, event, flags, remote = _read_arguments(arguments)
    empty = render_answer(host, event, "")
    # Copilot CLI also runs the hooks of VS Code and, in a repository, of Claude Code. Our hooks for it name copilot-cli.
    if _OF_COPILOT in environ and host != "copilot-cli":
        _end(empty)
    # A call that hangs, such as a read from a host that never closes our input, must not keep the host waiting.
    watch = threading.Timer(_GIVE_UP_SECONDS, _end, (empty,))
    watch.daemon = True
    # A daemon thread does not keep a finished process alive.
    watch.start()
    answer = empty
    try:
        beside = {MEMORY_FILES: MEMORY_FILES_FLAG in arguments, **remote}
        answer = render_answer(host, event, _serve(host, event, flags, environ, beside))
    except TimeoutError:
        _note(f"the shared server did not answer within {ANSWER_SECONDS} s; it keeps the event as soon as it can")
    except Exception as error:  # noqa: BLE001 - a host must not be stopped by a defect of ours
        _note(f"{type(error).__name__}: {error}")
    _end(answer)


def _note(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"layerlore: {text}\n")


def _read_arguments(arguments: Sequence[str]) -> tuple[str, str, dict[str, str], dict[str, str]]:
    """The host, the event, the launch's flags, and the options for a server over HTTP; the rest is ignored."""
    names: list[str] = []
    flags: dict[str, str] = {}
    remote: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name in FLAGS:
            flags[FLAGS[name]] = value if equals else next(rest, "")
        elif name in REMOTE_FLAGS:
            remote[REMOTE_FLAGS[name]] = value if equals else next(rest, "")
        elif not argument.startswith("-"):
            names.append(argument)
    host, event = (*names, "", "")[:2]
    return host, event, flags, remote


def _serve(
    host: str, event: str, flags: Mapping[str, str], environ: Mapping[str, str], beside: Mapping[str, object]
) -> str:
    """Hand the event over, with further keys from ``beside``. Returns the text for the model. Raises OSError,
    ValueError."""
    known = find_event(host, event)
    if known is None:
        raise ValueError(f"no hook is needed for {event!r} of {host!r}")
    given = _read_input()
    if host == "copilot-cli":
        _add_transcript(given, environ)
    folder = _find_folder(given, environ)
    launch = read_launch(flags, environ, _find_project_folder(environ) or folder)
    if launch is None:
        raise ValueError("hooks need the server that hosts share, and a memory that is on: see `layerlore doctor`")
    handed = {
        "host": host,
        "event": event,
        "given": _strip(given),
        "folder": folder,
        "host_process": name_host(),
        "flags": launch.own_flags,
        "variables": launch.own_variables,
        **beside,
    }
    # The event is in a file before the connection, so that a failure from here on loses nothing.
    return _notify(launch, hand_over(launch.hooks, handed), shows=known.shows)


def _read_input() -> HookEvent:
    """The host's report of the event. Raises ValueError, OSError."""
    if sys.stdin.isatty():
        # A person who tries the command at a terminal should not have to end an input.
        return {}
    # Some hosts on Windows write a byte order mark.
    found = json.loads(sys.stdin.buffer.read(_MOST_INPUT_BYTES).decode("utf-8-sig", "replace") or "{}")
    if not isinstance(found, dict):
        raise ValueError("the report of an event must be one JSON object")
    return found


def _add_transcript(given: HookEvent, environ: Mapping[str, str]) -> None:
    """Add the path of Copilot CLI's transcript, which it names at some events only."""
    session = given.get("sessionId")
    if given.get("transcriptPath") or not isinstance(session, str) or os.path.basename(session) != session:
        return
    home = environ.get("COPILOT_HOME") or os.path.expanduser("~/.copilot")
    given["transcriptPath"] = os.path.join(home, "session-state", session, "events.jsonl")


def _find_folder(given: Mapping[str, object], environ: Mapping[str, str]) -> str:
    """The folder that the session works in: as the host names it, else this process's own; "" without either."""
    roots = given.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots else ""
    if named := given.get("cwd") or root or _find_project_folder(environ):
        return str(named)
    try:
        return os.getcwd()
    except FileNotFoundError:  # another process removed it
        return ""


def _find_project_folder(environ: Mapping[str, str]) -> str:
    """The folder in which the host was opened; "" if the host does not name it. A session that changes to another folder
    stays in this project."""
    return next((environ[name] for name in _PROJECT_FOLDERS if environ.get(name)), "")


def _strip(value: object, depth: int = 0) -> object:
    """The report without its private parts, which are never stored, not even in a file of ours."""
    if isinstance(value, str):
        return strip_private(value)
    if depth > _MOST_DEPTH:
        return None
    if isinstance(value, dict):
        return {str(name): _strip(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_strip(each, depth + 1) for each in value]
    return value


def _notify(launch: Launch, name: str, *, shows: bool) -> str:
    """Notify the shared server of an event in a file. Returns the server's text for the model; "" for an event that shows
    nothing. Raises OSError, ValueError."""
    connection, key = reach(launch, ANSWER_SECONDS)
    with contextlib.closing(connection):
        connection.settimeout(ANSWER_SECONDS)
        greeting = {"layerlore": VERSION, "key": key, "want": WANT, "name": name, "shows": shows}
        connection.sendall(json.dumps(greeting).encode() + b"\n")
        # Events that show nothing need no answer, and the host can go on.
        if not shows:
            return ""
        with connection.makefile("rb") as answers:
            found = json.loads(answers.readline(_LONGEST_ANSWER) or b"{}")
        if isinstance(found, dict):
            text = found.get("text", "")
        else:
            text = ""
        if text:
            connection.sendall(TAKEN)  # otherwise the server shows it another time
    if isinstance(text, str):
        return text
    return ""


def _end(answer: str) -> None:
    """Print the answer and end the process. If the watch calls this, too, the second call waits for the end, since a host
    reads one answer."""
    _EXIT_LOCK.acquire()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.buffer.write(answer.encode("utf-8", "replace") + (b"\n" if answer else b""))
        sys.stdout.buffer.flush()
    os._exit(0)
