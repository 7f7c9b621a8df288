"""How people and hosts start this very program, wherever it is installed."""

import shlex
import shutil
import sys
from pathlib import Path

NAME = "layerlore"


def launch_command() -> tuple[str, ...]:
    """The program beside the running Python, by its absolute path; without one, the running Python itself."""
    beside = shutil.which(NAME, path=str(Path(sys.executable).parent))
    return (beside,) if beside else (sys.executable, "-m", "layerlore.server")


def shell_command(*arguments: str) -> str:
    """What to type in a shell: the bare name, if that is this program, and else its path."""
    command = launch_command()
    found = shutil.which(NAME)
    if found is not None and len(command) == 1 and Path(found).resolve() == Path(command[0]).resolve():
        command = (NAME,)
    return shlex.join([*command, *arguments])
