"""The tools, resources and prompts that the conformance suite calls by name, on an MCP server of their own."""

import base64
import json
from typing import Annotated, Any

from input_fixtures import add_inputs
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    Completion,
    CompletionArgument,
    CompletionContext,
    EmbeddedResource,
    ImageContent,
    PromptReference,
    ResourceTemplateReference,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import Field

# One red pixel, and a tenth of a millisecond of silence.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
SILENCE = base64.b64encode(
    b"RIFF\x26\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00"
    b"data\x02\x00\x00\x00\x00\x00"
).decode()

PERSON = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
CHOICES = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {
        "type": "string",
        "oneOf": [{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"}],
    },
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["First", "Second"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2"]}},
    "titledMulti": {
        "type": "array",
        "items": {"anyOf": [{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"}]},
    },
}
# Word for word what the suite looks for in the list of tools.
KEYWORDS_OF_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def build_fixtures(news: Any) -> MCPServer[Any]:
    """``news`` is the bus that tells of changes to clients."""
    fixtures: MCPServer[Any] = MCPServer("fixtures", subscriptions=news)
    _add_answers(fixtures)
    _add_conversations(fixtures)
    _add_changes(fixtures)
    _add_resources(fixtures)
    _add_prompts(fixtures)
    add_inputs(fixtures)
    return fixtures


def _image() -> ImageContent:
    return ImageContent(type="image", data=PIXEL, mime_type="image/png")


def _embedded(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    resource = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=resource)


def _add_answers(fixtures: MCPServer[Any]) -> None:
    @fixtures.tool()
    def test_simple_text() -> str:
        """Answers with a text."""
        return "This is a simple text response for testing."

    @fixtures.tool()
    def test_image_content() -> list[ImageContent]:
        """Answers with an image."""
        return [_image()]

    @fixtures.tool()
    def test_audio_content() -> list[AudioContent]:
        """Answers with a sound."""
        return [AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")]

    @fixtures.tool()
    def test_embedded_resource() -> list[EmbeddedResource]:
        """Answers with a resource."""
        return [_embedded("test://embedded-resource", "This is an embedded resource content.")]

    @fixtures.tool()
    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        """Answers with a text, an image and a resource."""
        return [
            TextContent(type="text", text="Multiple content types test:"),
            _image(),
            _embedded("test://mixed-content-resource", '{"test": "data", "value": 123}', "application/json"),
        ]

    @fixtures.tool()
    def test_error_handling() -> str:
        """Fails."""
        raise RuntimeError("This tool intentionally returns an error for testing")

    @fixtures.tool()
    def test_x_mcp_header(
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "",
    ) -> str:
        """Takes an argument that a header repeats."""
        return f"region={region}"

    @fixtures.tool()
    def json_schema_2020_12_tool() -> str:
        """Has a schema with every keyword of JSON Schema 2020-12."""
        return "ok"

    # MCPServer takes no schema of a caller's own.
    fixtures._tool_manager._tools["json_schema_2020_12_tool"].parameters = KEYWORDS_OF_2020_12


def _add_conversations(fixtures: MCPServer[Any]) -> None:
    """What speaks to the client while it answers."""

    @fixtures.tool()
    async def test_tool_with_logging(ctx: Context[Any, Any]) -> str:
        """Logs three times."""
        for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await ctx.info(said)
        return "logged"

    @fixtures.tool()
    async def test_tool_with_progress(ctx: Context[Any, Any]) -> str:
        """Tells its progress three times."""
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100, f"{done} of 100")
        return "done"

    @fixtures.tool()
    async def test_reconnection(ctx: Context[Any, Any]) -> str:
        """Closes the stream of its answer, to which the client comes back."""
        await ctx.close_sse_stream()
        return "done"

    @fixtures.tool()
    async def test_sampling(prompt: str, ctx: Context[Any, Any]) -> str:
        """Asks the client's model."""
        request = [SamplingMessage(role="user", content=TextContent(type="text", text=prompt))]
        answer = await ctx.session.create_message(messages=request, max_tokens=100, related_request_id=ctx.request_id)
        assert isinstance(answer.content, TextContent)
        return f"LLM response: {answer.content.text}"

    async def elicit(ctx: Context[Any, Any], message: str, properties: dict[str, Any]) -> str:
        schema = {"type": "object", "properties": properties, "required": []}
        answer = await ctx.session.elicit_form(message, schema, ctx.request_id)
        return f"action={answer.action}, content={json.dumps(answer.content)}"

    @fixtures.tool()
    async def test_elicitation(message: str, ctx: Context[Any, Any]) -> str:
        """Asks the user."""
        return "User response: " + await elicit(ctx, message, {"response": {"type": "string"}})

    @fixtures.tool()
    async def test_elicitation_sep1034_defaults(ctx: Context[Any, Any]) -> str:
        """Asks the user, with a default for each type."""
        return "Elicitation completed: " + await elicit(ctx, "Who are you?", PERSON)

    @fixtures.tool()
    async def test_elicitation_sep1330_enums(ctx: Context[Any, Any]) -> str:
        """Asks the user to choose, in each form of a choice."""
        return "Elicitation completed: " + await elicit(ctx, "Choose.", CHOICES)

    @fixtures.tool()
    async def test_missing_capability(ctx: Context[Any, Any]) -> str:
        """Needs a client that samples."""
        if ctx.client_capabilities is None or ctx.client_capabilities.sampling is None:
            needed = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool needs sampling", needed)
        return "ok"


def _add_changes(fixtures: MCPServer[Any]) -> None:
    @fixtures.tool()
    async def test_trigger_tool_change(ctx: Context[Any, Any]) -> str:
        """Tells that the list of tools has changed."""
        await ctx.notify_tools_changed()
        return "ok"

    @fixtures.tool()
    async def test_trigger_prompt_change(ctx: Context[Any, Any]) -> str:
        """Tells that the list of prompts has changed."""
        await ctx.notify_prompts_changed()
        return "ok"


def _add_resources(fixtures: MCPServer[Any]) -> None:
    @fixtures.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text."""
        return "This is the content of the static text resource."

    @fixtures.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """An image."""
        return base64.b64decode(PIXEL)

    @fixtures.resource("test://template/{id}/data", mime_type="application/json")
    def templated(id: str) -> str:
        """A resource of a template."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _add_prompts(fixtures: MCPServer[Any]) -> None:
    @fixtures.prompt()
    def test_simple_prompt() -> str:
        """A prompt without arguments."""
        return "This is a simple prompt for testing."

    @fixtures.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """A prompt with two arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @fixtures.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        """A prompt with a resource in it."""
        return [UserMessage(_embedded(resourceUri, "Embedded resource content for testing.")), UserMessage("Read it.")]

    @fixtures.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        """A prompt with an image in it."""
        return [UserMessage(_image()), UserMessage("Look at it.")]

    @fixtures.completion()
    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion:
        return Completion(values=["testValue1", "testValue2"], total=2, has_more=False)
