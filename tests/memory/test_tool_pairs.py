"""Calls and results go together."""

from hypothesis import given
from hypothesis import strategies as st

from memstrata.memory.parts import text_part, tool_call_part, tool_result_part
from memstrata.memory.tool_pairs import call_ids, result_ids, without_calls_and_results

ids = st.sampled_from("abcd")
some_parts = st.lists(
    st.builds(text_part, ids)
    | st.builds(lambda i: tool_call_part(i, "look", {}), ids)
    | st.builds(lambda i: tool_result_part(i, "look", "seen"), ids)
)


def test_calls_and_results_are_named_by_the_id_of_the_call():
    parts = [text_part("a"), tool_call_part("b", "look", {}), tool_result_part("c", None, None)]
    assert call_ids(parts) == {"b"}
    assert result_ids(parts) == {"c"}


@given(some_parts, st.sets(ids))
def test_both_halves_of_a_dropped_call_go_and_everything_else_stays_in_order(parts, dropped):
    left = without_calls_and_results(parts, dropped)
    assert call_ids(left) == call_ids(parts) - dropped
    assert result_ids(left) == result_ids(parts) - dropped
    assert [part for part in left if part["type"] == "text"] == [part for part in parts if part["type"] == "text"]
    kept = [part for part in parts if part.get("id", part.get("tool_call_id")) not in dropped]
    assert left == kept


def test_a_text_that_reads_like_an_id_is_not_dropped():
    assert without_calls_and_results([text_part("a")], ["a"]) == [text_part("a")]
