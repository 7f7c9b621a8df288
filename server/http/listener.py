"""The socket that a server listens on."""

import errno
import socket


def open_listener(host: str, port: int) -> socket.socket:
    """A listening socket whose connections send small writes at once. Raises OSError.

    Without TCP_NODELAY, which accepted sockets take over from it, an answer in two writes waits 40 ms for the client's
    delayed acknowledgement. asyncio sets it only on sockets that name their protocol, and these do not.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=2048)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def describe_failure(host: str, port: int, error: OSError) -> str:
    """Why it cannot be listened there, in one line."""
    reason = (error.strerror or str(error)).partition(" (while")[0]  # the rest repeats the address
    advice = "; --port chooses another port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else ""
    return f"layerlore: cannot listen on {host} port {port}: {reason}{advice}\n"


def describe_listening(host: str, port: int) -> str:
    """Where clients find the server, in one line."""
    shown = f"[{host}]" if ":" in host else host
    return f"layerlore listens on http://{shown}:{port}/mcp (SSE: /sse)\n"
