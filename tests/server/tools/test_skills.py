"""The skills of the plugins name tools that are there, and a server takes every call that they show."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .calling import Tools
from .queueing import Queue

pytestmark = pytest.mark.anyio

SKILLS = {
    path.parent.name: path.read_text("utf-8") for path in Path(__file__).parents[3].glob("plugins/skills/*/SKILL.md")
}
PLAN = {"goal": "Move the invoices", "steps": [{"description": "Look"}, {"description": "Move"}]}


def calls_of(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls in a text's code, in order."""
    for code in re.findall(r"`(\w+\([^`]*\))`", text):
        call = ast.parse(code, mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        yield call.func.id, {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}


@pytest.mark.parametrize("skill", SKILLS)
async def test_every_call_that_a_skill_shows_is_taken(tools: Tools, queue: Queue, skill: str) -> None:
    """In the skill's order, with what earlier answers gave in the place of its words in capitals."""
    await tools.say("kitchen", "The billing service writes invoices at night.")
    await tools("add_messages", messages=[{"role": "user", "content": "The billing service uses Postgres 17."}])
    await tools("update_working_memory", scope="resource", content="- lives in Graz\n- THE LINE")
    for thread in ({}, {"thread_id": "kitchen"}):
        await tools("plan", action="create", plan=PLAN, **thread)
    await queue.ask("entries", "kitchen")
    known = {"THREAD": "kitchen", "SUBJECT": "billing service"}
    kept = await tools("remember", content="The billing service writes its invoices in the morning.")
    known["ID"] = kept["id"]
    known |= dict.fromkeys(("...", "THE USER'S WORDS"), "The billing service writes invoices at noon.")
    called = set()
    for tool, given in calls_of(SKILLS[skill]):
        text = json.dumps(given)
        for word, value in known.items():
            text = text.replace(f'"{word}"', json.dumps(value))
        answer = await tools(tool, **json.loads(text))
        called.add(tool)
        if tool == "remember":
            assert answer["status"] in ("kept", "refreshed"), answer
            assert "kept_without_kind" not in answer
            known["ID"] = answer["id"]
        elif tool == "next_memory_job":
            assert answer["status"] == "taken"
            known["JOB"] = answer["job_id"]
        elif tool == "forget" and (token := re.search(r'confirm="(\w+)"', answer)):
            known["TOKEN"] = token[1]
    assert len(called) > 6


@pytest.mark.parametrize("skill", SKILLS)
async def test_a_skill_names_nothing_that_the_listed_tools_do_not_have(tools: Tools, skill: str) -> None:
    listed = {tool.name: tool.input_schema for tool in (await tools.client.list_tools()).tools}
    arguments = {name for schema in listed.values() for name in schema["properties"]}
    for tool, given in calls_of(SKILLS[skill]):
        assert given.keys() <= listed[tool]["properties"].keys(), tool
    prompts = {each.name for each in (await tools.client.list_prompts()).prompts}
    answers = {"instructions", "material", "schema", "open", "nothing_due"}
    words = set(re.findall(r"`(\w+)`", SKILLS[skill])) - {"layerlore"}
    assert words <= {*listed, *arguments, *prompts, *answers}
    resources = {str(each.uri) for each in (await tools.client.list_resources()).resources}
    assert set(re.findall(r"`(memory://\w+)`", SKILLS[skill])) <= resources
