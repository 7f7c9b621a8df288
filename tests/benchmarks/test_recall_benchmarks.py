"""The benchmarks of recall run end to end on little input: what they find, and beside what."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import absent, scores
from benchmarks.absent import Answered
from benchmarks.baselines import BM25, BM25_DATED, RRF, Baselines, fused
from benchmarks.conversations import Conversation, Question, read_set
from benchmarks.embedders import chosen, default_sure
from benchmarks.filling import Pool
from benchmarks.multilingual import rank_of, stored
from benchmarks.multilingual_facts import LANGUAGES
from benchmarks.nearest import chunks, share_found

Runs = dict[str, Any]


class Letters:
    """Texts that share letters are near."""

    def embed(self, texts: Any) -> Any:
        counts = np.array([[text.lower().count(chr(97 + at)) for at in range(26)] for text in texts], np.float32)
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)


def found_by(rows: list[list[str]], category: str) -> dict[str, list[str]]:
    """The other cells of a category's rows, by system."""
    return {row[1]: row[2:] for row in rows if row[0] == category and len(row) == len(scores.HEADER)}


@pytest.mark.soak
def test_recall_prints_how_much_of_the_evidence_each_system_found_by_category(runs: Runs) -> None:
    rows = runs["recall"].rows()
    assert list(found_by(rows, "overall")) == ["layerlore", BM25, BM25_DATED, RRF]
    assert set(map(tuple, found_by(rows, "1").values())) == {("2", *["1.000"] * 6)}
    assert found_by(rows, "overall")["layerlore"] == ["3", *["1.000"] * 6]


@pytest.mark.soak
def test_recall_keeps_adversarial_questions_out_of_the_overall_figures(runs: Runs) -> None:
    _, figures = runs["recall"].result()
    assert found_by(runs["recall"].rows(), "5 (adversarial, reported apart)")["layerlore"][0] == "1"
    assert set(figures["set"]["systems"]["layerlore"]["categories"]) == {"1", "2"}


@pytest.mark.soak
def test_recall_without_an_embedder_fuses_nothing(runs: Runs) -> None:
    printed, figures = runs["recall-words"].result()
    assert list(figures["set"]["systems"]) == ["layerlore", BM25, BM25_DATED]
    assert "No embedder: words alone." in printed
    assert figures["set"]["vectors"] == 0


@pytest.mark.soak
def test_recall_says_what_was_loaded_and_how_long_a_question_took(runs: Runs) -> None:
    printed, figures = runs["recall"].result()
    assert "2 conversations, 4 messages loaded in" in printed
    assert "answers cut: 0" in printed
    assert 0 < figures["set"]["question_ms"]["p50"] <= figures["set"]["question_ms"]["p95"]


@pytest.mark.soak
def test_recall_waits_until_every_message_has_its_vector(runs: Runs) -> None:
    printed, figures = runs["recall"].result()
    assert figures["set"]["vectors"] == 4
    assert f"4 vectors of {figures['set']['model']}, complete" in printed
    assert "answers by words alone: 0" in printed


@pytest.mark.soak
def test_recall_prints_for_each_floor_how_many_absent_questions_it_rejects(runs: Runs) -> None:
    _, figures = runs["recall"].result()
    points = [row for row in runs["recall"].rows() if len(row) == len(absent.HEADER) and row[0][:2] == "0."]
    assert [row[0] for row in points] == [f"{floor:.2f}" for floor in absent.FLOORS]
    assert [row[0] for row in points if row[-1]] == [f"{default_sure(chosen('use')):.2f}"]
    assert figures["set"]["absent_questions"] == 3
    first = figures["set"]["absent"][0]
    assert (first["absent_nothing"], first["recall_lost"]) == (0.0, 0.0)


@pytest.mark.soak
def test_multilingual_asks_every_store_in_every_language(runs: Runs) -> None:
    _, figures = runs["multilingual"].result()
    overall = figures["overall"]
    assert [overall[label]["questions"] for label in ("same language", "across languages", "all")] == [24, 24, 48]
    assert set(figures["languages"]) == {"en", "ja"}
    assert 0.5 < overall["same language"]["hit@3"] <= 1.0
    shown = [row for row in runs["multilingual"].rows() if row[0] in ("same language", "across languages", "all")]
    assert all(row[-2] in ("hold", "miss") for row in shown)


@pytest.mark.soak
def test_nearest_compares_with_an_exact_scan_and_says_which_sizes_there_is_no_text_for(runs: Runs) -> None:
    printed, figures = runs["nearest"].result()
    (only,) = figures
    assert (only["database"], only["chunks"], only["recall@10"], only["holds"]) == ("sqlite", 3, 1.0, True)
    assert "100 are not measured" in printed


def test_reciprocal_ranks_add_up() -> None:
    assert fused([1, 2, 3], [3, 4]) == [3, 1, 2, 4]
    assert fused([2], [1]) == [1, 2]
    assert fused() == []


def test_the_baselines_find_by_words_by_day_and_speaker_and_by_nearness(conversation_set: Path) -> None:
    conversation = read_set(conversation_set)[0]
    systems = Baselines(conversation, Letters())
    assert systems.found("zebras")[BM25] == ["first/1"]
    assert systems.found("What about Bob?")[BM25] == []
    assert systems.found("What about Bob?")[BM25_DATED] == ["first/2"]
    assert systems.found("tyre")[RRF][0] == "first/2"
    assert len(systems.found("tyre")[RRF]) == 3
    systems.close()


def test_absent_questions_come_from_other_conversations_and_never_twice_to_one(conversation_set: Path) -> None:
    first, second = read_set(conversation_set)
    drawn = absent.drawn([first, second], ["5"])
    assert sorted(drawn["second"]) == ["Which zebra drank something?", "Whose bicycle has a flat tyre?"]
    assert drawn["first"] == ["Who bakes bread?"]
    assert absent.drawn([first], ["5"]) == {}


def test_as_many_absent_questions_are_drawn_as_asked_for_and_the_same_ones_again() -> None:
    conversations = [
        Conversation(str(number), [], [Question(f"{number}-{at}", "1", frozenset("a")) for at in range(30)])
        for number in range(4)
    ]
    drawn = absent.drawn(conversations, [], most=50)
    assert sum(map(len, drawn.values())) == 50
    assert all(not text.startswith(f"{name}-") for name, texts in drawn.items() for text in texts)
    assert drawn == absent.drawn(conversations, [], most=50)


def test_a_floor_holds_back_what_is_below_it_and_costs_its_recall() -> None:
    real = [Answered(0.9, 1.0), Answered(0.31, 0.5), Answered(0.1, 0.5), Answered(0.3, 0.0)]
    points = {point["floor"]: point for point in absent.curve(real, [Answered(0.2), Answered(0.5)], 0.33)}
    assert sorted(points) == sorted([*absent.FLOORS, 0.33])
    assert [floor for floor, point in points.items() if point["sure"]] == [0.33]
    at = points[0.3]
    assert (at["absent_nothing"], at["recall_kept"], at["real_nothing"]) == (0.5, 0.375, 0.25)
    assert at["recall_lost"] == pytest.approx(0.125)
    assert points[0.6]["absent_nothing"] == 1.0


def test_every_language_has_as_many_facts_questions_and_other_sentences() -> None:
    assert len(LANGUAGES) == 8
    assert {tuple(map(len, (each.facts, each.questions, each.others))) for each in LANGUAGES.values()} == {(12, 12, 13)}
    sentences = [text for each in LANGUAGES.values() for text in (*each.facts, *each.others)]
    assert len(set(sentences)) == len(sentences)


def test_a_store_has_the_facts_of_one_language_among_a_hundred_other_sentences() -> None:
    messages = stored("de")
    assert len([message for message in messages if "other" not in message["id"]]) == 12
    assert len(messages) == 12 + 104
    assert messages == stored("de")
    assert rank_of("b", ["a", "b"]) == 2
    assert rank_of("c", ["a", "b"]) == 0


def test_chunks_of_real_text_are_runs_of_sentences_of_their_message(conversation_set: Path) -> None:
    message = {"name": "Ann", "role": "user", "content": "The first sentence. The second sentence. Short.", "id": "1"}
    conversation = Conversation("c", [("t", [message | {"created_at": "2024-05-01T10:00:00"}])], [])
    assert list(chunks(conversation)) == [
        "The first sentence.",
        "The second sentence.",
        "The first sentence. The second sentence.",
    ]


def test_the_share_found_counts_what_is_as_near_as_the_tenth() -> None:
    exact = np.array(random.Random(1).sample([at / 100 for at in range(50)], 50), np.float32)
    best = np.sort(exact)[::-1]
    assert share_found(best[:10], exact) == 1.0
    assert share_found(np.concatenate([best[:9], best[10:11]]), exact) == 0.9
    assert share_found(best[10:20], exact) == 0.0
    assert share_found(best[:3], best[:3]) == 1.0


def test_a_made_up_message_has_the_vector_of_its_sentences() -> None:
    drawn = Pool(Letters(), 200).drawn(20)
    for each in drawn:
        expected = Letters().embed([each.message["content"]])[0]
        assert each.vector is not None
        assert float(np.linalg.norm(each.vector)) == pytest.approx(1, abs=1e-5)
        assert float(each.vector @ expected) > 0.95
    assert len({each.message["content"] for each in drawn}) == 20
    assert Pool(None, 5).drawn(1)[0].vector is None
