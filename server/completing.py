"""completion/complete: ids for the arguments of templates and prompts."""

from collections.abc import Sequence
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.uri_template import UriTemplate
from mcp.types import CompleteRequestParams, CompleteResult, Completion, PromptReference, ResourceTemplateReference

from layerlore.memory.acceptance import one_of
from layerlore.server.acting import act_beside
from layerlore.server.memory_uri import template_of
from layerlore.server.process import Process
from layerlore.server.prompting import PROMPTS
from layerlore.server.resources.described import TEMPLATED
from layerlore.storage.errors import InvalidInput

_TEMPLATES = {template: UriTemplate.parse(template).variable_names for template in map(template_of, TEMPLATED)}
# Which action knows the values of which argument; of the others nobody can.
_IDS = {"thread_id": "thread_ids", "run_id": "run_ids"}


async def complete(ctx: ServerRequestContext[Process, Any], params: CompleteRequestParams) -> CompleteResult:
    """The caller's own ids that begin with what was typed, newest first. Raises LayerloreError."""
    if ctx.lifespan_context.settings.memory == "off":
        raise InvalidInput("memory is switched off (memory = off): there is nothing to complete")
    arguments, name = _arguments(params.ref), params.argument.name
    if name not in arguments:
        takes = one_of(name, arguments) if arguments else "it takes no arguments"
        raise InvalidInput(f"there is no argument {name[:64]!r} to complete; {takes}")
    if name not in _IDS:
        return CompleteResult(completion=Completion(values=[], total=0, has_more=False))
    found, total = await act_beside(ctx, _IDS[name], {"typed": params.argument.value})
    return CompleteResult(completion=Completion(values=found, total=total, has_more=total > len(found)))


def _arguments(ref: PromptReference | ResourceTemplateReference) -> Sequence[str]:
    """The arguments of what is being filled in. Raises InvalidInput when it does not exist."""
    if isinstance(ref, PromptReference):
        if ref.name not in PROMPTS:
            raise InvalidInput(f"there is no prompt {ref.name[:64]!r}; {one_of(ref.name, list(PROMPTS))}")
        return [argument.name for argument in PROMPTS[ref.name].arguments or ()]
    if ref.uri not in _TEMPLATES:
        raise InvalidInput(f"there is no template {ref.uri[:80]!r}; {one_of(ref.uri, list(_TEMPLATES))}")
    return _TEMPLATES[ref.uri]
