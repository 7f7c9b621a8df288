"""remember: an entry takes the place of the one that the caller names, and every answer names what it is like."""

import json

import pytest

from ...server.tools.calling import Json, Tools

pytestmark = pytest.mark.anyio

STEPS = "To deploy we build, test, tag, push, migrate and announce."


async def listed(tools: Tools) -> list[Json]:
    """The entries, the newest first."""
    found = await tools.client.read_resource("memory://entries")
    rows: list[Json] = json.loads(found.contents[0].text)["entries"]  # type: ignore[union-attr]
    return rows


@pytest.mark.databases
async def test_an_entry_replaces_the_one_that_the_caller_names_and_nothing_else(tools: Tools) -> None:
    old = await tools("remember", content="The user lives in Graz.")
    other = await tools("remember", content="The user's mother lives in Graz.")
    told = await tools("remember", content="The user moved to a flat in Linz.", replaces=old["id"])
    assert (told["status"], told["replaced"]) == ("kept", [{"id": old["id"], "content": "The user lives in Graz."}])
    assert {row["id"] for row in await listed(tools)} == {told["id"], other["id"]}
    await tools("undo", undo_id=told["undo"])
    assert {row["id"] for row in await listed(tools)} == {old["id"], other["id"]}
    assert "there is no entry" in await tools.refused("remember", content="x y", replaces="e1")


async def test_an_amended_entry_keeps_kind_pin_and_the_sources_that_still_say_it(tools: Tools) -> None:
    await tools.say("main", "Remember: to deploy we build, test, tag, push, migrate and announce.")
    quoted = "to deploy we build, test, tag, push, migrate and announce"
    old = await tools(
        "remember", content=STEPS, evidence=quoted, source="user_assertion", kind="fact", thread_id="main"
    )
    amended = STEPS.replace("migrate", "migrate, wait")
    told = await tools("remember", content=amended, replaces=old["id"])
    (row,) = await listed(tools)
    assert (row["id"], row["content"], row["kind"]) == (told["id"], amended, "fact")
    assert [source["quote"] for source in row["sources"]] == [quoted]
    await tools("remember", content=amended.replace("tag, ", ""), replaces=told["id"])
    (row,) = await listed(tools)
    assert row["sources"] == []


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("The user lives in Graz.", "The user lives in Linz."),
        ("The user works at Siemens.", "The user works at Bosch."),
        ("The project deploys with Docker.", "The project deploys with Kamal."),
    ],
)
async def test_a_correction_replaces_the_one_entry_with_the_same_subject_and_attribute(
    tools: Tools, known: str, new: str
) -> None:
    old = await tools("remember", content=known)
    await tools("remember", content="The user plays chess.")
    told = await tools("remember", content=new, kind="correction")
    assert told["replaced"] == [{"id": old["id"], "content": known}]
    assert {row["content"] for row in await listed(tools)} == {new, "The user plays chess."}


async def test_a_correction_of_something_else_replaces_nothing(tools: Tools) -> None:
    move = "The move to Lisbon is on 28 September."
    await tools("remember", content=move)
    flight = "The flight to Lisbon is TP 537 on 2026-09-30 (not the 29th)."
    told = await tools("remember", content=flight, kind="correction")
    assert (told["status"], "replaced" in told, "contradicts" in told) == ("kept", False, False)
    assert {row["content"] for row in await listed(tools)} == {move, flight}


async def test_a_correction_that_may_mean_two_entries_names_both_and_hides_neither(tools: Tools) -> None:
    first = await tools("remember", content="The user lives in Graz.")
    second = await tools("remember", content="The user lives in Wien.")
    told = await tools("remember", content="The user lives in Linz.", kind="correction")
    assert "replaced" not in told
    assert {each["id"]: each["content"] for each in told["candidates"]} == {
        first["id"]: "The user lives in Graz.",
        second["id"]: "The user lives in Wien.",
    }
    assert set(told["contradicts"]) == {first["id"], second["id"]}
    shown = await tools("recall_memory", query="Where does the user live?")
    (newest,) = [line for line in shown.splitlines() if line.endswith("The user lives in Linz.")]
    assert "newer than what says otherwise" in newest
    assert len(await listed(tools)) == 3


async def test_entries_that_are_alike_are_all_kept_and_named(tools: Tools) -> None:
    first = await tools("remember", content="Tests run before the deploy.")
    told = await tools("remember", content="Tests run after the deploy.")
    assert (told["status"], told["similar"]) == (
        "kept",
        [{"id": first["id"], "content": "Tests run before the deploy."}],
    )
    again = await tools("remember", content="The tests run after the deploy")
    assert (again["status"], again["id"], again["content"]) == ("similar", told["id"], "Tests run after the deploy.")


async def test_a_repetition_with_evidence_adds_the_evidence_to_the_entry(tools: Tools) -> None:
    await tools.say("main", "I live in Graz.")
    first = await tools("remember", content="The user lives in Graz.")
    again = await tools("remember", content="User lives in Graz", evidence="I live in Graz", source="user_assertion",
                        thread_id="main")  # fmt: skip
    assert (again["status"], again["id"]) == ("refreshed", first["id"])
    (row,) = await listed(tools)
    assert (row["content"], row["trust"]) == ("The user lives in Graz.", "user")
    assert [source["quote"] for source in row["sources"]] == ["I live in Graz"]


async def test_assignments_of_two_tickets_do_not_contradict_each_other(tools: Tools) -> None:
    await tools("remember", content="Ticket 4711 is assigned to Ana.")
    told = await tools("remember", content="Ticket 4712 is assigned to Ben.")
    assert "contradicts" not in told
    assert "otherwise" not in await tools("recall_memory", query="Who has ticket 4711?")


async def test_an_entry_that_loses_the_kind_of_the_one_it_replaces_says_so(tools: Tools) -> None:
    await tools.say("main", "We decided to use Postgres for billing.")
    quoted = {"evidence": "We decided to use Postgres for billing.", "source": "user_assertion", "thread_id": "main"}
    old = await tools("remember", content="Billing uses Postgres.", kind="decision", **quoted)
    new = await tools("remember", content="Invoices are stored in S3.", replaces=old["id"])
    assert (new["replaced"][0]["id"], new["kept_without_kind"]) == (old["id"], "decision")


@pytest.mark.parametrize("content", ["The user", "user", "the users", "He is."])
async def test_a_content_without_a_word_of_its_own_is_kept_like_any_other(tools: Tools, content: str) -> None:
    await tools.say("main", "The user is here.", "He is.")
    told = await tools("remember", content=content, thread_id="main")
    assert told["id"]
