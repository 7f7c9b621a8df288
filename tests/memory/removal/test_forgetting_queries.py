"""What a query to forget selects: what is about it, and nothing that only resembles it, on both databases."""

from collections.abc import Callable

import pytest

from layerlore.memory.embedding.service import EmbeddingService

from ..entry_memory import Memory

pytestmark = pytest.mark.anyio

KEPT = (
    *(
        "The code of room101 is blue.",
        "The code of room202 is red.",
        "Ticket ABC1234 is open.",
        "Ticket ABC1777 waits.",
    ),
    *("The server prod-db1 runs Postgres 16.", "The server prod-db2 runs Postgres 14.", "Carlos lives in Rome."),
    *(
        "Carla lives in Oslo.",
        "Bob's address is Mill Lane 4.",
        "Ana is allergic to peanuts.",
        "Dr. Abel is the dentist.",
    ),
    *(
        "Dr. Bruno is the vet.",
        "Simone wohnt in Bonn.",
        "Die Rechnungen der Stadtwerke sind bezahlt.",
        "We paint the walls.",
    ),
    *("Camille habite à Lyon.", "Camilla habite à Nice.", "La voisine est gentille.", "Karlas Telefon ist kaputt."),
    *("The appointment with the tax advisor is on Monday.", "The gate is green.", "The gate codes are in the safe."),
)
MEANT = {
    "room101": ["The code of room101 is blue."],
    "ABC1234": ["Ticket ABC1234 is open."],
    "prod-db1": ["The server prod-db1 runs Postgres 16."],
    "Carla": ["Carla lives in Oslo."],
    "everything about Carla": ["Carla lives in Oslo."],
    "Carla and Carlos": ["Carla lives in Oslo.", "Carlos lives in Rome."],
    "Carla's address": [],
    "Carla stuff": ["Carla lives in Oslo."],
    "Bob's address": ["Bob's address is Mill Lane 4."],
    "Dr. Abel": ["Dr. Abel is the dentist."],
    "painted wall": ["We paint the walls."],
    "the gate code": ["The gate codes are in the safe."],
    "my dental appointment": [],
    "Vergiss alles über Simon": [],
    "die Rechnungen der Stadtwerke": ["Die Rechnungen der Stadtwerke sind bezahlt."],
    "alles über Karla": ["Karlas Telefon ist kaputt."],
    "tout sur Camille": ["Camille habite à Lyon."],
    "oublie mes voisins": ["La voisine est gentille."],
}


async def test_a_query_selects_the_entries_that_are_about_it_and_no_others(memory: Memory) -> None:
    for text in KEPT:
        await memory.remember(text)
    selected = {}
    for query in MEANT:
        preview = await memory.forget(query=query)
        selected[query] = sorted(text for text in KEPT if text in preview)
    assert selected == MEANT


async def test_messages_and_lines_are_held_to_the_same_rule(memory: Memory) -> None:
    await memory.say("main", "I left my keys in room202.", "Room101 has a broken lamp.", "Please call Carlos.")
    assert "room202" not in await memory.forget(query="room101")
    assert "broken lamp" in await memory.forget(query="room101")
    assert await memory.forget(query="Carla") == "Nothing that is remembered is about this; nothing to forget."


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("the host 10.4.0.99", "The host is 10.4.0.99 now."),
        ("SHOP-812", "Ticket SHOP-812 waits for a review."),
        ("everything about release v2.7.1", "We ship release v2.7.1 on Friday."),
    ],
)
async def test_what_is_written_as_one_is_found_as_one_and_not_by_its_parts(
    memory: Memory, query: str, written: str
) -> None:
    log = "\n".join(f"host shop release v{n} pulled item {n} of row {n % 50}" for n in range(900))
    await memory.say("main", written, log)
    await memory.remember(written)
    preview = await memory.forget(query=query)
    assert preview.count(written) == 2
    assert "pulled item" not in preview


async def test_an_entry_that_means_the_query_is_selected_unless_a_name_is_asked_for(
    memory_of: Callable[..., Memory], embedding: EmbeddingService
) -> None:
    memory = memory_of(embedding)
    for text in ("A pineapple is on the table.", "The gate is green.", "Bob reads."):
        await memory.remember(text)
    await memory.recall("apple")
    preview = await memory.forget(query="my apple")
    assert "pineapple" in preview
    assert "gate" not in preview
    for named in ("Apple", "apple7"):
        assert await memory.forget(query=named) == "Nothing that is remembered is about this; nothing to forget."
