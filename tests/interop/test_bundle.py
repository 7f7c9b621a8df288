"""The bundle for Claude Desktop, as the tool of its format reads it."""

import subprocess
import sys
from pathlib import Path

from .conftest import RunNode

PROGRAM = Path(__file__).parents[2] / "plugins" / "make_bundle.py"
MCPB = "node_modules/@anthropic-ai/mcpb/dist/cli/cli.js"


def test_the_bundle_is_valid_and_can_be_packed_again(run_node: RunNode, tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, PROGRAM, tmp_path], capture_output=True, text=True, check=True
    ).stdout.strip()
    for arguments, told in (
        (("unpack", made, "unpacked"), "unpacked successfully"),
        (("validate", "unpacked/manifest.json"), "Manifest schema validation passes"),
        (("pack", "unpacked", "again.mcpb"), "total files: 6"),
    ):
        ended = run_node(MCPB, *arguments)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert told in ended.stdout + ended.stderr
    assert (tmp_path / "again.mcpb").is_file()
