"""The fixtures of the newer protocol that ask the client for something before they answer."""

import json
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)


def _ask(message: str, name: str, kind: str = "string") -> ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(text: str) -> CreateMessageRequest:
    request = [SamplingMessage(role="user", content=TextContent(type="text", text=text))]
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=request, max_tokens=100))


def _answer(ctx: Context[Any, Any], key: str) -> dict[str, Any]:
    """What the client gave for a request; empty before it did."""
    given = (ctx.input_responses or {}).get(key)
    return given.model_dump(by_alias=True) if given is not None else {}


def add_inputs(fixtures: MCPServer[Any]) -> None:
    _add_single_inputs(fixtures)
    _add_states(fixtures)

    @fixtures.prompt()
    async def test_input_required_result_prompt(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        """Asks the user before it is given."""
        if given := _answer(ctx, "user_context"):
            return f"Use this: {given['content']['context']}"
        return InputRequiredResult(input_requests={"user_context": _ask("Which context?", "context")})


def _add_single_inputs(fixtures: MCPServer[Any]) -> None:
    @fixtures.tool()
    async def test_input_required_result_elicitation(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        """Asks the user for a name."""
        given = _answer(ctx, "user_name")
        if given.get("action") == "accept":
            return f"Hello, {given['content']['name']}!"
        return InputRequiredResult(input_requests={"user_name": _ask("What is your name?", "name")})

    @fixtures.tool()
    async def test_input_required_result_sampling(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        """Asks the client's model for a capital."""
        if given := _answer(ctx, "capital_question"):
            return f"The model said: {given['content']['text']}"
        return InputRequiredResult(input_requests={"capital_question": _sample("What is the capital of France?")})

    @fixtures.tool()
    async def test_input_required_result_list_roots(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        """Asks the client for its roots."""
        if given := _answer(ctx, "client_roots"):
            return f"{len(given['roots'])} roots"
        return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})

    @fixtures.tool()
    async def test_input_required_result_multiple_inputs(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        """Asks the user, the model and the client at once."""
        request = {
            "user_name": _ask("What is your name?", "name"),
            "greeting": _sample("Greet."),
            "roots": ListRootsRequest(),
        }
        if all(_answer(ctx, key) for key in request):
            return "all given"
        return InputRequiredResult(input_requests=request, request_state="asked for three")

    @fixtures.tool()
    async def test_input_required_result_capabilities(ctx: Context[Any, Any]) -> InputRequiredResult:
        """Asks only for what the client said it can give."""
        able = ctx.client_capabilities
        request: dict[str, Any] = {}
        if able is not None and able.sampling is not None:
            request["greeting"] = _sample("Greet.")
        if able is not None and able.elicitation is not None:
            request["user_name"] = _ask("What is your name?", "name")
        return InputRequiredResult(input_requests=request, request_state="asked for what can be given")


def _add_states(fixtures: MCPServer[Any]) -> None:
    """Those that hand the client a state to bring back, which the protocol's own layer seals."""

    @fixtures.tool()
    async def test_input_required_result_request_state(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        """Asks the user, and wants its state back."""
        if _answer(ctx, "confirm") and ctx.request_state == "confirming":
            return "state-ok"
        return InputRequiredResult(
            input_requests={"confirm": _ask("Sure?", "ok", "boolean")}, request_state="confirming"
        )

    @fixtures.tool()
    async def test_input_required_result_tampered_state(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        """Asks the user; nobody gets past with a state that was changed."""
        if ctx.request_state is not None:
            return "state-ok"
        return InputRequiredResult(
            input_requests={"confirm": _ask("Sure?", "ok", "boolean")}, request_state="confirming"
        )

    @fixtures.tool()
    async def test_input_required_result_multi_round(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        """Asks the user twice."""
        state = json.loads(ctx.request_state or "{}")
        if "name" in state and (given := _answer(ctx, "step2")):
            return f"{state['name']} likes {given['content']['color']}."
        if given := _answer(ctx, "step1"):
            return InputRequiredResult(
                input_requests={"step2": _ask("Which colour?", "color")},
                request_state=json.dumps({"name": given["content"]["name"]}),
            )
        return InputRequiredResult(
            input_requests={"step1": _ask("What is your name?", "name")}, request_state=json.dumps({"begun": True})
        )
