"""The command that talks: ``chat``."""

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from layerlore.server.command_line.options import read_settings
from layerlore.server.process.program import launch_command
from layerlore.server.settings.launch import FLAGS

# The agent names the conversation in each call, and needs the tools of runs.
_OWN = ("thread", "toolsets")
_NO_NAMES = ("", "none", "auto")


def chat(
    flags: dict[str, Any],
    message: Annotated[str, typer.Argument(help="What to say first.", show_default=False)] = "",
    model: Annotated[
        str,
        typer.Option(
            help="The model by its litellm name. Default: llm.model of the settings. scripted: no model.",
            show_default=False,
        ),
    ] = "",
    api_base: Annotated[str, typer.Option(help="URL of a server with OpenAI's interface.", show_default=False)] = "",
    servers: Annotated[
        Path | None,
        typer.Option(help="A host's configuration file (mcpServers): their tools, too.", show_default=False),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option(min=500, max=200_000, help="Tokens of memory that a model is shown.")
    ] = 8_000,
    follow: Annotated[
        bool, typer.Option("--follow", help="Show what happens in a conversation, as it happens.")
    ] = False,
) -> int:
    """Chat with an agent that uses this memory over MCP, as hosts do."""
    llm = read_settings(flags).llm
    configured = not model and llm.model not in _NO_NAMES
    # Nothing imports the agent by a statement: its folder can be copied, and works without the rest.
    agent = importlib.import_module("layerlore.server.chat.chat_launch")
    launch = agent.ChatLaunch(
        _server(flags),
        model=llm.model if configured else model,
        api_base=llm.api_base if configured and not api_base else api_base,
        api_key=llm.api_key.get_secret_value() if configured else "",
        servers=servers,
        thread_id=flags.get("thread", ""),
        message=message,
        follows=follow,
        max_tokens=max_tokens,
    )
    return int(agent.chat(launch))


def _server(flags: dict[str, Any]) -> list[str]:
    """The command with which a host would launch the server with these flags."""
    kept = [f"{flag}={flags[setting]}" for flag, setting in FLAGS.items() if setting in flags and setting not in _OWN]
    return [*launch_command(), *kept, "--toolsets=agent"]
