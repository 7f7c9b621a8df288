"""Which action serves a prompt, a completion, or a resource that no tool answers for."""

from layerlore.server.actions.by_tool import Action, load_action

BESIDE_TOOLS = {
    "thread_ids": "completing",
    "run_ids": "completing",
    "load_memory": "prompts",
    "resume_work": "prompts",
    "review_memory": "prompts",
    "curate": "prompts",
    "observations_of": "observations",
}
"""The module of each."""


async def action_beside(name: str) -> Action:
    """The action of that name."""
    return await load_action(BESIDE_TOOLS[name], name)
