"""``python -m layerlore.server.local BASE [flags]``: the shared server, as a thin client starts it.

It listens before anything heavy is loaded, so that those who wait can connect.
"""

import sys

from layerlore.server.process.interpreter import end_process, load_program
from layerlore.server.relay.channels import listen
from layerlore.server.settings.launch import launch_flags


def main() -> None:
    base, *arguments = sys.argv[1:]
    flags = launch_flags(arguments)
    if flags is None:
        sys.stderr.write("layerlore: the shared server is started by layerlore itself\n")
        end_process(2)
    # Before anything is imported: clients wait in the socket's queue while this process loads.
    listener = listen(base)
    end_process(load_program("layerlore.server.local.server").serve(base, flags, listener))


if __name__ == "__main__":
    main()
