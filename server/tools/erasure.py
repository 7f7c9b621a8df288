"""The tool that erases for good."""

import asyncio
from typing import Annotated

from pydantic import Field

from layerlore.memory.removal.removal_answers import ErasedMemory
from layerlore.memory.rules.validation import check_id
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.tools.call import Call
from layerlore.server.tools.declaration import tool
from layerlore.storage.core.errors import InvalidInput, StorageUnavailable


@tool("Erase memory", "admin", "admin", answers=ErasedMemory)
async def erase_memory(
    call: Call,
    thread_id: Annotated[str, Field(description="Only this conversation; left out: everything.")] = "",
    dry_run: Annotated[bool, Field(description="Only tell how much would go.")] = True,
    confirm: Annotated[str, Field(description="The token of the dry run.")] = "",
) -> ErasedMemory:
    """Erase for good everything remembered of whom this memory serves, or one conversation; nothing can be restored. A
    dry run tells how much that is, with a token; ask the user, then call again with dry_run=false and confirm."""
    from layerlore.memory.removal import erasure

    # Never the current conversation: left out, it means everything.
    if thread_id:
        thread = check_id(thread_id, "thread_id", call.engine.limits.thread_id_chars)
    else:
        thread = ""
    sent = call.sent(thread_id)
    if not dry_run:
        token = check_id(confirm.strip(), "confirm", call.engine.limits.id_chars)
        receipt = await erasure.confirm_erasure(call.engine, call.scope, thread, token, sent)
        # The database first: if the files fail, the important part is done.
        await _erase_files(call, thread)
        return receipt
    if confirm:
        raise InvalidInput("confirm: goes with dry_run=false, which erases; a dry run needs none")
    return await erasure.preview_erasure(call.engine, call.scope, thread, sent.origin)


async def _erase_files(call: Call, thread: str) -> None:
    """Erase the files of hooks in the data folder, which belong to the tenant of this machine. Raises StorageUnavailable."""
    from layerlore.server.capture import hook_sessions

    scope = call.scope
    # The hooks' files of this machine belong to the local tenant only.
    if scope.tenant_id != LOCAL_TENANT:
        return
    try:
        await asyncio.to_thread(
            hook_sessions.erase_hook_files, call.settings, scope.resource_id, scope.agent_id, thread
        )
    except OSError as error:
        raise StorageUnavailable(
            f"the database is erased, but files of hooks in the data folder are not: {error.strerror}; "
            "`layerlore erase` erases them once the folder can be written"
        ) from error
