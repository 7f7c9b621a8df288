"""``memstrata`` and ``python -m memstrata.server``.

Without a subcommand it is the stdio server that hosts launch: standard output belongs to the protocol from the first
statement on, and neither the command line's library nor anything heavy is imported before ``initialize`` is answered.
"""

import gc
import importlib
import os
import sys

from memstrata.server.ending import end_process
from memstrata.server.launch import launch_flags
from memstrata.server.standard_streams import claim_stdio

# NumPy's threads cost more than they bring for vectors as small as ours: a recall took 12 ms with them, 9 without.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    flags = launch_flags(sys.argv[1:])
    if flags is None:
        end_process(importlib.import_module("memstrata.server.command_line").run())
    fds = claim_stdio()
    gc.disable()  # importing makes a hundred thousand objects that all stay: looking at them again and again is 10 %
    serve = importlib.import_module("memstrata.server.stdio_command").serve
    gc.freeze()
    gc.enable()
    end_process(serve(flags, fds))


if __name__ == "__main__":
    main()
