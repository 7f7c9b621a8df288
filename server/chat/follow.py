"""A second terminal: the events of a conversation's runs as they happen, whichever process does them."""

from typing import Any

from layerlore.server.chat.memory import Memory, as_json
from layerlore.server.chat.screen import Screen

Json = dict[str, Any]

LIFECYCLE = ["AgentStart", "AgentEnd", "TurnStart", "TurnEnd", "ToolExecutionStart", "ToolExecutionEnd", "Error"]
RUN_STATES = ["run_started", "run_suspended", "run_resumed", "run_completed", "run_failed", "run_cancelled"]


async def follow(memory: Memory, screen: Screen) -> None:
    """Show what is recorded from now on, until it is interrupted or its reader leaves. Between two looks nothing is
    missed: the log has a number for each event."""
    seen = (await memory.call("list_events", limit=1))["last_seq"]
    screen.note(f"following {memory.thread_id}; Ctrl-C ends it")
    async for _ in memory.changes(f"memory://threads/{memory.thread_id}/events"):
        more = True
        while more:
            page = await memory.call("list_events", after=seen, types=[*LIFECYCLE, *RUN_STATES], limit=200)
            for event in page["events"]:
                _show(event, screen)
            seen, more = page["next"], page["more"]
        if screen.is_closed:
            return


def _show(event: Json, screen: Screen) -> None:
    payload = {key: value for key, value in event["payload"].items() if key != "operation_id"}
    screen.block(f"{event['at'][11:19]} {event['type']} {as_json(payload) if payload else ''}")
