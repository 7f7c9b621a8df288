"""Observations as answers show them. This module imports nothing heavy: the list of resources needs it."""

from typing import NotRequired

from typing_extensions import TypedDict


class NoteRow(TypedDict):
    """A note, the time of its subject, and its source messages."""

    marker: str
    text: str
    said_at: str
    refers_to: NotRequired[str]
    under: NotRequired[int]
    from_seq: int
    to_seq: int
    trust: str


class ObservationRow(NoteRow):
    id: int
    reflections: int
    model: str


class OlderObservations(TypedDict):
    before: int


class ObservationPage(TypedDict):
    """The newest active observations of a thread, and the seq that they cover it to."""

    thread_id: str
    observations: list[ObservationRow]
    left_out: NotRequired[int]
    next: NotRequired[OlderObservations]
    observed_seq: int
    tokens: int
    current_task: NotRequired[str]
    next_step: NotRequired[str]


class QueuedNote(TypedDict):
    category: str
    text: str
    from_seq: int
    to_seq: int


class WaitingNotes(TypedDict, total=False):
    """Notes that were made and are not shown yet."""

    noted_ahead: list[NoteRow]
    for_session_memory: list[QueuedNote]


class ThreadNotes(ObservationPage):
    """The observations of a thread, and the notes that wait to be shown."""

    noted_ahead: NotRequired[list[NoteRow]]
    for_session_memory: NotRequired[list[QueuedNote]]
