"""The log of a server that runs for long stays short."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import logging, sys
from layerlore.server.process.logs import configure_logging
configure_logging("info", file=sys.argv[1], most_bytes=2_000)
for number in range(100):
    logging.getLogger("layerlore").info("line %s of those that a server writes", number)
print("the output of others goes along", flush=True)
"""


def test_a_log_that_is_too_long_is_put_aside_while_the_server_runs(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("ab") as output:
        subprocess.run([sys.executable, "-c", PROGRAM, str(log)], stdout=output, stderr=output, check=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["server.log", "server.log.old"]
    assert all(each.stat().st_size < 2_500 for each in tmp_path.iterdir())
    written = log.read_text()
    assert written.endswith("the output of others goes along\n")
    assert "line 99 " in (tmp_path / "server.log.old").read_text() + written
