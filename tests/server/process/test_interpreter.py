"""How Python runs a server: what is loaded is no burden to the calls that come later."""

import subprocess
import sys

PROGRAM = """
import gc
from layerlore.server.process.interpreter import freeze_objects, shorten_pauses

class Node: ...

def ring():
    one, other = Node(), Node()
    one.next, other.next = other, one

loaded = [[] for _ in range(10_000)]
shorten_pauses()
freeze_objects()
kept = gc.get_freeze_count()
assert kept > 10_000, kept
assert len(gc.get_objects()) < 1_000, len(gc.get_objects())
later = [ring() for _ in range(100)]
assert gc.collect() >= 100  # what comes later is still collected
more = [[] for _ in range(10_000)]
freeze_objects()
assert gc.get_freeze_count() == kept  # once, or garbage would be kept with it
"""


def test_what_is_loaded_is_not_looked_at_again_and_what_comes_later_is() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
