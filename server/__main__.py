"""``layerlore``, ``python -m layerlore`` and ``python -m layerlore.server``.

Without a subcommand it serves the host that launched it on standard input and output, which belong to the protocol from
the first statement on: as a thin client of the server that this person's hosts share, for which nothing but the standard
library is loaded, or as a server of its own, where nothing heavy is imported before ``initialize`` is answered.
"""

import importlib
import os
import sys
from types import ModuleType

from layerlore.server.process.standard_streams import StreamClosed, claim_stdio, fill_closed
from layerlore.server.settings.launch import launch_flags

# NumPy's threads cost more than they bring for vectors as small as ours: a recall took 12 ms with them, 9 without.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# Let a running shared server answer, before a command line is loaded.
_QUICK = {
    "recall": ("layerlore.server.relay.server_query", "recall_shared"),
    "hook": ("layerlore.server.relay.hook_client", "run_hook"),
}


def main() -> None:
    # A parent may start us with closed descriptors; a file opened later would then become standard output.
    fill_closed()
    flags = launch_flags(sys.argv[1:])
    if flags is None:
        module, function = _QUICK.get(sys.argv[1] if len(sys.argv) > 1 else "", ("", ""))
        if module:
            code = getattr(importlib.import_module(module), function)(sys.argv[2:], os.environ)
        else:
            code = None
        if code is not None:
            return _end(code)
        return _end(importlib.import_module("layerlore.server.command_line.app").run())
    # The protocol gets its own descriptors first, so that no print of a library can reach the host.
    try:
        fds = claim_stdio()
    except StreamClosed as closed:
        sys.stderr.write(f"layerlore: {closed}\n")
        return _end(1)
    # A person at a terminal is not a host, so no shared server is needed.
    if os.isatty(fds[0]):
        launch = None
    else:
        launch = importlib.import_module("layerlore.server.relay.launch").read_launch(flags, os.environ)
    if launch is not None:
        importlib.import_module("layerlore.server.relay.relay").relay(launch, fds, sys.argv[1:])
    return _end(_interpreter().load_program("layerlore.server.stdio.stdio_transport").serve(flags, fds))


def _end(code: int) -> None:
    _interpreter().end_process(code)


def _interpreter() -> ModuleType:
    return importlib.import_module("layerlore.server.process.interpreter")


if __name__ == "__main__":
    main()
