"""How the process ends."""

import contextlib
import logging
import os
import sys
import threading
from typing import NoReturn


def end_process(exit_code: int) -> NoReturn:
    """End with that code, also while threads that are not waited for are at work: one that loads a model, or waits for
    an answer that nobody needs any more.

    The interpreter's own end cuts such a thread off wherever it is, and what runs after that (a library that imports as
    its objects go) waits for ever for a lock that the thread held, such as that of imports.
    """
    if not any(thread.daemon for thread in threading.enumerate()):
        sys.exit(exit_code)
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(exit_code)
