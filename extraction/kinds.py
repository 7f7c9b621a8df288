"""Every kind of background work there is."""

from layerlore.extraction.digesting import Digest
from layerlore.extraction.entries import EntryExtractor
from layerlore.extraction.kind import JobKind
from layerlore.extraction.observer import Observer
from layerlore.extraction.profile import Profile
from layerlore.extraction.reflector import Reflector
from layerlore.extraction.session_memory import SessionMemory
from layerlore.extraction.summaries import Summariser
from layerlore.extraction.titles import Title


def all_kinds() -> list[JobKind]:
    """One of each, as a worker takes them."""
    return [Observer(), Reflector(), Digest(), EntryExtractor(), Profile(), SessionMemory(), Title(), Summariser()]
