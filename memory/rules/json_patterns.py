"""The regular expressions of a JSON Schema, compiled within a limit of size and searched within a limit of time.

Schemas use ECMA-262's syntax. Python's ``(?P<name>...)`` and flags are accepted too. Syntax that only the ``regex``
package knows (recursion, fuzzy matching) is refused.
"""

import re
from functools import lru_cache

import regex

from layerlore.memory.rules.validation import describe
from layerlore.storage.core.errors import InvalidInput, LimitExceeded

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
def compile_pattern(pattern: str, where: str) -> regex.Pattern[str]:
    """Compile an expression. Raises InvalidInput for a syntax error, LimitExceeded for one that is too large."""
    if len(pattern) > _MOST_CHARS:
        raise LimitExceeded(f"{where}: a pattern of {len(pattern):,} characters; at most {_MOST_CHARS:,} are allowed")
    if _atoms(pattern, where) > _MOST_ATOMS:
        raise LimitExceeded(f"{where}: the pattern {describe(pattern)} repeats more than {_MOST_ATOMS:,} times in all")
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError) as error:
        raise InvalidInput(f"{where}: {describe(pattern)} is not a valid regular expression: {error}") from None


def search_pattern(pattern: str, text: str, where: str) -> bool:
    """Whether the expression matches anywhere in the text. Raises LimitExceeded when the search takes too long."""
    try:
        return compile_pattern(pattern, where).search(text, timeout=SECONDS, concurrent=True) is not None
    except (TimeoutError, MemoryError):
        raise LimitExceeded(
            f"{where}: the pattern {describe(pattern)} takes too long for a text of {len(text):,} characters"
        ) from None


def _atoms(pattern: str, where: str) -> int:
    """Count the atoms of an expression with its fixed repetitions written out."""
    sizes, last, at = [0], 0, 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise InvalidInput(
                f"{where}: {describe(pattern)} is not a valid regular expression from character {at} on; "
                "ECMA-262's syntax is allowed, and a literal brace needs a backslash"
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
