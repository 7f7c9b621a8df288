"""The URL that names the database: whether it can be read."""

from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.drivers.dialect import FORMS, choose_dialect, find_dialect


def check(url: str) -> None:
    """Raises ValueError, whose text repeats nothing of the URL, for one of no known form or that cannot be read."""
    if not url:
        return
    try:
        dialect = choose_dialect(url)
    except InvalidInput as error:
        raise ValueError(str(error)) from None
    if dialect is None:
        raise ValueError(f"the URL is of no known form; allowed: nothing, {FORMS}")
    dialect.check(url)


def check_roles(url: str) -> None:
    """Raises ValueError for the URL of a database without roles where one that has them is needed."""
    dialect = find_dialect(url.partition("://")[0])
    if url and dialect is not None and not dialect.has_roles:
        raise ValueError("must be a postgresql:// URL")
