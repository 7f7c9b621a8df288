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
from layerlore.server.relay.launch import read_launch
from layerlore.server.relay.recalling import COMMAND, recall_shared
from layerlore.server.relay.relay import relay
from layerlore.server.settings.launch import launch_flags

# NumPy's threads cost more than they bring for vectors as small as ours: a recall took 12 ms with them, 9 without.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    fill_closed()
    flags = launch_flags(sys.argv[1:])
    if sys.argv[1:2] == [COMMAND] and (code := recall_shared(sys.argv[2:], os.environ)) is not None:
        sys.exit(code)
    if flags is None:
        return _end(importlib.import_module("layerlore.server.commands.command_line").run())
    try:
        fds = claim_stdio()
    except StreamClosed as closed:
        sys.stderr.write(f"layerlore: {closed}\n")
        return _end(1)
    launch = None if os.isatty(fds[0]) else read_launch(flags, os.environ)
    if launch is not None:
        relay(launch, fds, sys.argv[1:])
    return _end(_interpreter().load_program("layerlore.server.stdio.command").serve(flags, fds))


def _end(code: int) -> None:
    _interpreter().end_process(code)


def _interpreter() -> ModuleType:
    return importlib.import_module("layerlore.server.process.interpreter")


if __name__ == "__main__":
    main()
