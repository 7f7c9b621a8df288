"""Every table of the catalogue that has owners is erased from."""

import pytest

from layerlore.storage.core.tables import SCOPE, search_rows
from layerlore.storage.core.transaction import Database
from layerlore.storage.removal.erasure import OWNED

from ...conformance.building import rows
from ...conformance.removal.test_erasure_contract import (
    CATALOGUE,
)

pytestmark = pytest.mark.anyio

COLUMNS = {
    "sqlite": "SELECT name FROM pragma_table_info('{}')",
    "postgres": "SELECT column_name FROM information_schema.columns WHERE table_name = '{}'"
    " AND table_schema = current_schema()",
}


async def test_every_table_that_somebody_owns_rows_of_is_erased_from(database: Database) -> None:
    owned = set()
    for (name,) in await database.read_installation(rows, CATALOGUE[database.backend.name]):
        columns = {
            row[0] for row in await database.read_installation(rows, COLUMNS[database.backend.name].format(name))
        }
        if columns >= set(SCOPE):
            owned.add(name)
    assert owned == {table.name for table in (*OWNED, search_rows)}
