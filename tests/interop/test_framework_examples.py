"""The examples of frameworks remember, each in its framework's own environment. The plain loops run in `make test`."""

from pathlib import Path

import pytest
from told_twice import remembers

from .python_environments import environment

EXAMPLES = {
    "langgraph_agent.py": "langchain",
    "openai_agents_sdk.py": "openai-agents",
    "pydantic_ai_agent.py": "pydantic-ai",
}


@pytest.mark.parametrize(("example", "framework"), EXAMPLES.items(), ids=EXAMPLES)
def test_an_agent_of_a_framework_knows_in_a_new_process_what_it_was_told_before(
    example: str, framework: str, tmp_path: Path
) -> None:
    remembers(example, environment(framework), tmp_path)
