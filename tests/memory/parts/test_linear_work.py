"""No text makes the work on a message slow: twice the text takes about twice the time."""

import contextlib
import functools
from collections.abc import Callable

import pytest

from layerlore.extraction.chat.chat_port import Unreadable, read_object
from layerlore.extraction.kinds.titles import clean_title, is_trivial
from layerlore.memory.digest import tool_lines
from layerlore.memory.entries.entries import tells_of_user
from layerlore.memory.entries.proof import has_content, list_quotations, list_unproven
from layerlore.memory.language import past_days, search_words, sentences, speech_acts, statements, topics
from layerlore.memory.parts.tokens import load_counter
from layerlore.memory.recall import excerpts
from layerlore.memory.rules.validation import remove_invisible
from layerlore.memory.secrets.redaction import Redactor
from layerlore.memory.text import echoes, own_tools, quotation
from layerlore.server.capture.message_cleanup import find_user_words

from ...growth import grows_too_fast

UNITS = [
    *("<system-reminder>", "</user_instructions>", "<user_query>", "<bash-stdout></bash-stdout>"),
    *(
        "a",
        "A ",
        "1.2 ",
        "7",
        " ",
        "\n",
        "\t\n",
        '"',
        "'",
        "<",
        "[",
        "{",
        "(",
        "&lt;",
        "\\",
        "\\n",
        "-",
        "- ",
        "=",
        ":",
        "/",
    ),
    *("漢", "é", "ʼ", "\u200b", "\U0001f600", "Straße ", "one two, three. ", "I like tea. ", "do you know it? "),
    *(
        "password=",
        "password: ",
        "secret=a;",
        "token>",
        "<password>",
        '"password":"',
        "bearer ",
        "cookie: a=b; ",
        "curl ",
    ),
    *("://a:", "sk-", "-----BEGIN PRIVATE KEY-----", "kind: Secret\ndata:\n  a: b\n", "data:\n", "AKIA"),
    *(
        "<item><name>a</name></item>\n",
        "<memory>",
        "</value></memory>",
        "<memory>\n<description>[layerlore: recalled, ",
    ),
    *("Recalled from earlier conversations: ", "[tool call ", "<tool_call>{", "Goal: a\nPhase: b, ", "#1 user: a\n"),
    *(
        '{"a": 1}, ',
        "```",
        "**a",
        "`a",
        "- a\n",
        "> ",
        "# ",
        "2026-01-02 ",
        "ERROR a\n",
        "a/b/",
        "http://a.b/c ",
        "#12 ",
    ),
    *(
        "user: a\n",
        "Human: ",
        "system\n",
        "not the 29th, ",
        "instead of ",
        "I don't know ",
        "called ",
        "3 May ",
        "yesterday ",
    ),
]
ENDS = ("", "!\x00")
"""Each unit gets one of them, and in a whole soak both."""
MASKED = Redactor(b"k" * 32)
COUNTER = load_counter()


def find_notes(host: str, text: str) -> None:
    find_user_words([text], host)


def repaired(text: str) -> None:
    with contextlib.suppress(Unreadable):
        read_object(text)


WORKS: dict[str, Callable[[str], object]] = {
    "masking": MASKED.text,
    "counting tokens": COUNTER.text,
    "words": search_words.split_words,
    "echoes": echoes.strip_echoes,
    "blocks": echoes.strip_blocks,
    "own answers": own_tools.find_own_answer,
    "speech acts": speech_acts.measure_speech_acts,
    "days": lambda text: past_days.find_past_days(text, 1_790_000_000_000),
    "invisible characters": remove_invisible,
    "making visible": quotation.make_visible,
    "hidden": quotation.count_hidden,
    "tags": quotation.escape_tags,
    "quoting": quotation.quote_text,
    "marks": quotation.escape_marks,
    "neutral turns": quotation.neutralize_turns,
    "turns": quotation.escape_turns,
    "blank blocks": quotation.blank_blocks,
    "one line": quotation.quote_line,
    "sentences": lambda text: sentences.split_sentences(sentences.bound_text(text)),
    "values": sentences.find_values,
    "shortening": sentences.shorten,
    "lines of results": lambda text: tool_lines.find_telling_lines(tool_lines.read_lines(text), frozenset(), 200),
    "excerpts": lambda text: excerpts.pick_sentences(text, {"tea": 1.0}, 300),
    "unproven": lambda text: list_unproven(text[:2000], [text]),
    "persons": tells_of_user,
    "content": has_content,
    "quotations": list_quotations,
    "statements": statements.read_statement,
    "asides": statements.without_aside,
    "titles": clean_title,
    "trivial": is_trivial,
    "repair": repaired,
    "topics": topics.split_said,
    **{f"notes of {host}": functools.partial(find_notes, host) for host in ("claude-code", "codex", "cursor")},
}


@pytest.mark.programs
@pytest.mark.parametrize("work", WORKS)
def test_twice_the_text_takes_no_work_much_more_than_twice_the_time(work: str, trials: Callable[..., range]) -> None:
    slow = [
        (unit, end)
        for trial in trials(1, soak=2)
        for number, unit in enumerate(UNITS, trial)
        if grows_too_fast(WORKS[work], "", unit, end := ENDS[number % 2])
    ]
    assert not slow
