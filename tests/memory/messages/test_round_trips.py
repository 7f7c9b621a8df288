"""What is stored comes back as it was, on both databases."""

import json
import uuid
from collections.abc import AsyncIterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layerlore.memory.text.quotation import make_visible

from ...server.tools.calling import TEXTS, Connect, Json, Tools, examples

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=255)
NUMBERS = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.just(10**100)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)


@pytest.fixture
async def unmasked(connect: Connect) -> AsyncIterator[Tools]:
    """Chance may write a secret: here nothing is masked."""
    async with connect(redaction="off") as tools:
        yield tools


@examples(50)
@given(text=TEXTS.filter(bool), name=NAMES, id_=NAMES, thread=NAMES)
@example(text="\ufeff\u202e\uffff\U0010ffff\x01\x7f\r\n", name="ﬀ", id_="'; --", thread="%_\\")
@example(text="e\u0301 é", name="é", id_="e\u0301", thread="E\u0301")
async def test_every_text_name_and_id_comes_back_as_it_was(
    unmasked: Tools, text: str, name: str, id_: str, thread: str
) -> None:
    thread = f"{uuid.uuid4().hex}{thread}"[:255]
    await unmasked.add(thread, {"role": "user", "content": text, "name": name, "id": id_})
    (message,) = await unmasked.messages(thread)
    assert message["parts"] == [{"type": "text", "text": text}]
    assert (message["name"], message["id"]) == (name, id_)
    assert (await unmasked("list_threads", thread_id=thread))["threads"][0]["thread_id"] == thread
    assert (await unmasked("delete_messages", which="ids", ids=[id_], thread_id=thread))["ids"] == [id_]


@examples(50)
@given(metadata=OBJECTS, arguments=OBJECTS, result=VALUES)
async def test_all_json_comes_back_as_it_was(unmasked: Tools, metadata: Json, arguments: Json, result: object) -> None:
    thread = uuid.uuid4().hex
    parts = [{"type": "tool_call", "id": "c", "name": "f", "arguments": arguments}]
    answer = [{"type": "tool_result", "tool_call_id": "c", "result": result}]
    await unmasked.add(
        thread, {"role": "assistant", "parts": parts, "metadata": metadata}, {"role": "tool", "parts": answer}
    )
    called, answered = await unmasked.messages(thread)
    # As text: 1 and 1.0 and true are equal in Python.
    assert json.dumps(called["parts"]) == json.dumps(parts)
    assert json.dumps(called.get("metadata", {})) == json.dumps(metadata)
    assert json.dumps(answered["parts"]) == json.dumps(answer)


@examples(40)
@given(title=TEXTS.filter(lambda text: text.strip()), metadata=OBJECTS)
async def test_titles_and_metadata_of_threads_come_back_as_they_were(
    unmasked: Tools, title: str, metadata: Json
) -> None:
    thread = uuid.uuid4().hex
    title, metadata = title[:255], {key: value for key, value in metadata.items() if value is not None}
    await unmasked("update_thread", thread_id=thread, title=title, metadata=metadata)
    (row,) = (await unmasked("list_threads", thread_id=thread))["threads"]
    assert row.get("title", "") == make_visible(title.strip())
    assert row.get("metadata", {}).keys() == metadata.keys()
