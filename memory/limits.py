"""How much a caller may send, and be sent. Sizes are bytes of UTF-8, lengths are Unicode characters, counts are counts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Every value is the largest that is still accepted."""

    message_text_bytes: int = 256 * 1024
    """All of one message but its base64, see `memory.parts.part_text_bytes`."""
    message_media_bytes: int = 3 * 1024 * 1024
    """Base64 of one message's images and files, as sent (4 characters for 3 bytes)."""
    messages_per_call: int = 100
    thread_id_chars: int = 255
    metadata_bytes: int = 16 * 1024
    """As compact JSON."""
    json_depth: int = 64
    """Lists and objects inside one another: `[]` is 1 deep, `[[]]` 2."""
    title_chars: int = 255
    name_chars: int = 255
    id_chars: int = 255
    query_bytes: int = 2048
    steps_per_call: int = 100
    """Steps of an agent and its events together."""
    step_bytes: int = 64 * 1024
    """As compact JSON."""
    run_state_bytes: int = 1024 * 1024
    """The state of a suspended run, and all that resumers bring to it, each; as compact JSON, like the next two."""
    run_pending_bytes: int = 256 * 1024
    run_data_bytes: int = 64 * 1024
    """What one resumer brings, and the output of a run."""
    answer_bytes: int = 1024 * 1024
    """Of what is sent: a structure counts as itself and as the text beside it."""
