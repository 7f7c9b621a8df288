"""completion/complete: ids for the arguments of templates and prompts."""

from collections.abc import Sequence

from mcp.shared.uri_template import UriTemplate
from mcp.types import CompleteRequestParams, CompleteResult, Completion, PromptReference, ResourceTemplateReference

from layerlore.memory.rules.validation import check_text, describe_choices
from layerlore.server.access.caller import RequestContext, settings_of
from layerlore.server.prompts.prompts import PROMPTS
from layerlore.server.resources.kinds import TEMPLATED
from layerlore.server.resources.uris import template_of
from layerlore.server.tools.call import Call, call_function
from layerlore.storage.core.errors import InvalidInput

# As many as the protocol allows in one answer.
MOST = 100

_TEMPLATES = {template: UriTemplate.parse(template).variable_names for template in map(template_of, TEMPLATED)}


async def find_thread_ids(call: Call, typed: str) -> tuple[list[str], int]:
    """Ids of the caller's threads, those updated last first, and how many begin so in all."""
    from layerlore.storage.threads import threads

    return await call.engine.database.read(threads.thread_ids, call.scope, check_text(typed, "thread_id"), most=MOST)


async def find_run_ids(call: Call, typed: str) -> tuple[list[str], int]:
    """Ids of the caller's runs, those updated last first, and how many begin so in all."""
    from layerlore.storage.threads import threads

    return await call.engine.database.read(threads.run_ids, call.scope, check_text(typed, "run_id"), most=MOST)


# The function that knows the values of each argument; other arguments cannot be completed.
_IDS = {"thread_id": find_thread_ids, "run_id": find_run_ids}


async def complete(ctx: RequestContext, params: CompleteRequestParams) -> CompleteResult:
    """The caller's own ids that begin with what was typed, newest first. Raises LayerloreError."""
    if settings_of(ctx).memory == "off":
        raise InvalidInput("memory is switched off (memory = off): there is nothing to complete")
    arguments, name = _arguments(params.ref), params.argument.name
    if name not in arguments:
        if arguments:
            takes = describe_choices(name, arguments)
        else:
            takes = "it takes no arguments"
        raise InvalidInput(f"there is no argument {name[:64]!r} to complete; {takes}")
    if name not in _IDS:
        return CompleteResult(completion=Completion(values=[], total=0, has_more=False))
    found, total = await call_function(ctx, _IDS[name], {"typed": params.argument.value})
    return CompleteResult(completion=Completion(values=found, total=total, has_more=total > len(found)))


def _arguments(ref: PromptReference | ResourceTemplateReference) -> Sequence[str]:
    """The arguments of what is being filled in. Raises InvalidInput when it does not exist."""
    if isinstance(ref, PromptReference):
        if ref.name not in PROMPTS:
            raise InvalidInput(f"there is no prompt {ref.name[:64]!r}; {describe_choices(ref.name, list(PROMPTS))}")
        return [argument.name for argument in PROMPTS[ref.name].listed.arguments or ()]
    if ref.uri not in _TEMPLATES:
        raise InvalidInput(f"there is no template {ref.uri[:80]!r}; {describe_choices(ref.uri, list(_TEMPLATES))}")
    return _TEMPLATES[ref.uri]
