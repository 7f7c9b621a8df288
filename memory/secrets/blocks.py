"""Secrets in blocks that only the whole line or document shows: cookies, and the data of a Kubernetes Secret."""

import itertools
from collections.abc import Iterator

from layerlore.memory.secrets.names import Strength, find_meaning, measure_strength
from layerlore.storage.core import linear_re

Span = tuple[int, int]

_HEADS = (
    ("cookie", linear_re.compile(r"cookie2?s?\\?[\"']?\]?[ \t]{0,4}[:=][ \t]{0,4}(?:\\?[\"'])?")),
    ("curl", linear_re.compile(r"curl(?=\s)[^\n|;&]{0,160}?\s(?:-b|--cookie)[ \t=]{0,4}[\"']?")),
)
_FIRST_PAIR = linear_re.compile(r"[^\s\"'=;]{1,128}=")
_PAIRS_END = linear_re.compile(r"[\r\n\"']")
_PAIR = linear_re.compile(r"(?:\A|;)\s{0,4}(?P<name>[^\s=;,]{1,128})=(?P<value>[^\s;,\"]+)")
_SESSIONS = linear_re.compile(r"(?i)sess|sid\b|^sid|auth|token|login|remember|identity|aspnetcore|jwt|xsrf|csrf|ticket")
_ATTRIBUTES = frozenset(["path", "domain", "expires", "max-age", "samesite", "priority", "version", "comment"])


def find_cookie_values(text: str, low: str) -> Iterator[Span]:
    """Find the values of cookies that identify somebody. ``low`` is the text in lower case."""
    for word, head in _HEADS:
        if word not in low:
            continue
        done = 0
        for begins in head.finditer(low):
            if begins.start() < done:
                continue
            start = begins.end()
            if not _FIRST_PAIR.match(text, start):
                continue
            ending = _PAIRS_END.search(text, start)
            done = ending.start() if ending else len(text)
            for pair in _PAIR.finditer(text[start:done]):
                if pair["name"].lower() not in _ATTRIBUTES and _is_identifying(pair["name"], pair["value"]):
                    yield start + pair.start("value"), start + pair.end("value")


def _is_identifying(name: str, value: str) -> bool:
    named = _SESSIONS.search(name) is not None or find_meaning(name) is not None
    strength = measure_strength(value)
    if named and len(value) >= 8 and strength >= Strength.MIXED:
        return True
    return len(value) >= 32 and strength == Strength.RANDOM


_KIND = linear_re.compile(r"kind\\?[\"']?[ \t]{0,4}:[ \t]{0,4}\\?[\"']?Secret(?![\w.-])")
_DOCUMENT = linear_re.compile(r"(?m)^---[ \t]*$")
_DATA = linear_re.compile(r"(?m)^(?P<indent>[ \t]*)(?:data|stringData):[ \t]*\n")
_LINE = linear_re.compile(r"(?m)^[ \t]+[\w.\"'-]+:[ \t]+[\"']?(?P<value>[^\s\"'#|>][^\n\"']{3,})")
_MEMBERS = linear_re.compile(r"\"(?:data|stringData)\\?\"\s{0,4}:\s{0,4}\{(?P<members>[^{}]*)\}")
_MEMBER = linear_re.compile(r"\"\s{0,4}:\s{0,4}\\?\"(?P<value>[^\"\\]{4,}(?:\\n[^\"\\]*)*)")


def find_kubernetes_values(text: str) -> Iterator[Span]:
    """Find the data of Kubernetes Secrets, in YAML or JSON, whatever their names are."""
    if "Secret" not in text or _KIND.search(text) is None:
        return
    edges = [0, *(found.start() for found in _DOCUMENT.finditer(text)), len(text)]
    for start, limit in itertools.pairwise(edges):
        part = text[start:limit]
        if _KIND.search(part) is None:
            continue
        blocks = [(_LINE, begin, end) for begin, end in _list_indented(part)]
        blocks += ((_MEMBER, *members.span("members")) for members in _MEMBERS.finditer(part))
        for line, begin, end in blocks:
            for found in line.finditer(part[begin:end]):
                if measure_strength(found["value"].strip()) != Strength.NONE:
                    at = start + begin
                    yield at + found.start("value"), at + found.end("value")


def _list_indented(part: str) -> Iterator[Span]:
    """Where the lines below a key of data stand in YAML: those that are further in than the key, and empty ones."""
    done = 0
    for key in _DATA.finditer(part):
        if key.start() < done:
            continue
        begin = at = key.end()
        while at < len(part):
            end = part.find("\n", at) + 1 or len(part)
            line = part[at:end]
            inner = line.removeprefix(key["indent"])
            if line.strip(" \t\n") and not (line.startswith(key["indent"]) and inner[:1] in (" ", "\t")):
                break
            at = end
        done = at
        yield begin, at
