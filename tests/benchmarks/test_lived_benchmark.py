"""The benchmark that lives with a server as a host does, end to end on little input, and the rule of what is shown."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import lived
from benchmarks.conversations import Conversation, Question, read_set
from benchmarks.evidence import LONG, Evidence, texts_of
from benchmarks.hosting import Standing, judge
from benchmarks.plain_lines import PlainLines
from layerlore.memory.parts.tokens import load_counter
from layerlore.memory.recall.recall_text import NEWEST, NOTHING, NOTHING_YET, SILENT, UNSURE
from layerlore.memory.text.quotation import PREAMBLE

ANSWERING = "My sister has played the violin in an orchestra since May."
OTHER = "The weather was awful and nobody wanted to go outside again."
LONG_TEXT = f"{OTHER} {ANSWERING} {OTHER.replace('weather', 'food') * 7}"


def evidence(question: str, *texts: str, answer: str = "") -> Evidence:
    named = {str(number): text for number, text in enumerate(texts)}
    return Evidence(Question(question, "1", frozenset(named), answer), named)


def shares(found: Evidence, shown: str) -> tuple[float, float]:
    result = found.shown_in(shown)
    return result.share, pytest.approx(result.strict)


def row(report: dict[str, Any], system: str, stage: str, answers: str = "", room: int = 1_500) -> dict[str, Any]:
    wanted = {"system": system, "stage": stage, "answers": answers, "room": room}
    (found,) = [each for each in report["set"]["shown"] if wanted.items() <= each.items()]
    return found


def test_a_turn_is_shown_where_its_whole_text_stands_whatever_the_white_space() -> None:
    found = evidence("Which zebra?", "The zebra drank\nlemonade in the garden.", "It was a very hot day that day.")
    assert shares(found, "> user Ann: The zebra  drank lemonade in the\n   garden.") == (0.5, 0.5)
    assert shares(found, "The zebra drank lemonade in the …") == (0.0, 0.0)


def test_a_short_turn_is_shown_only_as_what_a_speaker_said() -> None:
    found = evidence("Does she dance?", "Yes.")
    assert shares(found, "Bob: Yes. And you?") == (1.0, 1.0)
    assert shares(found, "Bob: Oh, Yes. And you?") == (0.0, 0.0)


def test_a_turn_is_shown_where_it_stands_as_it_is_quoted() -> None:
    found = evidence("What?", "He wrote <memory> in large letters on the wall.")
    assert shares(found, "Bob: He wrote (memory> in large letters on the wall.") == (1.0, 1.0)


def test_a_long_turn_is_shown_by_a_sentence_that_answers_and_strictly_by_the_share_of_its_sentences() -> None:
    assert len(LONG_TEXT) > LONG
    found = evidence("Who plays the violin?", LONG_TEXT)
    assert shares(found, LONG_TEXT) == (1.0, 1.0)
    assert shares(found, f"Bob: {ANSWERING}") == (1.0, 1 / 3)
    assert shares(found, f"Bob: {OTHER}") == (0.0, 1 / 3)
    assert shares(evidence("What was that?", LONG_TEXT, answer="weather"), OTHER) == (1.0, 1 / 3)


def test_evidence_that_is_no_message_is_never_shown() -> None:
    question = Question("Which zebra?", "1", frozenset({"here", "nowhere"}))
    found = Evidence(question, {"here": "The zebra drank lemonade in the garden."})
    assert shares(found, "The zebra drank lemonade in the garden.") == (0.5, 0.5)


@pytest.mark.parametrize(
    ("answer", "standing"),
    [
        (NOTHING, Standing.NOTHING),
        (f"{NOTHING}\n[held back as not relevant enough: 2; signals: lexical]", Standing.NOTHING),
        (f"{NOTHING_YET} [degraded: vectors]\n[signals: lexical]", Standing.NOTHING),
        (f"{PREAMBLE}\n[3 May 2024] Ann: Hello.\n[1 hit; signals: lexical]", Standing.CONFIDENT),
        (f"{PREAMBLE}\n{UNSURE}\n[3 May 2024] Ann: Hello.\n[1 hit]", Standing.UNSURE),
        (f"{PREAMBLE}\n{SILENT}\n{UNSURE}\n[4 May 2024] Bob: Ho.\n[1 hit]", Standing.UNSURE),
        (f"{PREAMBLE}\n{SILENT}\n[4 May 2024] Bob: Ho.\n[1 hit]", Standing.CONFIDENT),
        (f"{PREAMBLE}\n{NEWEST}\n[4 May 2024] Bob: Ho.\n[1 hit]", Standing.NOTHING),
        (f"{PREAMBLE}\n[3 May 2024]\n#1 Ann: Hi.\n#2 Bob:\n{UNSURE}", Standing.CONFIDENT),
    ],
)
def test_an_answer_is_as_sure_as_its_opening_lines_say(answer: str, standing: Standing) -> None:
    assert judge(answer) is standing


def test_plain_lines_are_the_best_by_words_or_the_newest_and_never_more_than_the_room(conversation_set: Path) -> None:
    conversation = read_set(conversation_set)[0]
    counter = load_counter()
    lines = PlainLines(conversation, counter)
    (best,) = lines.best("Who has a zebra?", [1_000])
    assert best == "[1 May 2024] Ann: The zebra drank lemonade."
    small, large = lines.newest([12, 1_000])
    assert small == "[2 May 2024] Ann: Understood."
    assert large.splitlines() == [
        best,
        "[1 May 2024] Bob: My bicycle has a flat tyre. [image: a red bicycle]",
        "[2 May 2024] Ann: Understood.",
    ]
    lines.close()


def test_a_long_line_is_cut_to_what_is_left_of_the_room() -> None:
    message = {"id": "1", "name": "Ann", "content": "The zebra drank. " * 100, "created_at": "2024-05-01T10:00:00"}
    lines = PlainLines(Conversation("c", [("t", [message])], []), counter := load_counter())
    (cut,) = lines.best("zebra", [50])
    assert 40 < counter.text(cut) <= 50
    lines.close()


def test_texts_are_found_by_the_ids_of_their_messages(conversation_set: Path) -> None:
    assert texts_of(read_set(conversation_set)[1]) == {"second/1": "My sister bakes bread."}


def test_a_host_asks_before_and_after_it_stores_and_counts_what_is_shown(
    conversation_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, plot = tmp_path / "lived.json", tmp_path / "new" / "lived.svg"
    arguments = ["--in-process", "--embedder", "none", "--json", str(figures), "--plot", str(plot)]
    lived.main([str(conversation_set), *arguments])
    report = json.loads(figures.read_text(encoding="utf-8"))
    assert report["set"]["questions"] == 3
    assert report["set"]["failed"] == 0
    before = row(report, "recall_memory", "before")
    assert (before["evidence"], before["confident"]) == (1.0, 1.0)
    assert before["tokens"] > 20
    for stage in ("stored", "after"):
        for answers in ("none", "not sure"):
            assert row(report, "recall_memory", stage, answers)["questions"] == 3
            assert row(report, "get_context", stage, answers, 4_000)["questions"] == 3
    for system in ("recall_memory", "get_context", "BM25 lines", "newest lines"):
        for room in lived.ROOMS:
            assert row(report, system, "before", room=room)["tokens"] <= room
            assert row(report, system, "after", "not sure", room)["questions"] == 3
    assert row(report, "BM25 lines", "before", room=600)["evidence"] == 1.0
    assert [each["questions"] for each in report["set"]["absent"]] == [3, 3, 3]
    printed = capsys.readouterr().out
    assert f"1.000 ({before['tokens']:,.0f})" in printed
    drawn = ElementTree.parse(plot).getroot()
    texts = {element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"set", "recall_memory", "get_context", "BM25 lines", "tokens shown, mean"} <= texts


def test_fewer_conversations_and_questions_are_asked_where_that_is_wanted(
    conversation_set: Path, tmp_path: Path
) -> None:
    figures = tmp_path / "lived.json"
    few = ["--conversations", "1", "--questions", "1", "--absent", "1", "--quick", "--in-process"]
    arguments = ["--embedder", "none", "--json", str(figures), "--plot", str(tmp_path / "lived.svg")]
    lived.main([str(conversation_set), *few, *arguments])
    report = json.loads(figures.read_text(encoding="utf-8"))
    assert report["set"]["questions"] == 1
    assert {each["answers"] for each in report["set"]["shown"]} == {"", "not sure"}


@pytest.mark.soak
def test_lived_measures_a_server_of_its_own_over_stdio(runs: Any) -> None:
    printed, figures = runs["lived"].result()
    assert row(figures, "recall_memory", "before")["evidence"] == 1.0
    assert "Plot: " in printed
