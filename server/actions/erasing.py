"""What erase_memory does."""

from layerlore.memory import confirmed_erasing
from layerlore.memory.acceptance import check_id
from layerlore.server.actions.call import Call
from layerlore.storage.errors import InvalidInput
from layerlore.storage.records import Json


async def erase_memory(call: Call, thread_id: str, dry_run: bool, confirm: str) -> Json:
    # Never the current conversation: left out, it means everything.
    thread = check_id(thread_id, "thread_id", call.engine.limits.thread_id_chars) if thread_id else ""
    sent = call.sent(thread_id)
    if not dry_run:
        token = check_id(confirm.strip(), "confirm", call.engine.limits.id_chars)
        return await confirmed_erasing.confirmed(call.engine, call.scope, thread, token, sent)
    if confirm:
        raise InvalidInput("confirm: goes with dry_run=false, which erases; a dry run needs none")
    return await confirmed_erasing.preview(call.engine, call.scope, thread, sent.origin)
