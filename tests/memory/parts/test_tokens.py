"""Counting tokens: exact, cut to measure, never downloaded."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiktoken
from hypothesis import example, given, settings
from hypothesis import strategies as st

from layerlore.memory.parts import tokens as encoding
from layerlore.memory.parts.tokens import (
    ESTIMATE,
    PER_IMAGE,
    PER_MESSAGE,
    Encoding,
    TokenCounter,
    load_counter,
    load_encoding,
    shipped_encodings,
)

COUNTER = load_counter()
ROUGH = TokenCounter(None)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))

# Loads in a process where nothing reaches the network and the user's cache is empty.
ALONE = """
import socket, sys

def refuse(*args, **kwargs):
    raise SystemExit("the network was asked for")

socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from layerlore.memory.parts.tokens import load_counter
import os
before = os.environ.get("TIKTOKEN_CACHE_DIR")
print(load_counter().name)
assert os.environ.get("TIKTOKEN_CACHE_DIR") == before
"""


def test_the_encoding_is_the_one_that_is_named() -> None:
    assert COUNTER.name == "o200k_base"
    assert COUNTER.text("hello world") == 2
    assert COUNTER.text("") == 0


@pytest.fixture(scope="module")
def published() -> Iterator[tiktoken.Encoding]:
    """The same encoding, as tiktoken reads it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(shipped_encodings()))
        yield tiktoken.get_encoding(encoding.NAME)


@pytest.fixture(scope="module")
def fresh() -> Callable[[], Encoding]:
    """Makes encodings that have encoded nothing yet."""
    folder = shipped_encodings()
    assert folder is not None
    vocabulary = load_encoding(folder)._vocabulary
    coder = Encoding(vocabulary).complete()

    class Fresh(Encoding):
        def complete(self) -> tiktoken.Encoding:
            self._made = coder  # what takes time is made once
            return coder

    return lambda: Fresh(vocabulary)


@given(text=st.text(max_size=300))
@example(text="Zaphodine's internationalisation, 12345 €  \n\n 東京に住んでいます 😱 ਪੰਜਾਬੀ\u200d \ud800 x")
@example(text=" " * 200 + "\t" * 90)
@example(text="<|endoftext|>")
def test_the_first_texts_have_the_very_tokens_that_tiktoken_gives_them(
    published: tiktoken.Encoding, fresh: Callable[[], Encoding], text: str
) -> None:
    encoding = fresh()
    assert encoding.encode(text) == published.encode_ordinary(text)
    assert encoding.count(text) == len(published.encode_ordinary(text))


# Texts as people and programs write them: they need no coder of tiktoken's, which takes 60 MB.
ORDINARY = st.text(
    st.one_of(
        st.characters(min_codepoint=32, max_codepoint=126),
        st.sampled_from(
            "äöüßéñøçÅœπΩЖщёאבגمرحباนี้ไทยनमस्ते東京のカタカナ서울’“”—–…•€™→≤─✓😀🎉👩\u200d👧\ufe0f\u00a0\n\r\t"
        ),
    ),
    max_size=200,
)


@settings(max_examples=500)
@given(text=ORDINARY)
@example(text="I'LL say we're SURE'S  \x0b\x0c\x1c\x1f \r\n\r\n/ // don'T it's 12345678 ABCdef")
@example(text="ÄÖÜabc'S ß’s \u00a0 \u3000x")
@example(text="a" * 350 + "=" * 300 + " " * 390)
def test_ordinary_texts_are_encoded_exactly_without_tiktoken(
    published: tiktoken.Encoding, fresh: Callable[[], Encoding], text: str
) -> None:
    encoding = fresh()
    tokens = encoding.encode(text)
    assert tokens == published.encode_ordinary(text)
    assert encoding.decode(tokens) == published.decode(tokens, errors="ignore")
    assert encoding._made is None


def test_every_letter_that_is_settled_is_cut_as_tiktoken_cuts_it(
    published: tiktoken.Encoding, fresh: Callable[[], Encoding]
) -> None:
    counting = fresh()
    counting._pieces._left = 1 << 30
    for letter in filter(encoding._SETTLED.fullmatch, map(chr, range(0x110000))):
        text = f"a{letter}b {letter} A{letter}1{letter}{letter} x\n{letter}'s"
        assert counting.count(text) == len(published.encode_ordinary(text)), hex(ord(letter))
    assert counting._made is None


def test_later_and_long_texts_have_them_too(published: tiktoken.Encoding, fresh: Callable[[], Encoding]) -> None:
    texts = ["short", "long " * 1000, *(f"one of many, {number}: {'ü' * number}" for number in range(100))]
    counting = fresh()
    assert [counting.encode(text) for text in texts] == [published.encode_ordinary(text) for text in texts]


def test_a_file_that_is_not_the_published_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / encoding.FILE).write_bytes(b"IQ== 0\nIg== 1\n")
    with pytest.raises(ValueError, match="not the published encoding"):
        load_encoding(tmp_path)


def test_the_names_of_special_tokens_are_text_like_any_other() -> None:
    assert COUNTER.text("<|endoftext|>") > 1


def test_without_an_encoding_four_characters_are_one_token_and_the_name_says_estimate() -> None:
    assert ROUGH.name == ESTIMATE
    assert [ROUGH.text("x" * length) for length in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize("counter", [COUNTER, ROUGH], ids=["exact", "estimate"])
@given(text=TEXTS, most=st.integers(0, 40))
@example(text="🜁🜂🜃" * 20, most=10)
@example(text="a" * 5000, most=3)
@example(text="\ufffd" * 20, most=7)
@example(text="naïve  \n\n  can't   ", most=4)
def test_a_cut_text_is_a_beginning_within_its_budget(counter: TokenCounter, text: str, most: int) -> None:
    cut = counter.cut(text, most)
    assert text.startswith(cut)
    assert counter.text(cut) <= most
    if counter.text(text) <= most and len(text) <= most * 4:
        assert cut == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("The order is 4411-778812 of May.", "The order is"),
        ("Write to ana.huber@example.org today.", "Write to"),
        ("注文番号は四四一一です。", "注文"),
        ("Donaudampfschifffahrt", "Donau"),
    ],
)
def test_a_text_is_cut_between_words_where_it_can_be(text: str, kept: str) -> None:
    counter = load_counter()
    cuts = {counter.cut_words(text, most) for most in range(2, counter.text(text))}
    assert all(text.startswith(cut) for cut in cuts)
    assert any(cut.startswith(kept) for cut in cuts)
    assert not any(cut.endswith(("4411", "778", "ana", "ana.huber", "example")) for cut in cuts)
    assert counter.cut_words(text, 0) == ""
    assert counter.cut_words(text, 100) == text


def test_a_cut_uses_its_budget() -> None:
    words = "word " * 1000
    assert COUNTER.text(COUNTER.cut(words, 100)) == 100
    assert COUNTER.text(COUNTER.cut("🜁" * 1000, 100)) > 95


def test_a_message_costs_its_texts_each_image_and_its_frame() -> None:
    call = {"type": "tool_call", "id": "a long id that costs nothing", "name": "look", "arguments": {"at": "sky"}}
    result = {"type": "tool_result", "tool_call_id": "c", "result": "blue"}
    image = {"type": "image", "data": "aGk=" * 1000, "mime_type": "image/png"}
    assert COUNTER.parts([{"type": "text", "text": "hello world"}]) == PER_MESSAGE + 2
    assert COUNTER.parts([image, image]) == PER_MESSAGE + 2 * PER_IMAGE
    caption = COUNTER.text("[image: a red bicycle]")
    assert COUNTER.parts([{**image, "caption": "a red bicycle"}]) == PER_MESSAGE + PER_IMAGE + caption
    assert COUNTER.parts([{"type": "image", "caption": "a red bicycle"}]) == PER_MESSAGE + caption
    assert COUNTER.parts([call]) == PER_MESSAGE + COUNTER.text("look") + COUNTER.text('{"at":"sky"}')
    assert COUNTER.parts([result]) == PER_MESSAGE + COUNTER.text("blue")


@pytest.mark.parametrize("cache", ["unset", "empty"])
def test_the_encoding_is_never_downloaded_whatever_the_users_cache_has(tmp_path: Path, cache: str) -> None:
    env = {name: value for name, value in os.environ.items() if name != "TIKTOKEN_CACHE_DIR"}
    if cache == "empty":
        env["TIKTOKEN_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", ALONE], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("o200k_base\n", 0), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_file_lies_where_litellm_ships_it_and_litellm_is_not_imported() -> None:
    folder = shipped_encodings()
    assert folder is not None
    assert folder.parts[-3:] == ("litellm", "litellm_core_utils", "tokenizers")
    code = "import sys, layerlore.memory.parts.tokens as t; t.load_counter(); print('litellm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "False\n", done.stderr


@given(lines=st.lists(st.text(max_size=30) | st.text("ab.,/ \t\n\r\u2028\x0b'#[1", max_size=8), min_size=1, max_size=6))
@example(lines=["ends in signs.", "/begins with a slash"])
@example(lines=["ends in spaces  ", "  begins with them", "", " ", "\n", "last"])
def test_lines_have_together_the_tokens_of_their_text(lines: list[str]) -> None:
    for counter in (COUNTER, ROUGH):
        text = "\n".join(lines)
        assert counter.lines(lines) == counter.block(text) == counter.text(text)
