"""Which action serves a prompt, a completion, or a resource that no tool answers for."""

from memstrata.server.actions import completing, observations, prompts
from memstrata.server.actions.by_tool import Action

BESIDE_TOOLS: dict[str, Action] = {
    action.__name__: action
    for action in (
        *(completing.thread_ids, completing.run_ids),
        *(prompts.load_memory, prompts.resume_work, prompts.review_memory, prompts.curate),
        observations.observations_of,
    )
}
