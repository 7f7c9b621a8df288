"""The JSON that our tools and resources answer, known by its shape: whole as a value, or by how its text begins."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from layerlore.memory.text.own_tools import is_own_uri
from layerlore.storage.core import linear_re

Answer = Mapping[str, Any]


def is_own_answer(value: Answer) -> bool:
    """Whether an object is an answer of one of our tools or resources, or the content of a resource of ours."""
    if is_own_uri(value.get("uri")) and not {"text", "blob"}.isdisjoint(value):
        return True
    return any(keys <= value.keys() and fits(value) for keys, fits in _SHAPES)


def find_own_answer(text: str, after: int = 0) -> tuple[int, int] | None:
    """Where in a text an answer of ours begins and ends that is written as JSON or as a Python value; the text's end if
    it was cut off."""
    for found in islice(_BEGINS.finditer(text, after), _MOST_TRIED):
        end = _find_end(text, found.start())
        if not found["context"] or _REPORT.search(text, found.start(), end):
            return found.start(), end
    return None


def _find_end(text: str, at: int) -> int:
    escaped = _ESCAPES.match(text, at)
    if escaped:
        escapes = len(escaped[1])
    else:
        escapes = 0
    depth = 0
    for place, bracket in _list_brackets(text, at, escapes):
        if bracket in "{[":
            depth += 1
        else:
            depth += -1
        if depth <= 0:
            return place + 1
    return len(text)


def _list_brackets(text: str, at: int, escapes: int) -> Iterator[tuple[int, str]]:
    """The brackets that are in no text in quotes, with where they are. ``escapes``: the number of backslashes before
    each quote."""
    if not escapes:
        tokens = ((found.start(), found[0]) for found in _TOKEN.finditer(text, at))
        yield from ((place, token) for place, token in tokens if token in _BRACKETS)
        return
    is_in_text = False
    for found in _ESCAPED_TOKEN.finditer(text, at):
        token = found[0]
        if token in _BRACKETS:
            if not is_in_text:
                yield found.start(), token
        elif len(token) == escapes + 1:
            is_in_text = not is_in_text


def may_hold_answers(text: str) -> bool:
    """Whether a text has a key that our answers have; a quick look that finds too much, and misses nothing."""
    return any(map(text.__contains__, _TELLING_KEYS))


def _is_page_of_messages(value: Answer) -> bool:
    messages = value["messages"]
    if isinstance(messages, int):
        return {"tokens", "updated_at"} <= value.keys()
    if not isinstance(messages, list):
        return False
    if not messages:
        return not {"total", "totals"}.isdisjoint(value)
    return all(isinstance(each, dict) and isinstance(each.get("seq"), int) for each in messages)


def _is_recall(value: Answer) -> bool:
    signals = value["signals"]
    return isinstance(signals, list) and all(each in ("lexical", "semantic") for each in signals)


def _is_context(value: Answer) -> bool:
    report = value["report"]
    return isinstance(report, dict) and {"thread_id", "tokens", "max_tokens", "blocks"} <= report.keys()


def _is_document(value: Answer) -> bool:
    return value["scope"] in ("thread", "resource") and not {"content", "versions", "mode"}.isdisjoint(value)


def _is_plan(value: Answer) -> bool:
    plan = value["plan"]
    if plan is None:
        return value.keys() <= {"thread_id", "plan", "revision", "oldest_revision", "updated_at", "change", "elsewhere"}
    return isinstance(plan, dict) and not {"goal", "steps", "current_phase"}.isdisjoint(plan)


def _is_briefing(value: Answer) -> bool:
    more = value.keys() - {"thread_id", "task"}
    return bool(more) and more <= {"plan", "user_profile", "messages", "previous_attempts", "left_out"}


_RUN = frozenset(
    """
    run_id thread_id status workflow_id metadata reason claim claimed_by claimed_at claimed_until state pending_tool_calls
    resumed output created_at updated_at expires_at suspended_at ended_at ended_by masked unchanged resumable waiting
    parent_run_id usage cut answered was first last events
    """.split()  # noqa: SIM905
)


def _is_run(value: Any) -> bool:
    return isinstance(value, dict) and {"run_id", "thread_id", "status"} <= value.keys() <= _RUN


def _each_has(value: Any, *keys: str) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) and set(keys) <= each.keys() for each in value)


_STORED = frozenset("stored seqs unchanged replaced skipped skipped_deleted masked thread_id".split())  # noqa: SIM905


def _is_stored(value: Answer) -> bool:
    return isinstance(value["stored"], int) and value.keys() <= _STORED


def _any(value: Answer) -> bool:
    return True


# The keys that an answer has at least, and the values that distinguish it from an answer of another server.
_SHAPES: tuple[tuple[frozenset[str], Callable[[Answer], bool]], ...] = tuple(
    (frozenset(keys.split()), fits)
    for keys, fits in (
        ("hits signals", _is_recall),
        ("stored seqs", _is_stored),
        ("open", lambda value: _each_has(value["open"], "kind", "thread_id", "age")),
        ("thread_id messages", _is_page_of_messages),
        ("messages total", lambda value: _each_has(value["messages"], "thread_id", "seq", "role")),
        ("report", _is_context),
        ("scope version", _is_document),
        ("thread_id plan", _is_plan),
        ("thread_id task", _is_briefing),
        ("thread_id observations observed_seq", _any),
        ("threads", lambda value: _each_has(value["threads"], "thread_id", "messages", "tokens")),
        ("threads", lambda value: _each_has(value["threads"], "agent", "resource", "thread_id", "messages")),
        ("entries", lambda value: _each_has(value["entries"], "id", "content", "origin", "trust", "sources")),
        ("id content origin trust sources", _any),
        ("id status source", lambda value: value["status"] in ("kept", "refreshed", "similar")),
        ("run_id thread_id status", _is_run),
        ("runs", lambda value: isinstance(value["runs"], list) and all(map(_is_run, value["runs"]))),
        ("thread_id steps", lambda value: _each_has(value["steps"], "seq", "type", "operation_id")),
        ("thread_id first last events", _any),
        ("events last_seq more", _any),
        ("thread_id task_key attempt", _any),
        ("job_id instructions material", _any),
        ("status waiting", lambda value: _each_has(value["waiting"], "kind", "state", "jobs")),
        ("thread_id deletion restorable_until", _any),
        ("undo_id tool", _any),
        ("acts", lambda value: _each_has(value["acts"], "undo_id", "tool", "what")),
        ("receipt resource_mark", _any),
        ("memory version scope counts", _any),
    )
)

_MOST_TRIED = 20
_KEY = r"\s*\\*[\"']{}\\*[\"']\s*:\s*"
_VALUE = r"\\*[\"'](?:[^\"'\\]|\\.)*?\\*[\"']"


def _begins(*written: str) -> str:
    """A pattern of how an answer begins: its first keys, each with the pattern of its value, as ``key=pattern``, or of a
    text."""
    pairs = (each.partition("=") for each in written)
    return r"\{" + r"\s*,".join(_KEY.format(key) + (value if given else _VALUE) for key, given, value in pairs)


_RESOURCE = _begins(r"uri=\\*[\"']memory://(?:profile|entries|threads|status|recall|runs)\b")
_BEGINS = linear_re.compile(
    "|".join(
        (
            _begins("hits=" + r"\[\s*(?:\]|" + _begins("kind")) + ")",
            _begins("thread_id", r"messages=\[\s*(?:\]|" + _begins(r"id", r"seq=\d")) + ")",
            _begins(r"messages=\[\s*" + _begins("thread_id", "id", r"seq=\d")),
            _begins("thread_id", r"(?:plan|revision|observations|task)="),
            _begins("blocks=" + r"\[\s*" + _begins("block")),
            _begins("scope=" + r"\\*[\"'](?:thread|resource)\\*[\"']", r"(?:thread_id|format|version)="),
            _begins("threads=" + r"\[\s*" + _begins("thread_id")),
            _begins("threads=" + r"\[\s*" + _begins("agent", "resource", "thread_id")),
            _begins(r"entries=\[\s*" + _begins("id", "content", "(?:kind|origin)=")),
            _begins(r"stored=\d+", "seqs"),
            _begins(r"open=\[\s*" + _begins("kind", "(?:thread_id|run_id)")),
            _begins("undo_id", "tool"),
            _begins(r"acts=\[\s*" + _begins("undo_id", "tool")),
            _begins("id", "content", "origin", "trust"),
            _begins("id", "content", "kind", "origin", "trust"),
            _begins("events=" + r"\[\s*" + _begins(r"seq=\d")),
            _begins("thread_id", r"steps=\[\s*(?:\]|" + _begins(r"seq=\d")) + ")",
            _begins(r"runs=\[\s*(?:\]|" + _begins("run_id")) + ")",
            "(?P<context>" + _begins(r"(?:messages|system)=") + ")",
            _begins("contents=" + r"\[\s*" + _RESOURCE),
            _RESOURCE,
            _begins("memory=" + r"\\*[\"'](?:on|off)\\*[\"']", "version"),
            _begins("status=" + r"\\*[\"']taken\\*[\"']", "job_id"),
        )
    )
)
_REPORT = linear_re.compile(_KEY.format("report") + _begins("thread_id", "window"))
_TELLING_KEYS = (
    *("hits", "thread_id", "report", "scope", "threads", "runs", "events", "job_id", "receipt", "waiting", "source"),
    *("blocks", "counts", "uri", "entries", "origin", "undo_id", "seqs"),
)


_BRACKETS = ("{", "}", "[", "]")
_TOKEN = linear_re.compile(r"""\"(?:[^"\\]|\\.)*(?:\"|\\?\Z)|'(?:[^'\\]|\\.)*(?:'|\\?\Z)|[{}\[\]]""", linear_re.DOTALL)
_ESCAPED_TOKEN = linear_re.compile(r"\\*\"|[{}\[\]]")
_ESCAPES = linear_re.compile(r"\{\s*(\\*)[\"']")
