"""The benchmarks of calls run end to end on little input and print what they promise."""

from typing import Any

import pytest

Runs = dict[str, Any]


@pytest.mark.soak
def test_calls_prints_each_call_on_each_transport_beside_the_no_op_call(runs: Runs) -> None:
    _, figures = runs["calls"].result()
    found = [row for row in runs["calls"].rows() if row[0] in ("stdio", "http")]
    assert [row[:3] for row in found] == [
        [transport, "20", call] for transport in ("stdio", "http") for call in ("get", "recall", "add")
    ]
    assert {row[-1] for row in found} <= {"hold", "miss", "-"}
    for call in figures["calls"]:
        assert call["ours"]["p50_ms"] > 0
        assert call["no-op"]["p50_ms"] > 0
    assert all(call["commit"]["p50_ms"] > 0 for call in figures["calls"] if call["call"] == "add")
    assert figures["adds_beside_vectors"]["p50_ms"] > 0


@pytest.mark.soak
def test_calls_prints_starts_and_memory(runs: Runs) -> None:
    printed, figures = runs["calls"].result()
    assert [row[0] for row in runs["calls"].rows() if row[0] in ("layerlore", "no-op")] == ["layerlore", "no-op"]
    assert "Ours / no-op: initialize" in printed
    assert "Resident memory over stdio" in printed
    start = figures["starts"]["layerlore"]
    assert 0 < start["initialize"] < start["tools"] < start["first_call"]
    assert figures["resident_mb"] > 0


@pytest.mark.soak
def test_calls_waits_until_every_message_has_its_vector(runs: Runs) -> None:
    printed, _ = runs["calls"].result()
    assert "VECTORS ARE MISSING" not in printed


@pytest.mark.soak
def test_context_prints_its_cost_by_length_and_what_a_cache_could_reuse(runs: Runs) -> None:
    printed, figures = runs["context"].result()
    assert [row[0] for row in runs["context"].rows() if row[0] in ("20", "60")] == ["20", "60"]
    assert all(each["context"]["p50_ms"] > 0 < each["statements_ms"] for each in figures["calls"])
    assert all(each["no-op"]["p50_ms"] > 0 for each in figures["calls"])
    assert set(figures["reuse"]) >= {"observed (default)", "messages, continuous 20"}
    assert all(0 < each["share"] < 1 and each["contexts"] == 6 for each in figures["reuse"].values())
    assert "What a prompt cache could reuse, 5 turns" in printed


@pytest.mark.soak
def test_sharing_prints_what_hosts_wait_for_and_what_they_hold(runs: Runs) -> None:
    printed, figures = runs["sharing"].result()
    assert "2 hosts and their server" in printed
    assert figures["client_mb"] < figures["server_mb"] < figures["hosts_mb"]
    for start in (figures["shared"], figures["noop"]):
        assert 0 < start["tools"] <= start["first_call"]


@pytest.mark.soak
def test_load_measures_each_transport_database_and_number_of_servers_beside_the_no_op_server(runs: Runs) -> None:
    _, figures = runs["load"].result()
    for server in ("layerlore", "no-op"):
        found = [each for each in figures["throughput"] if each["server"] == server]
        assert [(each["transport"], each["database"], each["servers"]) for each in found] == [
            (transport, database, servers)
            for transport in ("stdio", "http")
            for database in ("sqlite", "postgres")
            for servers in (1, 2)
        ]
        assert all(each["per_second"] > 0 < each["resident_mb"] for each in found)
        assert [each["texts"] for each in found] == [{}] * 8
    ours = [each for each in figures["throughput"] if each["server"] == "layerlore"]
    assert all(each["cpu_ms"]["sdk"] > 0 for each in ours)
    assert all(each["cpu_ms"]["database"] > 0 for each in ours if each["transport"] == "http")


@pytest.mark.soak
def test_load_finds_every_acknowledged_message_again_after_an_overload_and_a_long_run(runs: Runs) -> None:
    _, figures = runs["load"].result()
    assert [(each["database"], each["servers"]) for each in figures["overload"]] == [
        (database, servers) for database in ("sqlite", "postgres") for servers in (1, 2)
    ]
    assert len(figures["soak"]) == 4
    for each in (*figures["overload"], *figures["soak"]):
        assert each["acknowledged"] > 0
        assert (each["lost"], each["errors"]) == (0, 0)


@pytest.mark.soak
def test_load_times_recall_in_a_store_that_others_filled_beside_a_small_one(runs: Runs) -> None:
    _, figures = runs["load"].result()
    assert [(each["database"], each["messages"]) for each in figures["million"]] == [("sqlite", 60), ("postgres", 60)]
    assert all(each["small"]["p50_ms"] > 0 < each["large"]["p50_ms"] for each in figures["million"])


@pytest.mark.soak
def test_noisy_tenant_prints_what_quiet_ones_notice_and_that_the_noise_was_refused(runs: Runs) -> None:
    printed, figures = runs["noisy_tenant"].result()
    rounds = ["nobody", "the noisy one, closed", "the noisy one, open"]
    assert [row[0] for row in runs["noisy_tenant"].rows() if row[0] in rounds] == rounds
    assert [each["calls"] for each in figures["quiet"].values()] == [90] * 3
    assert all(each["p50_ms"] > 0 < each["times"] for each in figures["quiet"].values())
    assert "calls 20 times as often as it may" in printed
    for counts in figures["noisy"].values():
        assert counts.get("refused", 0) + counts.get("429", 0) + counts.get("answered", 0) > 0
        assert counts.get("failed", 0) == 0
    assert figures["noisy"]["open"]["dropped"] > 0


@pytest.mark.soak
def test_hostile_prints_what_quiet_ones_notice_of_each_thing_that_it_does(runs: Runs) -> None:
    _, figures = runs["hostile"].result()
    manners = ["big answers", "unread answers", "sessions", "silent connections", "filling"]
    assert [row[0] for row in runs["hostile"].rows() if row[0] in manners] == manners * 2
    for manner in manners:
        assert figures[manner]["calls"] == 12
        assert figures[manner]["hostile"]["sent"] > 0
        assert figures[manner]["hostile"].get("broken", 0) == 0
