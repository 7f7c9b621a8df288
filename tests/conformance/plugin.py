"""The option of pytest that names the database on which ``layerlore.conformance`` runs."""

import pytest

OPTION = "--layerlore-url"
SUITE = "layerlore.conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("layerlore").addoption(
        OPTION,
        default="",
        help=f"URL of the database that `--pyargs {SUITE}` tests. In it, {{folder}} becomes a new folder and {{name}} a new "
        "name, for each test; what the URL then names must be empty, or be made when it is opened.",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Other tests, where layerlore is merely installed, get no fixtures of ours.
    if config.getoption(OPTION):
        from . import fixtures

        config.pluginmanager.register(fixtures, f"{SUITE}.fixtures")
    elif any(argument.startswith(SUITE) for argument in config.args):
        raise pytest.UsageError(f"{SUITE} needs {OPTION} URL, such as {OPTION}=sqlite:///{{folder}}/memory.db")
