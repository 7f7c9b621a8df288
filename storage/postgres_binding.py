"""How a transaction on Postgres begins, and how it is bound to whose rows it may see.

The settings last until the transaction ends, and the policies of the tables (``migrations/``) compare with them: a
statement that forgets its condition finds nothing of others, and one in an unbound transaction nothing at all.
"""

from typing import Literal

from layerlore.storage.records import Scope, Tenant
from layerlore.storage.search import KINDS, scope_token

Access = Literal["READ WRITE", "READ ONLY"]

# A read sees one snapshot; a write sees what others committed before each of its statements.
_BEGIN: dict[Access, str] = {
    # Set here and not for the connection: behind a pooler the next transaction may have another one.
    "READ WRITE": "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit TO on",
    "READ ONLY": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}


def beginning(access: Access, whose: Scope | Tenant | None) -> str:
    """One round trip that begins a transaction and binds it; unbound (None) it sees no tenant's rows."""
    return _BEGIN[access] if whose is None else f"{_BEGIN[access]}; {binding(whose)}"


def binding(whose: Scope | Tenant) -> str:
    """What binds the transaction that is open, until it ends."""
    if isinstance(whose, Tenant):
        values = {"tenant": whose.tenant_id, "reach": "tenant", "agent": "", "resource": "", "tokens": ""}
    else:
        tokens = " ".join(scope_token(whose, kind) for kind in KINDS)
        of_scope = {"tenant": whose.tenant_id, "agent": whose.agent_id, "resource": whose.resource_id}
        values = {**of_scope, "reach": "scope", "tokens": tokens}
    settings = (f"set_config('layerlore.{name}', {_literal(value)}, true)" for name, value in values.items())
    return f"SELECT {', '.join(settings)}"


def _literal(value: str) -> str:
    """A text as SQL, whatever is in it: several statements go in one message, which takes no parameters."""
    return f"convert_from('\\x{value.encode().hex()}', 'UTF8')"
