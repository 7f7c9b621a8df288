"""What is watched in one scope, how far it was seen, and what is news in what was found since."""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import TypeVar

from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent

from layerlore.server.resources.kinds import OF_A_THREAD, Address, Kind
from layerlore.server.resources.uris import address_of
from layerlore.server.subscriptions.interest import LIST
from layerlore.storage.core.records import Json
from layerlore.storage.core.transaction import Row
from layerlore.storage.threads.changes import Found, ThreadMark, Watched

_KeyT = TypeVar("_KeyT")

Change = tuple[Kind | None, str]
"""A kind of resource (None: the list of them) that changed, and of which thread, run or entry; ANY: of whichever."""

_LIST_CHANGED: Change = (None, "")
ANY = "*"
"""In the place of an id, which no entry has: entries have UUIDs."""

# Which resource of a thread an event concerns, beside the thread itself and its events.
_OF_PREFIX: tuple[tuple[str, Kind], ...] = (
    ("messages_", "messages"),
    ("observations_", "observations"),
    ("working_memory_", "session-memory"),
    ("plan_", "plan"),
    ("run_", "runs"),
)


_ALONE: set[Change] = {("profile", ""), ("entries", ""), ("entry", ANY), ("recall", ""), ("threads", "")}
"""What belongs to the resource, and to no thread of it."""


def kinds_of(types: Collection[str] | None) -> set[Kind]:
    """The resources of a thread that events of these types change; all of them if the types are not known."""
    if types is None or "memory_redacted" in types:
        return {"thread", *OF_A_THREAD}
    return {"thread", "events", *(kind for prefix, kind in _OF_PREFIX for type_ in types if type_.startswith(prefix))}


def changes_of_resource(happened: Collection[tuple[str, Json]] | None) -> set[Change]:
    """What events of the resource change: the profile and the entries, with them what a recall finds, or which threads
    there are and what they are called."""
    if happened is None:
        return {*_ALONE, ("status", ""), _LIST_CHANGED}
    found: set[Change] = {("status", "")} if happened else set()
    for type_, payload in happened:
        found |= _changes_of_event(type_, payload)
    return found


def _changes_of_event(type_: str, payload: Json) -> set[Change]:
    if type_.startswith("profile_"):
        return {("profile", ""), ("recall", "")}
    if type_.startswith("entries_"):
        ids = payload.get("ids") or [ANY]
        return {("entries", ""), ("recall", ""), *(("entry", str(entry_id)) for entry_id in ids)}
    if type_.startswith("thread_"):
        lists = type_ != "thread_updated" or "title" in payload.get("changed", ())
        return {("threads", ""), *([_LIST_CHANGED] if lists else [])}
    # Erased, redacted, or of a newer version: all may have changed.
    return {*_ALONE, _LIST_CHANGED}


class ScopeWatch:
    """The URIs that are watched in a scope, and marks. What nobody watches any more has no mark: whoever watches it
    next begins anew."""

    def __init__(self) -> None:
        self._addresses: dict[str, Address | None] = {}
        self._threads: Counter[str] = Counter()
        self._runs: Counter[str] = Counter()
        self._alone: Counter[Kind | None] = Counter()
        self._thread_marks: dict[str, ThreadMark] = {}
        self._run_marks: dict[str, Row | None] = {}
        self._resource_seq: int | None = None
        self._totals: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return bool(self._addresses)

    def add(self, uri: str) -> None:
        """Watch a URI that is not watched yet, or the list. Raises InvalidInput for what is no address."""
        address = self._addresses[uri] = None if uri == LIST else address_of(uri)
        if address is not None and address.thread_id:
            self._threads[address.thread_id] += 1
        elif address is not None and address.run_id:
            self._runs[address.run_id] += 1
        else:
            self._alone[address.kind if address else None] += 1

    def drop(self, uri: str) -> None:
        """Watch it no more."""
        address = self._addresses.pop(uri)
        if address is not None and address.thread_id:
            if _counted_out(self._threads, address.thread_id):
                self._thread_marks.pop(address.thread_id, None)
        elif address is not None and address.run_id:
            if _counted_out(self._runs, address.run_id):
                self._run_marks.pop(address.run_id, None)
        else:
            _counted_out(self._alone, address.kind if address else None)
            self._resource_seq = self._resource_seq if self._alone else None
            self._totals = self._totals if self._needs_totals else None

    @property
    def _needs_totals(self) -> bool:
        return bool(self._alone.keys() & {"threads", "status", "recall"})

    def unmarked(self) -> Watched | None:
        """What has no mark yet; None: nothing."""
        threads = {thread_id: None for thread_id in self._threads if thread_id not in self._thread_marks}
        run_ids = [run_id for run_id in self._runs if run_id not in self._run_marks]
        resource = bool(self._alone) and self._resource_seq is None
        totals = self._needs_totals and self._totals is None
        return Watched(threads, run_ids, resource, None, totals) if threads or run_ids or resource or totals else None

    def marked(self) -> Watched:
        """What has marks, and the marks."""
        resource, totals = self._resource_seq is not None, self._totals is not None
        return Watched(dict(self._thread_marks), list(self._run_marks), resource, self._resource_seq, totals)

    def mark(self, asked: Watched, found: Found) -> None:
        """Where things were found is what they are marked with. What was dropped since it was asked for stays so."""
        self._thread_marks |= {thread_id: mark for thread_id, mark in found.marks.items() if thread_id in self._threads}
        self._run_marks |= {run_id: found.runs.get(run_id) for run_id in asked.run_ids if run_id in self._runs}
        if asked.resource and self._alone:
            self._resource_seq = found.resource_seq
        if asked.totals and self._needs_totals:
            self._totals = found.totals

    def news(self, asked: Watched, found: Found) -> list[ServerEvent]:
        """What was found not to be as it is marked; moves the marks on. Each URI is given as it is watched."""
        changed = set(self._changed(asked, found))
        self.mark(asked, found)
        events: list[ServerEvent] = []
        for uri, address in self._addresses.items():
            if address is None:
                events += [ResourcesListChanged()] if _LIST_CHANGED in changed else []
            elif _is_among(address, changed):
                events.append(ResourceUpdated(uri=uri))
        return events

    def _changed(self, asked: Watched, found: Found) -> Iterator[Change]:
        for thread_id, before in asked.threads.items():
            mark = found.marks[thread_id]
            if before is not None and before != mark:
                known = found.types.get(thread_id) if before.uid == mark.uid else None
                yield from ((kind, thread_id) for kind in kinds_of(known))
        for run_id in asked.run_ids:
            if run_id in self._run_marks and self._run_marks[run_id] != found.runs.get(run_id):
                yield from (("run", run_id), ("run-state", run_id))
        yield from changes_of_resource(found.resource_events)
        if asked.totals and self._totals is not None and self._totals != found.totals:
            yield from (("threads", ""), ("status", ""), ("recall", ""))


def _is_among(address: Address, changed: Collection[Change]) -> bool:
    id_ = address.thread_id or address.run_id or address.entry_id
    return (address.kind, id_) in changed or (address.kind, ANY) in changed


def _counted_out(counts: Counter[_KeyT], key: _KeyT) -> bool:
    """Count one less. Returns whether none is left."""
    counts[key] -= 1
    if counts[key]:
        return False
    del counts[key]
    return True
