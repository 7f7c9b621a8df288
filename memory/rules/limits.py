"""How much a caller may send, and be sent."""

from typing import ClassVar

from pydantic import Field

from layerlore.memory.settings.section import Bytes, Section


class Limits(Section):
    """How much a caller may send, and be sent. Every value is the largest that is still accepted; texts count in UTF-8,
    JSON as written compactly."""

    thread_id_chars: ClassVar[int] = 255
    title_chars: ClassVar[int] = 255
    name_chars: ClassVar[int] = 255
    id_chars: ClassVar[int] = 255

    message_text_bytes: Bytes = Field(
        default=256 * 1024, ge=1, description="One message without its images and files: everything but base64."
    )
    message_media_bytes: Bytes = Field(
        default=3 * 1024 * 1024,
        ge=0,
        description="Images and files inside one message, as base64: 4 characters for 3 bytes.",
    )
    messages_per_call: int = Field(default=100, ge=1, le=10_000, description="Messages in one add_messages.")
    metadata_bytes: Bytes = Field(default=16 * 1024, ge=2, description="Metadata of a message or a thread, as JSON.")
    json_depth: int = Field(
        default=64, ge=1, le=64, description="Lists and objects inside one another: `[]` is 1 deep, `[[]]` 2."
    )
    query_bytes: Bytes = Field(default=2048, ge=1, description="A question to recall_memory.")
    run_state_bytes: Bytes = Field(
        default=1024 * 1024, ge=2, description="A run's state, and all that its resumers bring to it, each as JSON."
    )
    run_pending_bytes: Bytes = Field(default=256 * 1024, ge=2, description="A run's pending tool calls, as JSON.")
    run_data_bytes: Bytes = Field(
        default=64 * 1024,
        ge=2,
        description="What one answer to a run's pending call brings, and a run's output, each as JSON.",
    )
    steps_per_call: int = Field(
        default=100, ge=1, le=10_000, description="Steps of an agent and its events together, in one record_steps."
    )
    step_bytes: Bytes = Field(default=64 * 1024, ge=2, description="One step or event, as JSON.")
    answer_bytes: Bytes = Field(
        default=1024 * 1024,
        ge=256 * 1024,
        le=64 * 1024 * 1024,
        description="One answer, resource or prompt, as sent: a structure counts as itself and as the text beside it. "
        "What is longer is cut, and `next` goes on. Of get_context, images count, too.",
    )
