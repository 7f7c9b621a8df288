"""The benchmark of compression: what is planted in its run, how it counts what was kept, and what it prints."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_openai import fake_openai

from benchmarks.compressing import CLOSING, Compressed, Told, compressed
from benchmarks.kept_values import kept, values_of
from benchmarks.standing_in import NAME, StandIn
from benchmarks.tool_run import STEPS_OF_A_WORKFLOW, tool_run

Runs = dict[str, Any]

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0


@pytest.mark.soak
def test_compression_prints_ratios_and_what_is_kept_of_the_run_and_of_each_set(runs: Runs) -> None:
    printed, figures = runs["compression"].result()
    assert list(figures) == ["extractive", NAME]
    found = [row[:3] for row in runs["compression"].rows() if row[0] in ("tool run, 10 steps", "set")]
    assert found == [["tool run, 10 steps", "1", "22"], ["set", "2", "4"]] * 2
    assert printed.count("times shorter; expected 5 to 40 times: hold") == 2
    for thinker in figures.values():
        run = thinker["figures"]["tool run, 10 steps"]
        assert (run["found"]["values"], run["failures"]) == (12, 0)
        assert run["ratio"] >= 5
        assert 0 < run["reflected"] < run["observed"]
        assert thinker["figures"]["set"]["found"]["values"] == 0


@pytest.mark.soak
def test_compression_keeps_every_planted_value_of_a_short_run_in_extracts(runs: Runs) -> None:
    _, figures = runs["compression"].result()
    planted = figures["extractive"]["planted"]
    assert {kind: found["kept"] for kind, found in planted.items()} == {"id": 7, "number": 4, "error code": 1}
    assert all(found["shown"] is None for found in planted.values())
    assert all(found["shown"] == found["values"] for found in figures[NAME]["planted"].values())


def test_a_run_is_the_same_for_the_same_seed_and_has_in_each_step_what_is_planted_there() -> None:
    run = tool_run(25, seed=3)
    assert len(run) == 25
    assert [step.messages for step in run] == [step.messages for step in tool_run(25, seed=3)]
    assert [step.messages for step in run] != [step.messages for step in tool_run(25, seed=4)]
    values = [each.value for step in run for each in step.planted]
    assert len(set(values)) == len(values)
    for step in run:
        said = json.dumps(step.messages)
        assert len(kept([each.value for each in step.planted], said)) == len(step.planted)
    assert run[STEPS_OF_A_WORKFLOW].messages[0]["role"] == "user"


def test_values_are_dates_in_words_and_words_with_a_digit_each_once() -> None:
    said = ["On May 7th, 2024 I paid $1,250.00 for A-17 (see v2.1) - 15%.", "a-17 again; no one, in March 2023!"]
    assert values_of(said) == ["may 7th, 2024", "$1,250.00", "a-17", "v2.1", "15%", "march 2023"]
    assert values_of(["May I come?", "..."]) == []


@pytest.mark.parametrize(
    ("value", "text", "there"),
    [
        ("17", "rows 17, 18", True),
        ("17", "rows 1170 and a17", False),
        ("17", "217 and then 17", True),
        ("A-17", "(a-17)", True),
        ("E_429", "THE_E_429", False),
        ("15%", "15% off", True),
    ],
)
def test_a_value_is_kept_only_as_a_word_of_its_own(value: str, text: str, there: bool) -> None:
    assert kept([value], text) == ([value] if there else [])


def test_a_window_as_long_holds_the_newest_messages_that_fit() -> None:
    told = Told("", 0, 0, 0)
    done = Compressed([("old", 5), ("newer", 4), ("newest", 3)], told, told, "", 0)
    assert [done.newest(tokens) for tokens in (2, 3, 7, 11, 12)] == [
        "",
        "newest",
        "newest\nnewer",
        "newest\nnewer",
        "newest\nnewer\nold",
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("chat", [None, StandIn()])
async def test_everything_that_was_said_is_noted_but_the_closing_words(chat: StandIn | None) -> None:
    text = "Please send the order {} to Ana in the small house by the lake on 2025-03-1{}."
    said = [[{"role": "user", "content": text.format(f"A-450{number}", number)}] for number in range(9)]
    done = await compressed(said, chat, 1000)
    assert len(done.messages) == 9
    orders = [f"A-450{number}" for number in range(9)]
    assert kept(orders, done.observed.text) == orders
    assert CLOSING["content"] not in done.observed.text
    assert done.observed.extracts == (done.observed.notes if chat is None else 0)
    assert done.reflected.tokens < done.observed.tokens
    assert done.failures == 0


@pytest.mark.soak
def test_a_model_behind_a_server_is_asked_and_its_failures_are_told(tmp_path: Path) -> None:
    note = {"marker": "info", "text": "So it goes on.", "from_seq": 1, "to_seq": 1, "refers_to": None, "details": []}
    observed = {"observations": [note], "nothing_to_note": False, "current_task": None, "next_step": None}

    def reply(request: dict[str, Any]) -> Any:
        return {"merge": [], "drop": []} if "supersedes" in json.dumps(request) else observed

    file = tmp_path / "figures.json"
    with fake_openai(reply=reply) as server:
        asked = ["--steps", "4", "--model", "openai/one", "--base-url", server.url, "--json", str(file)]
        command = [sys.executable, "-m", "benchmarks.compression", *asked]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert len(server.requests) >= 2
    assert done.returncode == 0, done.stderr
    run = json.loads(file.read_text(encoding="utf-8"))["openai/one"]["figures"]["tool run, 4 steps"]
    assert run["found"]["kept"] == 0 < run["found"]["shown"]
    assert (run["extracts"], run["failures"]) == (0, 4), "a reflection that changes nothing is refused at every level"
    assert run["observed"] == run["reflected"]
    assert "4 attempts failed; 0 extracts stand in." in done.stdout
