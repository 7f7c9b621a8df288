"""Secrets known by the name that stands beside them, in the syntaxes in which settings are written.

A name that means a secret is followed by what ties it to its value: ``=`` or ``:`` (files, JSON, code, headers,
queries), the end of a tag or of an attribute (XML), the ``value`` of a pair (``name: X, value: y``), a comma or a
bracket (calls), or nothing but space (flags, SQL, some programs' own files). Time is linear in the text.
"""

from collections.abc import Iterator
from functools import cache

from layerlore.memory.secrets.names import Meaning, Writing, find_meaning, is_secret
from layerlore.storage.core import linear_re

Found = tuple[int, int]

_STEMS = """
    pass pw secret token key cred auth salt jwt bearer psk kennwort contrase senha парол 密码 パスワード
""".split()  # noqa: SIM905
_MOST_NAME = 64
_LONGEST_ELEMENT = 4096
_NAME_BEFORE = linear_re.compile(r"[\w.-]{0,64}")
_WORD_BEFORE = linear_re.compile(r"[ _-]([A-Za-z]{2,16})")

# Between a name and its value, without what closes the name's own quote: tried in this order.
_CLOSED = r"(?P<close>\\{0,7}[\"'`]?)[\])]?"
_GAP = r"[ \t]{0,24}"
_TIES: tuple[tuple[str, str], ...] = (
    # `token: String = "x"`, `const TOKEN: &str = "x"`
    ("typed", rf"{_GAP}:{_GAP}(?:&(?:'static )?)?[A-Za-z][\w.<>\[\]| ?]{{0,30}}={_GAP}(?=[\"'`b])"),
    # `{"name": "DB_PASSWORD", "value": "x"}`, and the same over two lines of YAML, or as attributes
    ("pair", rf"{_CLOSED}\s{{0,9}},?\s{{0,40}}\\{{0,7}}[\"'`]?(?i:value|default)\\{{0,7}}[\"'`]?{_GAP}[:=]{_GAP}"),
    ("pair", rf"\"\s{{0,9}}\{{[^{{}}]{{0,200}}?\bdefault{_GAP}={_GAP}"),
    ("tag", r"(?:[\"'][^<>\n]{0,60})?>(?:</(?:key|name)>\s{0,40}<(?:string|value)>)?"),
    ("tag", r"</(?:key|name)>\s{0,40}<(?:string|value)>"),
    ("call", rf"(?P<close>\\{{0,7}}[\"'`]){_GAP},{_GAP}(?=\\{{0,7}}[\"'`bB])"),
    ("call", rf"\({_GAP}(?=\\{{0,7}}[\"'`])"),
    (
        "assigned",
        rf"{_CLOSED}(?:[*_]{{2}})?{_GAP}(?:=>|:=|\?=|\|\|=|:(?![:=]|//)|=(?![=>~])|：|＝)(?:[*_]{{2}})?{_GAP}",
    ),
    (
        "sentence",
        r"[\"'`*]{0,2}(?: (?:for|of|to|von|für) [\w@.-]{1,24}(?: [\w@.-]{1,24})?)?"
        r"(?: (?:is|was|to|ist|lautet|es|est|será)(?: now| set to)?:?|:) {1,3}|是",
    ),
    ("cell", r"[ \t]{0,9}\|[ \t]{0,9}"),
    ("spaced", r"(?:\\\\n)?[ \t]{1,4}(?:(?i:BY|WITH [\w]{4,40} BY) )?(?=\\{0,7}[\"'][^\s\"']|\S{0,40}?[0-9])"),
)
_QUOTED = linear_re.compile(r"(?:[bBrRuU@]|rb)?(?P<quote>\\{0,7}[\"'`])")
_BLOCK = linear_re.compile(r"[|>][+-]?[ \t]{0,40}\n(?P<indent>[ \t]{1,100})")
_BARE = linear_re.compile(
    r"[^\s\"'`<>&;,|=(){}\[\]\\]{1,1024}"
    r"(?:[=,;&](?=[^\s\"'`<>&;,|=])(?![A-Za-z_$][\w.$-]{0,64}[:=])[^\s\"'`<>&;,|=(){}\[\]\\]{1,1024}){0,8}={0,3}",
    engine="re",
)
_TO_SPACE = linear_re.compile(r"[^\s\"'`<>。、，；：！？）」】]+", engine="re")
_LINE_HEAD = linear_re.compile(
    r"[ \t>+$#-]*(?:(?:export|set|setx|SET|ENV|ARG|declare -x|readonly|local)[ \t]+|-[ \t]+)?$"
)
_PAIR_BEFORE = linear_re.compile(
    r"\"(?:value|Value)\"\s{0,9}:\s{0,9}\"(?P<value>[^\"\\\n]{1,256})\"\s{0,9},\s{0,9}\"(?:name|key|Name|Key)\"\s{0,9}:\s{0,9}\"$"
)
_COLON_VALUE_ENDS = ".,:;!?"


@cache
def _hits(stem: str) -> linear_re.Pattern:
    """A stem in a name, in lower case, and what may follow the name."""
    follows = r"(?=[\"'`*\])>|\\]|[ \t]{0,24}(?:[=:,(|：＝?]|(?:is|was|ist|lautet|es|est|for|of|to|von|für)\b)|是|[ \t]{1,4}(?:by |with |\\{0,7}[\"']|\S{0,40}?[0-9])|\s{0,40}value|</)"
    return linear_re.compile(linear_re.escape(stem) + r"[\w.-]{0,48}+" + follows, engine="regex")


@cache
def _ties() -> tuple[tuple[str, linear_re.Pattern], ...]:
    return tuple((kind, linear_re.compile(pattern, engine="re")) for kind, pattern in _TIES)


def lower_text(text: str) -> str:
    """The text in lower case, character for character."""
    low = text.lower()
    return low if len(low) == len(text) else text.replace("İ", "I").lower()


def find_named_values(text: str, low: str) -> Iterator[Found]:
    """Where values stand that are secrets by their names; ``low`` is the text in lower case."""
    ends: set[int] = set()
    for stem in _STEMS:
        if stem not in low:
            continue
        done = 0
        for hit in _hits(stem).finditer(low):
            if hit.end() in ends or hit.start() < done:
                continue
            ends.add(hit.end())
            found = _find_value(text, hit.start(), hit.end())
            if found is not None:
                done = found[1]
                yield found


def _find_value(text: str, start: int, end: int) -> Found | None:
    """The value of the name in which a stem was found, if that is a secret."""
    before = text[max(0, start - _MOST_NAME) : start][::-1]
    first = start - _NAME_BEFORE.match(before).end()  # type: ignore[union-attr]
    name = text[first:end].rstrip(".-")
    named = find_meaning(name)
    if named is None:
        word = _WORD_BEFORE.match(before[::1]) if first == start else None
        named = find_meaning(f"{word[1][::-1]} {name}") if word else None
        if named is None:
            return None
    if text[first - 1 : first] == '"' and (pair := _PAIR_BEFORE.search(text[max(0, first - 320) : first])):
        at = max(0, first - 320)
        if is_secret(pair["value"], named, "setting"):
            return at + pair.start("value"), at + pair.end("value")
    if text[first - 2 : first] == "${":
        return _find_default(text, first + len(name), named)
    for kind, tie in _ties():
        if named == "key" and kind in ("sentence", "spaced"):
            continue  # in a sentence, what follows is the name of a credential, and not its secret
        tied = tie.match(text, first + len(name))
        if tied is not None and not (text[first - 1 : first] == ":" and ":" in tied[0]):
            is_verb = name.lower() == "pass" and kind in ("sentence", "spaced")
            found = _judge_value(text, first, tied.end(), kind, "secret" if is_verb else named)
            if found is not None or kind == "assigned":
                return found
    return None


def _find_default(text: str, at: int, named: Meaning) -> Found | None:
    """What a shell takes where the name is not set: ``${NAME:-value}``."""
    end = text.find("}", at, at + 256)
    begins = text[at : at + 2] in (":-", ":=")
    return _check_value(text, at + 2, end, named, "setting") if begins and end > 0 else None


def _judge_value(text: str, first: int, at: int, tie: str, named: Meaning) -> Found | None:
    """The value that begins there, if it is a secret beside such a name."""
    if tie == "call" and not (
        text[first:at].startswith("PASSWORD(")
        or _is_setter(text[first:at])
        or _ARGUMENT.search(text[max(0, first - 12) : first])
    ):
        return None
    if tie == "spaced" and not _is_directive(text, first, at):
        return None
    if tie == "tag":
        end = text.find("<", at, at + _LONGEST_ELEMENT)
        closes = end > at and text.startswith("</", end) and "\n" not in text[at:end]
        return _check_value(text, at, end, named, "quoted") if closes else None
    if tie == "cell":
        end = text.find("|", at, at + 256)
        is_row = text[max(0, first - 12) : first].rstrip(" \t*`").endswith("|")
        return _check_value(text, at, end, named, "sentence") if end > 0 and is_row else None
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        return _read_quoted(text, quoted, tie, named)
    if tie == "call":
        return None
    if tie == "assigned" and text.startswith("!!str ", at):
        at += 6
    block = _BLOCK.match(text, at) if tie == "assigned" else None
    if block is not None:
        end = text.find("\n", block.end())
        return _check_value(text, block.end(), end if end > 0 else len(text), named, "quoted")
    return _read_bare(text, first, at, tie, named)


def _is_directive(text: str, first: int, at: int) -> bool:
    """Whether the name is one that a value follows after nothing but space: a flag, a word of its own, or what a line
    or a command begins with."""
    before = text[max(0, first - 200) : first].rsplit("\n", 1)[-1]
    name = text[first:at].split(maxsplit=1)[0]
    if _DIRECTIVE.fullmatch(name):
        return before[-1:] not in ("=", ".", "$")
    return "." not in name and (
        not before.strip() or before.endswith((":", "set ", "setx ", "ENV ", "ARG ", "config ", "setenv "))
    )


def _is_setter(name: str) -> bool:
    return name.rsplit(".", 1)[-1][:3].lower() in ("set", "put", "add", "wit")


def _read_quoted(text: str, quoted: linear_re.Match, tie: str, named: Meaning) -> Found | None:
    start, quote = quoted.end(), quoted["quote"]
    end = _find_closing(text, start, quote)
    if end < 0:
        return None
    writing: Writing = "sentence" if tie in ("sentence", "spaced") else "quoted"
    return _check_value(text, start, end, named, writing)


def _find_closing(text: str, start: int, quote: str) -> int:
    """Where the quote ends on its line; -1: it does not."""
    end = start
    while True:
        end = text.find(quote, end, start + 16_384)
        if end < 0 or text.find("\n", start, end) >= 0:
            return -1
        if len(quote) > 1 or (end - len(text[start:end].rstrip("\\")) - start) == 0 or text[end - 1] != "\\":
            return end
        end += 1


def _read_bare(text: str, first: int, at: int, tie: str, named: Meaning) -> Found | None:
    """A value without quotes."""
    head = text[max(0, first - 80) : first].rsplit("\n", 1)[-1]
    is_flag = text[first] == "-" or head.endswith((" /", "\t/"))
    name = text[first:at].rstrip(" \t=:")
    tight = tie == "assigned" and text[at - 1] == "="
    if tight and _LINE_HEAD.fullmatch(head):
        value = _TO_SPACE.match(text, at)
        is_env = name.isupper() or not _CODE.search(value[0] if value else "")
    else:
        value, is_env = _BARE.match(text, at), False
    if value is None or not (is_env or value[0].isascii()):
        return None
    if not is_env and (
        text[value.end() : value.end() + 1] in ("(", "[") or (text[at - 1] == ":" and _URL.search(head))
    ):
        return None
    start, end = value.span()
    while end > start and text[end - 1] in ".,;:)]}" and not is_env:
        end -= 1
    writing = _find_writing(text, end, tie, name, tight=tight, is_env=is_env, is_flag=is_flag)
    found = _check_value(text, start, end, named, writing)
    if found is not None and end - start >= 1024 and (rest := _TO_SPACE.match(text, end)):
        return found[0], rest.end()
    return found


_ARGUMENT = linear_re.compile(r"\(\s{0,4}\\{0,7}[\"'`]$")
_DIRECTIVE = linear_re.compile(r"-{1,2}[A-Za-z][\w-]*|_?[A-Za-z]+[0-9]?")
_URL = linear_re.compile(r"://\S*$")
_CODE = linear_re.compile(r"[(),\[\]]")


def _find_writing(text: str, end: int, tie: str, name: str, *, tight: bool, is_env: bool, is_flag: bool) -> Writing:
    alone = _is_alone(text, end)
    if is_env:
        return "setting" if name.isupper() else "quoted"
    if tie == "spaced":
        return "plain" if is_flag else "sentence"
    if tight and (is_flag or name.isupper()):
        return "quoted"
    return "plain" if alone or tie != "assigned" else "sentence"


def _is_alone(text: str, end: int) -> bool:
    """Whether nothing but signs that close, or a comment, follows on the line."""
    rest = text[end : end + 200].lstrip(" \t")
    if rest.startswith(("#", "//", "--", ";")):
        return True
    rest = rest.lstrip(",;)}]").lstrip(" \t")
    return not rest or rest.startswith(("\\n", "\n", "\r\n", '"', "'", "`"))


def _check_value(text: str, start: int, end: int, named: Meaning, writing: Writing) -> Found | None:
    value = text[start:end]
    stripped = value.strip()
    start += len(value) - len(value.lstrip())
    if not stripped or not is_secret(stripped, named, writing):
        return None
    return start, start + len(stripped)
