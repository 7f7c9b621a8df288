"""The URL of a Postgres database as asyncpg takes it, less the one option that is asyncpg's own and no server's."""

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

OPTION = "statement_cache_size"
_LARGEST = 10_000


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    """``statements``: how many prepared statements a connection keeps. 0 means none, as a pooler needs that
    gives each transaction another connection of the server."""

    dsn: str
    statements: int = 100

    @property
    def is_pooled(self) -> bool:
        return self.statements == 0


def read_url(url: str) -> PostgresUrl:
    """Raises ValueError, whose text repeats nothing of the URL, for an option that is not a number."""
    address, mark, query = url.partition("?")
    if mark:
        given = dict(parse_qsl(query, keep_blank_values=True))
    else:
        given = {}
    if OPTION not in given:
        return PostgresUrl(url)
    value = given.pop(OPTION)
    if not (value.isascii() and value.isdigit() and int(value) <= _LARGEST):
        raise ValueError(f"the URL's {OPTION} must be a number from 0 to {_LARGEST:,}; 0 for a pooler")
    return PostgresUrl(address + (f"?{urlencode(given)}" if given else ""), int(value))
