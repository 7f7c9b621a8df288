"""What a line of the journal takes from an answer: numbers under names of ours, and nothing else."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.engine.journal_lines import _COUNTED, count_written, make_line, resource_mark
from layerlore.storage.core.records import Origin, Scope

CANARY = "quokka"
KEY = b"k" * 32

_said = st.text(max_size=5).map(lambda text: text + CANARY)
_values: st.SearchStrategy[Any] = st.recursive(
    _said | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_said, inner, max_size=3),
    max_leaves=8,
)
_answers = st.dictionaries(_said | st.sampled_from((*_COUNTED, "first", "last", "totals", "ids")), _values, max_size=8)


@given(_answers)
def test_no_word_of_an_answer_is_in_its_counts(answer: dict[str, Any]) -> None:
    counts = count_written(answer)
    assert CANARY not in json.dumps(counts)
    assert counts.keys() <= {*_COUNTED, "steps"}
    assert all(type(number) is int for number in counts.values())


def test_lists_are_counted_and_numbers_are_taken_as_they_are() -> None:
    added = {"thread_id": "t", "messages": [{"id": "a"}, {"id": "b"}], "masked": 3, "totals": {"messages": 9}}
    assert count_written(added) == {"messages": 2, "masked": 3}
    assert count_written({"deleted": 4, "ids": ["a"] * 4, "deletion": "d"}) == {"deleted": 4}
    assert count_written({"first": 5, "last": 7, "events": 0}) == {"steps": 3}
    assert count_written({"id": "e", "status": "kept", "version": 7, "revision": 3}) == {}


def test_a_mark_is_the_same_for_the_same_resource_and_installation_alone() -> None:
    mark = resource_mark(KEY, "ana")
    assert len(mark) == 32
    assert mark == resource_mark(KEY, "ana")
    assert len({mark, resource_mark(KEY, "ben"), resource_mark(b"l" * 32, "ana")}) == 3
    assert resource_mark(KEY, "\ud800") != mark  # half of a pair, which a refused call may have named


def test_a_job_is_named_by_its_kind_and_a_tool_by_its_name() -> None:
    scope = Scope("local", "agent", "ana")
    job = make_line(KEY, scope, Origin("observe", "", "job:observe"), "done", 7)
    assert (job.principal, job.client, job.tool) == ("job:observe", "observe", "observe")
    call = make_line(KEY, scope, Origin("claude 1.0", "remember", "key:k"), "failed", 7, error="Conflict")
    assert (call.principal, call.client, call.tool, call.reason) == ("key:k", "claude 1.0", "remember", "Conflict")
    assert "ana" not in repr(call)


def test_whose_token_names_the_resource_itself_is_told_by_its_mark() -> None:
    scope = Scope("acme", "agent", "ana@example.com")
    own = make_line(KEY, scope, Origin("claude", "remember", "jwt:ana@example.com@sso.example.com"), "done", 7)
    assert own.principal == f"jwt:{resource_mark(KEY, 'ana@example.com')}@sso.example.com"
    other = make_line(KEY, scope, Origin("claude", "remember", "jwt:service@sso.example.com"), "done", 7)
    assert other.principal == "jwt:service@sso.example.com"
