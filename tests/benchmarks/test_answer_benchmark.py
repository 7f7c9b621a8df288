"""The benchmark of answers, with a scripted reader and judges, and the rules of its figures."""

import json
import math
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fake_openai import fake_openai

from benchmarks.answers import __main__ as answers
from benchmarks.answers import figures, models
from benchmarks.answers.cases import (
    ASSISTANT,
    CHANGE,
    DATE,
    FALSE_PREMISE,
    LIST,
    ORDER,
    SINGLE,
    SUMMARY,
    Case,
    gold_evidence,
    gold_messages,
    kind_of,
    read_cases,
    with_evidence,
)
from benchmarks.conversations import Conversation, Question

CASE = Case("set", "c", "Which zebra drank?", SINGLE, "lemonade", "recall_memory", "Ann: The zebra drank lemonade.", 9)
THREADS = [
    (
        "t",
        [
            {"id": "b", "content": "She went on to Lisbon in a yellow bus.", "created_at": "2024-05-02T10:00:00"},
            {"id": "a", "content": "She first visited Porto with her sister.", "created_at": "2024-05-01T10:00:00"},
        ],
    )
]


def test_scripted_models_answer_and_judge_every_way_of_showing(
    conversation_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "cases.jsonl"
    answers.main([str(conversation_set), "--embedder", "none", "--context", "800", "2000", "--out", str(out)])
    printed = capsys.readouterr().out
    cases = read_cases([out])
    ways = {"recall_memory", "get_context 800", "get_context 2,000", "gold evidence"}
    assert {case.shown for case in cases} == ways | {"BM25 lines 800", "BM25 lines 1,500", "BM25 lines 2,000"}
    answered = [case for case in cases if case.decidable]
    assert all(case.decided and len(case.verdicts) == 2 for case in answered)
    assert {case.question for case in cases if case.reply is None} == {"Without evidence?"}
    bicycle = [case for case in cases if case.question == "Whose bicycle has a flat tyre?"]
    said = {"Bob" in str(case.reply) for case in bicycle if case.conversation == "first"}
    unsaid = {"Bob" in str(case.reply) for case in bicycle if case.conversation == "second"}
    assert (said, unsaid) == ({True}, {False})
    assert {case.kind for case in answered} == {SINGLE, FALSE_PREMISE}
    assert "Cohen's kappa" in printed
    drawn = ElementTree.parse(tmp_path / "cases.svg").getroot()
    texts = {element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"set", "false premises", "recall_memory", "get_context", "BM25 lines", "gold evidence"} <= texts


def test_questions_of_other_conversations_are_asked_even_if_only_the_first_is_read(
    conversation_set: Path, tmp_path: Path
) -> None:
    out = tmp_path / "cases.jsonl"
    few = ["--conversations", "1", "--absent", "1", "--false-premise", "--evidence", "--embedder", "none"]
    answers.main([str(conversation_set), *few, "--out", str(out)])
    unsaid = [case for case in read_cases([out]) if case.kind == FALSE_PREMISE]
    assert {(case.conversation, case.question) for case in unsaid} == {("first", "Who bakes bread?")}


def test_false_premises_are_a_column_of_their_own_and_no_part_of_their_set() -> None:
    said = replace(CASE, verdicts={"judge": True})
    unsaid = replace(said, kind=FALSE_PREMISE, verdicts={"judge": False})
    header, _, row = figures.answer_report([said, said, unsaid]).splitlines()[:3]
    assert [cell.strip() for cell in header.split("|")[2:-1]] == ["set", "false premises"]
    assert [cell.split()[0] for cell in row.split("|")[2:-1]] == ["1.000", "0.000"]
    assert "of 2" in row


def test_a_run_is_judged_again_with_its_replies_and_read_again_with_another_reader(
    conversation_set: Path, tmp_path: Path
) -> None:
    first, again = tmp_path / "first.jsonl", tmp_path / "again.jsonl"
    answers.main([str(conversation_set), "--embedder", "none", "--out", str(first)])
    cases = [replace(case, reply="Ann's zebra and Bob's bicycle") for case in read_cases([first]) if case.decidable]
    answers.write_cases(first, cases)
    answers.main(["--from", str(first), "--judge", "containment", "--out", str(again)])
    assert {case.reply for case in read_cases([again])} == {"Ann's zebra and Bob's bicycle"}
    assert {tuple(case.verdicts) for case in read_cases([again])} == {("containment",)}
    answers.main(["--from", str(first), "--reader", "best-line", "--out", str(again)])
    assert len({case.reply for case in read_cases([again])}) > 1


def test_the_evidence_is_measured_without_reading(
    conversation_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "cases.jsonl"
    answers.main([str(conversation_set), "--evidence", "--embedder", "none", "--out", str(out)])
    printed = capsys.readouterr().out
    assert "all, oldest first" in printed
    answers.main(["--from", str(out), "--evidence"])
    assert capsys.readouterr().out == printed
    gold = [case for case in read_cases([out]) if case.shown == "gold evidence" and case.found is not None]
    assert gold
    assert {(case.found, case.in_order, case.reply) for case in gold} == {(1.0, True, None)}


@pytest.mark.parametrize(
    ("context", "found"),
    [
        ("Ann: She first visited Porto with her sister.\nAnn: She went on to Lisbon in a yellow bus.", (1, True, True)),
        (
            "Ann: She went on to Lisbon in a yellow bus.\nAnn: She first visited Porto with her sister.",
            (1, True, False),
        ),
        ("Ann: She went on to Lisbon in a yellow bus.", (0.5, False, False)),
    ],
)
def test_gold_turns_are_in_order_only_if_all_are_shown_oldest_first(
    context: str, found: tuple[float, bool, bool]
) -> None:
    question = Question("Where did she go?", "1", frozenset({"a", "b"}))
    gold = gold_messages(question, Conversation("c", THREADS, [question]))
    case = with_evidence(replace(CASE, context=context), gold_evidence(question, gold))
    assert (case.found, case.all_found, case.in_order) == found


@pytest.mark.parametrize(
    ("question", "category", "evidence", "kind"),
    [
        ("Which places did I visit, in which order?", "1", {"user"}, ORDER),
        ("List what I did.", "event_ordering", {"user"}, ORDER),
        ("Where do I live now?", "knowledge_update", {"user"}, CHANGE),
        ("Sum it up.", "summarization", {"user"}, SUMMARY),
        ("When did Ann leave?", "2", {"user"}, DATE),
        ("Which sports does Ann like?", "1", {"user", "other"}, LIST),
        ("Which book did you recommend?", "1", {"assistant"}, ASSISTANT),
        ("Where does Ann work?", "4", {"user"}, SINGLE),
        ("When did Bob adopt a cat?", "5", {"user"}, FALSE_PREMISE),
    ],
)
def test_a_question_has_the_kind_of_its_category_its_words_and_its_evidence(
    question: str, category: str, evidence: set[str], kind: str
) -> None:
    roles = {"user": "user", "other": "user", "assistant": "assistant"}
    assert kind_of(Question(question, category, frozenset(evidence)), roles, ["5"]) == kind


def answered(case: Case, reader: str | None = None, judges: tuple[str, ...] = ()) -> Case:
    made = {name: models.make_judge(name) for name in judges}
    (found,) = models.answered([case], models.make_reader(reader) if reader else None, made, 1)
    return found


def test_a_judge_sees_neither_the_context_nor_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts: list[str] = []

    def complete(model: str, prompt: str) -> models.Reply:
        prompts.append(prompt)
        return models.Reply("Nothing is wrong with it: Right.", 5)

    monkeypatch.setattr(models, "_complete", complete)
    judged = answered(replace(CASE, reply="Some lemonade."), judges=("some/model",))
    assert judged.verdicts == {"some/model": True}
    assert judged.judge_tokens == 5
    assert "Some lemonade." in prompts[0]
    assert "recall_memory" not in prompts[0]
    assert CASE.context not in prompts[0]


def test_a_reader_sees_the_context_and_the_day_of_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_complete", lambda model, prompt: models.Reply(prompt, 7))
    read = answered(replace(CASE, asked_at="3 May 2024"), "some/model")
    assert read.reply is not None
    assert CASE.context in read.reply
    assert "asked on 3 May 2024" in read.reply
    assert read.reader_tokens == 7


def test_a_model_is_called_again_after_a_failure_that_passes_and_not_after_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "_PAUSES_SECONDS", (0,))
    with fake_openai() as fake:
        monkeypatch.setenv("OPENAI_API_BASE", fake.url)
        monkeypatch.setenv("OPENAI_API_KEY", "a key")
        fake.reply = "Some lemonade, right?"
        fake.chat_faults.extend([429])
        read = answered(CASE, "openai/any", ("openai/any",))
        assert (read.reply, read.verdicts) == ("Some lemonade, right?", {"openai/any": True})
        assert read.reader_tokens > 0
        assert len(fake.requests) == 3
        fake.chat_faults.extend([401])
        refused = answered(CASE, "openai/any", ("openai/any",))
        assert (refused.reply, refused.verdicts) == (None, {})
        assert len(fake.requests) == 4
    assert "AuthenticationError" in capsys.readouterr().err


def test_a_model_of_a_server_without_an_address_is_not_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_openai() as fake:
        monkeypatch.setenv("OPENAI_API_BASE", fake.url)
        monkeypatch.delenv("LM_STUDIO_API_BASE", raising=False)
        assert answered(CASE, "lm_studio/any").reply is None
        assert fake.requests == []
    assert "no address" in capsys.readouterr().err


def test_a_reply_without_a_verdict_is_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "_complete", lambda model, prompt: models.Reply("Perhaps."))
    judged = answered(replace(CASE, reply="Some lemonade."), judges=("some/model", "overlap"))
    assert judged.verdicts == {"some/model": None, "overlap": True}
    assert "right or wrong" in capsys.readouterr().err
    right = replace(CASE, verdicts={"some/model": True, "overlap": True})
    report = figures.answer_report([judged, right])
    assert "left out: 1" in report
    assert "1.000 [1.000, 1.000] of 1" in report


def test_a_failed_call_loses_nothing_else_and_is_made_again_by_asking_for_what_is_missing(
    conversation_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "cases.jsonl"
    models_called = ["--reader", "some/model", "--judge", "some/judge", "--out", str(out), "--parallel", "1"]
    calls: list[str] = []
    fails = {3, 9}

    def complete(model: str, prompt: str) -> models.Reply:
        calls.append(model)
        if len(calls) in fails:
            raise ConnectionError("the provider is busy")
        return models.Reply("right", 1)

    monkeypatch.setattr(models, "_complete", complete)
    answers.main([str(conversation_set), "--embedder", "none", *models_called])
    decidable = [case for case in read_cases([out]) if case.decidable]
    lacking = [case for case in decidable if not case.decided]
    assert len(lacking) == 2
    made = len(calls)
    answers.main(["--from", str(out), "--missing", *models_called])
    assert all(case.decided for case in read_cases([out]) if case.decidable)
    # The case whose reading failed needs both calls, the one whose judging failed only the second.
    assert len(calls) - made == sum(1 if case.reply else 2 for case in lacking) == 3


def test_a_run_that_is_stopped_keeps_what_it_has(
    conversation_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "cases.jsonl"
    calls: list[str] = []

    def complete(model: str, prompt: str) -> models.Reply:
        calls.append(model)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return models.Reply("Lemonade.")

    monkeypatch.setattr(models, "_complete", complete)
    with pytest.raises(KeyboardInterrupt):
        answers.main([str(conversation_set), "--embedder", "none", "--reader", "a/b", "--out", str(out)])
    kept = read_cases([out])
    assert 0 < sum(case.decided for case in kept) < len(kept)


def test_a_false_premise_is_answered_rightly_by_saying_that_nothing_is_known() -> None:
    unsaid = replace(CASE, kind=FALSE_PREMISE, answer="", reply=models.NOT_SAID)
    judges = ("containment", "overlap")
    assert set(answered(unsaid, judges=judges).verdicts.values()) == {True}
    assert set(answered(replace(unsaid, reply="Lemonade."), judges=judges).verdicts.values()) == {False}


def test_agreement_is_corrected_for_chance() -> None:
    pairs = [(True, True)] * 4 + [(False, False)] * 4 + [(True, False), (False, True)]
    raw, kappa = figures.agreement(pairs)
    assert raw == 0.8
    assert kappa == pytest.approx(0.6)
    assert math.isnan(figures.agreement([(True, True)])[1])


def test_an_interval_holds_the_mean_and_is_the_same_each_time() -> None:
    values = [1.0] * 30 + [0.0] * 10
    low, high = figures.interval(values)
    assert 0.55 < low < 0.75 < high < 0.92
    assert figures.interval(values) == (low, high)


LONGMEMEVAL = [
    {
        "question_id": "q1_abs",
        "question_type": "multi-session",
        "question": "Which hamster do I have?",
        "answer": "You did not mention one.",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["s"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [
            [{"role": "user", "content": "My dog is Rex.", "has_answer": True}, {"role": "assistant", "content": ""}]
        ],
        "answer_session_ids": ["s"],
    }
]
HALUMEM = {
    "uuid": "u",
    "sessions": [
        {
            "start_time": "Sep 04, 2025, 18:42:18",
            "end_time": "Sep 04, 2025, 19:02:18",
            "dialogue": [{"role": "user", "content": "I sail.", "timestamp": "Sep 04, 2025, 18:43:00"}],
            "questions": [
                {"question": "Do I ski?", "answer": "Unknown", "question_type": "Memory Boundary", "evidence": []}
            ],
        }
    ],
}
AGENT_BENCH = {
    "context": "0. Nimbus is a flute.\n" * 400,
    "questions": ["Which instrument is Nimbus?"],
    "answers": [["flute", "a flute"]],
    "metadata": {"source": "facts_6k", "question_types": None, "question_ids": None, "question_dates": None},
}
AGENT_BENCH_LONG_MEMORY = {
    "context": "Chat Time: 2023/05/20\nuser: My dog is Rex.",
    "questions": ["What is my dog called?", "Which hamster do I have?"],
    "answers": [["Rex"], ["You did not mention one."]],
    "metadata": {
        "source": "longmemeval_s*",
        "question_types": ["single-session-user", "multi-session"],
        "question_ids": ["q1", "q2_abs"],
        "question_dates": ["2023/05/30 (Tue) 23:40", "2023/05/31 (Wed) 09:00"],
    },
}


def converted(name: str, tmp_path: Path, **texts: str) -> list[dict[str, object]]:
    files = []
    for ending, text in texts.items():
        file = tmp_path / f"published.{ending}"
        file.write_text(text, encoding="utf-8")
        files.append(str(file))
    answers.main([*files, "--convert", name, "--out", str(tmp_path / "set.json")])
    found: list[dict[str, object]] = json.loads((tmp_path / "set.json").read_text(encoding="utf-8"))
    return found


def test_longmemeval_becomes_a_set_with_marked_turns_as_evidence(tmp_path: Path) -> None:
    (found,) = converted("longmemeval", tmp_path, json=json.dumps(LONGMEMEVAL))
    assert found["sessions"] == [
        {
            "id": "0-s",
            "date": "2023-05-20T02:21:00+00:00",
            "turns": [{"id": "0:0", "speaker": "user", "role": "user", "text": "My dog is Rex."}],
        }
    ]
    assert found["questions"] == [
        {
            "question": "Which hamster do I have?",
            "category": "abstention",
            "answer": "You did not mention one.",
            "evidence": ["0:0"],
            "date": "2023/05/30 (Tue) 23:40",
        }
    ]


def test_halumem_becomes_a_set_with_dated_turns(tmp_path: Path) -> None:
    (found,) = converted("halumem", tmp_path, jsonl=json.dumps(HALUMEM))
    assert '"date": "2025-09-04T18:43:00+00:00"' in json.dumps(found)
    assert found["questions"] == [
        {
            "question": "Do I ski?",
            "category": "Memory Boundary",
            "answer": "Unknown",
            "evidence": [],
            "date": "Sep 04, 2025, 19:02:18",
        }
    ]


def test_memoryagentbench_becomes_a_set_of_chunks_with_alternatives(tmp_path: Path) -> None:
    (found,) = converted("memoryagentbench", tmp_path, jsonl=json.dumps(AGENT_BENCH))
    assert json.dumps(found).count('"text"') == 3
    assert found["questions"] == [
        {
            "question": "Which instrument is Nimbus?",
            "category": "facts_6k",
            "answer": "flute | a flute",
            "evidence": [],
            "date": "",
        }
    ]


def test_memoryagentbench_keeps_the_types_and_dates_of_questions_that_have_them(tmp_path: Path) -> None:
    (found,) = converted("memoryagentbench", tmp_path, jsonl=json.dumps(AGENT_BENCH_LONG_MEMORY))
    questions = found["questions"]
    assert isinstance(questions, list)
    assert [(each["category"], each["date"]) for each in questions] == [
        ("single-session-user", "2023/05/30 (Tue) 23:40"),
        ("abstention", "2023/05/31 (Wed) 09:00"),
    ]


def test_personamem_becomes_a_set_with_options_and_without_later_messages(tmp_path: Path) -> None:
    said = [
        {"role": "system", "content": "You know Kim."},
        {"role": "user", "content": "User: I like tea."},
        {"role": "user", "content": "User: I like coffee now."},
    ]
    header = "question_type,user_question_or_message,correct_answer,all_options,shared_context_id,end_index_in_shared_context"
    row = "recall,My drink?,(b),\"['(a) coffee', '(b) tea']\",x,2"
    (found,) = converted("personamem", tmp_path, csv=f"{header}\n{row}\n", jsonl=json.dumps({"x": said}))
    assert "coffee now" not in json.dumps(found)
    assert "You know Kim" not in json.dumps(found)
    assert found["questions"] == [
        {
            "question": "My drink?\n(a) coffee\n(b) tea",
            "category": "recall",
            "answer": "(b) tea",
            "evidence": [],
            "date": "",
        }
    ]
