"""Several wordings of one question, and questions of several sentences."""

import pytest

from ...server.tools.calling import Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

FAILED = "The HTTP node fails with 401 because the token of the SAP credential expired"
ALONE = "Why did the HTTP node fail with 401?"
DESCRIBED = "Our new workflow gets 401 from SAP. What could be the cause?"
IN_GERMAN = "Nach dem Umzug kommt 401 von SAP. Woran kann das liegen?"
PLACES = ("harbour", "meadow", "bakery", "attic", "library", "station")
ACTS = ("painted", "repaired", "visited", "photographed", "measured", "described", "cleaned", "sold", "rented")


async def fill(tools: Tools) -> None:
    """Fifty-four messages in three threads, and in one of them the failure."""
    texts = [f"Ana {act} the {place} number {at}" for at, act in enumerate(ACTS) for place in PLACES]
    for thread in range(3):
        said = texts[thread::3]
        if thread == 1:
            said.insert(9, FAILED)
        await tools.say(f"thread {thread}", *said)


@pytest.mark.parametrize("question", [ALONE, DESCRIBED, IN_GERMAN])
async def test_a_question_after_a_description_is_answered_as_surely_as_one_alone(tools: Tools, question: str) -> None:
    await fill(tools)
    answer = await tools("recall_memory", query=question, format="json")
    assert answer["hits"][0]["text"] == FAILED
    assert "confidence" not in answer


async def test_wordings_that_fit_little_push_no_hit_of_a_good_one_out(tools: Tools) -> None:
    await fill(tools)
    others = [
        "zeppelins above the bakery",
        "who sold sixteen violins",
        "a submarine beside the station",
        "cleaned yachts",
    ]
    for place in range(5):
        wordings = [*others[:place], ALONE, *others[place:]]
        assert (await tools.found("", queries=wordings))[0] == FAILED


async def test_a_hit_of_several_wordings_comes_before_hits_of_one(tools: Tools) -> None:
    await fill(tools)
    found = await tools.found("", queries=["who painted it", "the bakery", "number 0"])
    assert found[0] == "Ana painted the bakery number 0"


async def test_the_best_hit_of_several_wordings_is_as_relevant_as_the_best_wording(tools: Tools) -> None:
    await fill(tools)
    (alone, *_) = await tools.hits(ALONE)
    (joined, *others) = await tools.hits("", queries=[ALONE, "zeppelin submarine"])
    assert joined["score"] == alone["score"]
    assert all(hit["score"] < joined["score"] for hit in others)


async def test_only_an_explanation_says_which_wording_found_a_hit(tools: Tools) -> None:
    await fill(tools)
    wordings = ["the bakery", ALONE]
    hits = await tools.hits("", queries=wordings, explain=True)
    assert next(hit["parts"]["query"] for hit in hits if hit["text"] == FAILED) == 2
    assert all("parts" not in hit for hit in await tools.hits("", queries=wordings))
    (described, *_) = await tools.hits(DESCRIBED, explain=True)
    assert described["parts"]["query"] == 1
