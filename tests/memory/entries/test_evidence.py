"""Evidence is found word for word, whatever a model does to quotation marks, case and white space, and nowhere else."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.entries.evidence import EvidenceSpan, EvidenceText, Label, find_places
from layerlore.storage.core.records import Role

SAID = [
    EvidenceText(1, 1, "user", "The “active” subscription is on record A — not on B."),
    EvidenceText(2, 3, "assistant", "Entitlement checks are reading record B."),
    EvidenceText(3, 1, "user", "Yes,\n  exactly: record A."),
]


def find_first(evidence: str, label: Label, said: list[EvidenceText]) -> EvidenceSpan | None:
    return next((span for _, span in find_places(evidence, label, said)), None)


def quoted(evidence: str, label: Label = "caller", said: list[EvidenceText] = SAID) -> str | None:
    """What is quoted, as it stands in the message."""
    span = find_first(evidence, label, said)
    if span is None:
        return None
    message = next(message for message in said if message.seq == span.seq)
    assert (span.revision, span.role) == (message.revision, message.role)
    return message.text[span.starts : span.ends]


@pytest.mark.parametrize(
    ("evidence", "verbatim"),
    [
        ('The "active" subscription', "The “active” subscription"),
        ("the ‘ACTIVE’ subscription is on record a - not", "The “active” subscription is on record A — not"),
        ('"Yes, exactly: record A."', "Yes,\n  exactly: record A."),
        ("  yes,\texactly ", "Yes,\n  exactly"),
        ("record\u200b A.", "record A."),
    ],
)
def test_case_quotes_dashes_and_white_space_may_differ_and_what_is_said_counts(evidence: str, verbatim: str) -> None:
    assert quoted(evidence) == verbatim


@pytest.mark.parametrize(
    "evidence",
    ["", "  ", '""', "...", "record C", "B. Entitlement checks", "subscription on record A", "The active subscription"],
)
def test_what_nobody_said_so_is_no_evidence(evidence: str) -> None:
    assert quoted(evidence) is None


@pytest.mark.parametrize(
    ("label", "roles"),
    [
        ("user_assertion", {"user"}),
        ("user_accepted_assistant_proposal", {"user"}),
        ("verified_assistant_finding", {"user", "assistant"}),
        ("caller", {"user", "assistant"}),
    ],
)
def test_a_label_allows_the_words_of_its_roles_only(label: Label, roles: set[Role]) -> None:
    every: tuple[Role, ...] = ("system", "user", "assistant", "tool")
    found = {role for role in every if find_first("said so", label, [EvidenceText(1, 1, role, "I said so.")])}
    assert found == roles


def test_of_several_messages_the_newest_counts_and_the_assistants_before_the_users() -> None:
    said = [
        EvidenceText(seq, 1, role, "the port is 80")
        for seq, role in enumerate(("user", "assistant", "user", "user"), 1)
    ]  # type: ignore[arg-type]
    newest, finding = (
        find_first("port is 80", "user_assertion", said),
        find_first("port is 80", "verified_assistant_finding", said),
    )
    assert newest
    assert newest.seq == 4
    assert finding
    assert finding.seq == 2


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)
def test_any_words_of_a_text_are_found_in_it(before: str, span: str, after: str) -> None:
    text = f"{before} {span} {after}"
    found = quoted(span, said=[EvidenceText(1, 1, "user", text)])
    if found is None:
        assert sum(character.isalnum() for character in unicodedata.normalize("NFD", span.casefold())) < 2
    else:
        assert found in text


def test_a_part_of_a_word_or_a_single_letter_is_no_evidence() -> None:
    said = [EvidenceText(1, 1, "user", "Nothing works in the café, says Ali; it is not his. 我喜欢咖啡")]
    span = find_first("not", "user_assertion", said)
    assert span is not None
    assert said[0].text[span.starts - 3 : span.ends] == "is not"
    assert find_first("i", "user_assertion", said) is None
    assert find_first("othing works", "user_assertion", said) is None
    assert find_first("the cafe", "user_assertion", said) is None
    assert find_first("it is not", "user_assertion", said) is not None
    assert find_first("喜欢", "user_assertion", said) is not None
