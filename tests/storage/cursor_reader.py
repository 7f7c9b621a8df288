"""A program that reads by cursors through a pooler, as one of several servers: URL and number of reads are its arguments.
It prints what it could not read."""

import asyncio
import sys

from sqlalchemy import column, func, select

from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.drivers.postgres.database import PostgresDatabase

ANYBODY = Scope("acme", "", "ana")
ROWS = 40


async def read_numbers(tx: Tx, scope: Scope) -> list[int]:
    """The numbers from 1 to ROWS, by a cursor that fetches more than once."""
    numbers: list[int] = []

    def take(row: Row) -> bool:
        numbers.append(row[0])
        return True

    await tx.each(select(column("n")).select_from(func.generate_series(1, ROWS).alias("n")), take)
    return numbers


async def read_often(url: str, times: int) -> list[str]:
    """The errors of so many reads, ten at a time."""
    database = await PostgresDatabase.open(url)
    wrong: list[str] = []
    for _ in range(times // 10):
        answers = await asyncio.gather(
            *(database.read(read_numbers, ANYBODY) for _ in range(10)), return_exceptions=True
        )
        wrong += [str(answer) for answer in answers if answer != [*range(1, ROWS + 1)]]
    await database.close()
    return wrong


if __name__ == "__main__":
    print("\n".join(asyncio.run(read_often(sys.argv[1], int(sys.argv[2])))), end="")
