"""Reads the rows of the installation on each cluster; one that is away keeps nobody from the others."""

from dataclasses import dataclass
from typing import Generic

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.transaction import Database, P, StoreFunction, T


@dataclass(frozen=True, slots=True)
class ClusterAnswers(Generic[T]):
    """``found``: what each cluster answered, home first, and None for one that is away; ``away``: why, in a sentence each
    that names the shard."""

    found: list[T | None]
    away: list[str]

    @property
    def there(self) -> list[T]:
        return [each for each in self.found if each is not None]


async def read_each(
    database: Database, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> ClusterAnswers[T]:
    """Read from each cluster. Raises StorageUnavailable if the home cluster is away."""
    home, *shards = database.clusters
    found: list[T | None] = [await home.read_installation(function, *args, **kwargs)]
    away: list[str] = []
    for shard in shards:
        try:
            found.append(await shard.read_installation(function, *args, **kwargs))
        except StorageUnavailable as error:
            found.append(None)
            away.append(str(error))
    return ClusterAnswers(found, away)
