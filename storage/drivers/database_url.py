"""The URL that names the database: whether it can be read, and what of it may be shown."""

from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from layerlore.storage.core import linear_re
from layerlore.storage.drivers.postgres.url import read_url

FORMS = "nothing, sqlite:///absolute/path.db, sqlite://:memory:, or postgresql://user:password@host:5432/name"
_SCHEMES = ("sqlite", "postgresql", "postgres")
_HOST = linear_re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")


HOME = ""
"""The name of the home cluster among the clusters of an installation."""


@dataclass(frozen=True, slots=True)
class ShardUrls:
    """The URLs of one more Postgres cluster. ``listen``: past a pooler, for the connection that listens; "": the same."""

    url: str
    listen: str = ""


def check(url: str) -> None:
    """Raises ValueError, whose text repeats nothing of the URL, for one of no known form or that cannot be read."""
    scheme, separator, rest = url.partition("://")
    if url and not (separator and scheme in _SCHEMES and rest):
        raise ValueError(f"the URL is of no known form; allowed: {FORMS}")
    if url and scheme != "sqlite":
        read_url(url)
    if url and scheme != "sqlite" and not _can_be_taken_apart(url):
        raise ValueError("the URL cannot be read: special characters in its user and password must be percent-encoded")


def has_roles(url: str) -> bool:
    """Whether one role may own the tables of this database, and another serve. A file has no roles."""
    return url.startswith(("postgresql://", "postgres://"))


def check_roles(url: str) -> None:
    """Raises ValueError for the URL of a file where one of a database with roles is needed."""
    if url.startswith("sqlite:"):
        raise ValueError("must be a postgresql:// URL")


def _can_be_taken_apart(url: str) -> bool:
    """Whether the parts of a Postgres URL are where they belong, so that none of them holds a piece of the password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    hosts = parts.netloc.rpartition("@")[2].split(",")
    # An @ behind the hosts means that the password has a / ? or # that is not encoded.
    return "@" not in parts.path + parts.query + parts.fragment and all(_HOST.fullmatch(host) for host in hosts)


def without_password(url: str) -> str:
    """A Postgres URL's user, hosts, ports and database, and nothing else of it; for a URL that passed the check."""
    parts = urlsplit(url)
    login, _, hosts = parts.netloc.rpartition("@")
    user = login.partition(":")[0]
    hosts = hosts or ",".join(parse_qs(parts.query).get("host", []))
    return f"postgresql://{user}{'@' if user else ''}{hosts}{parts.path}"
