"""What configs/compose.yaml describes, and how to run its services here without containers."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from launch_environment import own_environment
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
COMPOSE = YAML(typ="safe").load(ROOT / "configs" / "compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if service["image"] == "layerlore")
SITE_NAME = "mem.example.com"

_COMMAND = str(Path(sys.executable).parent / "layerlore")
_PATIENCE = 120.0


def make_secrets(folder: Path) -> Path:
    """New secrets, as the guide has them made, in a copy of their folder."""
    copied = folder / "compose"
    shutil.copytree(ROOT / "configs" / "compose", copied, ignore=shutil.ignore_patterns("secrets"))
    subprocess.run([copied / "make-secrets"], check=True, capture_output=True)
    return copied / "secrets"


def environment_of(service: str) -> dict[str, str]:
    """The variables of a service, with the name that clients call it by."""
    name = re.compile(r"\$\{SITE_NAME:\?[^}]*\}")
    return {key: name.sub(SITE_NAME, value) for key, value in SERVICES[service].get("environment", {}).items()}


def file_of(service: str, path: str, secrets: Path) -> Path:
    """The file on the host that a container sees at a path of its secrets."""
    (source,) = [each["source"] for each in SERVICES[service]["secrets"] if f"/run/secrets/{each['target']}" == path]
    return secrets / Path(COMPOSE["secrets"][source]["file"]).name


def run_as(service: str, secrets: Path, *words: str, **variables: str) -> dict[str, Any]:
    """How to start a service's program here, with its settings, or the same with other words."""
    environ = environment_of(service)
    config = str(file_of(service, environ["LAYERLORE_CONFIG"], secrets))
    data = str(secrets.parent / f"data-{service}")
    given = {**environ, "LAYERLORE_CONFIG": config, "LAYERLORE_DATA_DIR": data, **variables}
    return {"args": [_COMMAND, *(words or SERVICES[service]["command"])], "env": own_environment(**given), "text": True}


def told(service: str, secrets: Path, *words: str) -> str:
    """What such a program prints."""
    done = subprocess.run(**run_as(service, secrets, *words), check=False, capture_output=True, timeout=_PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def serving(service: str, secrets: Path) -> Iterator[int]:
    """The port of a service's server, on this machine."""
    here = {"LAYERLORE_HTTP__HOST": "127.0.0.1", "LAYERLORE_HTTP__PORT": "0", "LAYERLORE_EMBEDDING__EMBEDDER": "none"}
    with subprocess.Popen(**run_as(service, secrets, **here), stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        try:
            line = server.stderr.readline()
            listening = re.search(r"listens on http://\S+:(\d+)/mcp", line)
            assert listening, line
            yield int(listening[1])
        finally:
            server.terminate()
