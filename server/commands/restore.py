"""``layerlore restore``: what was deleted is listed, or there again."""

import asyncio
import sys

from layerlore.memory.ages import age, iso
from layerlore.memory.deleting import deletions_to_undo
from layerlore.memory.deleting import restore as undo
from layerlore.memory.engine import Engine
from layerlore.server.commands.stored import stored_memory
from layerlore.server.commands.whose import named, options, scope_of
from layerlore.server.program import shell_command
from layerlore.server.settings import Settings
from layerlore.storage.errors import NotFound
from layerlore.storage.records import Origin, Scope
from layerlore.storage.restoration import Deletion


def restore(settings: Settings, tenant: str, deletion_uid: str | None, thread_id: str | None) -> int:
    """Undo a delete of a tenant's agent and resource, which the settings name, or the newest of a thread; with neither, list them. Returns the exit code.

    Raises NotFound, Conflict, StorageUnavailable, DatabaseTooNew or InvalidInput.
    """
    return asyncio.run(_restore(settings, scope_of(settings, tenant), deletion_uid, thread_id))


async def _restore(settings: Settings, scope: Scope, deletion_uid: str | None, thread_id: str | None) -> int:
    async with stored_memory(settings, off="nothing can be restored", absent="nothing was deleted") as engine:
        if deletion_uid is None:
            deletions = await deletions_to_undo(engine, scope)
            if thread_id is None:
                _list(engine, scope, deletions)
                return 0
            deletion_uid = _newest_of(thread_id, scope, deletions)
        restored = await undo(engine, scope, deletion_uid, origin=Origin("command line", "restore", "command:restore"))
    thread, count = f"the thread {restored.thread_id!r}", _messages(restored)
    sys.stdout.write(
        f"restored {thread}, with {count}\n" if restored.kind == "thread" else f"restored {count} of {thread}\n"
    )
    return 0


def _newest_of(thread_id: str, scope: Scope, deletions: list[Deletion]) -> str:
    for deletion in deletions:
        if deletion.thread_id == thread_id:
            return deletion.deletion_uid
    raise NotFound(
        f"there is no delete of thread {thread_id!r} to undo; `{shell_command('restore', *options(scope))}` lists those "
        "there are"
    )


def _messages(deletion: Deletion) -> str:
    return f"{deletion.message_count} message{'' if deletion.message_count == 1 else 's'}"


def _list(engine: Engine, scope: Scope, deletions: list[Deletion]) -> None:
    if not deletions:
        sys.stdout.write(f"nothing to undo for {named(scope)}\n")
        return
    for deletion in deletions:
        when = f"{iso(deletion.deleted_at)} ({age(deletion.deleted_at, engine.now())})"
        columns = (deletion.deletion_uid, f"{deletion.kind:<8}", f"{_messages(deletion):>13}", when, deletion.thread_id)
        sys.stdout.write("  ".join(columns) + "\n")
    sys.stdout.write(
        f"\n`{shell_command('restore', 'ID', *options(scope))}` undoes one; each is erased {engine.deleted_days} days after it was made.\n"
    )
