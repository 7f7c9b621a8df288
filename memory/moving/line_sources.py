"""What lines say that a version or an entry was made from, as places in threads that are here."""

from collections.abc import Mapping

from layerlore.memory.moving.line_numbers import is_number
from layerlore.memory.moving.thread_places import ThreadPlaces
from layerlore.storage.core.records import Json
from layerlore.storage.moving.moved_entries import MovedSource
from layerlore.storage.moving.moved_rows import VersionRun

_NUMBERS = ("seq", "revision", "starts", "ends", "created_at")


def read_runs(line: Json, version: int, here: Mapping[str, ThreadPlaces]) -> list[VersionRun]:
    """The runs of messages that a version was made from, as far as their threads are here."""
    found = []
    for source, places in _sources(line, here):
        first, last = source.get("from_seq"), source.get("to_seq")
        if is_number(first) and is_number(last) and (run := places.find_run(first, last)):
            found.append(VersionRun(version, places.uid, *run))
    return found


def read_entry_sources(line: Json, here: Mapping[str, ThreadPlaces]) -> list[MovedSource]:
    """Where in messages that are here, with the text they had, an entry is said."""
    found = []
    for source, places in _sources(line, here):
        if not all(is_number(source.get(name)) for name in _NUMBERS) or not isinstance(source.get("label"), str):
            continue
        place = places.find(source["seq"], source["revision"])
        if place is not None:
            span = (source["starts"], source["ends"], source["label"], source["created_at"])
            found.append(MovedSource(places.uid, *place, *span))
    return found


def _sources(line: Json, here: Mapping[str, ThreadPlaces]) -> list[tuple[Json, ThreadPlaces]]:
    sources = line.get("sources")
    named = [each for each in sources if isinstance(each, dict)] if isinstance(sources, list) else []
    return [(each, here[name]) for each in named if isinstance(name := each.get("thread"), str) and name in here]
