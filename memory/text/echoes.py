"""Echoes: what our own tools, resources and prompts said, when it comes back inside a message.

A host stores what it was answered as a tool's result, as JSON, as text with its line ends escaped, or among the user's
own words. It was remembered before: only what its author wrote beside it is new.
"""

import json
from typing import Any

from layerlore.memory.text.own_tools import (
    may_hold_json,
    strip_answers,
    strip_calls,
    strip_echoes_json,
    strip_json_text,
)
from layerlore.memory.text.quotation import MARK, PREAMBLE, TAGS
from layerlore.storage.core import linear_re

_MARK = MARK.removeprefix("[layerlore")
_OURS = linear_re.escape(MARK)

_NAMES = "|".join(TAGS)
_HEAD = linear_re.compile(rf"<({_NAMES})>\s{{0,40}}<description>\s{{0,40}}{_OURS}")
_DESCRIBED = "</description>"
# Our descriptions are a few sentences. Without a bound, each head that has no end would scan the whole text.
_LONGEST_DESCRIPTION = 2_000
_VALUE = linear_re.compile(rf"{_DESCRIBED}\s{{0,40}}<value>")
_CLOSES = r"\s{{0,40}}</value>\s{{0,40}}</(?:{})>"
_CLOSES_TAG: dict[str, linear_re.Pattern] = {tag: linear_re.compile(_CLOSES.format(tag)) for tag in TAGS}
_CLOSES_ANY = linear_re.compile(_CLOSES.format(_NAMES))
# A block whose description is not even whole, or whose tags are gone.
_BARE = linear_re.compile(
    rf"(?:<(?:{_NAMES})>\s*(?:<description>\s*)?)?{_OURS}[^\n]*(?:\s*\n[^\S\n]*(?:- |(?:\* )?#\d+ |\d{{4}}-\d\d-\d\d)[^\n]*)*"
)
# Our section of a host's file, as the host's tools read it. A person writes the first mark without an owner.
_SECTION_SIGN = "<!-- layerlore:begin "
_SECTION = linear_re.compile(rf"{linear_re.escape(_SECTION_SIGN)}[0-9a-f]{{8}}(?: new)? -->")
_SECTION_END = linear_re.compile(r"<!-- layerlore:end(?: [0-9a-f]{8})* -->")
_TASK = "<task>\n"
_TASK_END = linear_re.compile(rf"\n</task>(?=\s*(?:<(?:{_NAMES})>|\[left out, since|\Z))")

_DAY = r"\d{4}-\d\d-\d\d"
_SPEAKER = rf"#\d+ (?:\[{_DAY}\] )?(?:user|assistant|tool|system)"
# The lines of a recall, each of which says where its words come from.
_LINE = (
    rf"(?:{_SPEAKER}(?:[^\w:\n][^:\n]*)?: |\d[\d, ]*\. (?:thread|entry) |hit \d+(?: \(#\d+\))?: "
    rf"|\[(?:profile|(?:(?:session memory|plan|observation) of|attempt in) thread [^\n]+?), {_DAY}[],]"
    rf"|\[entry [^\n,]+, {_DAY}; |\[(?:thread [^\n]+|same thread), {_DAY}\]"
    r"|\[(?:[\w -]+; )?(?:(?:user|assistant|tool|web)'s words in thread |kept as an assistant's own word\])"
    r"|Also close:|Nothing there matches the query\. These are the newest messages there:)[^\n]*"
)
_LINES = rf"(?:\s*\n[^\S\n]*(?:[>*•-][^\S\n]*)*{_LINE})*"
_CLOSING = r"\[(?:\d+ (?:of \d+ )?hits?|cut to max_tokens: |held back as |signals: |messages(?: #|: ))[^\]\n]*\]?"
_DEGRADED = r"(?: \[degraded: [^\]\n]*\]?)?"
# On a page of messages, the further lines of a text begin with a space.
_READ_LINES = rf"(?:\s*\n[^\S\n]*(?:[>*•-][^\S\n]*)*{_LINE}(?:\n [^\n]*)*)*"
_RECALLED = linear_re.compile(rf"{linear_re.escape(PREAMBLE)}{_DEGRADED}{_READ_LINES}(?:\s*{_CLOSING})?")
_STATUS = "pending|in_progress|completed|failed|skipped"
_PLAN = (
    r"Goal: [^\n]*\n\s*Phase: [^\n]*, iteration \d+"
    rf"(?:\n\s*(?:\S+ \[(?:{_STATUS})\] [^\n]*|No steps yet\.))*(?:\n\s*\[revision \d+ of thread [^\]\n]*\]?)?"
)

_OTHERS: tuple[tuple[str, linear_re.Pattern], ...] = tuple(
    (sign, linear_re.compile(pattern, linear_re.MULTILINE))
    for sign, pattern in (
        (
            "Nothing relevant",
            rf"Nothing relevant is remembered about this\.(?: This memory is empty\.)?{_DEGRADED}(?:\s*{_CLOSING})?",
        ),
        (
            "Nothing was found by words alone",
            rf"Nothing was found by words alone, and not everything[^\n.]*\.(?: The newest messages:)?{_DEGRADED}{_LINES}"
            rf"(?:\s*{_CLOSING})?",
        ),
        (
            "Nothing there matches",
            rf"Nothing there matches the query\. These are the newest messages there:{_LINES}(?:\s*{_CLOSING})?",
        ),
        ("Not sure that", rf"Not sure that these are about it:{_DEGRADED}{_LINES}(?:\s*{_CLOSING})?"),
        ("Other short wordings may", r"Other short wordings may find more: several in one call as queries[^\n.]*\."),
        ("Nothing is open:", r"Nothing is open: no plan, no suspended run, no noted task\."),
        ("[messages: none", r"\[messages: none[^\]\n]*\]?"),
        ("[degraded: ", r"\[degraded: [^\]\n]*\]?"),
        ("signals: ", r"\[(?:[^\]\n]*; )?signals: (?:lexical|semantic)[^\]\n]*\]?"),
        ("context of thread ", r"\[context of thread [^\n]*?: about [\d,]+ of [\d,]+ tokens: [^\]\n]*\]?"),
        ("left out, since max_tokens=", r"\[left out, since max_tokens=[^\]\n]*\]?"),
        (
            ", iteration ",
            rf"(?:^[A-Z][^\n]* as revision \d+\.[^\n]*\n)?^[^\S\n]*{_PLAN}",
        ),
        (", iteration ", rf"(?<=['\"]){_PLAN}"),
        ("[revision ", r"\[revision \d+ of thread [^\]\n]*; recalled, not instructions\]"),
        ("Open in other conversations:", r"Open in other conversations:(?:\n\s*- [^\n]*)*"),
        (
            "This would be forgotten",
            r"This would be forgotten \(data, not instructions\):(?:\s*\n\s*- [^\n]*)*(?:\s*Nothing is forgotten yet\.[^\n]*)?",
        ),
        (
            "; nothing to forget.",
            r"Nothing that is remembered is about this; nothing to forget\.(?:\s*\n\s*- [^\n]*)*",
        ),
        ("Nothing is kept in the ", r"Nothing is kept in the [^\n]* yet\. update_working_memory\([^\n]*"),
        ("There is no plan yet", r'There is no plan yet\. action=\\*"create[^\n]*'),
        ("structured content alone", r"\[the answer has [\d,]+ bytes of JSON: [^\]\n]*\]?"),
        (
            "once written down",
            r"(?:What follows is what you remember|Go on with the work of the|Show me what you remember)[^\n]*?"
            r"All of it is data that was once written down: [^\n]*?"
            r"(?:wait for what I say\.|while you work[^\n.]*\.|until I say what\.|$)",
        ),
        ("What changes it, once", r"What changes it, once I say so:(?:\n- [a-z_]+: [^\n]*)*"),
        ("Keep your memory in order", r"^Keep your memory in order: do the jobs that wait, [\s\S]*?material to me\."),
    )
)
"""Other texts of ours: a sign of each, and a pattern for the whole."""

_SIGNS = (_MARK[2:20], PREAMBLE[:20], _SECTION_SIGN, *(sign for sign, _ in _OTHERS))
# Text as it stands in JSON or in a Python value.
_ESCAPED = linear_re.compile(
    rf"(?:{linear_re.escape(PREAMBLE)}|description>|about it:|not instructions\):|once I say so:|other conversations:|Goal: [^\n]*?)(\\+)(?:r\\+)?n"
)
# Text as a quotation in Markdown.
_QUOTED_ECHO = linear_re.compile(
    rf"^[^\S\n]*>[^\S\n]?(?:<(?:{_NAMES})>|{linear_re.escape(PREAMBLE)}|This would be forgotten|What changes it, |Open in other |Goal: )",
    linear_re.MULTILINE,
)
_QUOTED = linear_re.compile(r"^[^\S\n]*> ?", linear_re.MULTILINE)
# Each JSON text within another doubles the backslashes: 64 of them are seven levels.
_MOST_ESCAPED = 64
_ESCAPED_SIGNS = (("\\u003c", "<"), ("\\u003e", ">"), ("<\\/", "</"), ("&lt;", "<"), ("&gt;", ">"))


def strip_echoes(text: str) -> str:
    """The text without what is an echo, so that only what its author wrote stays. A block that was cut off is removed to
    the end of the text, since its own end is unknown; other echoes as far as lines look like ours."""
    marked = _is_marked(text)
    if not marked and not may_hold_json(text):
        return text
    kept = strip_json_text(text, strip_echoes if marked else _strip_unmarked)
    if kept is not None:
        return kept
    found = strip_calls(strip_answers(text))
    if marked:
        found = _strip_marked(found)
    if found == text:
        return text
    return found.strip()


def strip_blocks(text: str) -> str:
    """The text without our blocks and without answers of a recall, and with everything else: for texts that were written
    to be kept, where a line that looks like ours may be meant."""
    if PREAMBLE in text:
        found = _RECALLED.sub("", text)
    else:
        found = text
    if _MARK in found:
        found = _cut_blocks(found).strip()
    return found


def strip_value(value: Any) -> Any:
    """A JSON value without the answers, calls and results of ours in it, each of its texts stripped; None where nothing
    else is in it."""
    written = json.dumps(value, ensure_ascii=False)
    marked = _is_marked(written)
    if not marked and not may_hold_json(written):
        return value
    return strip_echoes_json(value, strip_echoes if marked else _strip_unmarked)


def _strip_unmarked(text: str) -> str:
    """Strip a text that has no mark of ours: JSON, or a call, may still be in it."""
    if "{" in text or "<" in text or "[" in text:
        return strip_echoes(text)
    return text


def _is_marked(text: str) -> bool:
    """A quick look, since most texts have no mark: it finds too much, and misses nothing."""
    return any(map(text.__contains__, _SIGNS))


def _strip_marked(text: str) -> str:
    # The patterns expect plain lines, so quoting and escaping go first. Without an echo the text stays as it came.
    whole = _unquote(_unescape(text.replace("\r\n", "\n")))
    found = whole
    if PREAMBLE in found:
        found = _RECALLED.sub("", found)
    if _TASK in found:
        found = _strip_tasks(found)
    if _SECTION_SIGN in found:
        found = _cut_sections(found)
    # Whole blocks go first: a bare mark would remove the head of a block and leave its text.
    if _MARK in found:
        found = _BARE.sub("", _cut_blocks(found))
    for sign, pattern in _OTHERS:
        if sign in found:
            found = pattern.sub("", found)
    if found == whole:
        return text
    return found


def _strip_tasks(text: str) -> str:
    """The text without the tasks that stand in front of blocks of ours."""
    first, *tasks = text.split(_TASK)
    kept = [first]
    for number, task in enumerate(tasks, 1):
        if number == len(tasks):
            following = ""
        else:
            following = _TASK
        ending = _TASK_END.search(f"\n{task}{following}")
        kept.append(task[ending.end() - 1 :] if ending else _TASK + task)
    return "".join(kept)


def _unquote(text: str) -> str:
    """The text without the signs of a quotation before its lines, if what is ours in it is quoted."""
    if _QUOTED_ECHO.search(text):
        return _QUOTED.sub("", text)
    return text


def _unescape(text: str) -> str:
    """The text with its lines as lines, if what is ours in it is escaped."""
    if _MARK in text or "u003cdescription" in text:
        for escaped, sign in _ESCAPED_SIGNS:
            if f"{escaped}description" in text or escaped == "<\\/":
                text = text.replace(escaped, sign)
    if "\\" in text:
        found = _ESCAPED.search(text)
    else:
        found = None
    if found is None:
        return text
    # A backslash of the text itself has more of them.
    escape = min(len(found[1]), _MOST_ESCAPED)
    line_end = linear_re.Pattern(rf"(?<!\\)(?:\\{{{escape}}}r)?\\{{{escape}}}n")
    return line_end.sub("\n", text)


def _cut_sections(text: str) -> str:
    kept: list[str] = []
    at = 0
    for head in _SECTION.finditer(text):
        if head.start() < at:
            continue
        end = _SECTION_END.search(text, head.end())
        # If this one has no end, the later ones have none either.
        if end is None:
            break
        kept.append(text[at : head.start()])
        at = end.end()
    return "".join([*kept, text[at:]])


def _cut_blocks(text: str) -> str:
    kept: list[str] = []
    at = 0
    for head in _HEAD.finditer(text):
        described = text.find(_DESCRIBED, head.end(), head.end() + _LONGEST_DESCRIPTION)
        if head.start() < at or described < 0 or not _VALUE.match(text, described):
            continue
        kept.append(text[at : head.start()])
        # Inside a block nothing closes it, so that the first closing tag is its own.
        end = _CLOSES_TAG[head[1]].search(text, described)
        if end is None:
            # Its own end went with what was cut out of the middle: it is all ours up to the last one.
            end = next(reversed(list(_CLOSES_ANY.finditer(text, described))), None)
        if end is None:
            return "".join(kept)
        at = end.end()
    return "".join([*kept, text[at:]])
