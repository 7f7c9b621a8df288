"""The commands with which people and hosts start this program, wherever it is installed."""

import shlex
import shutil
import sys
from pathlib import Path

NAME = "layerlore"


def launch_command() -> tuple[str, ...]:
    """The absolute path of the program beside the running Python; if none exists, Python with the module."""
    beside = shutil.which(NAME, path=str(Path(sys.executable).parent))
    if beside:
        return (beside,)
    return (sys.executable, "-m", "layerlore.server")


def shell_command(*arguments: str) -> str:
    """The command to type in a shell: the bare name if it runs this program, else its path."""
    command = launch_command()
    found = shutil.which(NAME)
    if found is not None and len(command) == 1 and Path(found).resolve() == Path(command[0]).resolve():
        command = (NAME,)
    return shlex.join([*command, *arguments])
