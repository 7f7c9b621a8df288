"""Secrets in blocks that only the whole line or document shows: cookies, and the data of a Kubernetes Secret."""

import itertools
import re
from collections.abc import Iterator

from layerlore.memory.secrets.names import Strength, find_meaning, measure_strength

Span = tuple[int, int]

_HEADS = (
    ("cookie", re.compile(r"cookie2?s?\\?[\"']?\]?[ \t]{0,4}[:=][ \t]{0,4}(?:\\?[\"'])?")),
    ("curl", re.compile(r"curl(?=\s)[^\n|;&]{0,200}?\s(?:-b|--cookie)[ \t=]{0,4}[\"']?")),
)
_PAIRS = re.compile(r"[^\s\"'=;]{1,128}=[^\r\n\"']*")
_PAIR = re.compile(r"(?:\A|;)\s{0,4}(?P<name>[^\s=;,]{1,128})=(?P<value>[^\s;,\"]{1,8192})")
_SESSIONS = re.compile(r"(?i)sess|sid\b|^sid|auth|token|login|remember|identity|aspnetcore|jwt|xsrf|csrf|ticket")
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
            pairs = _PAIRS.match(text, begins.end())
            done = pairs.end() if pairs else 0
            for pair in _PAIR.finditer(pairs[0]) if pairs else ():
                if pair["name"].lower() not in _ATTRIBUTES and _is_identifying(pair["name"], pair["value"]):
                    yield begins.end() + pair.start("value"), begins.end() + pair.end("value")


def _is_identifying(name: str, value: str) -> bool:
    named = _SESSIONS.search(name) is not None or find_meaning(name) is not None
    strength = measure_strength(value)
    if named and len(value) >= 8 and strength >= Strength.MIXED:
        return True
    return len(value) >= 32 and strength == Strength.RANDOM


_KIND = re.compile(r"kind\\?[\"']?[ \t]{0,4}:[ \t]{0,4}\\?[\"']?Secret(?![\w.-])")
_DOCUMENT = re.compile(r"(?m)^---[ \t]*$")
_DATA = re.compile(
    r"(?m)^(?P<indent>[ \t]*)(?:data|stringData):[ \t]*\n(?P<lines>(?:(?P=indent)[ \t]+[^\n]*(?:\n|\Z)|[ \t]*\n)+)"
)
_LINE = re.compile(r"(?m)^[ \t]+[\w.\"'-]{1,253}:[ \t]+[\"']?(?P<value>[^\s\"'#|>][^\n\"']{3,})")
_MEMBERS = re.compile(r"\"(?:data|stringData)\\?\"\s{0,4}:\s{0,4}\{(?P<members>[^{}]*)\}")
_MEMBER = re.compile(r"\"\s{0,4}:\s{0,4}\\?\"(?P<value>[^\"\\]{4,}(?:\\n[^\"\\]*)*)")


def find_kubernetes_values(text: str) -> Iterator[Span]:
    """Find the data of Kubernetes Secrets, in YAML or JSON, whatever their names are."""
    if "Secret" not in text or _KIND.search(text) is None:
        return
    edges = [0, *(found.start() for found in _DOCUMENT.finditer(text)), len(text)]
    for start, end in itertools.pairwise(edges):
        part = text[start:end]
        if _KIND.search(part) is None:
            continue
        for blocks, group, line in ((_DATA, "lines", _LINE), (_MEMBERS, "members", _MEMBER)):
            for block in blocks.finditer(part):
                for found in line.finditer(block[group]):
                    if measure_strength(found["value"].strip()) != Strength.NONE:
                        at = start + block.start(group)
                        yield at + found.start("value"), at + found.end("value")
