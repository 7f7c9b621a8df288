"""The host that launched this process: which process it is, and the conversation that it named at the launch."""

import os
from collections.abc import Mapping

# A host's variable with the id, and the one with which it marks what its tools run.
_CONVERSATIONS = (
    ("CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION"),
    ("COPILOT_AGENT_SESSION_ID", "COPILOT_CLI"),
)


def find_conversation(environ: Mapping[str, str]) -> str:
    """The id of the conversation for which a host launched this process; "" if it gives none."""
    # A host that is launched by the tools of another one inherits the id, but has a conversation of its own.
    if any(environ.get(child) for _, child in _CONVERSATIONS):
        return ""
    return next((environ[name] for name, _ in _CONVERSATIONS if environ.get(name)), "")


def name_host() -> str:
    """A name of the process that launched this one, the same for all that it launches."""
    parent = os.getppid()
    return f"{parent}-{_read_start(parent)}"


def _read_start(process: int) -> str:
    """When a process began, since its id is given again to a later one; "" where the system has no such file."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # The program's own name comes before this in parentheses, and may hold anything.
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""
