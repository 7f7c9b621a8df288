"""What belongs to the installation and to no tenant."""

from sqlalchemy import select

from memstrata.storage.tables import installation
from memstrata.storage.transaction import Tx

_HMAC_KEY = select(installation.c.value).where(installation.c.name == "hmac_key")


async def hmac_key(tx: Tx) -> bytes:
    """The installation's secret: marks of masked secrets and fingerprints of requests are made with it."""
    row = await tx.one(_HMAC_KEY)
    assert row is not None, "the first migration writes the key"
    return bytes.fromhex(row[0])
