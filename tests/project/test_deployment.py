"""What configs/compose.yaml describes is pinned, holds little rights, and is taken by our program. `make interop` runs it."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from composed import COMPOSE, OURS, ROOT, SERVICES, SITE_NAME, environment_of, file_of, make_secrets
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from layerlore.server.command_line.app import load_all
from layerlore.server.settings.settings import load_settings


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    return make_secrets(tmp_path)


def test_passwords_that_a_database_has_are_not_made_anew(secrets: Path) -> None:
    made = {file.name: file.read_text(encoding="utf-8") for file in secrets.iterdir()}
    again = subprocess.run([secrets.parent / "make-secrets"], check=False, capture_output=True, text=True)
    assert (again.returncode, "is there already" in again.stderr) == (1, True)
    assert {file.name: file.read_text(encoding="utf-8") for file in secrets.iterdir()} == made
    assert {Path(each["file"]).name for each in COMPOSE["secrets"].values()} == set(made)
    assert secrets.stat().st_mode & 0o077 == 0


def test_every_image_is_pinned_by_its_digest_and_ours_is_built_here() -> None:
    stages = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    foreign = [service["image"] for service in SERVICES.values() if service["image"] != "layerlore"]
    assert len(stages) == 2
    assert len(set(stages)) == 1
    assert all(re.fullmatch(r"[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}", image) for image in [*stages, *foreign])
    assert {SERVICES[name]["build"]["context"] for name in OURS} == {".."}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_may_do_no_more_than_it_must(name: str) -> None:
    service = SERVICES[name]
    assert service["user"].partition(":")[0] not in ("0", "root", "")
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"cpus", "memory", "pids"} == service["deploy"]["resources"]["limits"].keys()
    assert "healthcheck" in service or service["restart"] == "no"
    assert not any("password" in str(value).lower() for key, value in environment_of(name).items() if "FILE" not in key)
    volumes = [each.partition(":")[0] for each in service.get("volumes", [])]
    assert all(each in COMPOSE["volumes"] or (ROOT / "configs" / each).exists() for each in volumes)
    assert set(service["networks"]) <= COMPOSE["networks"].keys()


def test_the_tables_are_made_once_and_before_the_servers_start() -> None:
    assert OURS == ["migrate", "server-1", "server-2"]
    for server in OURS[1:]:
        assert SERVICES[server]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
        assert SERVICES["caddy"]["depends_on"][server] == {"condition": "service_healthy"}
    known = {name for name in SERVICES if "owner" in str(SERVICES[name].get("secrets"))}
    assert known == {"migrate"}


@pytest.mark.parametrize("name", OURS)
def test_our_program_takes_what_a_service_gives_it(name: str, secrets: Path) -> None:
    command, *words = SERVICES[name]["command"]
    load_all().commands[command].make_context(command, words)
    environ = environment_of(name)
    config = file_of(name, environ.pop("LAYERLORE_CONFIG"), secrets)
    settings = load_settings(environ=environ, config=str(config))
    assert settings.database.get_secret_value().startswith("postgresql://layerlore_app:")
    assert bool(settings.postgres.owner_url.get_secret_value()) == (name == "migrate")
    if name != "migrate":
        front = COMPOSE["networks"]["front"]["ipam"]["config"][0]["subnet"]
        assert (settings.http.public_url, settings.http.host) == (f"https://{SITE_NAME}", "0.0.0.0")
        assert [str(each) for each in settings.http.trusted_proxies] == [front]


def test_caddy_asks_each_server_and_holds_nothing_back() -> None:
    told = (ROOT / "configs" / "compose" / "Caddyfile").read_text(encoding="utf-8")
    request = re.search(r"reverse_proxy (.*) \{", told)
    assert request
    assert request[1].split() == [f"{name}:8765" for name in OURS[1:]]
    assert "flush_interval -1" in told


def wheels() -> dict[str, list[str]]:
    """The names of each locked package's wheels."""
    locked = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    return {
        f"{each['name']}=={each['version']}": [Path(wheel["url"]).name for wheel in each.get("wheels", [])]
        for each in locked
        if "version" in each
    }


def tags(machine: str) -> set[Tag]:
    """What the image's Python takes on a machine: Debian 13 has glibc 2.41."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(17, 42)] + [f"manylinux2014_{machine}"]
    version = (3, 13)
    return {*cpython_tags(version, platforms=platforms), *compatible_tags(version, "cp313", platforms)}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_image_is_made_of_wheels_on_either_machine(machine: str) -> None:
    text = (ROOT / "requirements-server.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    found, taken = wheels(), tags(machine)
    target = {"sys_platform": "linux", "platform_machine": machine, "python_version": "3.13", "os_name": "posix"}
    target |= {"python_full_version": "3.13.14", "platform_python_implementation": "CPython"}
    needed = [Requirement(line.partition(" --hash")[0]) for line in text.splitlines() if line[:1].isalnum()]
    missing = [
        str(each)
        for each in needed
        if (each.marker is None or each.marker.evaluate(target))
        and not any(parse_wheel_filename(wheel)[3] & taken for wheel in found[f"{each.name}{each.specifier}"])
    ]
    assert len(needed) > 50
    assert missing == []
