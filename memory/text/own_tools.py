"""Calls of our own tools and their results, whatever a host writes around them.

Hosts put the server's name before a tool's name (``mcp__layerlore__plan``, ``layerlore.plan``) or behind it
(``plan_mcp_layerlore``), and the user of a host may give the server another name. Some of our names are such that other
servers have tools of the same name: there the name alone says nothing. The JSON that our tools and resources answer is known
by its shape: whole as a value, or by how its text begins. It is recognised as any provider or SDK writes it: as a value, as
a text, and among other words of a text.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json

# `make docs` writes this file from the tools' declarations.
_OWN = json.loads(Path(__file__).with_name("own_tools.json").read_text(encoding="utf-8"))

TELLING: Mapping[str, frozenset[str]] = {name: frozenset(arguments) for name, arguments in _OWN["tools"].items()}
"""Every tool of ours, with the arguments that distinguish a call of it from one of another server's tool of the same
name; empty if no arguments do."""

ARGUMENTS = frozenset[str](_OWN["arguments"])
"""Every argument that a tool of ours takes."""

# No other server is likely to use these names, so the name alone decides.
_DISTINCT = frozenset(
    [
        *("recall_memory", "get_working_memory", "update_working_memory", "clear_working_memory"),
        *("next_memory_job", "submit_memory_job"),
    ]
)
_SERVER = linear_re.compile("layerlore")
# Prefixes that hosts and SDKs put before the name of every tool.
_NEUTRAL = frozenset(["mcp", "tool", "tools", "function", "functions", "default", "api", "use", "call"])
_WORD = linear_re.compile("[a-z0-9]+")
_names = "|".join(sorted(TELLING, key=len, reverse=True))
_AT_END = linear_re.compile(rf"(?:^|_)({_names})$")
_AT_START = linear_re.compile(rf"({_names})_")

# How hosts that have one tool for all servers name the server, the tool and its arguments.
_SERVER_KEYS = ("server_name", "serverName", "server", "server_label", "mcp_server")
_NAME_KEYS = ("tool_name", "toolName", "tool", "name")
_GIVEN_KEYS = ("arguments", "args", "input", "parameters", "params", "tool_input", "tool_args", "toolArgs")
_QUERY_KEYS = ("query", "pattern")
_OUR_URI = linear_re.compile(r"memory://(?:profile|entries|threads|status|recall|runs)\b")


def is_own_call(name: str, arguments: Any) -> bool:
    """Whether a tool call is one of ours: its name is one that no other tool is likely to have, or our server's name stands
    with it; or it has a name of ours without a server's or with that of some memory, and arguments that ours takes."""
    if _is_own(name, arguments):
        return True
    return isinstance(arguments, dict) and (_is_wrapped(name, arguments) or _is_search_of_own(name, arguments))


def is_own_tool(name: str) -> bool:
    """Whether the name alone says that a tool is ours."""
    return _is_own(name, None)


def names_own_tool(text: str) -> bool:
    """Whether the name of one of our tools, or the address of a resource of ours, stands in a text."""
    return "memory://" in text or any(map(text.__contains__, TELLING))


def is_own_uri(uri: Any) -> bool:
    """Whether a URI is the address of a resource of ours."""
    return isinstance(uri, str) and _OUR_URI.match(uri) is not None


def _is_own(name: str, arguments: Any) -> bool:
    tool, around = _find_tool(name)
    if not tool:
        return False
    if tool in _DISTINCT or _SERVER.search(around):
        return True
    # Another server's name stands with the tool. Only a memory may be ours under a name that the user chose.
    if around and "memory" not in around:
        return False
    telling = TELLING[tool]
    return bool(telling) and isinstance(arguments, dict) and telling <= arguments.keys() <= ARGUMENTS


@lru_cache(maxsize=4096)
def _find_tool(name: str) -> tuple[str, str]:
    """The tool of ours that has this name, and what stands around it; two empty texts for none."""
    plain = "_".join(_WORD.findall(name.lower()))
    found = _AT_END.search(plain)
    if found:
        around = plain[: found.start()]
    else:
        found = _AT_START.match(plain)
        if found:
            around = plain[found.end() :]
        else:
            around = ""
        # Many names begin with one of ours ("plan_trip"). It is ours only if a host wrote the server behind it.
        if found is None or not ("mcp" in around or _SERVER.search(around)):
            return "", ""
    return found[1], "_".join(word for word in around.split("_") if word not in _NEUTRAL)


def _is_wrapped(name: str, arguments: dict[str, Any]) -> bool:
    """Whether the arguments are those of a host's one tool for all servers, and name a tool or a resource of ours."""
    server = _first_text(arguments, _SERVER_KEYS)
    if is_own_uri(arguments.get("uri")):
        return True
    # Such a tool may ask a server for all that it has, and names nothing else.
    if "mcp" in name.lower() and _SERVER.search(server.lower()):
        return True
    given = next((arguments[key] for key in _GIVEN_KEYS if key in arguments), None)
    tool = _first_text(arguments, _NAME_KEYS)
    if not tool or (given is None and not server):
        return False
    return _is_own(f"{server}__{tool}", read_object(given))


def is_tool_search(name: str) -> bool:
    """Whether a tool of this name loads other tools, in a host whose model searches for them."""
    return "toolsearch" in "".join(_WORD.findall(name.lower()))


def _is_search_of_own(name: str, arguments: dict[str, Any]) -> bool:
    """Whether a call searches for our tools, and says so."""
    if not is_tool_search(name):
        return False
    query = _first_text(arguments, _QUERY_KEYS)
    _, selects, names = query.partition("select:")
    if selects:
        return all(map(is_own_tool, names.split(",")))
    return is_own_tool(query) or _SERVER.search(query.lower()) is not None


def _first_text(given: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((value for key in keys if isinstance(value := given.get(key), str)), "")


def read_object(given: Any) -> Any:
    """The JSON object in a text; any other value unchanged."""
    if not isinstance(given, str) or not given.lstrip().startswith("{"):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return given


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
        # The first keys of a context are common in other JSON, so its report has to be there, too.
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


def _any(value: Answer) -> bool:
    return True


# The keys that an answer has at least, and the values that distinguish it from an answer of another server.
_SHAPES: tuple[tuple[frozenset[str], Callable[[Answer], bool]], ...] = tuple(
    (frozenset(keys.split()), fits)
    for keys, fits in (
        ("hits signals", _is_recall),
        ("stored seqs", lambda value: isinstance(value["stored"], int) and value.keys() <= _STORED),
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
        ("thread_id restorable_until undo", _any),
        # Transcripts from before the first release.
        ("thread_id deletion restorable_until", _any),
        ("undo_id tool", _any),
        ("acts", lambda value: _each_has(value["acts"], "undo_id", "tool", "what")),
        ("receipt resource_mark", _any),
        ("memory version scope counts", _any),
    )
)

# Each try scans to the end of a JSON value, and a hostile text could hold thousands of beginnings.
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


Strip = Callable[[str], str]

_GONE = object()
_ANSWERED = ("tool_call_id", "toolCallId", "tool_use_id", "call_id", "callId")
_INNER = (
    *("function", "functionCall", "functionResponse", "function_call", "function_response", "toolUse"),
    "toolInvocation",
)
# A call as hosts and models write it into a text.
_CALLS: tuple[tuple[str, linear_re.Pattern], ...] = (
    ("<use_mcp_tool>", linear_re.compile(r"<use_mcp_tool>()[\s\S]*?(?:</use_mcp_tool>|\Z)")),
    ("<tool_call>", linear_re.compile(r"<tool_call>\s*(\{[\s\S]*?\})\s*(?:</tool_call>|\Z)")),
    ("[tool ", linear_re.compile(r"^\[tool (?:call|result|error) ([\w.:/-]+)[(:][^\n]*", linear_re.MULTILINE)),
)
_ELEMENTS = {
    name: linear_re.compile(rf"<{name}>([\s\S]*?)</{name}>") for name in ("server_name", "tool_name", "arguments")
}


def strip_echoes_json(value: Any, strip: Strip) -> Any:
    """A JSON value without the answers, calls and results of ours in it, ``strip`` applied to each of its texts; None
    where nothing else is in it."""
    try:
        kept = _strip(value, strip, frozenset(_list_own_ids(value)))
    except RecursionError:
        # No answer of ours is nested deeper than Python can follow.
        return value
    if kept is _GONE:
        return None
    return kept


def may_hold_json(text: str) -> bool:
    """A quick look whether a text may hold an answer or a call of ours: it finds too much, and misses nothing."""
    return ("{" in text and (may_hold_answers(text) or names_own_tool(text))) or any(sign in text for sign, _ in _CALLS)


def strip_json_text(text: str, strip: Strip) -> str | None:
    """A text that is JSON as a whole, without its echoes; as it is if none exist. None for any other text."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    kept = strip_echoes_json(value, strip)
    if kept == value:
        return text
    if kept is None:
        return ""
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def strip_answers(text: str) -> str:
    """Remove the answers that are written as JSON, or as a Python value, among other words."""
    if "{" not in text or not may_hold_answers(text):
        return text
    kept: list[str] = []
    at = 0
    while (found := find_own_answer(text, at)) is not None:
        kept.append(text[at : found[0]])
        at = found[1]
    if kept:
        return "".join([*kept, text[at:]])
    return text


def strip_calls(text: str) -> str:
    """Remove the calls of ours that are written as text."""
    for sign, pattern in _CALLS:
        if sign in text:
            text = pattern.sub(lambda found: "" if _is_written_call(found) else found[0], text)
    return text


def _is_written_call(found: linear_re.Match) -> bool:
    written = found[1]
    if not written:
        written_in = {name: element.search(found[0]) for name, element in _ELEMENTS.items()}
        elements = {name: element[1].strip() for name, element in written_in.items() if element}
        return is_own_call("use_mcp_tool", {**elements, "arguments": read_object(elements.get("arguments", ""))})
    if not written.startswith("{"):
        return is_own_call(written, None)
    value = read_object(written)
    return isinstance(value, dict) and _is_own_call(value)


def _strip(value: Any, strip: Strip, own: Collection[str]) -> Any:
    if isinstance(value, str):
        return strip(value)
    if isinstance(value, list):
        kept = [inner for each in value if (inner := _strip(each, strip, own)) is not _GONE]
        if kept or not value:
            return kept
        return _GONE
    if not isinstance(value, dict):
        return value
    if is_own_answer(value) or _is_own_call(value) or _answers(value, own):
        return _GONE
    left = {key: inner for key, each in value.items() if (inner := _strip(each, strip, own)) is not _GONE}
    if left or not value:
        return left
    return _GONE


def _is_own_call(value: Json) -> bool:
    """Whether an object is a call of ours, or its result, as a provider or an SDK writes it."""
    inner = next((value[key] for key in _INNER if isinstance(value.get(key), dict)), value)
    kind = value.get("type")
    if isinstance(kind, str) and kind.startswith("tool-"):
        typed = kind.removeprefix("tool-")
    else:
        typed = None
    name = next((name for key in ("name", "toolName", "tool_name") if isinstance(name := inner.get(key), str)), typed)
    if name is None:
        return False
    named = ("arguments", "args", "input", "parameters", "params")
    given = next((read_object(inner[key]) for key in named if key in inner), None)
    # Many kinds of data have a name. A call has arguments or a result as well.
    if given is None and not any(key in inner for key in ("output", "result", "response", "content", "text")):
        return False
    # OpenAI and Anthropic name the server of an MCP call beside its tool.
    server = value.get("server_label", value.get("server_name"))
    return is_own_call(f"{server}__{name}" if isinstance(server, str) else name, given)


def _answers(value: Json, own: Collection[str]) -> bool:
    return bool(own) and any(value.get(key) in own for key in _ANSWERED if isinstance(value.get(key), str))


def _list_own_ids(value: Any) -> Iterator[str]:
    """The ids of the calls of ours anywhere in a value."""
    if isinstance(value, list):
        for each in value:
            yield from _list_own_ids(each)
    elif isinstance(value, dict):
        if _is_own_call(value):
            yield from (call_id for key in ("id", *_ANSWERED) if isinstance(call_id := value.get(key), str))
        else:
            for each in value.values():
                yield from _list_own_ids(each)
