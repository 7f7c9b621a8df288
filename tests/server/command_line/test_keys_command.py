"""``layerlore keys``: what an operator types, and what is printed of it and kept of it."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from layerlore.memory.secrets.redaction import mask_without_key
from layerlore.server.access.credentials import ApiKeys, Principal, Right, hash_key
from layerlore.server.process.program import shell_command
from layerlore.storage.audit import api_keys
from layerlore.storage.core.records import ApiKey, Tenant
from layerlore.storage.drivers.dialect import open_database
from layerlore.storage.drivers.sqlite.database import SqliteDatabase

pytestmark = pytest.mark.anyio

Cli = Callable[..., tuple[int, str, str]]
KEY = re.compile(r"llk_([a-z2-7]{8})_[A-Za-z0-9_-]{43}")


@pytest.fixture
def keys(cli: Cli, tmp_path: Path) -> Cli:
    """Calls ``layerlore keys`` on the folder's memory."""
    return lambda *arguments: cli("--data-dir", str(tmp_path), "keys", *arguments)


def made(keys: Cli, *arguments: str) -> dict[str, Any]:
    code, out, err = keys("create", "--json", *arguments)
    assert (code, err) == (0, "")
    shown: dict[str, Any] = json.loads(out)
    return shown


def listed(keys: Cli, *arguments: str) -> list[dict[str, Any]]:
    code, out, err = keys("list", "--json", *arguments)
    assert (code, err) == (0, "")
    shown: list[dict[str, Any]] = json.loads(out)["keys"]
    return shown


def test_a_key_is_alone_on_standard_output_and_what_it_may_do_on_standard_error(keys: Cli) -> None:
    code, out, err = keys("create", "--tenant", "acme")
    assert code == 0
    key = KEY.fullmatch(out.removesuffix("\n"))
    assert key is not None
    assert err == (
        f"key {key[1]} of tenant 'acme', for agent 'default' and resource 'default': may read, write, forget until it "
        "is revoked\nit is shown only once; send it as Authorization: Bearer KEY\n"
    )


def test_what_is_granted_is_said_and_listed(keys: Cli) -> None:
    arguments = ("--tenant", "acme", "--agent", "coach", "--agent", "a,b", "--agent", "coach")
    code, _, err = keys("create", *arguments, "--any-resource", "--rights", "admin, read", "--expires", "90d")
    assert code == 0
    assert re.search(r"for agent 'coach' or 'a,b' and any resource: may read, admin until 20\S+Z\n", err)
    keys("create", "--tenant", "acme", "--any-agent", "--resource", "ana")
    first, second = listed(keys)
    expected = {"tenant": "acme", "revoked": None, "state": "active"}
    assert first.items() >= {**expected, "agents": ["coach", "a,b"], "resource": None}.items()
    assert first["rights"] == ["read", "admin"]
    assert second.items() >= {**expected, "agents": None, "resource": "ana", "expires": None}.items()
    assert second["rights"] == ["read", "write", "forget"]


@pytest.mark.parametrize(("length", "minutes"), [("30m", 30), ("12h", 720), ("90d", 129_600), ("36500d", 52_560_000)])
async def test_a_key_expires_after_the_length_of_time_that_is_given(
    keys: Cli, tmp_path: Path, length: str, minutes: int
) -> None:
    await asyncio.to_thread(made, keys, "--tenant", "acme", "--expires", length)
    database = await SqliteDatabase.open(str(tmp_path / "memory.db"))
    (key,) = await database.read_installation(api_keys.read_all)
    await database.close()
    assert key.expires_at == key.created_at + minutes * 60_000


def test_the_configured_agent_and_resource_are_the_ones_where_none_is_named(cli: Cli, tmp_path: Path) -> None:
    launch = ("--data-dir", str(tmp_path), "--agent", "zed", "--resource", "zoe")
    for arguments in ((*launch, "keys", "create"), ("keys", *launch, "create")):
        shown = json.loads(cli(*arguments, "--tenant", "local", "--json")[1])
        assert (shown["agents"], shown["resource"]) == (["zed"], "zoe")
    shown = json.loads(cli(*launch, "keys", "create", "--tenant", "t", "--agent", "x", "--any-resource", "--json")[1])
    assert (shown["agents"], shown["resource"]) == (["x"], None)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Missing option '--tenant'"),
        (["--tenant", ""], "--tenant: must not be empty; 1 to 255 characters are allowed"),
        (["--tenant", "x" * 256], "--tenant: 256 characters; at most 255 are allowed"),
        (["--tenant", "a\nb"], "--tenant: character 1 is the control character U+000A"),
        (["--tenant", " "], "--tenant: has blanks and invisible characters only; at least one"),
        (["--tenant", "t", "--agent", "\u200b"], "--agent: has blanks and invisible characters only"),
        (["--tenant", "t", "--agent", "a", "--agent", ""], "--agent: must not be empty"),
        (["--tenant", "t", "--resource", ""], "--resource: must not be empty"),
        (["--tenant", "t", "--agent", "a", "--any-agent"], "--agent or --any-agent, not both"),
        (["--tenant", "t", "--resource", "r", "--any-resource"], "--resource or --any-resource, not both"),
        (["--tenant", "t", "--rights", "read,delete"], "'delete' is not a right; use read, write, forget, admin"),
        (["--tenant", "t", "--rights", ""], "'' is not a right"),
        (["--tenant", "t", "--expires", "5y"], "'5y' is not a length of time; use minutes, hours or days"),
        (["--tenant", "t", "--expires", "0d"], "'0d' is not a length of time"),
        (["--tenant", "t", "--expires", "-1d"], "'-1d' is not a length of time"),
        (["--tenant", "t", "--expires", "٣d"], "is not a length of time"),
        (["--tenant", "t", "--expires", "36501d"], "up to 36500d, or never"),
        (["--tenant", "t", "--expires", ""], "is not a length of time"),
        (["--tenat", "t"], "No such option: --tenat"),
    ],
)
def test_a_grant_that_makes_no_sense_is_refused_and_nothing_is_made(
    keys: Cli, tmp_path: Path, arguments: list[str], told: str
) -> None:
    code, out, err = keys("create", *arguments)
    assert (code, out) == (2, "")
    assert told in " ".join(err.split())
    assert not (tmp_path / "memory.db").exists()


def test_the_list_is_a_table_for_people(keys: Cli) -> None:
    key = made(keys, "--tenant", "acme", "--agent", "coach", "--agent", "cook", "--any-resource", "--expires", "1d")
    gone = made(keys, "--tenant", "[b]other[/b]", "--any-agent")
    assert keys("revoke", gone["id"])[0] == 0
    code, out, err = keys("list")
    assert (code, err) == (0, "")
    head, *lines = [re.split(r" {2,}", line.strip()) for line in out.splitlines() if line.strip(" ─")]
    assert head == ["id", "tenant", "agents", "resource", "rights", "created", "expires", "state"]
    rights = "read,write,forget"
    assert lines == [
        [key["id"], "acme", "coach, cook", "(any)", rights, key["created"], key["expires"], "active"],
        [gone["id"], "[b]other[/b]", "(any)", "default", rights, gone["created"], "never", "revoked"],
    ]


def test_the_list_may_be_of_one_tenant(keys: Cli) -> None:
    ours, _ = made(keys, "--tenant", "acme"), made(keys, "--tenant", "other")
    assert [key["id"] for key in listed(keys, "--tenant", "acme")] == [ours["id"]]
    assert keys("list", "--tenant", "acm") == (0, "there are no keys for tenant 'acm'\n", "")


async def test_a_key_whose_time_has_passed_is_listed_as_expired_and_one_that_was_revoked_before_as_revoked(
    keys: Cli, tmp_path: Path
) -> None:
    database = await SqliteDatabase.open(str(tmp_path / "memory.db"))
    for key_id, revoked_at in (("aaaaaaaa", None), ("bbbbbbbb", 4)):
        key = ApiKey(key_id, "acme", None, None, ("read",), created_at=1, expires_at=5, revoked_at=revoked_at)
        await database.write(api_keys.create, Tenant("acme"), key, key_id)
    await database.close()
    shown = await asyncio.to_thread(listed, keys)
    assert [key["state"] for key in shown] == ["expired", "revoked"]
    assert shown[0]["expires"] == "1970-01-01T00:00:00.005Z"


def test_a_key_is_revoked_for_good_and_it_is_said_since_when(keys: Cli) -> None:
    key = made(keys, "--tenant", "acme")
    code, out, err = keys("revoke", key["id"])
    assert (code, err) == (0, "")
    assert out == f"revoked key {key['id']} of tenant 'acme'; servers refuse it within 2 s\n"
    (shown,) = listed(keys)
    assert shown["state"] == "revoked"
    assert keys("revoke", key["id"]) == (0, f"key {key['id']} was already revoked at {shown['revoked']}\n", "")
    assert listed(keys) == [shown]


def test_an_id_that_is_unknown_or_none_is_refused_and_a_whole_key_is_not_repeated(keys: Cli, tmp_path: Path) -> None:
    key = made(keys, "--tenant", "acme")
    listing = shell_command("--data-dir", str(tmp_path), "keys", "list")
    told = f"layerlore: there is no key 'aaaaaaaa'; `{listing}` shows the keys\n"
    assert keys("revoke", "aaaaaaaa") == (1, "", told)
    for wrong in (key["key"], key["id"].upper(), key["id"] + "a", "", "%"):
        code, out, err = keys("revoke", wrong)
        assert (code, out) == (1, "")
        assert err == f"layerlore: that is not a key's id; `{listing}` shows the ids: 8 letters and digits\n"
    assert keys("revoke")[0] == 2
    assert listed(keys)[0]["state"] == "active"


def test_neither_key_nor_digest_is_shown_again_and_the_key_is_in_no_file(keys: Cli, tmp_path: Path) -> None:
    made_keys = [made(keys, "--tenant", "acme", *more)["key"] for more in ([], ["--any-agent"], ["--expires", "1d"])]
    keys("revoke", made_keys[0][4:12])
    printed = "".join(
        text for form in ([], ["--json"]) for text in keys("list", *form)[1:] + keys("revoke", made_keys[0])[1:]
    )
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for key in made_keys:
        assert key[4:12] in printed
        assert key[4:12].encode() in kept
        assert hash_key(key).encode() in kept
        for secret in (key, key[13:], key[13:35], key[-20:]):
            assert secret not in printed
            assert secret.encode() not in kept
        assert hash_key(key) not in printed


def test_without_a_database_there_are_no_keys_and_none_is_made_by_looking(keys: Cli, tmp_path: Path) -> None:
    for arguments in (("list",), ("revoke", "aaaaaaaa")):
        told = f"layerlore: there are no keys: there is no database at {tmp_path}/memory.db\n"
        assert keys(*arguments) == (1, "", told)
    assert not (tmp_path / "memory.db").exists()


def test_no_key_is_made_where_it_would_not_be_kept(keys: Cli, tmp_path: Path) -> None:
    for more, told in ((("--memory", "off"), "memory is off"), (("--database", "sqlite://:memory:"), "is in memory")):
        code, out, err = keys("create", "--tenant", "acme", *more)
        assert (code, out) == (1, "")
        assert told in err
    assert "memory is off" in keys("list", "--memory", "off")[2]
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_cannot_be_reached_is_one_line_without_its_password(cli: Cli) -> None:
    url = "postgresql://me:S3CRET@127.0.0.1:1/db"
    for command in (("create", "--tenant", "t"), ("list",), ("revoke", "aaaaaaaa")):
        code, out, err = cli("keys", *command, "--database", url)
        assert (code, out) == (1, "")
        assert re.fullmatch(r"layerlore: cannot connect to Postgres: .*\n", err)
        assert "S3CRET" not in err


def test_a_key_that_is_made_is_masked_in_texts_and_logs(keys: Cli) -> None:
    key = made(keys, "--tenant", "acme")["key"]
    assert mask_without_key(f"the key is {key}, keep it") == "the key is [masked:layerlore-key], keep it"


async def test_keys_are_made_and_revoked_on_both_databases_while_a_server_has_it_open(
    cli: Cli, database_url: str, tmp_path: Path
) -> None:
    server = await open_database(database_url, tmp_path / "unused")
    seconds = 0.0
    verifier = ApiKeys(lambda digest: server.read_installation(api_keys.by_digest, digest), lambda: 0, lambda: seconds)

    def keys(*arguments: str) -> tuple[int, str, str]:
        return cli("keys", *arguments, "--database", database_url)

    try:
        shown = await asyncio.to_thread(made, keys, "--tenant", "acme", "--agent", "coach", "--any-resource")
        rights: frozenset[Right] = frozenset({"read", "write", "forget"})
        expected = Principal(f"key:{shown['id']}", "acme", frozenset({"coach"}), None, rights)
        assert await verifier.principal(shown["key"]) == expected
        assert (await asyncio.to_thread(keys, "revoke", shown["id"]))[0] == 0
        seconds = 2.0
        assert await verifier.principal(shown["key"]) is None
        (listed_key,) = await asyncio.to_thread(listed, keys, "--tenant", "acme")
        assert listed_key["state"] == "revoked"
    finally:
        await server.close()


def test_the_journal_tells_of_keys_that_are_made_and_revoked_once(keys: Cli, cli: Cli, tmp_path: Path) -> None:
    key = made(keys, "--tenant", "acme", "--resource", "ana")
    for _ in range(2):
        assert keys("revoke", key["id"])[0] == 0
    code, out, _ = cli("journal", "--data-dir", str(tmp_path), "--json")
    assert code == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(line["tool"], line["tenant"], line["counts"]) for line in lines] == [
        ("keys create", "acme", {"keys": 1}),
        ("keys revoke", "acme", {"keys": 1}),
    ]
    assert key["key"] not in out
