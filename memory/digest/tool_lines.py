"""Tool calls for the digest: each with its result on one line, ``name(key=value) -> ok: what came of it``.

The lines of a result that show what came of a call are those that name an error, or give an id, an address or a name by
which it can be asked for again; not those that a hundred others are like.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, Literal

from layerlore.memory.language.sentences import LONGEST, shorten
from layerlore.memory.language.word_lists import expressions, ordered_words, word_set
from layerlore.memory.parts.parts import UNREAD_ARGUMENTS, result_parts
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json, Message

# If a text is longer, the digest reads its beginning, its end and this number of lines between them that speak of an
# error.
_READ = 12_000
_MOST_BETWEEN = 200
_LONGEST_LINE = 400
_STRETCH = 100
# A line with more lines like it only shows what is frequent.
_OFTEN = 3
# The least worth of a line that stands for a long result, and of a line beside another.
_TELLING = 2.0
_MOST_LINES = 3

_GIVEN = linear_re.compile(
    r"https?://\S+|\b[A-Z][A-Z0-9]{1,9}-\d+\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b(?P<hash>[0-9a-f]{7,64})\b|\b(?P<named>[a-z]{2,12}[-_][0-9a-z]{6,})\b|#\d{3,}\b|\b\d{6,}\b"
)
_NAMED_ERROR = linear_re.compile(
    r"(?:^|\s)[\w.]*(?:Error|Exception)\b\s*[:(]|^\W*(?:error|fatal|panic)\b", linear_re.IGNORECASE
)
_LOGGED_ERROR = linear_re.compile(r"\b(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC|FAILED)\b")
_SPEAKS_OF_ERROR = linear_re.compile(_LOGGED_ERROR.pattern + r"|(?:Error|Exception):")
_MAY_TELL = linear_re.compile(r"\d\d|\d[a-f]|[a-f]\d|https?:|[A-Z]{5}|[\w.-]/[\w.-]")
_VARYING = linear_re.compile(r"[0-9a-f]*\d[0-9a-f]*|(?<==)\S+|(?<=/)[\w.-]+")
_STAMP = linear_re.compile(r"^\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]?\s+")


def read_lines(text: str) -> list[str]:
    """The lines of a text that have something in them, each without the space around it; of a long text its ends, and
    between them what speaks of an error."""
    if len(text) > _READ:
        half = _READ // 2
        text = "\n".join([text[:half], *_find_errors(text, half, len(text) - half), text[-half:]])
    return [" ".join(line[:_LONGEST_LINE].split()) for line in text.splitlines() if line.strip()]


def _find_errors(text: str, begin: int, end: int) -> Iterator[str]:
    """The first lines between two places that speak of an error; of a very long one what begins with that."""
    for _ in range(_MOST_BETWEEN):
        found = _SPEAKS_OF_ERROR.search(text, begin, end)
        if found is None:
            return
        starts = max(begin, text.rfind("\n", begin, found.start()) + 1)
        ends = text.find("\n", found.end(), starts + _LONGEST_LINE)
        # A file of one line has no breaks: then a stretch from the error on stands for its line.
        if ends < 0:
            starts, ends = found.start(), min(end, max(found.end(), found.start() + _STRETCH))
        yield text[starts:ends]
        begin = ends


def find_named_error(lines: Sequence[str]) -> str:
    """The last line that names an error and says what it is; "" for none."""
    return next((line for line in reversed(lines) if _NAMED_ERROR.search(line)), "")


def find_telling_lines(lines: Sequence[str], given: frozenset[str], most: int) -> tuple[str, bool, bool]:
    """The most informative lines, in at most ``most`` characters; whether they give something that was not ``given``,
    and whether one of them speaks of an error."""
    # Lines that differ only in numbers, hashes and paths are rows of one list.
    shapes = [_VARYING.sub("#", line) for line in lines]
    often = Counter(shapes)
    worth = {at: _weigh(line, given, often[shapes[at]]) for at, line in enumerate(lines) if _MAY_TELL.search(line)}
    best = sorted((at for at in worth if worth[at] >= _TELLING), key=lambda at: (-worth[at], at))
    kept: list[int] = []
    left = most
    for at in best[:_MOST_LINES]:
        cost = len(_shown(lines[at])) + 2
        # The best line is shown even if it must be cut.
        if not kept or cost <= left:
            kept.append(at)
            left -= cost
    if kept:
        said = shorten("; ".join(_shown(lines[at]) for at in sorted(kept)), most)
    else:
        said = ""
    gives = any(find_given_ids(lines[at], given) for at in kept)
    return said, gives, any(_LOGGED_ERROR.search(lines[at]) for at in kept)


def names_logged_error(text: str) -> bool:
    """Whether a line of a log speaks of an error."""
    return _LOGGED_ERROR.search(text) is not None


def find_given_ids(text: str, given: frozenset[str]) -> list[str]:
    """The ids, hashes, tickets and addresses in a text that were not given before."""
    return [found[0] for found in _GIVEN.finditer(text) if _is_id(found) and found[0] not in given]


def _is_id(found: linear_re.Match) -> bool:
    """Whether it is not a plain word or number: a hash has letters and digits, and a name's number digits."""
    written = found["hash"] or found["named"]
    if written is None:
        return True
    return any(map(str.isdigit, written)) and not written.isdigit()


@cache
def _labelled() -> linear_re.Pattern:
    """A value behind its label, such as ``id: 17``."""
    labels = "|".join(ordered_words("tool_results.labels", "en"))
    return linear_re.compile(
        rf"(?<![A-Za-z0-9])(?:{labels})(?:[\"']?\s*[:=#]|[\"']?\s+(?:is|as|to|at)\s|[\"'\s])\s*[\"']?#?(?P<value>\S{{3,}})",
        linear_re.IGNORECASE,
    )


def _weigh(line: str, given: frozenset[str], alike: int) -> float:
    worth = 0.0
    line = _STAMP.sub("", line)
    if _LOGGED_ERROR.search(line):
        worth += 3
    if find_given_ids(line, given):
        worth += 2
    labelled = next((found for found in _labelled().finditer(line) if _may_be_id(found["value"])), None)
    if labelled and not any(value in labelled[0] for value in given):
        worth += 2
    if alike < _OFTEN:
        return worth
    return worth / 4


def _may_be_id(value: str) -> bool:
    return any(character.isdigit() or character == "/" for character in value)


def _shown(line: str) -> str:
    return _STAMP.sub("", line)


State = Literal["ok", "error", "open"]

# Characters of one argument, of all of them, and of what came of a call that succeeded or failed; of a
# word, such as a URL; of all arguments beside a result that says more than they.
_ARGUMENT, _ARGUMENTS, _OUTCOME, _FAILURE, _WORD = 60, 110, 120, 160, 100
_ARGUMENTS_BESIDE = 60
_MOST_NAMED = 4
_FEWEST_CHARS = 4
# How deep an error may lie in a result, and how many objects are searched for it.
_DEEPEST, _MOST_OBJECTS = 5, 200
# A longer text is what was read, and not what came of it; nor is it searched for JSON.
_SHORT, _JSON_CHARS = 300, 20_000

_ENCODED = linear_re.compile(r"[A-Za-z0-9+/_=-]{120,}")
_UNTRUE = linear_re.compile(r"(?:[45]\d\d\s+[a-z]|\W*(?:errors?|failures?|failed)\W+(?:0|none|no)\b)")
_COUNTED = linear_re.compile(
    r"\b[1-9]\d* (?:failed|failures|errors)\b|\bexit(?:ed with)?(?: code| status)?[:= ]+[1-9]\d*\b",
    linear_re.IGNORECASE,
)
_NAMES_IT = linear_re.compile(r"error|exception|fail|denied|refused|timed? ?out|\b[45]\d\d\b", linear_re.IGNORECASE)
_LABEL = linear_re.compile(r"^error\s*:\s*", linear_re.IGNORECASE)
_PASSED = linear_re.compile(r"\b\d+ passed\b")
_SHOWN_FIRST = (
    "error",
    "message",
    "code",
    "status",
    "state",
    "id",
    "name",
    "title",
    "url",
    "count",
    "total",
    "summary",
    "result",
)
# The meaning of the last word of a longer key: executionId, webhookUrl.
_SHOWN_NEXT = ("code", "status", "url", "id", "number", "count", "total")
_PLAIN = (3, 0)
_TIME = linear_re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*")
_SAID_BY_STATE = ("error", "errors", "success", "ok", "isError")
_NAME_WORD = linear_re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


_CALL_LINE = linear_re.compile(r"([^\s(]{1,100})\((.*?)\) -> (ok|error|no result)(?:: (.*))?(?: …)?")


@dataclass(frozen=True, slots=True)
class DigestCall:
    """A call and how it ended. ``overcome``: it failed, and the same tool succeeded afterwards; ``recovered``: it is
    that success; ``changes``: its name says that it does something, not that it looks something up; ``gives``: its
    result gives an id or an address; ``warns``: it succeeded, and its result speaks of an error."""

    seq: int
    name: str
    text: str
    state: State
    changes: bool
    overcome: bool
    recovered: bool
    gives: bool = False
    warns: bool = False


@dataclass(frozen=True, slots=True)
class _Ending:
    name: str
    state: State
    said: str
    gives: bool = False
    warns: bool = False


@dataclass(slots=True)
class _Half:
    message: Message
    call: Json | None
    result: Json | None = None


def read_calls(messages: Sequence[Message]) -> dict[int, list[DigestCall]]:
    """The calls of each message, by its seq. A result belongs to the latest call of its id before it; one whose call
    is not among the messages stands for itself."""
    halves: list[_Half] = []
    latest: dict[str, _Half] = {}
    for message in messages:
        for part in message.parts:
            if part["type"] == "tool_call":
                latest[part["id"]] = _Half(message, part)
                halves.append(latest[part["id"]])
            elif part["type"] == "tool_result":
                called = latest.get(part["tool_call_id"])
                # A second result of one id stands on its own, so that none is lost.
                if called and called.result is None:
                    called.result = part
                else:
                    halves.append(_Half(message, called.call if called else None, part))
    return _describe_calls(halves)


def _describe_calls(halves: Sequence[_Half]) -> dict[int, list[DigestCall]]:
    ended = [_describe_ending(half) for half in halves]
    # Only the last success counts: a failure behind it was not made good.
    last_ok = {each.name: at for at, each in enumerate(ended) if each.state == "ok"}
    failing: set[str] = set()
    found: defaultdict[int, list[DigestCall]] = defaultdict(list)
    for at, (half, ending) in enumerate(zip(halves, ended, strict=True)):
        name, state = ending.name, ending.state
        found[half.message.seq].append(
            DigestCall(
                seq=half.message.seq,
                name=name,
                text=_describe_call(half, ending),
                state=state,
                changes=_changes(name),
                overcome=state == "error" and last_ok.get(name, -1) > at,
                recovered=state == "ok" and name in failing,
                gives=ending.gives,
                warns=ending.warns,
            )
        )
        if state == "error":
            failing.add(name)
        elif state == "ok":
            failing.discard(name)
    return dict(found)


def read_call_line(text: str) -> DigestCall | None:
    """The call that a line shows; None if it shows no call. A repaired failure no longer counts, although no line says
    so."""
    found = _CALL_LINE.fullmatch(text)
    if found is None:
        return None
    name, request, said, outcome = found.groups()
    state: State = "open" if said == "no result" else "error" if said == "error" else "ok"
    return DigestCall(
        seq=0,
        name=name,
        text=text,
        state=state,
        changes=_changes(name),
        overcome=False,
        recovered=False,
        gives=state == "ok" and any(each not in request for each in find_given_ids(outcome or "", frozenset())),
        warns=state == "ok" and names_logged_error(outcome or ""),
    )


def _changes(name: str) -> bool:
    changes = word_set("tool_results.changes")
    return any(word.lower() in changes for word in _NAME_WORD.findall(name))


def _describe_call(half: _Half, ending: _Ending) -> str:
    # The result says more than the arguments here, so it gets their room.
    if ending.gives or ending.warns or ending.state == "error":
        most = _ARGUMENTS_BESIDE
    else:
        most = _ARGUMENTS
    if half.call:
        arguments = _arguments(half.call["arguments"], most)
    else:
        arguments = "…"
    text = f"{ending.name}({arguments}) -> "
    if ending.said:
        text += shorten(ending.said, max(LONGEST - len(text), 40))
    return shorten(text)


def _describe_ending(half: _Half) -> _Ending:
    """The tool's name, how it ended, and what came of it."""
    name = _line((half.call or {}).get("name") or (half.result or {}).get("name") or "tool")
    if half.result is None:
        return _Ending(name, "open", "no result")
    result = _plain(half.result["result"])
    if half.call:
        given = _find_given(half.call["arguments"])
    else:
        given = frozenset()
    if half.result.get("is_error") or _says_failed(result):
        said = _describe_failure(result, given)
        return _Ending(name, "error", f"error: {said}" if said else "error")
    if isinstance(result, str):
        said, gives, warns = _describe_text(result, given)
    else:
        said, warns = _describe_success(result, given), False
        gives = bool(find_given_ids(said, given))
    return _Ending(name, "ok", f"ok: {said}" if said else "ok", gives, warns)


def _plain(result: Any) -> Any:
    """A result as JSON, or as text: the texts of its parts, and JSON that came as text."""
    inner = result_parts(result)
    if inner:
        result = "\n".join(part["text"] for part in inner if part["type"] == "text")
    # Many tools send JSON as a text; to parse a very long one costs more than its note is worth.
    if isinstance(result, str) and len(result) <= _JSON_CHARS and result.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(result)
        except (ValueError, RecursionError):
            return result
    return result


@cache
def _failed() -> linear_re.Pattern:
    """How a result begins that reports an error."""
    listed = "|".join(expressions("tool_results.failures"))
    return linear_re.compile(
        rf"\W*[\w.]*(?:error|exception)\b|\W*erro\b|\W*(?:{listed})|(?:HTTP[/ ]?[\d.]*\s+)?[45]\d\d\s+[A-Z]",
        linear_re.IGNORECASE,
    )


def _says_failed(result: Any) -> bool:
    if isinstance(result, str):
        if len(result) <= 2 * _SHORT:
            ends = result
        else:
            # Programs report a failure in their first or last lines; between them stands what they read.
            ends = f"{result[:_SHORT]}\n{result[-_SHORT:]}"
        return bool((_failed().match(ends) and not _UNTRUE.match(ends)) or _COUNTED.search(ends))
    if not isinstance(result, Mapping):
        return False
    code = result.get("status_code", result.get("statusCode", result.get("status")))
    return bool(
        result.get("error")
        or result.get("errors")
        or any(result.get(key) is False for key in ("ok", "success", "succeeded"))
        or result.get("isError") is True
        or str(result.get("status", "")).lower() in ("error", "failed", "failure")
        or (type(code) is int and code >= 400)
        or any(type(result.get(key)) is int and result[key] != 0 for key in ("exit_code", "exitCode", "returncode"))
    )


def _describe_failure(result: Any, given: frozenset[str]) -> str:
    """The line that names the error: of a traceback the last, of JSON what is under ``error``, however deep."""
    if isinstance(result, str):
        lines = read_lines(result)
        # The last line of a Python traceback names the exception.
        if result.lstrip().startswith("Traceback"):
            if lines:
                return lines[-1]
            return ""
        counted = next((line for line in lines if _COUNTED.search(line)), "")
        named = find_named_error(lines) or next((line for line in lines if _NAMES_IT.search(line)), "")
        said = _LABEL.sub("", named or counted or (lines[0] if lines else ""))
        return _join_fitting(list(dict.fromkeys(filter(None, [said, counted]))), _FAILURE)
    if isinstance(result, Mapping):
        first = _find_error(result)
        rest = {key: value for key, value in result.items() if key not in _SAID_BY_STATE}
        if isinstance(first, str):
            return _join_fitting([_short(first, _FAILURE), *_leaves(rest, given)], _FAILURE)
        if isinstance(first, Mapping):
            ranked = {key: value for key, value in rest.items() if _rank(key, value) < _PLAIN}
            return _join_fitting([*_leaves(first), *_leaves(ranked, given)], _FAILURE)
    return _join_fitting(_leaves(result, given), _FAILURE)


def _find_error(result: Mapping[str, Any]) -> Any:
    """The value under ``error``: of the object itself, else of the nearest in it that has one."""
    level: list[Mapping[str, Any]] = [result]
    for _ in range(_DEEPEST):
        for each in level:
            named = each.get("error") or each.get("errors")
            if isinstance(named, list) and named:
                first = named[0]
            else:
                first = named
            if first and isinstance(first, str | Mapping):
                return first
        level = [inner for each in level for inner in each.values() if isinstance(inner, Mapping)][:_MOST_OBJECTS]
    return None


def _describe_text(result: str, given: frozenset[str]) -> tuple[str, bool, bool]:
    """The outcome of a call according to a text; whether it gives an id or an address, and whether it speaks of an
    error."""
    lines = read_lines(result)
    # Base64 would fill the note, and says nothing to a reader.
    if not lines or _ENCODED.fullmatch(lines[0]):
        return "", False, False
    # A test run ends with its counts, which say more than any line before them.
    counted = next((line for line in lines[-3:] if _PASSED.search(line)), None)
    if counted:
        return shorten(counted, _OUTCOME), False, False
    told, gives, warns = find_telling_lines(lines, given, _OUTCOME)
    if told:
        return told, gives, warns
    return shorten(lines[0], _OUTCOME) if len(result) <= _SHORT else f"{len(result)} characters", False, False


def _describe_success(result: Any, given: frozenset[str]) -> str:
    if isinstance(result, list):
        count = f"{len(result)} {'entry' if len(result) == 1 else 'entries'}"
        ids = _list_ids(result)
        if ids:
            return _join_fitting([f"{count}: {ids[0]}", *ids[1:]], _OUTCOME)
        return count
    return _join_fitting(_leaves(result, given), _OUTCOME)


def _list_ids(entries: Sequence[Any]) -> list[str]:
    """The names of a list's objects."""
    named = [each for each in entries if isinstance(each, Mapping)]
    # The first name that any of the objects has: ids before urls, and names last.
    keys = (key for key in ("key", "id", "number", "sha", "url", "name") if any(each.get(key) for each in named))
    key = next(keys, None)
    if key:
        return [_short(str(each[key])) for each in named if each.get(key)]
    return []


def _arguments(arguments: Json, most: int) -> str:
    # Arguments that were no JSON are stored as the text that the model wrote.
    raw = arguments.get(UNREAD_ARGUMENTS)
    if len(arguments) == 1 and isinstance(raw, str):
        return shorten(_line(raw[:2000]), most)
    return shorten(", ".join(_leaves(arguments, ordered=True)), most)


def _find_given(arguments: Json) -> frozenset[str]:
    """The ids and numbers that a call names: its result need not say them again."""
    values = (json.dumps(value) if type(value) is int else value for value in arguments.values())
    # A short number that comes back is another one: days=3 and count=3.
    texts = (value for value in values if isinstance(value, str) and len(value) >= _FEWEST_CHARS)
    return frozenset(text for text in texts if any(sign.isdigit() for sign in text))


def _leaves(value: Any, given: frozenset[str] = frozenset(), *, ordered: bool = False) -> list[str]:
    """The first few simple values of an object, each ``key=value``, the most informative first, without those given; a
    simple value alone."""
    if not isinstance(value, Mapping):
        if value is None or isinstance(value, list):
            return []
        return [_short(str(value))]
    if ordered:
        keys = list(value)
    else:
        keys = sorted(value, key=lambda key: _rank(key, value[key]))
    shown = (f"{_line(key)[:40]}={shown}" for key, shown in _read_named(value, keys) if shown not in given)
    return list(islice(shown, _MOST_NAMED))


def _rank(key: str, value: Any) -> tuple[int, int]:
    """Values named like an outcome, then ids, URLs and numbers, then the rest; whether and when last."""
    if key in _SHOWN_FIRST:
        return 0, _SHOWN_FIRST.index(key)
    words = _NAME_WORD.findall(key)
    if words:
        last = words[-1].lower()
    else:
        last = ""
    if last in _SHOWN_NEXT:
        return 1, _SHOWN_NEXT.index(last)
    if isinstance(value, bool) or (isinstance(value, str) and _TIME.fullmatch(value[:40])):
        return 4, 0
    if isinstance(value, int | float):
        return (2, 0)
    return _PLAIN


def _join_fitting(leaves: Sequence[str], most: int) -> str:
    """Join the first leaf and as many of the others as fit whole into ``most`` characters."""
    if leaves:
        joined = shorten(leaves[0], most)
    else:
        joined = ""
    for leaf in leaves[1:]:
        if len(joined) + 2 + len(leaf) <= most:
            joined += f", {leaf}"
    return joined


def _short(raw: str, most: int = _ARGUMENT) -> str:
    text = _line(raw[:2000])
    return shorten(text, most if " " in text else max(most, _WORD))


def _read_named(value: Mapping[str, Any], keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    for key in keys:
        inner = value[key]
        if isinstance(inner, str):
            if inner.strip() and not _ENCODED.fullmatch(inner):
                yield key, _short(inner)
        elif isinstance(inner, bool | int | float):
            yield key, json.dumps(inner)
        elif isinstance(inner, list) and inner:
            simple = all(isinstance(entry, str | int | float) for entry in inner[:4])
            listed = ",".join(_line(str(entry)[:40]) for entry in inner[:4])
            yield key, shorten(listed, _ARGUMENT) if simple and len(inner) <= 4 else f"[{len(inner)}]"


def _line(text: str) -> str:
    return " ".join(text.split())
