"""The benchmark of long work: what its runs are like, when something planted counts as seen, and what it prints."""

import json
import re
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from fake_openai import fake_openai

from benchmarks import long_work
from benchmarks.long_runs.planting import (
    PLANTED_KINDS,
    RUN_KINDS,
    LongRun,
    Plant,
    RunKind,
    Turn,
    find_shown,
    list_lines,
    list_texts,
)
from benchmarks.long_runs.runs import FEWEST, MOST, make_run

SEEDS = (1, 2, 77)


@pytest.fixture(scope="module", params=[(kind, seed) for kind in RUN_KINDS for seed in SEEDS])
def run(request: pytest.FixtureRequest) -> LongRun:
    return make_run(*request.param)


def test_a_run_has_150_to_400_messages_in_turns_that_go_on_in_time(run: LongRun) -> None:
    assert FEWEST <= len(run.messages) <= MOST
    times = [datetime.fromisoformat(message["created_at"]) for message in run.messages]
    assert all(earlier < later for earlier, later in pairwise(times))
    for turn in run.turns:
        request, *steps, (answer,) = turn.calls
        assert {message["role"] for message in request} == {"user"}
        assert all([message["role"] for message in step] == ["assistant", "tool"] for step in steps)
        assert answer["role"] == "assistant"


def test_each_result_of_a_tool_answers_the_call_before_it(run: LongRun) -> None:
    for turn in run.turns:
        for call, result in (step for step in turn.calls[1:-1]):
            assert call["parts"][-1]["id"] == result["parts"][0]["tool_call_id"]


def test_all_kinds_are_planted_and_each_is_said_in_one_message_of_its_turn(run: LongRun) -> None:
    assert {plant.kind for plant in run.planted} == set(PLANTED_KINDS)
    assert len({plant.id for plant in run.planted}) == len(run.planted)
    for plant in run.planted:
        told = [
            place
            for place, turn in enumerate(run.turns)
            for message in turn.messages
            if any(plant.is_shown(list_lines(text)) for text in list_texts(message))
        ]
        assert told == [plant.turn], plant


def test_what_the_user_said_is_planted_over_the_whole_run_and_more_of_it_in_its_first_half() -> None:
    places = []
    for kind in RUN_KINDS:
        for seed in range(10):
            made = make_run(kind, seed)
            places += [plant.turn / len(made.turns) for plant in made.planted if plant.kind in PLANTED_KINDS[:4]]
    assert min(places) < 0.02
    assert max(places) > 0.9
    assert 0.55 < sum(place < 0.5 for place in places) / len(places) < 0.75


@pytest.mark.parametrize("kind", RUN_KINDS)
def test_a_run_is_the_same_for_the_same_seed_and_another_for_another(kind: RunKind) -> None:
    assert make_run(kind, 5) == make_run(kind, 5)
    assert make_run(kind, 5).messages != make_run(kind, 6).messages


def test_no_template_is_left_unfilled(run: LongRun) -> None:
    said = [text for message in run.messages if message["role"] == "user" for text in list_texts(message)]
    assert not [text for text in said if re.search(r"\{[a-z]+\d?\}|\[#?\{", text)]
    for plant in run.planted:
        assert plant.values
        assert "[" not in plant.sentence


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("user: the channel is #fin-alerts, not #finance-alerts", True),
        ("The Channel: #FIN-ALERTS (not #finance)", True),
        ("the channel is #fin-alerts-old, not that", True),
        ("the channel is #fin-alertsold, not that", False),
        ("the channel is\n#fin-alerts, not that", False),
        ('{"text": "so\\nthe channel is #fin-alerts, not that"}', True),
        ("#fin-alerts", False),
        ("", False),
    ],
)
def test_something_is_seen_where_all_that_tells_it_stands_in_one_line(text: str, shown: bool) -> None:
    plant = Plant("one", "correction", ("channel", "#fin-alerts", "not"), "", 0)
    assert find_shown([plant], text) == ({"one"} if shown else set())


def measured(ours: dict[int, set[str]], used: dict[int, int], tokens: int = 10_000) -> long_work.Measured:
    planted = [Plant(name, "fact", (name,), name, 0) for name in "ab"]
    shown = long_work.Shown(ours=ours, tokens=used)
    return long_work.Measured(LongRun("coding", 1, [Turn()], planted), shown, tokens, {}, {}, 0.0)


def test_what_a_larger_room_loses_is_listed() -> None:
    found = measured({100: {"a"}, 200: {"b"}, 400: {"a", "b"}}, {})
    assert [(small, large, plant.id) for small, large, plant in found.list_lost()] == [(100, 200, "a")]


def test_a_room_must_be_used_where_something_is_left_out_and_never_more_than_there_is() -> None:
    everything = {room: {"a", "b"} for room in (100, 200, 400, 20_000)}
    used = {100: 92, 200: 183, 400: 401, 20_000: 10_000}
    assert measured(everything, used).list_unused() == [200, 400]
    assert measured({20_000: {"a"}}, {20_000: 10_000}).list_unused() == [20_000]


def test_it_prints_what_is_shown_of_a_run_beside_the_newest_messages(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "figures.json"
    arguments = ["--seed", "1", "--kind", "support", "--budget", "1000", "--budget", "8000", "--missing"]
    long_work.main([*arguments, "--json", str(file)])
    printed = capsys.readouterr().out
    assert printed.index("## Model: none") < printed.index("## Model: stand-in")
    assert "More room never shows less: " in printed
    assert "Expected at 8,000: " in printed
    assert "Not shown in 8,000:" in printed
    report = json.loads(file.read_text(encoding="utf-8"))
    assert list(report) == ["none", "stand-in"]
    for (run,) in report.values():
        assert (run["kind"], run["seed"], run["failures"]) == ("support", 1, {})
        shown = {room: sum(room in plant["shown"] for plant in run["planted"]) for room in (1_000, 8_000)}
        newest = {room: sum(room in plant["newest"] for plant in run["planted"]) for room in (1_000, 8_000)}
        assert 0 < shown[1_000] < shown[8_000]
        assert newest[1_000] < newest[8_000]


def test_a_real_model_takes_notes_and_does_nothing_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "figures.json"
    nothing = {"observations": [], "nothing_to_note": True, "current_task": None, "next_step": None}
    arguments = ["--kind", "support", "--budget", "2000", "--model", "real", "--json", str(file)]
    with fake_openai(reply=lambda _: nothing) as server:
        monkeypatch.setenv(long_work.BASE_URL, server.url)
        long_work.main(arguments)
        request = len(server.requests)
    (run,) = json.loads(file.read_text(encoding="utf-8"))["real"]
    assert run["done"]["observe"] == request >= 1
    assert not {"entries", "profile", "session_memory"} & set(run["done"])
    assert "## Model: real" in capsys.readouterr().out
    monkeypatch.delenv(long_work.BASE_URL)
    with pytest.raises(SystemExit, match=long_work.BASE_URL):
        long_work.main(arguments)


@pytest.mark.soak
def test_rooms_for_all_show_all_that_was_planted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    long_work.main(["--seed", "1", "--model", "none", "--budget", "200000", "--json", str(file)])
    runs = json.loads(file.read_text(encoding="utf-8"))["none"]
    assert len(runs) == len(RUN_KINDS)
    missing = [plant for run in runs for plant in run["planted"] if not plant["newest"]]
    assert not missing, "what is masked or cut when it is stored cannot be measured"
    assert capsys.readouterr().out.count("(100%)") >= len(PLANTED_KINDS) * (len(RUN_KINDS) + 1)
