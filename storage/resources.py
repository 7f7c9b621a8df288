"""The lock of a resource: who changes what belongs to no thread (its profile, its entries) holds it.

Who also locks a thread does so first.
"""

from sqlalchemy import bindparam
from sqlalchemy.dialects.postgresql import insert

from memstrata.storage.records import Scope
from memstrata.storage.scoping import of_scope
from memstrata.storage.tables import SCOPE, resources
from memstrata.storage.transaction import Tx

# It changes nothing but holds the row, which is made if it is absent. Postgres' form; SQLite's compiler writes the same.
_HOLD = (
    insert(resources)
    .values(**{name: bindparam(name) for name in SCOPE}, next_event_seq=1)
    .on_conflict_do_update(
        index_elements=[resources.c.tenant_id, resources.c.agent_id, resources.c.resource_id],
        set_={"next_event_seq": resources.c.next_event_seq},
    )
)


async def hold(tx: Tx, scope: Scope) -> None:
    """Hold the resource until the transaction ends."""
    await tx.run(_HOLD, **of_scope(scope))
