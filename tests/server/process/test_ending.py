"""The end of a process whose threads are still at work."""

import subprocess
import sys
from pathlib import Path

PATIENCE = 120.0  # seconds: only a hang takes so long

SLOW = """
import threading
begun.set()
threading.Event().wait(0.5)
"""
PROGRAM = """
import builtins, importlib, sys, threading
from layerlore.server.process.interpreter import end_process

class Closing:
    def __del__(self, load=importlib.import_module):
        load("slow_to_load")

builtins.begun = threading.Event()
builtins.kept = Closing()
threading.Thread(target=importlib.import_module, args=("slow_to_load",), daemon={daemon}).start()
begun.wait()
print("said before")
end_process(3)
"""


def ended(folder: Path, *, daemon: bool) -> tuple[int, str]:
    (folder / "slow_to_load.py").write_text(SLOW)
    program = PROGRAM.format(daemon=daemon)
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{program}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return run.returncode, run.stdout


def test_a_thread_that_is_cut_off_within_an_import_does_not_hold_up_the_end(tmp_path: Path) -> None:
    assert ended(tmp_path, daemon=True) == (3, "said before\n")


def test_a_thread_that_is_to_be_waited_for_is(tmp_path: Path) -> None:
    assert ended(tmp_path, daemon=False) == (3, "said before\n")
