"""The clusters beside the home cluster, on which tenants may be."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from layerlore.memory.settings.context_settings import Section, read_json
from layerlore.storage.drivers.dialect import HOME_NAME, ShardUrls, check, check_roles


def _of_postgres(value: SecretStr) -> SecretStr:
    check(value.get_secret_value())
    check_roles(value.get_secret_value())
    return value


def _needed(value: SecretStr) -> SecretStr:
    if not value.get_secret_value():
        raise ValueError("must be a postgresql:// URL")
    return value


def _not_home(value: str) -> str:
    if value == HOME_NAME:
        raise ValueError(f"{HOME_NAME} is the name of the cluster of `database`")
    return value


class ShardSettings(Section):
    """One more Postgres cluster."""

    name: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9_-]{0,62}$"), AfterValidator(_not_home)]
    url: Annotated[SecretStr, AfterValidator(_of_postgres), AfterValidator(_needed)]
    owner_url: Annotated[SecretStr, AfterValidator(_of_postgres)] = SecretStr("")
    listen_url: Annotated[SecretStr, AfterValidator(_of_postgres)] = SecretStr("")


def _distinct(shards: list[ShardSettings]) -> list[ShardSettings]:
    names = [shard.name for shard in shards]
    if len({*names}) < len(names):
        raise ValueError("two shards have the same name")
    return shards


ShardList = Annotated[list[ShardSettings], BeforeValidator(read_json), AfterValidator(_distinct)]


def as_owners(shards: Sequence[ShardSettings]) -> list[ShardSettings]:
    """The shards as the role that owns the tables reaches them; without an owner_url that is the role that serves."""
    return [
        shard.model_copy(update={"url": shard.owner_url if shard.owner_url.get_secret_value() else shard.url})
        for shard in shards
    ]


def shard_urls(shards: Sequence[ShardSettings]) -> dict[str, ShardUrls]:
    """The URLs of the shards, as a server opens them."""
    return {
        shard.name: ShardUrls(shard.url.get_secret_value(), shard.listen_url.get_secret_value()) for shard in shards
    }
