"""Lines of a session memory among the hits that the user has denied since, each with the words that deny it."""

from collections.abc import Sequence
from dataclasses import replace

from layerlore.memory.documents.denied_lines import NewerLine, describe_denial, find_denial, read_newer
from layerlore.memory.parts.parts import plain_text
from layerlore.memory.recall.hit_lines import MessageTexts
from layerlore.memory.recall.results import Hit
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import working_memory
from layerlore.storage.threads import threads


async def mark_denied_notes(tx: Tx, scope: Scope, hits: Sequence[Hit]) -> list[Hit]:
    """The hits; in the metadata of each denied line ``newer`` says what denies it."""
    newer_by_thread: dict[str, tuple[NewerLine, ...]] = {}
    marked: list[Hit] = []
    for hit in hits:
        note = hit.message
        if str(note.role) != "session_memory":
            marked.append(hit)
            continue
        thread_id = note.metadata["thread_id"]
        if thread_id not in newer_by_thread:
            thread = await threads.find(tx, scope, thread_id)
            written = await working_memory.read_newest(tx, scope, thread)
            newer_by_thread[thread_id] = await read_newer(tx, scope, thread, written)
        denial = find_denial(plain_text(note.parts), newer_by_thread[thread_id])
        if denial is None:
            marked.append(hit)
            continue
        denied = replace(note, metadata={**note.metadata, "newer": describe_denial(denial)})
        marked.append(replace(hit, message=denied, kept=MessageTexts(denied)))
    return marked
