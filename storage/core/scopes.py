"""Conditions and values that bind a statement to a scope, so that no store writes them again."""

import hashlib
from functools import lru_cache
from typing import Any, Literal

from sqlalchemy import ColumnElement, FromClause, Table, and_, bindparam

from layerlore.storage.core.records import Scope


def in_scope(table: FromClause) -> ColumnElement[bool]:
    """Rows of the scope whose values ``of_scope`` gives."""
    return and_(
        table.c.tenant_id == bindparam("tenant_id"),
        table.c.agent_id == bindparam("agent_id"),
        table.c.resource_id == bindparam("resource_id"),
    )


def named_in_scope(table: Table) -> ColumnElement[bool]:
    """Rows of the scope that are already named by their ids: written so that no index on the scope can serve, which
    SQLite's planner would otherwise walk for the whole scope."""
    return and_(
        *(table.c[name].op("||")("") == bindparam(name) for name in ("tenant_id", "agent_id", "resource_id")),
    )


def in_thread(table: FromClause) -> ColumnElement[bool]:
    """Rows of one thread of the scope, whose values ``of_thread`` gives."""
    return and_(in_scope(table), table.c.thread_uid == bindparam("thread_uid"))


def same_thread(left: FromClause, right: FromClause) -> ColumnElement[bool]:
    """The join of two tables' rows of the same thread."""
    return and_(
        left.c.tenant_id == right.c.tenant_id,
        left.c.agent_id == right.c.agent_id,
        left.c.resource_id == right.c.resource_id,
        left.c.thread_uid == right.c.thread_uid,
    )


def of_scope(scope: Scope) -> dict[str, Any]:
    return {"tenant_id": scope.tenant_id, "agent_id": scope.agent_id, "resource_id": scope.resource_id}


def of_thread(scope: Scope, thread_uid: str) -> dict[str, Any]:
    return {**of_scope(scope), "thread_uid": thread_uid}


Kind = Literal["entry", "message"]
KINDS: tuple[Kind, ...] = ("entry", "message")
"""What is searched."""


@lru_cache(maxsize=4096)
def scope_token(scope: Scope, kind: Kind = "message") -> str:
    """The opaque name of a scope in the search index. Digits only, so that no stemmer touches it."""
    name = "\0".join((scope.tenant_id, scope.agent_id, scope.resource_id, *(("entry",) if kind == "entry" else ())))
    return str(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))
