"""Every kind of background work there is."""

from memstrata.extraction.digesting import Digest
from memstrata.extraction.entries import EntryExtractor
from memstrata.extraction.kind import JobKind
from memstrata.extraction.observer import Observer
from memstrata.extraction.profile import Profile
from memstrata.extraction.reflector import Reflector
from memstrata.extraction.session_memory import SessionMemory
from memstrata.extraction.summaries import Summariser
from memstrata.extraction.titles import Title


def all_kinds() -> list[JobKind]:
    """One of each, as a worker takes them."""
    return [Observer(), Reflector(), Digest(), EntryExtractor(), Profile(), SessionMemory(), Title(), Summariser()]
