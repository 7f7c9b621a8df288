"""Every kind of background job. A new kind is added here."""

from layerlore.extraction.kinds.digester import Digester
from layerlore.extraction.kinds.entries import EntryExtractor
from layerlore.extraction.kinds.kind import JobKind
from layerlore.extraction.kinds.observer import Observer
from layerlore.extraction.kinds.profile import ProfileWriter
from layerlore.extraction.kinds.reflector import Reflector
from layerlore.extraction.kinds.session_memory import SessionMemoryWriter
from layerlore.extraction.kinds.summaries import Summariser
from layerlore.extraction.kinds.titles import TitleWriter


def make_kinds() -> list[JobKind]:
    """One instance of each kind, for a worker."""
    return [
        Observer(),
        Reflector(),
        Digester(),
        EntryExtractor(),
        ProfileWriter(),
        SessionMemoryWriter(),
        TitleWriter(),
        Summariser(),
    ]
