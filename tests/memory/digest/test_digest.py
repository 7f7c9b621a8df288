"""What is noted of a conversation without a model."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layerlore.memory.digest.digest import (
    MOST_A_MESSAGE,
    MOST_OF_A_PERSON,
    DigestNote,
    digest,
    note_messages,
    rank_notes,
    render_notes,
    take_notes,
)
from layerlore.memory.language.sentences import LONGEST, shorten, split_sentences
from layerlore.memory.language.word_lists import texts
from layerlore.memory.parts.parts import text_part, tool_call_part, tool_result_part
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.text.quotation import wrap_block
from layerlore.storage.core.records import ROLES, Json, Message, Role

COUNTER = TokenCounter(None)


def message(seq: int, role: Role, *parts: str | Json) -> Message:
    read = [text_part(part) if isinstance(part, str) else part for part in parts]
    return Message("t", seq, f"m{seq}", role, None, read, {}, 10, "", 0, seq * 1000, 1)


def said(*texts: str, role: Role = "user") -> list[DigestNote]:
    return take_notes([message(seq, role, text) for seq, text in enumerate(texts, 1)])


def called(tool: str, result: Any, *, is_error: bool = False, **arguments: Any) -> list[DigestNote]:
    call, answer = tool_call_part("c1", tool, arguments), tool_result_part("c1", None, result, is_error=is_error)
    return take_notes([message(1, "assistant", call), message(2, "tool", answer)])


def attempt(seq: int, call_id: str, name: str, result: str, is_error: bool) -> list[Message]:
    return [
        message(seq, "assistant", tool_call_part(call_id, name, {"id": "wf-1"})),
        message(seq + 1, "tool", tool_result_part(call_id, None, result, is_error=is_error)),
    ]


def marked(notes: list[DigestNote]) -> list[tuple[str, str]]:
    return [(note.marker, note.text) for note in notes]


# What is noted, and as what


@pytest.mark.parametrize(
    "text",
    [
        "Never push to the main branch.",
        "Don't touch the billing tables!",
        "Please always answer in French.",
        "Invoices must be signed by Ana.",
        "Remember that I am allergic to peanuts.",
        "Passwörter dürfen niemals im Log stehen.",
        "Nunca borres la tabla de clientes.",
        "Il ne faut jamais supprimer les sauvegardes.",
        "Non cancellare mai i backup: non usare la produzione.",
        "Nunca envie o relatório ao cliente.",
        "Gebruik nooit de productiedatabase.",
        "Nigdy nie usuwaj kopii zapasowych.",
        "Никогда не удаляй резервные копии.",
        "Üretim veritabanını asla silme.",
        "不要删除生产数据库。",
    ],
)
def test_what_a_person_forbids_or_always_wants_is_critical(text: str) -> None:
    assert marked(said(text)) == [("critical", text)]


@pytest.mark.parametrize(
    "text",
    [
        "I have never been to that part of Norway.",
        "They make us happy and always will make us laugh.",
        "You must have loved the concert in Rome.",
        "Don't worry about the broken window.",
        "Must I always sign the invoices?",
    ],
)
def test_the_words_of_a_rule_that_rules_nothing_are_not_critical(text: str) -> None:
    assert "critical" not in {note.marker for note in said(text)}


def test_an_agent_forbids_nothing() -> None:
    (note,) = said("Never store passwords in plain text on server db-7.", role="assistant")
    assert note.marker == "info"


@pytest.mark.parametrize(
    "text",
    [
        "Can you rename the report?",
        "Build a workflow that posts to Slack.",
        "Kannst du den Bericht umbenennen?",
        "Wir haben entschieden, den Bericht umzubenennen.",
        "We decided to use Postgres.",
        "The login fails with ECONNREFUSED.",
        "Hast du den Bericht gefunden?",
    ],
)
def test_what_is_asked_decided_or_wrong_is_important(text: str) -> None:
    assert marked(said(text)) == [("important", text)]


def test_what_a_person_says_is_done_is_a_completion_and_what_is_not_yet_done_is_none() -> None:
    assert marked(said("The release 2.1 is deployed.")) == [("completion", "The release 2.1 is deployed.")]
    for text in (
        "The release 2.1 is not deployed.",
        "Tell me once release 2.1 is deployed.",
        "Is release 2.1 deployed?",
    ):
        assert "completion" not in {note.marker for note in said(text)}


def test_what_a_person_tells_of_himself_is_noted_and_outweighs_what_others_are_like() -> None:
    mine, theirs = said(
        "I live in a small village near Bergen.", "The village near Bergen seemed small, wooden, empty."
    )
    assert (mine.marker, theirs.marker) == ("important", "info")
    assert mine.weight > theirs.weight


@pytest.mark.parametrize(
    "text",
    [
        "Thanks!",
        "Hi there, good morning!",
        "ok",
        "Great, thank you so much!",
        "Danke dir!",
        "¡Muchas gracias!",
        "谢谢！",
        "👍",
    ],
)
def test_thanks_and_greetings_leave_no_note(text: str) -> None:
    assert said(text) == []
    assert said(text, role="assistant") == []


def test_only_the_telling_sentence_of_a_message_is_noted() -> None:
    assert [note.text for note in said("Hello! Please book flight LH 454 for Monday. Thanks a lot!")] == [
        "Please book flight LH 454 for Monday."
    ]


def test_of_a_message_the_weightiest_sentences_are_noted_in_their_order() -> None:
    rules = [f"Never touch server number {n}." for n in range(MOST_OF_A_PERSON + 2)]
    text = " ".join(["The weather in Oslo was fine.", *rules])
    assert [note.text for note in said(text)] == rules[:MOST_OF_A_PERSON]
    decisions = " ".join(f"We decided to use server number {n}." for n in range(7))
    assert len(said(decisions, role="assistant")) == MOST_A_MESSAGE < MOST_OF_A_PERSON


def test_people_who_talk_to_each_other_are_noted_as_briefly_as_an_agent() -> None:
    text = " ".join(f"I moved to house number {n} in Oslo." for n in range(7))
    notes = take_notes([replace(message(seq, "user", text), name=name) for seq, name in enumerate(("Ann", "Bo"), 1)])
    assert [note.seq for note in notes] == [1] * MOST_A_MESSAGE + [2] * MOST_A_MESSAGE


def test_the_first_request_outweighs_what_is_asked_besides() -> None:
    first, second = take_notes(
        [
            message(1, "user", "Can you rename the report? Can you delete the folder?"),
            message(2, "assistant", "Which one?"),
        ]
    )[:2]
    assert first.weight > second.weight


@pytest.mark.parametrize("text", ["Which painting did Ingrid finish?", "Never give up on painting, Ingrid!"])
def test_what_people_ask_and_tell_each_other_weighs_less_than_what_they_say_to_an_agent(text: str) -> None:
    between = [replace(message(seq, "user", text), name=name) for seq, name in enumerate(("Ann", "Bo"), 1)]
    among_people = take_notes(between)[0]
    to_an_agent = take_notes([*between, message(3, "assistant", "ok")])[0]
    assert among_people.weight < to_an_agent.weight
    assert among_people.marker != "critical"


def test_a_sentence_with_values_outweighs_the_same_without() -> None:
    with_them, without = said("Our order A-2291 comes in spring.", "Our order comes in spring.")
    assert with_them.weight > without.weight


def test_notes_carry_seq_role_and_time_of_their_message() -> None:
    (note,) = said("Never push to main.")
    assert (note.seq, note.role, note.said_at) == (1, "user", 1000)


def test_blocks_that_we_put_in_are_not_noted() -> None:
    injected = wrap_block("memory", "Never push to the main branch.")
    assert [note.text for note in said(f"{injected}\nPlease book flight LH 454.")] == ["Please book flight LH 454."]


def test_a_files_name_is_noted() -> None:
    notes = take_notes([message(1, "user", {"type": "file", "file_name": "report 2024.pdf"})])
    assert marked(notes) == [("info", "file: report 2024.pdf")]


def test_reasoning_is_not_noted() -> None:
    assert take_notes([message(1, "assistant", {"type": "reasoning", "text": "Never push to main 2."})]) == []


# Tool calls


def test_a_call_and_its_result_are_one_note() -> None:
    (note,) = called("get_weather", "21 degrees, sunny", city="Oslo", days=3)
    assert (note.marker, note.seq) == ("info", 1)
    assert note.text == "get_weather(city=Oslo, days=3) -> ok: 21 degrees, sunny"


def test_a_call_that_changes_something_is_a_completion_with_what_came_of_it() -> None:
    (note,) = called("build_workflow", '{"nodes": 3, "id": "wf-123", "status": "created"}', name="Sales")
    assert marked([note]) == [("completion", "build_workflow(name=Sales) -> ok: status=created, id=wf-123, nodes=3")]


@pytest.mark.parametrize(
    ("result", "is_error", "told"),
    [
        ("401 Unauthorized", True, "401 Unauthorized"),
        ("Error: 401 on node HTTP\n  at request (http.js:12)", False, "401 on node HTTP"),
        ('Traceback (most recent call last):\n  File "a.py"\nValueError: no zone', False, "ValueError: no zone"),
        ({"error": {"code": 42, "message": "no such table"}}, False, "message=no such table, code=42"),
        ({"error": "no such table", "code": 42}, False, "no such table, code=42"),
        ({"success": False, "message": "quota"}, False, "message=quota, success=false"),
        ({"status": 500, "body": "oops"}, False, "status=500, body=oops"),
        ("collected 5 items\n2 failed, 3 passed in 0.1s", False, "2 failed, 3 passed in 0.1s"),
        ([text_part("fatal: not a repository")], False, "fatal: not a repository"),
    ],
)
def test_a_failed_call_is_critical_and_says_the_line_that_names_the_error(
    result: Any, is_error: bool, told: str
) -> None:
    (note,) = called("execute", result, is_error=is_error, id=7)
    assert marked([note]) == [("critical", f"execute(id=7) -> error: {told}")]


@pytest.mark.parametrize(
    "result",
    ["0 failed, 12 passed", "errors: 0", {"error": None, "id": 4}, {"exit_code": 0}, "", None, [], 12, True, {}],
)
def test_a_result_that_only_speaks_of_errors_is_none(result: Any) -> None:
    (note,) = called("execute", result)
    assert "-> ok" in note.text


def test_an_error_is_found_however_deep_it_lies_in_a_result_and_its_code_comes_with_it() -> None:
    inner = {"description": "word " * 90, "code": "ECONNREFUSED", "message": "no answer", "context": {"item": 3}}
    result = {
        "id": "ex-77",
        "status": "error",
        "startedAt": "2025-03-04T10:00:00Z",
        "data": {"result": {"error": inner}},
    }
    (note,) = called("get_execution", result)
    assert note.text.startswith("get_execution() -> error: message=no answer, code=ECONNREFUSED, description=word")
    assert note.text.endswith("status=error, id=ex-77")


def test_a_result_does_not_say_again_which_ids_it_was_asked_with() -> None:
    (note,) = called("run", {"status": "ok", "flow": "wf-2291", "run": 58_101, "days": 3}, id="wf-2291", days=3)
    assert note.text == "run(id=wf-2291, days=3) -> ok: status=ok, run=58101, days=3"


def test_of_a_long_result_ids_urls_and_numbers_are_told_before_words_and_times() -> None:
    address = f"https://flows.example.com/{'a' * 40}/7f3e9c"
    result = {
        "createdAt": "2025-03-04T10:00:00.000Z",
        "archived": False,
        "mood": "calm",
        "rows": 9182,
        "webhookUrl": address,
    }
    (note,) = called("look", result)
    assert note.text == f"look() -> ok: webhookUrl={address}, rows=9182, mood=calm"


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=150) | st.integers() | st.booleans(), max_size=8))
def test_what_came_of_a_call_is_told_in_whole_values(result: dict[str, Any]) -> None:
    (note,) = called("look", {**result, "id": "a-1"})
    assert "id=a-1" in note.text
    assert len(note.text) <= LONGEST


def test_a_failure_that_the_same_tool_made_good_is_no_longer_critical() -> None:
    failed = attempt(1, "a", "run", "401", True)
    assert [note.marker for note in take_notes([*failed, *attempt(3, "b", "look", "fine", False)])] == [
        "critical",
        "info",
    ]
    assert [note.marker for note in take_notes([*failed, *attempt(3, "b", "run", "fine", False)])] == [
        "important",
        "completion",
    ]


def test_results_belong_to_the_latest_call_of_their_id() -> None:
    notes = take_notes(
        [
            message(1, "assistant", tool_call_part("1", "first", {})),
            message(2, "tool", tool_result_part("1", None, "one")),
            message(3, "assistant", tool_call_part("1", "second", {})),
            message(4, "tool", tool_result_part("1", None, "two")),
        ]
    )
    assert [note.text for note in notes] == ["first() -> ok: one", "second() -> ok: two"]


def test_a_half_of_a_call_is_noted_as_what_it_is() -> None:
    open_call = message(5, "assistant", tool_call_part("1", "search", {"query": "tea"}))
    late_result = message(4, "tool", tool_result_part("0", "search", "3 pages"))
    assert [note.text for note in take_notes([late_result, open_call])] == [
        "search(…) -> ok: 3 pages",
        "search(query=tea) -> no result",
    ]


def test_long_and_encoded_arguments_do_not_fill_a_note() -> None:
    (note,) = called("upload", "done", image="QUJD" * 100, path="/tmp/a.png", text="word " * 500, raw={"deep": [1]})
    assert "QUJD" not in note.text
    assert "path=/tmp/a.png" in note.text
    assert note.text.endswith("-> ok: done")
    assert len(note.text) <= LONGEST


def test_an_agents_word_that_it_is_done_counts_only_with_a_result_to_show() -> None:
    claim = "Done: workflow wf-123 is fixed."
    ask = message(1, "user", "Fix workflow wf-123.")
    call = message(2, "assistant", tool_call_part("1", "fix_workflow", {"id": "wf-123"}))

    def marker_of_claim(*between: Message) -> str:
        return take_notes([ask, *between, message(9, "assistant", claim)])[-1].marker

    fine = message(3, "tool", tool_result_part("1", None, "ok"))
    broken = message(3, "tool", tool_result_part("1", None, "401", is_error=True))
    assert marker_of_claim(call, fine) == "completion"
    assert marker_of_claim() != "completion"
    assert marker_of_claim(call, broken) != "completion"


def test_what_an_agent_says_before_it_calls_a_tool_is_not_noted() -> None:
    call = tool_call_part("1", "search", {"query": "tea"})
    notes = take_notes([message(1, "assistant", "Let me search for green tea in shop 12.", call)])
    assert [note.text for note in notes] == ["search(query=tea) -> no result"]


# Sentences


def test_sentences_end_where_they_end() -> None:
    assert split_sentences("It costs 3.50 e.g. here. Dr. Ruiz pays on the 3. May. Fine? 好。是的！ Yes") == [
        "It costs 3.50 e.g. here.",
        "Dr. Ruiz pays on the 3. May.",
        "Fine?",
        "好。",
        "是的！",
        "Yes",
    ]


def test_signs_of_lists_headings_and_bold_type_are_left_out_and_code_but_for_its_errors() -> None:
    text = "## Plan\n- **First**: use `*.py`\n2. next\n```\nimport x\nValueError: no x\n```\n> quoted"
    assert split_sentences(text) == ["Plan", "First: use `*.py`", "next", "ValueError: no x", "quoted"]


def test_a_line_that_begins_with_a_number_keeps_the_days_and_signs_within_it() -> None:
    for line in (
        "258,37 Euro bis zum 15. Dezember 2026.",
        "15. Dezember 2026: Zahnarzt",
        "42 - 7 = 35",
        '"Haus am See" - 2 Zimmer',
    ):
        assert split_sentences(line) == [line]
        assert split_sentences(line, loosely=True) == [line]


def test_the_day_of_a_month_ends_no_sentence() -> None:
    assert split_sentences("Kickoff 3. Mai, Ende 30. Juni. Danach Urlaub in Raum 3. Bitte melden.") == [
        "Kickoff 3. Mai, Ende 30. Juni.",
        "Danach Urlaub in Raum 3.",
        "Bitte melden.",
    ]


def test_a_long_sentence_is_cut_to_where_its_values_are_and_says_so() -> None:
    filler = "and so the story went on and on without anything in it " * 8
    text = f"{filler}until order A-2291 at https://example.com/x?y=1 cost $300 on 2024-03-15 {filler}"
    cut = shorten(text)
    assert all(value in cut for value in ("A-2291", "https://example.com/x?y=1", "$300", "2024-03-15"))
    assert cut.startswith("… ")
    assert cut.endswith(" …")
    assert len(cut) <= LONGEST


def test_a_long_sentence_without_values_keeps_its_beginning() -> None:
    assert shorten("It began " + "and went on " * 40).startswith("It began and went on")


@given(st.text(max_size=600), st.integers(40, LONGEST))
def test_shortened_text_fits_and_its_words_are_whole_unless_they_are_too_long(text: str, most: int) -> None:
    line = " ".join(text.split())
    cut = shorten(line, most)
    assert len(cut) <= most
    if all(len(word) < most // 4 for word in line.split()) and not any(ord(letter) > 0xDFF for letter in line):
        assert set(cut.split()) - {"…"} <= set(line.split())


def test_text_without_spaces_is_cut_within_no_character() -> None:
    cut = shorten("กำ" * 300)
    assert 200 < len(cut) <= LONGEST
    assert cut.removesuffix(" …").endswith("กำ")


def test_a_huge_text_is_read_at_both_ends_only() -> None:
    notes = said("Never push to main.\n" + "line of log\n" * 200_000 + "The import failed at row 99.")
    assert [note.text for note in notes] == ["Never push to main.", "The import failed at row 99."]


def test_every_language_of_the_stop_words_has_its_words() -> None:
    for kind in ("rule", "ask", "decision", "error", "done"):
        assert texts(f"phrases.{kind}").keys() == texts("search.stop_words").keys()


# The digest


def test_the_weightiest_notes_that_fit_are_kept_in_their_order() -> None:
    notes = said(
        "We saw a quiet film in Oslo.",
        "Never push to main 1.",
        "Our hotel in Oslo seemed quiet.",
        "We decided to use Postgres.",
    )
    kept = digest(notes, COUNTER, 24)
    assert [note.seq for note in kept] == [2, 4]
    assert render_notes(kept) == "- #2 user: Never push to main 1.\n- #4 user: We decided to use Postgres."


def test_what_was_said_again_is_kept_once_as_it_was_said_last() -> None:
    notes = said("Never push to main!", "We decided to use Postgres.", "never push to MAIN")
    assert [note.seq for note in digest(notes, COUNTER, 1000)] == [2, 3]


def test_notes_of_one_message_keep_their_order() -> None:
    notes = said("We decided to use Postgres. Never push to main.")
    assert digest(notes, COUNTER, 100) == notes
    assert [note.marker for note in notes] == ["important", "critical"]


def test_with_room_for_nothing_nothing_is_kept() -> None:
    assert digest(said("Never push to main."), COUNTER, 3) == []
    assert digest([], COUNTER, 100) == []
    assert render_notes([]) == ""


WORDS = st.sampled_from(
    [
        *(
            "never",
            "please",
            "I",
            "the",
            "report",
            "failed",
            "done",
            "A-17",
            "https://x.org/a?b=1",
            "$30",
            "Oslo",
            "тест",
            "不要",
        ),
        *(
            "?",
            ".",
            "!",
            "\n",
            "```",
            "**x**",
            "- ",
            "error:",
            "let's",
            "🙂",
            "\u2028",
            "{",
            '"id": 3',
            "}",
            "thanks",
            ",",
        ),
    ]
)
TEXTS = st.lists(WORDS, max_size=60).map(" ".join) | st.text(max_size=200)
RESULTS = TEXTS | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "id", "ok", "status", "type", "text"]), inner, max_size=3)
    ),
    max_leaves=6,
)
PARTS = st.one_of(
    TEXTS.map(text_part),
    st.builds(
        tool_call_part,
        st.sampled_from("ab"),
        TEXTS.filter(bool),
        st.dictionaries(st.text(max_size=5), RESULTS, max_size=3),
    ),
    st.builds(tool_result_part, st.sampled_from("abc"), st.none(), RESULTS, is_error=st.booleans()),
)
THREADS = st.lists(st.tuples(st.sampled_from(ROLES), st.lists(PARTS, max_size=4)), max_size=6).map(
    lambda entries: [message(seq, role, *parts) for seq, (role, parts) in enumerate(entries, 1)]
)


@settings(max_examples=60)
@given(THREADS)
def test_notes_are_in_order_few_short_and_on_one_line_whatever_was_said(thread: list[Message]) -> None:
    notes = take_notes(thread)
    seqs = [note.seq for note in notes]
    assert seqs == sorted(seqs)
    assert all(seqs.count(seq) <= MOST_OF_A_PERSON for seq in seqs)
    for note in notes:
        assert 0 < len(note.text) <= LONGEST
        assert note.text.splitlines() == [note.text.strip()]
        assert note.weight > 0
    assert notes == take_notes(thread)


@settings(max_examples=60)
@given(THREADS, st.integers(0, 200))
def test_a_digest_fits_and_is_made_of_notes(thread: list[Message], most: int) -> None:
    notes = take_notes(thread)
    kept = digest(notes, COUNTER, most)
    assert COUNTER.text(render_notes(kept)) <= most
    left = iter(notes)
    assert all(note in left for note in kept)


@settings(max_examples=60)
@given(THREADS, st.integers(0, 200), st.integers(0, 60))
def test_with_more_room_every_note_that_was_chosen_is_still_chosen(thread: list[Message], most: int, more: int) -> None:
    notes = take_notes(thread)
    kept = digest(notes, COUNTER, most + more)
    assert all(note in kept for note in digest(notes, COUNTER, most))
    assert rank_notes(notes)[: len(kept)] == sorted(kept, key=rank_notes(notes).index)


@settings(max_examples=100)
@given(THREADS, st.integers(0, 6), st.integers(0, 6))
def test_notes_that_are_taken_over_are_those_that_would_be_taken(thread: list[Message], first: int, upto: int) -> None:
    known = note_messages(thread[first:upto], {})
    taken = note_messages(thread, known)
    assert [note for each in taken.values() for note in each.notes] == take_notes(thread)
    assert note_messages(thread, taken) == taken


def test_notes_are_taken_over_unless_the_message_or_what_came_of_its_calls_is_another() -> None:
    failing = [message(1, "user", "Never deploy on Friday."), *attempt(2, "b", "run", "no such file", True)]
    known = note_messages(failing, {})
    again = note_messages(failing, known)
    assert all(again[seq] is known[seq] for seq in known)
    changed = note_messages(
        [replace(failing[0], parts=[text_part("Never on Monday.")], revision=2), *failing[1:]], known
    )
    assert [note.text for note in changed[1].notes] == ["Never on Monday."]
    assert changed[2] is known[2]
    overcome = note_messages([*failing, *attempt(4, "c", "run", "done", False)], known)
    assert overcome[1] is known[1]
    assert [note.marker for note in overcome[2].notes] != [note.marker for note in known[2].notes]
