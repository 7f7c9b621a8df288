"""Stored content of each form, masked: JSON stays JSON, media stay media, and masking again changes nothing."""

import json
import random
import re
import string
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.engine.engine import Engine
from layerlore.memory.removal.stored_redaction import StoredContent
from layerlore.memory.secrets.redaction import Redactor
from layerlore.storage.core.tables.columns import Form
from layerlore.storage.core.transaction import Database

from ..entry_memory import COUNTER, NOW

MARK = re.compile(r"\[masked:github-token:[0-9a-f]{8}\]")


def made_up(seed: int) -> str:
    return "gh" + "p_" + "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=36))


ONE = made_up(1)
SECRETS = st.integers(0, 50).map(made_up)
PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
WORDS = st.one_of(PLAIN, SECRETS, st.builds(lambda a, b, c: f"{a} {b} {c}", PLAIN, SECRETS, PLAIN))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=12,
)
PARTS = st.lists(
    st.one_of(
        st.builds(lambda said: {"type": "text", "text": said}, WORDS),
        st.builds(lambda given: {"type": "tool_call", "id": "c", "name": "f", "arguments": given}, JSON),
        st.builds(lambda given: {"type": "image", "data": given, "mime_type": "image/png"}, WORDS),
    ),
    min_size=1,
    max_size=4,
)
WINDOWS = st.builds(
    lambda name, parts, wish: {
        "limit": 3,
        "predefined": [{"role": "user", **name, "parts": parts}],
        "summary_prompt": wish,
    },
    st.one_of(st.just({}), st.builds(lambda name: {"name": name}, WORDS)),
    PARTS,
    WORDS,
)
STORED: st.SearchStrategy[tuple[Form, Any]] = st.one_of(
    st.tuples(st.just("json"), JSON),
    st.tuples(st.just("parts"), PARTS),
    st.tuples(st.just("body"), st.dictionaries(st.sampled_from(["content", "result", "model"]), JSON, max_size=3)),
    st.tuples(st.just("document"), st.dictionaries(WORDS, JSON, min_size=1, max_size=3)),
    st.tuples(st.just("window"), WINDOWS),
)
COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def test_masking_json_twice_is_masking_it_once_and_what_has_no_secret_is_the_same() -> None:
    content = StoredContent(engine_without_database())

    @given(STORED)
    def holds(stored: tuple[Form, Any]) -> None:
        form, value = stored
        written = COMPACT(value)
        clean, count = content.mask(form, written)
        assert (clean == written) == (count == 0)
        assert content.mask(form, clean) == (clean, 0)
        assert type(json.loads(clean)) is type(value)
        assert not re.search(r"gh[p]_\w{36}", without_media(clean))

    holds()


def without_media(stored: str) -> str:
    return re.sub(r'"type":"image","data":"(\\.|[^"\\])*"', "", stored)


def engine_without_database() -> Engine:
    return Engine(
        database=cast("Database", None),
        tokens=COUNTER,
        redactor=Redactor(b"k" * 32),
        hmac_key=b"k" * 32,
        limits=cast("Any", None),
        redaction="off",
        deleted_days=30,
        now=lambda: NOW,
        new_id=str,
    )


def test_media_and_documents_that_only_look_like_json_stay_as_they_are() -> None:
    content = StoredContent(engine_without_database())
    image = COMPACT([{"type": "image", "data": ONE, "mime_type": "image/png"}])
    assert content.mask("parts", image) == (image, 0)
    loose = f'{{ "a": "{ONE}" }}'
    assert MARK.sub("*", content.mask("document", loose)[0]) == '{ "a": "*" }'
    assert content.mask("document", "{ {{ template }}") == ("{ {{ template }}", 0)
    assert content.mask("window", '"quick"') == ('"quick"', 0)


def test_json_that_lies_deeper_than_what_may_be_sent_is_masked_too() -> None:
    content = StoredContent(engine_without_database())
    value: Any = {"token": ONE}
    for _ in range(50):
        value = {"a": [value, "plain"]}
    clean, count = content.mask("json", COMPACT(value))
    assert count == 1
    assert ONE not in clean
    assert content.mask("json", clean) == (clean, 0)
