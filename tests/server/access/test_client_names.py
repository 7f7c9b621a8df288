"""What a client calls itself, as the journal has it."""

from types import SimpleNamespace
from typing import Any

import pytest

from layerlore.server.access.caller import UNKNOWN_CLIENT, client_of

NAMES = [
    ("editor", "1.2", "editor 1.2"),
    ("  two\nlines ", "\t1 ", "two lines 1"),
    ("nul\x00", "1", "nul 1"),
    ("half \ud800", "1", "half ? 1"),
    ("x" * 100, "1", "x" * 80),
    ("", "", UNKNOWN_CLIENT),
]


@pytest.mark.parametrize(("name", "version", "expected"), NAMES, ids=range(len(NAMES)))
def test_a_clients_name_and_version_are_one_short_line(name: str, version: str, expected: str) -> None:
    params = SimpleNamespace(client_info=SimpleNamespace(name=name, version=version))
    ctx: Any = SimpleNamespace(session=SimpleNamespace(client_params=params))
    assert client_of(ctx) == expected


def test_a_client_that_did_not_introduce_itself_is_unknown() -> None:
    ctx: Any = SimpleNamespace(session=SimpleNamespace(client_params=None))
    assert client_of(ctx) == "unknown"
