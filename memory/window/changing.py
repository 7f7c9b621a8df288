"""A message with other parts, counted again."""

from layerlore.memory.tokens import TokenCounter
from layerlore.storage.records import Json, Message


def with_parts(message: Message, parts: list[Json], counter: TokenCounter) -> Message:
    """The message with these parts and their tokens; the message itself if they are the ones it has."""
    if parts == message.parts:
        return message
    return Message(
        message.thread_id,
        message.seq,
        message.id,
        message.role,
        message.name,
        parts,
        message.metadata,
        counter.parts(parts),
        counter.name,
        message.created_at,
        message.said_at,
        message.revision,
    )
