"""``layerlore chat`` as a person has it: in a pipe, in a terminal, interrupted and killed."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from fake_openai import Asks, FakeOpenAI, Halts
from launch_environment import own_environment
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from layerlore.server.chat.terminal import Screen, TerminalKeyboard, local_time

pytestmark = pytest.mark.programs

PATIENCE = 120
THREAD = "trip"


@contextlib.contextmanager
def chat(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    quick = {"LAYERLORE_EMBEDDING__EMBEDDER": "none", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "layerlore", "chat", *arguments, "--data-dir", str(folder), "--thread", THREAD]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {name: value for name, value in own_environment(**quick).items() if not name.startswith("OPENAI_")}
    with subprocess.Popen(command, text=True, encoding="utf-8", env=environment, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


def say(folder: Path, *lines: str, options: tuple[str, ...] = ("--model", "scripted")) -> tuple[str, str]:
    """All that the chat prints for these lines, and what it notes beside."""
    with chat(folder, *options) as process:
        printed, noted = process.communicate("".join(f"{line}\n" for line in lines), timeout=PATIENCE)
        assert process.returncode == 0, noted
    return printed, noted


def wait_for(stream: IO[str] | None, words: str) -> str:
    """Everything that is printed until these words are."""
    assert stream is not None
    read = ""
    while words not in read:
        piece = stream.read(1)
        assert piece, read
        read += piece
    return read


def test_every_command_shows_what_it_says_and_the_next_session_knows_all(tmp_path: Path) -> None:
    printed, noted = say(
        tmp_path,
        *("I like green tea", "plan a trip", "What do I like?", "/plan", "/memories", "/context", "/undo"),
        *("/title Tea and trips", "/runs", "/nonsense", "/help", "/new", "/threads", "/quit", "never said"),
    )
    assert "I have put that into your profile." in printed
    assert printed.count("The tool says:") == 2
    assert "→ update_working_memory" in noted
    assert "Goal: plan a trip" in printed
    assert "- I like green tea" in printed
    assert "user-profile" in printed
    assert "of 8,000" in printed
    assert "4 messages taken back" in noted
    assert "/nonsense is none of the commands: /context, " in noted
    assert re.search(r"\d+ tokens in, \d+ out · \$0\.00000", noted)
    assert "conversation $0.00000" in noted
    assert "Tea and trips" in printed
    assert "never said" not in printed + noted

    printed, noted = say(
        tmp_path,
        "/undo undo",
        "/new",
        "Which tea do I like?",
        'It said of my green tea: forget(confirm="other")',
        "/forget green tea",
        "y",
        "/memories",
        "/threads trip",
    )
    assert "trip Tea and trips · scripted" in noted
    assert "4 messages are back" in noted
    assert re.search(r"memories [1-9]\d* tokens", noted)
    assert re.search(r"Forgotten: \d+ messages?, 1 line of a document\.", printed)
    assert "Nothing is kept in the user profile yet." in printed


@pytest.fixture
def far_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine in a zone that is 14 hours ahead of UTC."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_clock")
def test_times_are_those_of_this_machines_clock() -> None:
    assert local_time("2026-03-01T12:00:30.250Z") == "2026-03-02 02:00:30"


def test_without_a_model_it_says_what_to_set_and_offers_one_that_follows_a_script(tmp_path: Path) -> None:
    with chat(tmp_path) as process:
        printed, noted = process.communicate("hello\n", timeout=PATIENCE)
    assert (process.returncode, printed) == (2, "")
    for told in ("OPENAI_API_KEY", "ollama_chat/", "--api-base URL", "LAYERLORE_LLM_MODEL", "--model scripted"):
        assert told in noted


def test_a_turn_whose_reader_has_gone_is_kept_and_the_chat_ends_quietly(tmp_path: Path) -> None:
    with chat(tmp_path, "I like green tea", "--model", "scripted") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        assert "layerlore:" not in process.stderr.read()
    printed, noted = say(tmp_path, "/runs", "/memories")
    assert "- I like green tea" in printed
    assert "assistant: I have put that into your profile." in noted
    assert "left behind" not in printed


def test_a_chat_whose_last_turn_fails_ends_with_an_error_also_after_a_command(tmp_path: Path) -> None:
    with chat(tmp_path, "hello", "--model", "nosuch/model") as process:
        _, noted = process.communicate("/help\n", timeout=PATIENCE)
    assert process.returncode == 1
    assert "nosuch/model: " in noted


@pytest.mark.skipif(os.name == "nt", reason="Windows interrupts a whole console")
def test_an_interrupt_cancels_the_turn_and_not_the_chat_and_answers_alone_are_printed(
    tmp_path: Path, provider: FakeOpenAI
) -> None:
    provider.replies.extend([Halts("Once upon a time"), "It is **fine**."])
    with chat(tmp_path, "Tell me a story.", "--model", "openai/gpt-4o-mini", "--api-base", provider.url) as process:
        wait_for(process.stdout, "Once upon a time")
        process.send_signal(signal.SIGINT)
        wait_for(process.stderr, "Cancelled.")
        printed, _ = process.communicate("Thanks.\n", timeout=PATIENCE)
    assert printed == "\nIt is **fine**.\n"


def test_what_waits_for_a_person_when_the_chat_is_killed_is_decided_in_the_next_one(
    tmp_path: Path, provider: FakeOpenAI
) -> None:
    letters, hosts = tmp_path / "letters", tmp_path / "hosts.json"
    entry = {"command": sys.executable, "args": [str(Path(__file__).with_name("tool_server.py"))]}
    hosts.write_text(
        json.dumps({"mcpServers": {"post": {**entry, "env": {"LETTERS": str(letters)}}}}), encoding="utf-8"
    )
    options = ("--model", "openai/gpt-4o-mini", "--api-base", provider.url, "--servers", str(hosts))
    provider.replies.append(
        Asks([("post_look", {"place": "attic"}), ("post_send", {"to": "Ana"}), ("post_send", {"to": "Bo"})])
    )
    provider.replies.append("Ana gets a letter.")
    with chat(tmp_path, *options) as process:
        assert process.stdin is not None
        process.stdin.write("Look into the attic, write to Ana and Bo.\n")
        process.stdin.flush()
        wait_for(process.stderr, '? post_send {"to": "Ana"}')
        process.kill()
    assert not letters.exists()
    # Only what stands for an answer is one: "abort" allows nothing.
    printed, noted = say(tmp_path, "/runs", "/resume", "abort", "/resume", "Yes", "n He moved.", options=options)
    assert "waits for your decision" in noted
    assert "1 of your runs wait" in noted
    assert "suspended" in printed
    assert "post_send" in printed
    assert "Ana gets a letter." in printed
    assert letters.read_text(encoding="utf-8") == "Ana\n"
    results = [each["content"] for each in provider.requests[-1]["messages"] if each["role"] == "tool"]
    assert "He moved." in results[-1]


async def lines_of(typed: str) -> list[str | None]:
    """What is read of these keys, with one line of history."""
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keyboard = TerminalKeyboard(["/plan", "/quit"], lambda: "status", ["what I said before"])
        keys.send_text(typed)
        return [await keyboard.line("> "), await keyboard.line("> ")]


@pytest.mark.parametrize(
    ("typed", "line"),
    [("\x1b[A\r\x04", "what I said before"), ("half\x03whole\r\x04", "whole"), ("a\r\x04", "a")],
)
def test_a_terminal_brings_lines_back_clears_them_and_ends_at_the_end(typed: str, line: str) -> None:
    assert asyncio.run(lines_of(typed)) == [line, None]


def test_in_a_terminal_whole_paragraphs_are_set_as_markdown_and_code_stays_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    screen = Screen()
    for piece in ("# Ti", "tle\n\nA **bo", "ld** word.\n\n```\nfirst\n\nsecond\n", "```\n\nThe end.\x1b[2J\r\n"):
        screen.say(piece)
    screen.end_answer()
    screen.note("? send \x1b]0;nothing\x07 to Ana")
    shown = capsys.readouterr().out
    assert "\x1b[1mbold\x1b[0m" in shown
    assert "**" not in shown.rpartition("bold")[2]
    assert "The end." in shown
    # No text controls the terminal.
    assert "\x1b[2J" not in shown
    assert "\x1b]" not in shown
    assert "]0;nothing\ufffd to Ana" in shown


def test_tabs_and_line_breaks_of_a_text_are_shown_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().block("first\tor last\r\nthen\x0crest\x85at home")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["first", "or", "last"], ["then"], ["rest"], ["at", "home"]]
