"""The regular expressions of a JSON Schema: read with a bound on their size, searched with a bound on the time.

What a schema may use is ECMA-262's syntax; here that and Python's ``(?P<name>...)`` and flags, as both mean the same.
What only the ``regex`` package knows (recursion, fuzzy matching) is refused: schemas are not written for it.
"""

import re
from functools import lru_cache

import regex

from layerlore.memory.acceptance import shown
from layerlore.storage.errors import InvalidInput, LimitExceeded

SECONDS = 0.1
_MOST_CHARS = 2000
# A fixed repetition is written out when the expression is compiled, 270 bytes for each of its atoms.
_MOST_ATOMS = 10_000
_TOKEN = re.compile(
    r"\\[pP]\{[\w ^=]+\}|\\.|\[\^?[^\]\\](?:\\.|[^\]\\])*\]|\[\^?\\.(?:\\.|[^\]\\])*\]"
    r"|(?P<open>\((?:\?(?:[:=!]|<[=!]|P?<\w+>|[ims]+:))?(?!\?))|\(\?(?:P=\w+|[ims]+)\)|(?P<close>\))"
    r"|\{(?P<least>\d+)(?:,\d*)?\}|[^\\\[\](){}]|[\]}]",
    re.DOTALL,
)


@lru_cache(maxsize=256)
def compiled(pattern: str, where: str) -> regex.Pattern[str]:
    """The expression. Raises InvalidInput for what is none, LimitExceeded for one that is too large."""
    if len(pattern) > _MOST_CHARS:
        raise LimitExceeded(f"{where}: a pattern of {len(pattern):,} characters; {_MOST_CHARS:,} are allowed")
    if _atoms(pattern, where) > _MOST_ATOMS:
        raise LimitExceeded(f"{where}: the pattern {shown(pattern)} repeats more than {_MOST_ATOMS:,} times in all")
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError) as error:
        raise InvalidInput(f"{where}: {shown(pattern)} is no regular expression: {error}") from None


def found(pattern: str, text: str, where: str) -> bool:
    """Whether the expression matches anywhere in the text. Raises LimitExceeded when that takes too long to tell."""
    try:
        return compiled(pattern, where).search(text, timeout=SECONDS) is not None
    except (TimeoutError, MemoryError):
        raise LimitExceeded(
            f"{where}: the pattern {shown(pattern)} takes too long for a text of {len(text):,} characters"
        ) from None


def _atoms(pattern: str, where: str) -> int:
    """How many atoms the expression has when its fixed repetitions are written out."""
    sizes, last, at = [0], 0, 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise InvalidInput(
                f"{where}: {shown(pattern)} is no regular expression that can be used here, from character {at} on; "
                "allowed is ECMA-262's syntax, a brace that is no repetition with a backslash"
            )
        at = token.end()
        if token["open"]:
            sizes.append(0)
        elif token["close"] and len(sizes) > 1:
            last = sizes.pop() + 1
            sizes[-1] += last
        elif token["least"]:
            again = last * (min(int(token["least"][:9]), _MOST_ATOMS * 10) - 1)
            sizes[-1] += max(again, 0)
            last += max(again, 0)
        else:
            last = 1
            sizes[-1] += 1
    return sum(sizes)
