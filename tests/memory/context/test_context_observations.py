"""Observations in a context: they stand for what was noted, and nothing falls between them and the window."""

import re

import pytest

from ...server.tools.calling import Connect, Json, Tools

pytestmark = pytest.mark.anyio

FEW = {"message_tokens": 400}


async def noted(tools: Tools, text: str) -> int:
    """The host's model notes what is due to be observed, one note a job; returns how many jobs there were."""
    done = 0
    while (job := await tools("next_memory_job")).get("kind") == "observe":
        seqs = [message["seq"] for message in job["material"]["messages"]]
        note: Json = {
            "marker": "important",
            "text": f"{text}, part {done}",
            "from_seq": seqs[0],
            "to_seq": seqs[-1],
            "refers_to": None,
            "details": [],
        }
        known = job["schema"]["properties"]["observations"]["items"]["properties"]
        answer = {"observations": [{name: note.get(name) for name in known}], "nothing_to_note": False}
        await tools(
            "submit_memory_job", job_id=job["job_id"], result={**answer, "current_task": None, "next_step": None}
        )
        done += 1
    return done


async def test_a_context_has_the_notes_and_what_came_after_them(connect: Connect) -> None:
    async with connect(toolsets="all", observation=FEW) as tools:
        for number in range(12):
            await tools.add(
                "main",
                {"role": "user", "content": f"question {number} " + "about the weather " * 8},
                {"role": "assistant", "content": f"answer {number} " + "sunny and dry " * 8},
            )
        assert await noted(tools, "The weather was talked about") >= 1
        text = await tools("get_context", thread_id="main")
        assert text.index("<observations>") < text.index("<conversation>")
        assert "[important]" in text.partition("</observations>")[0]
        told, _, recalled = text.partition("<memory>")
        shown = [int(seq) for seq in re.findall(r"^#(\d+) ", told + recalled.partition("</memory>")[2], re.MULTILINE)]
        assert shown == list(range(shown[0], 25))
        assert len(shown) >= 20
        again = await tools("get_context", thread_id="main")
        assert again == text


async def test_a_rule_that_a_note_repeats_word_for_word_is_shown_once(connect: Connect) -> None:
    rules = ["Never use tabs in the YAML files.", "Always answer me in short sentences."]
    async with connect(toolsets="all", observation=FEW) as tools:
        for rule in rules:
            await tools.add(
                "main", {"role": "user", "content": rule}, {"role": "assistant", "content": "I will keep to that."}
            )
        for number in range(40):
            await tools.add(
                "main",
                {"role": "user", "content": f"question {number} " + "about the weather " * 8},
                {"role": "assistant", "content": f"answer {number} " + "sunny and dry " * 8},
            )
        assert await noted(tools, f"User said: {rules[0]}") >= 1
        text = await tools("get_context", thread_id="main", max_tokens=2500)
    assert "#1 " not in text.partition("<conversation>")[2]
    told = text.partition("<conversation>")[0]
    assert "tabs in the YAML files" in told.partition("</observations>")[0]
    assert "tabs in the YAML files" not in told.partition("<summary>")[2]
    # What no note says stands among the extracts.
    assert rules[1] in told.partition("<summary>")[2]
