"""What may enter: text, JSON, ids and times. Every refusal names the place and says what is allowed there."""

import difflib
import json
import math
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from layerlore.memory.limits import Limits
from layerlore.storage.errors import InvalidInput, LimitExceeded
from layerlore.storage.records import Json

INT_DIGITS = 4300
"""CPython reads and writes no longer integers as text (`sys.int_info.default_max_str_digits`)."""

_INT_CEILING = 10**INT_DIGITS
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ISO_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8})([Tt ][0-9:.,]+([Zz]|[+-][0-9:]+)?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST_MS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND


def check_text(value: Any, where: str) -> str:
    """The text unchanged. Raises InvalidInput for NUL and lone surrogates, which no database stores the same."""
    if not isinstance(value, str):
        raise InvalidInput(f"{where}: must be a string, not {shown(value)}")
    bad = value.find("\x00") if value.isascii() else _first_unstorable(value)
    if bad >= 0:
        kind = "NUL" if value[bad] == "\x00" else f"half of a surrogate pair, U+{ord(value[bad]):04X}"
        raise InvalidInput(
            f"{where}: character {bad} is {kind}; any Unicode text is allowed but NUL and lone surrogates"
        )
    return value


def _first_unstorable(value: str) -> int:
    found = value.find("\x00")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return error.start if found < 0 else min(found, error.start)
    return found


def check_json(value: Any, where: str, *, depth: int) -> None:
    """Refuses what is not plain JSON of the kind that both databases give back as it was.

    Raises LimitExceeded beyond `depth` nested lists and objects, InvalidInput for text that `check_text` refuses (keys
    too), floats that are not finite, integers of more than `INT_DIGITS` digits, and Python values that JSON has not.
    """
    pending: list[tuple[Any, int, str]] = [(value, 0, where)]
    while pending:
        entry, above, place = pending.pop()
        if isinstance(entry, dict | list):
            if above == depth:
                raise LimitExceeded(f"{where}: nested more than {depth} levels deep; {depth} are allowed")
            if isinstance(entry, list):
                pending.extend((inner, above + 1, f"{place}[{index}]") for index, inner in enumerate(entry))
                continue
            for key, inner in entry.items():
                check_text(key, f"a key of {place}")
                pending.append((inner, above + 1, f"{place}.{key}" if len(key) <= 40 else f"{place}.{key[:40]}…"))
        else:
            _check_scalar(entry, place)


def _check_scalar(value: Any, where: str) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        check_text(value, where)
    elif isinstance(value, int):
        if abs(value) >= _INT_CEILING:
            raise LimitExceeded(f"{where}: an integer of more than {INT_DIGITS:,} digits; send it as a string")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{where}: {value} is not a JSON number; allowed are finite numbers, or null")
    else:
        raise InvalidInput(
            f"{where}: must be JSON (object, list, string, number, true, false, null), not {shown(value)}"
        )


def check_metadata(value: Any, where: str, limits: Limits) -> Json:
    """A JSON object within the limits of size and depth; null is the empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: must be a JSON object, not {shown(value)}")
    check_json(value, where, depth=limits.json_depth)
    size = json_bytes(value)
    if size > limits.metadata_bytes:
        raise LimitExceeded(f"{where}: {size:,} bytes of JSON; {limits.metadata_bytes:,} are allowed")
    return value


def check_id(value: Any, where: str, max_chars: int) -> str:
    """An id or a name: not empty, no control characters, at most `max_chars` characters."""
    text = check_text(value, where)
    if not text:
        raise InvalidInput(f"{where}: is empty; 1 to {max_chars:,} characters are allowed")
    if len(text) > max_chars:
        raise LimitExceeded(f"{where}: {len(text):,} characters; {max_chars:,} are allowed")
    control = _CONTROL.search(text)
    if control:
        raise InvalidInput(
            f"{where}: character {control.start()} is the control character U+{ord(control.group()):04X}; "
            "anything but control characters is allowed"
        )
    return text


def parse_time(value: Any, where: str) -> int:
    """Milliseconds since 1970 (UTC) of an ISO 8601 time (without a zone: UTC) or of a number that is already that.

    A date alone is its first moment; week dates and ordinal dates are not read. Parts of a millisecond are cut off.
    Raises InvalidInput for anything else and for times outside the years 1 to 9999.
    """
    if isinstance(value, str):
        return _from_iso(value, where)
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse_time(shown(value), where)
    if not _FIRST_MS <= value <= _LAST_MS:  # NaN, too, is in no range
        _refuse_time("a number outside the years 1 to 9999", where)
    return math.floor(value)


def _from_iso(value: str, where: str) -> int:
    text = value.strip()
    # fromisoformat() takes any character between date and time, so it reads "1711112312345" as the year 1711.
    if not _ISO_TIME.fullmatch(text):
        _refuse_time(shown(value), where)
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        _refuse_time(shown(value), where)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    milliseconds = (moment - _EPOCH) // _MILLISECOND
    if not _FIRST_MS <= milliseconds <= _LAST_MS:
        _refuse_time(f"{shown(value)}, in UTC outside the years 1 to 9999", where)
    return milliseconds


def _refuse_time(what: str, where: str) -> NoReturn:
    raise InvalidInput(
        f"{where}: must be an ISO 8601 time such as '2025-03-01T14:30:00Z', or a number of milliseconds since 1970, "
        f"in the years 1 to 9999; not {what}"
    )


def load_json(text: str, where: str) -> Any:
    """Reads JSON strictly. Raises ValueError for what RFC 8259 does not know (NaN) or leaves open (a repeated key),
    and LimitExceeded for nesting that the parser cannot follow. What it holds is not yet checked."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
    except RecursionError:
        raise LimitExceeded(f"{where}: nested too deeply to be read") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _without_repeats(pairs: list[tuple[str, Any]]) -> Json:
    found: Json = {}
    for key, entry in pairs:
        if key in found:
            raise ValueError(f"the key {shown(key)} comes twice in one object")
        found[key] = entry
    return found


def json_bytes(value: Any) -> int:
    """The size of a checked JSON value, written compactly in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def check_keys(value: Json, where: str, known: Sequence[str], passed_over: Collection[str] = ()) -> None:
    """Refuses keys that are in neither list, naming the nearest known one. A key whose value is null says nothing."""
    for key, entry in value.items():
        if entry is not None and key not in known and key not in passed_over:
            raise InvalidInput(f"{where}: unknown key {shown(key)}; {one_of(key, known)}")


def one_of(given: Any, allowed: Sequence[str]) -> str:
    """The end of an error about a name: what is allowed, and which of it may have been meant."""
    meant = nearest(given, allowed) if isinstance(given, str) else None
    return f"allowed: {', '.join(allowed)}" + (f"; did you mean {meant!r}?" if meant else "")


def nearest(name: str, allowed: Collection[str]) -> str | None:
    """The allowed name that looks most like this one, if one does."""
    found = difflib.get_close_matches(name[:64], allowed, n=1)
    return found[0] if found else None


def shown(value: Any) -> str:
    """A value as an error may show it: short, and safe for every value."""
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "…")
    names = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), f"a Python {type(value).__name__}")
