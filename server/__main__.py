"""``layerlore``, ``python -m layerlore`` and ``python -m layerlore.server``.

Without a subcommand it is the stdio server that hosts launch: standard output belongs to the protocol from the first
statement on, and neither the command line's library nor anything heavy is imported before ``initialize`` is answered.
"""

import gc
import importlib
import os
import sys

from layerlore.server.ending import end_process
from layerlore.server.interpreter import without_collecting
from layerlore.server.launch import launch_flags
from layerlore.server.standard_streams import StreamClosed, claim_stdio, fill_closed

# NumPy's threads cost more than they bring for vectors as small as ours: a recall took 12 ms with them, 9 without.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    fill_closed()
    flags = launch_flags(sys.argv[1:])
    if flags is None:
        end_process(importlib.import_module("layerlore.server.command_line").run())
    try:
        fds = claim_stdio()
    except StreamClosed as closed:
        sys.stderr.write(f"layerlore: {closed}\n")
        end_process(1)
    with without_collecting():
        serve = importlib.import_module("layerlore.server.stdio_command").serve
        gc.freeze()
    end_process(serve(flags, fds))


if __name__ == "__main__":
    main()
