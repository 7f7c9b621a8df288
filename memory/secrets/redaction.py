"""Masking of secrets in the texts that are stored, sent to a model, or logged.

A masked secret leaves a mark: ``[masked:github-token:1f3a9c2e]`` names the kind and the first 8 hex digits of an
HMAC-SHA256 of the secret under the installation's key. Equal secrets leave equal marks, so that they can be
distinguished without being known. Nothing outside of a secret changes, and masking what is masked changes nothing.
"""

import hmac
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from layerlore.memory.rules.validation import INVISIBLE, has_invisible, remove_invisible
from layerlore.memory.secrets.contexts import COMMANDS, CONTEXTS, find_cookie_values, find_kubernetes_values
from layerlore.memory.secrets.names import (
    Meaning,
    Strength,
    find_meaning,
    find_named_values,
    is_secret,
    lower_text,
    measure_strength,
)
from layerlore.memory.secrets.patterns import TOKENS, TokenPattern, find_payment_numbers
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import LimitExceeded

MAX_DEPTH = 64

Mark = Callable[[str, str], str]
Span = tuple[int, int, str]
Trie = dict[str, "Trie"]


def _alternation(words: list[str]) -> str:
    """A regular expression for these words, the longest first, that tries no letter twice."""
    trie: Trie = {}
    for word in words:
        node = trie
        for letter in word:
            node = node.setdefault(letter, {})
        node[""] = {}
    return _branches(trie)


def _branches(node: Trie) -> str:
    choices = [linear_re.escape(letter) + _branches(rest) for letter, rest in node.items() if letter]
    if not choices:
        return ""
    return f"(?:{'|'.join(choices)})" + ("?" if "" in node else "")


_PREFIXES = sorted({prefix for token in TOKENS for prefix in token.prefixes})
# All that can begin where a longer prefix begins, in the order in which they are declared.
_TOKENS_AT: dict[str, tuple[TokenPattern, ...]] = {
    prefix: tuple(token for token in TOKENS if prefix.startswith(token.prefixes)) for prefix in _PREFIXES
}


@cache
def _starts() -> linear_re.Pattern:
    """Where a token can begin: a character in front that is not a letter or digit, and a prefix."""
    first = "".join(sorted({prefix[0] for prefix in _PREFIXES}))
    # It looks at one set before the choices: up to four times faster than without.
    return linear_re.compile(rf"[^A-Za-z0-9](?=[{first}])(?=({_alternation(_PREFIXES)}))")


@cache
def _starts_behind_escapes() -> linear_re.Pattern:
    """Behind the letters and digits of an escape too: a JSON text inside of a text, or a query string."""
    return linear_re.compile(rf"(?:\\[nrt]|\\u[0-9A-Fa-f]{{4}}|%[0-9A-Fa-f]{{2}})(?=({_alternation(_PREFIXES)}))")


_CONTEXTS = (*CONTEXTS, *COMMANDS)
_NEEDLES = sorted({needle for context in _CONTEXTS for needle in context.needles})
_OF_NEEDLE = {
    needle: [number for number, context in enumerate(_CONTEXTS) if needle in context.needles] for needle in _NEEDLES
}
# The prefixes by a sign that few texts have, so that most need no search; "" for those without such a sign.
_SIGNS = '$%@=~:/"\\._- '
_NEEDLES_BY_SIGN = {
    sign: tuple(each for each in _NEEDLES if next((one for one in _SIGNS if one in each), "") == sign)
    for sign in ("", *_SIGNS)
}
_KINDS = sorted(
    {token.kind for token in TOKENS}
    | {context.kind for context in _CONTEXTS}
    | {"session-cookie", "kubernetes-secret", "assigned-secret", "iban", "card-number"}
)
_MARK = linear_re.compile(rf"(\[masked:(?:{'|'.join(_KINDS)})(?::[0-9a-f]{{8}})?\])")


def _token_spans(text: str, starts: linear_re.Pattern) -> Iterator[Span]:
    # The pattern needs a character in front of the token, also at the beginning of the text.
    padded = " " + text
    end = 0
    for candidate in starts.finditer(padded):
        start = candidate.end()
        # A prefix inside the last token is a part of that token.
        if start < end:
            continue
        for token in _TOKENS_AT[candidate[1]]:
            match = token.regex.match(padded, start)
            if match is not None and token.accepts(match["body"]):
                end = match.end()
                yield start - 1, end - 1, token.kind
                break


def _context_spans(text: str, low: str) -> Iterator[Span]:
    present = [each for sign, some in _NEEDLES_BY_SIGN.items() if sign in low for each in some if each in low]
    # The patterns in their own order: if two find the same, the first one names the kind.
    for number in sorted({number for needle in present for number in _OF_NEEDLE[needle]}):
        context = _CONTEXTS[number]
        if context.may_be_in(low):
            for match in context.regex.finditer(text):
                if context.accepts(match):
                    yield *match.span("secret"), context.kind


def _spans(text: str) -> list[Span]:
    spans = list(_token_spans(text, _starts()))
    if "\\" in text or "%" in text:
        spans += _token_spans(text, _starts_behind_escapes())
    low = lower_text(text)
    spans += _context_spans(text, low)
    spans += ((start, end, "session-cookie") for start, end in find_cookie_values(text, low))
    spans += ((start, end, "kubernetes-secret") for start, end in find_kubernetes_values(text))
    spans += ((start, end, "assigned-secret") for start, end in find_named_values(text, low))
    spans += find_payment_numbers(text)
    return spans


def _hidden_spans(text: str) -> list[Span]:
    """Find secrets that invisible characters split: a reader who removes those has the whole secret."""
    seen, places = remove_invisible(text)
    spans = ((places[start], places[end - 1] + 1, kind) for start, end, kind in _spans(seen))
    return [(start, end, kind) for start, end, kind in spans if has_invisible(text[start:end])]


def _all_spans(text: str) -> list[Span]:
    if has_invisible(text):
        return [*_spans(text), *_hidden_spans(text)]
    return _spans(text)


def _separate(spans: list[Span]) -> list[Span]:
    """Put spans in order without overlaps: of two that overlap, the outer one and its kind stay."""
    # The sort is stable, so where a token is also, say, a URL's password, it keeps the more specific kind.
    spans.sort(key=lambda span: (span[0], -span[1]))
    apart: list[Span] = []
    for start, end, kind in spans:
        if not apart or start >= apart[-1][1]:
            apart.append((start, end, kind))
        elif end > apart[-1][1]:
            apart[-1] = (apart[-1][0], end, apart[-1][2])
    return apart


def _mask(text: str, mark: Mark, find: Callable[[str], list[Span]] = _all_spans) -> tuple[str, int]:
    """Puts marks for the secrets.

    Marks part the text, and every part is searched on its own until nothing more is found in it. That is what makes
    masking idempotent: the parts of a masked text are exactly those in which nothing was found.
    """
    done: list[str] = []
    count = 0
    if "[masked:" in text:
        parts = _MARK.split(text)
    else:
        parts = [text]
    todo = [(part, is_mark % 2 == 1) for is_mark, part in enumerate(parts)][::-1]
    while todo:
        part, finished = todo.pop()
        if finished:
            secrets = []
        else:
            secrets = _separate(find(part))
        if not secrets:
            done.append(part)
            continue
        count += len(secrets)
        pieces: list[tuple[str, bool]] = []
        at = 0
        for start, end, kind in secrets:
            # A split secret gets the mark of the whole one, so invisible characters do not count.
            pieces += [(part[at:start], False), (mark(kind, INVISIBLE.sub("", part[start:end])), True)]
            at = end
        todo += [*pieces, (part[at:], False)][::-1]
    if count:
        return ("".join(done), count)
    return (text, 0)


def _mark_without_key(kind: str, _secret: str) -> str:
    return f"[masked:{kind}]"


def mask_without_key(text: str) -> str:
    """The text with ``[masked:KIND]`` for its secrets: for logs written before the installation's key is known."""
    return _mask(text, _mark_without_key)[0]


def mask_hidden(text: str) -> str:
    """The text with ``[masked:KIND]`` for only those secrets that invisible characters split."""
    return _mask(text, _mark_without_key, _hidden_spans)[0]


class Redactor:
    """Masks secrets under one installation's key. It has no state, and threads may share it."""

    def __init__(self, key: bytes) -> None:
        """``key`` must be secret and stay the same for the life of the database. Raises ValueError if it is empty."""
        if not key:
            raise ValueError("The key for masking secrets is empty: give the installation's key.")
        self._key = key

    def text(self, value: str) -> tuple[str, int]:
        """The text with its secrets masked, and how many there were. Takes time linear in the text, some ms for 100
        KiB."""
        return _mask(value, self._mark)

    def json(self, value: Any) -> tuple[Any, int]:
        """Mask the secrets in every string of a JSON value, keys of objects included. Returns it and how many there
        were.

        A name such as ``api_key`` counts as the context of its value, and ``--password`` as that of the string behind
        it in a list. A value without a secret is returned unchanged, not copied. Raises LimitExceeded where arrays and
        objects lie more than 64 deep.
        """
        return self._json(value, 0, None)

    def _json(self, value: Any, depth: int, named: Meaning | None) -> tuple[Any, int]:
        if isinstance(value, str):
            return self._string(value, named)
        if not isinstance(value, dict | list):
            return value, 0
        if depth == MAX_DEPTH:
            raise LimitExceeded(
                f"The JSON is nested more than {MAX_DEPTH} deep; at most {MAX_DEPTH} levels are allowed."
            )
        if isinstance(value, dict):
            return self._object(value, depth, named)
        masked = [self._json(item, depth + 1, named or _flag_before(value, at)) for at, item in enumerate(value)]
        count = sum(number for _, number in masked)
        if count:
            return ([item for item, _ in masked], count)
        return (value, 0)

    def _string(self, value: str, named: Meaning | None, kind: str = "assigned-secret") -> tuple[str, int]:
        masked, count = self.text(value)
        plain = INVISIBLE.sub("", value).strip()
        # Its form alone gives nothing away; the name makes it a secret.
        if not count and named is not None and is_secret(plain, named, "setting"):
            return self._mark(kind, plain), 1
        return masked, count

    def _object(self, value: dict[Any, Any], depth: int, named: Meaning | None) -> tuple[dict[Any, Any], int]:
        result: dict[Any, Any] = {}
        total = 0
        of_pair = named or _named_by_pair(value)
        for key, item in value.items():
            new_key, in_key = self._json(key, depth + 1, None)
            new_item, in_item = self._member(value, key, item, depth, of_pair)
            while new_key in result:  # a mark that was a key before, or two secrets whose marks happen to be equal
                new_key += "+"
            result[new_key] = new_item
            total += in_key + in_item
        if total:
            return (result, total)
        return (value, 0)

    def _member(
        self, whole: dict[Any, Any], key: Any, item: Any, depth: int, of_pair: Meaning | None
    ) -> tuple[Any, int]:
        if isinstance(key, str):
            name = INVISIBLE.sub("", key)
        else:
            name = ""
        if name in ("data", "stringData") and whole.get("kind") == "Secret" and isinstance(item, dict):
            return self._kubernetes(item)
        new_item, in_item = self._json(item, depth + 1, of_pair if name.lower() in _VALUES else find_meaning(name))
        if isinstance(item, str) and not in_item and name.lower() in _HEADERS:
            return self._header(name, item)
        return new_item, in_item

    def _kubernetes(self, data: dict[Any, Any]) -> tuple[dict[Any, Any], int]:
        secret = {
            name: self._mark("kubernetes-secret", value)
            for name, value in data.items()
            if isinstance(value, str) and measure_strength(value) != Strength.NONE
        }
        return {**data, **secret} if secret else data, len(secret)

    def _header(self, name: str, value: str) -> tuple[str, int]:
        """Masks what is a secret in a header of that name."""
        # The patterns of headers expect the name in front, as in a raw request.
        head = f"{name}: "
        masked, count = self.text(head + value)
        if masked.startswith(head):
            return (masked[len(head) :], count)
        return (value, 0)

    def _mark(self, kind: str, secret: str) -> str:
        # JSON may hold lone surrogates, which must not stop the masking.
        digest = hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), "sha256")
        return f"[masked:{kind}:{digest.hex()[:8]}]"


_HEADERS = frozenset(("cookie", "set-cookie", "authorization", "proxy-authorization"))
# Members that hold the value of what another member, or the object's own name, names.
_VALUES = frozenset(["value", "val", "default", "const", "enum", "example", "examples"])
_FLAG = linear_re.compile(r"-{1,2}[A-Za-z][\w.-]*")


def _named_by_pair(value: dict[Any, Any]) -> Meaning | None:
    """The meaning that ``{"name": "DB_PASSWORD", "value": ...}`` gives its value."""
    names = (value[name] for name in ("name", "key", "Name", "Key") if isinstance(value.get(name), str))
    return next((found for name in names if (found := find_meaning(name[:200])) is not None), None)


def _flag_before(items: list[Any], at: int) -> Meaning | None:
    """The meaning that ``["--password", ...]`` gives the item behind it."""
    if at:
        before = items[at - 1]
    else:
        before = None
    if not isinstance(before, str) or not before.startswith("-") or len(before) > 64 or not _FLAG.fullmatch(before):
        return None
    return find_meaning(before)
