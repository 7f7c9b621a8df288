"""Several tenants on one Postgres are served only as a role that row-level security holds."""

import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from anyio import to_thread

from layerlore.server.access.credentials import hash_key, make_key
from layerlore.server.access.exposure import ServedClients, refusal
from layerlore.server.command_line.commands.serve import look_up_served
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.runtime.runtime import Runtime
from layerlore.server.settings.settings import Settings, load_settings
from layerlore.storage.audit import api_keys
from layerlore.storage.core.records import ApiKey, Tenant
from layerlore.storage.drivers.postgres.database import PostgresDatabase

from ..conftest import Cli

pytestmark = pytest.mark.anyio

JWT = {"issuer": "https://login.example.com/", "audience": "layerlore"}


def settings(url: str, **given: Any) -> Settings:
    return load_settings({"database": url, "embedding": {"embedder": "none"}, **given}, environ={})


async def store_key(url: str, tenant: str) -> str:
    """A key of the tenant, made as the role of the URL; its digest."""
    key_id, secret = make_key()
    database = await PostgresDatabase.open(url, pool_size=1)
    key = ApiKey(key_id, tenant, ("bot",), "ana", ("read",), time.time_ns() // 1_000_000)
    await database.write(api_keys.create, Tenant(tenant), key, hash_key(secret))
    await database.close()
    return hash_key(secret)


async def refused(url: str, **given: Any) -> str:
    request = settings(url, **given)
    return await to_thread.run_sync(lambda: refusal(request, lambda: look_up_served(request)))


async def test_the_owner_of_the_tables_serves_this_machine_s_tenant_alone(postgres_url: str) -> None:
    assert await refused(postgres_url) == ""
    await store_key(postgres_url, "local")
    assert await refused(postgres_url) == ""
    await store_key(postgres_url, "acme")
    told = await refused(postgres_url)
    assert "owns the tables" in told
    assert "layerlore migrate --owner-url" in told


async def test_with_tokens_too(postgres_url: str, serving_url: str) -> None:
    assert "owns the tables" in await refused(postgres_url, jwt=JWT)
    assert await refused(serving_url, jwt=JWT) == ""


async def test_a_role_that_owns_nothing_serves_all(serving_url: str) -> None:
    await store_key(serving_url, "acme")
    assert await refused(serving_url) == ""
    assert await to_thread.run_sync(look_up_served, settings(serving_url)) == ServedClients(True)


async def test_a_key_that_is_made_later_opens_nothing_as_the_owner(postgres_url: str, serving_url: str) -> None:
    found = {}
    for url in (postgres_url, serving_url):
        engine = await open_engine(settings(url))
        runtime = Runtime(engine, settings(url), watcher=None)  # type: ignore[arg-type]
        for tenant in ("local", "acme"):
            found[url, tenant] = await runtime.api_key(await store_key(url, tenant)) is not None
        await close_engine(engine)
    assert found == {
        (postgres_url, "local"): True,
        (postgres_url, "acme"): False,
        (serving_url, "local"): True,
        (serving_url, "acme"): True,
    }


async def test_the_owner_s_url_makes_the_tables_for_the_role_that_serves(
    cli: Cli, postgres_admin_url: str, postgres_url: str, tmp_path: Path
) -> None:
    """As an operator does it: two roles and an empty schema, one command."""
    role = f"serves_{tmp_path.name[-6:]}_{time.time_ns()}"
    admin = await asyncpg.connect(postgres_admin_url, database=urlsplit(postgres_url).path.removeprefix("/"))
    await admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}'")
    try:
        url = f"postgresql://{role}:{role}@{postgres_url.partition('://')[2].rpartition('@')[2]}"
        code, _, err = await to_thread.run_sync(lambda: cli("migrate", "--database", url))
        assert (code, err.count("\n")) == (1, 1)
        assert "layerlore migrate --owner-url" in err
        code, out, err = await to_thread.run_sync(
            lambda: cli("migrate", "--database", url, "--owner-url", postgres_url)
        )
        assert (code, err) == (0, "")
        assert "owned by app_" in out
        assert f"{role}@" in out
        again = await to_thread.run_sync(lambda: cli("migrate", "--database", url))
        assert again[0] == 0
        for wrong, why in ((url, "the owner must be another role"), ("nonsense", "--owner-url")):
            code, _, err = await to_thread.run_sync(
                lambda wrong=wrong: cli("migrate", "--database", url, "--owner-url", wrong)
            )
            assert code == 1
            assert why in err
            assert role not in err.replace(f"{role} is the role that serves", "")
        code, _, err = await to_thread.run_sync(
            lambda: cli("migrate", "--data-dir", str(tmp_path), "--owner-url", postgres_url)
        )
        assert code == 1
        assert "SQLite" in err
        above = f"above_{role}"
        for attribute, why in (("SUPERUSER", "is a superuser"), ("BYPASSRLS", "has BYPASSRLS")):
            await admin.execute(f"CREATE ROLE {above} LOGIN {attribute} PASSWORD '{above}'")
            owner_url = url.replace(f"{role}:{role}@", f"{above}:{above}@")
            code, _, err = await to_thread.run_sync(
                lambda wrong=owner_url: cli("migrate", "--database", url, "--owner-url", wrong)
            )
            await admin.execute(f"DROP ROLE {above}")
            assert code == 1
            assert f"the role {above} {why}" in err
            assert "NOSUPERUSER NOBYPASSRLS" in err
    finally:
        await admin.execute(f"DROP OWNED BY {role}")
        await admin.execute(f"DROP ROLE {role}")
        await admin.close()


async def test_tables_of_another_role_are_left_as_they_are_and_it_is_said_how_to_hand_them_over(
    cli: Cli, postgres_url: str, serving_url: str
) -> None:
    owner = urlsplit(postgres_url).username
    code, _, err = await to_thread.run_sync(
        lambda: cli("migrate", "--database", postgres_url, "--owner-url", serving_url)
    )
    assert code == 1
    assert f"the tables belong to {owner}" in err
    assert f"REASSIGN OWNED BY {owner} TO " in err
    assert await refused(postgres_url) == ""
