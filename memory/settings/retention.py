"""The settings of what is kept for how long."""

from typing import Annotated, Literal

from pydantic import Field

from layerlore.memory.settings.section import Messages, Section, Unit


class RetentionRules(Section):
    """How long what was deleted is kept, and whether messages go by themselves, the oldest first: by default none do."""

    deleted_days: Annotated[int, Unit("days")] = Field(
        default=30,
        ge=0,
        le=3650,
        description="Time in which `layerlore restore` can undo a delete; then what was deleted is erased for good. 0 "
        "erases at once.",
    )
    thread_messages: Messages = Field(
        default=0,
        ge=0,
        description="Of each conversation the newest so many messages are kept, and older ones are deleted once an hour. "
        "0: all are kept.",
    )
    resource_messages: Messages = Field(
        default=0,
        ge=0,
        description="The same for all conversations of an agent with a resource together. 0: all are kept.",
    )
    message_days: Annotated[int, Unit("days")] = Field(
        default=0,
        ge=0,
        le=36500,
        description="Messages that were said longer ago are deleted. 0: none are.",
    )
    distilled: Literal["delete", "keep"] = Field(
        default="delete",
        description="What becomes of what was made from messages that go by one of these three rules. `delete`: it goes "
        "with them, as with every delete, and both can be restored for `deleted_days`. `keep`: it stays, entries with "
        "the messages that they rest on; the others are erased at once, and cannot be restored.",
    )

    @property
    def deletes(self) -> bool:
        """Whether any messages go by themselves."""
        return bool(self.thread_messages or self.resource_messages or self.message_days)
