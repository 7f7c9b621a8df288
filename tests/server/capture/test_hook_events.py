"""The events of hosts that call a hook, and the answers that hosts read."""

import json

import pytest

from layerlore.server.relay.hook_events import HOOK_EVENTS, find_event, hook_arguments, render_answer

EVENTS = [(host, event) for host, events in HOOK_EVENTS.items() for event in events]


def test_an_event_is_found_by_the_arguments_of_its_command() -> None:
    for host, event in EVENTS:
        command, named, name = hook_arguments(host, event.name)
        assert (command, find_event(named, name)) == ("hook", event)
    assert find_event("claude-code", "PreToolUse") is None
    assert find_event("emacs", "Stop") is None


@pytest.mark.parametrize("text", ["", 'She said "no": ünder\n2 °C'])
def test_a_host_reads_one_json_object_or_nothing(text: str) -> None:
    for host, event in EVENTS:
        answer = render_answer(host, event.name, text if event.shows else "")
        if host == "windsurf":
            assert answer == ""
            continue
        found = json.loads(answer)
        assert "\n" not in answer
        assert found.get("continue", True) is True
        top = found.get("additional_context") or found.get("additionalContext")
        shown = top or found.get("hookSpecificOutput", {}).get("additionalContext", "")
        assert shown == (text if event.shows else "")
