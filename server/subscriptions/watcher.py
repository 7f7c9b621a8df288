"""The watcher: it finds the changes of all processes, and notifies the clients that watch them."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import TypeVar

import anyio
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent

from layerlore.server.resources.kinds import OF_A_THREAD, Address, Kind
from layerlore.server.resources.requests import address_of
from layerlore.server.subscriptions.notifications import LIST, Interest
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.transaction import Concerns, Database, Row
from layerlore.storage.threads import events
from layerlore.storage.threads.events import ThreadMark, WatchRequest, WatchResult

_KeyT = TypeVar("_KeyT")

Change = tuple[Kind | None, str]
"""A kind of resource that changed (None: the list of resources), and its thread, run or entry; ANY: all of them."""

_LIST_CHANGED: Change = (None, "")
ANY = "*"
"""Stands for every id. No entry has it, since entries have UUIDs."""

# The resource of a thread that an event concerns, beside the thread itself and its events.
_OF_PREFIX: tuple[tuple[str, Kind], ...] = (
    ("messages_", "messages"),
    ("observations_", "observations"),
    ("working_memory_", "session-memory"),
    ("plan_", "plan"),
    ("run_", "runs"),
)


_ALONE: set[Change] = {("profile", ""), ("entries", ""), ("entry", ANY), ("recall", ""), ("threads", "")}
"""The resources outside of threads."""


def kinds_of(types: Collection[str] | None) -> set[Kind]:
    """The resources of a thread that events of these types change; all of them if the types are unknown."""
    # A redaction may change texts everywhere.
    if types is None or "memory_redacted" in types:
        return {"thread", *OF_A_THREAD}
    return {"thread", "events", *(kind for prefix, kind in _OF_PREFIX for type_ in types if type_.startswith(prefix))}


def changes_of_resource(happened: Collection[tuple[str, Json]] | None) -> set[Change]:
    """The resources that events outside of threads change: the profile, the entries, recalls, and the list of threads."""
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
        # A change of many entries names no ids, so it may concern each watched entry.
        ids = payload.get("ids") or [ANY]
        return {("entries", ""), ("recall", ""), *(("entry", str(entry_id)) for entry_id in ids)}
    if type_.startswith("thread_"):
        # Lists show titles, but not metadata, so other updates do not concern them.
        lists = type_ != "thread_updated" or "title" in payload.get("changed", ())
        return {("threads", ""), *([_LIST_CHANGED] if lists else [])}
    # After an erasure, a redaction or an event of a newer version, anything may have changed.
    return {*_ALONE, _LIST_CHANGED}


class ScopeWatch:
    """The watched URIs of a scope, and marks of their current states. An unwatched resource has no mark."""

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
        """Watch a URI that is not watched yet, or the list. Raises InvalidInput for a text that is not an address."""
        address = self._addresses[uri] = None if uri == LIST else address_of(uri)
        if address is not None and address.thread_id:
            self._threads[address.thread_id] += 1
        elif address is not None and address.run_id:
            self._runs[address.run_id] += 1
        else:
            self._alone[address.kind if address else None] += 1

    def drop(self, uri: str) -> None:
        """Stop watching a URI."""
        address = self._addresses.pop(uri)
        if address is not None and address.thread_id:
            if _counted_out(self._threads, address.thread_id):
                self._thread_marks.pop(address.thread_id, None)
        elif address is not None and address.run_id:
            if _counted_out(self._runs, address.run_id):
                self._run_marks.pop(address.run_id, None)
        else:
            _counted_out(self._alone, address.kind if address else None)
            # Without a watcher the mark would become stale, and the next watcher would get old news.
            self._resource_seq = self._resource_seq if self._alone else None
            self._totals = self._totals if self._needs_totals else None

    @property
    def _needs_totals(self) -> bool:
        # Totals need a query of their own, so they are only read for these kinds.
        return bool(self._alone.keys() & {"threads", "status", "recall"})

    def unmarked(self) -> WatchRequest | None:
        """The resources without a mark; None: nothing."""
        threads = {thread_id: None for thread_id in self._threads if thread_id not in self._thread_marks}
        run_ids = [run_id for run_id in self._runs if run_id not in self._run_marks]
        resource = bool(self._alone) and self._resource_seq is None
        totals = self._needs_totals and self._totals is None
        if threads or run_ids or resource or totals:
            return WatchRequest(threads, run_ids, resource, None, totals)
        return None

    def marked(self) -> WatchRequest:
        """The resources with marks, and their marks."""
        resource, totals = self._resource_seq is not None, self._totals is not None
        return WatchRequest(dict(self._thread_marks), list(self._run_marks), resource, self._resource_seq, totals)

    def mark(self, request: WatchRequest, found: WatchResult) -> None:
        """Set the marks to the states that were found. A watch that was dropped since the query stays dropped."""
        # Only watched resources get a mark, since a watch may have ended during the query.
        self._thread_marks |= {thread_id: mark for thread_id, mark in found.marks.items() if thread_id in self._threads}
        self._run_marks |= {run_id: found.runs.get(run_id) for run_id in request.run_ids if run_id in self._runs}
        if request.resource and self._alone:
            self._resource_seq = found.resource_seq
        if request.totals and self._needs_totals:
            self._totals = found.totals

    def news(self, request: WatchRequest, found: WatchResult) -> list[ServerEvent]:
        """The news of resources that differ from their marks, and set the marks anew. URIs are as the client wrote them."""
        # The changes are computed before the marks are set.
        changed = set(self._changed(request, found))
        self.mark(request, found)
        events: list[ServerEvent] = []
        for uri, address in self._addresses.items():
            if address is None:
                if _LIST_CHANGED in changed:
                    events += [ResourcesListChanged()]
            else:
                id_ = address.thread_id or address.run_id or address.entry_id
                if (address.kind, id_) in changed or (address.kind, ANY) in changed:
                    events.append(ResourceUpdated(uri=uri))
        return events

    def _changed(self, request: WatchRequest, found: WatchResult) -> Iterator[Change]:
        for thread_id, before in request.threads.items():
            mark = found.marks[thread_id]
            if before is not None and before != mark:
                # With another uid it is a new thread of the same name, so everything may have changed.
                known = found.types.get(thread_id) if before.uid == mark.uid else None
                yield from ((kind, thread_id) for kind in kinds_of(known))
        for run_id in request.run_ids:
            if run_id in self._run_marks and self._run_marks[run_id] != found.runs.get(run_id):
                yield from (("run", run_id), ("run-state", run_id))
        yield from changes_of_resource(found.resource_events)
        if request.totals and self._totals is not None and self._totals != found.totals:
            yield from (("threads", ""), ("status", ""), ("recall", ""))


def _counted_out(counts: Counter[_KeyT], key: _KeyT) -> bool:
    """Count one less. Returns whether none is left."""
    counts[key] -= 1
    if counts[key]:
        return False
    del counts[key]
    return True


log = logging.getLogger(__name__)

LOOK_SECONDS = 0.05
"""The least time between two looks, regardless of the number of hints. A look makes at most one piece of news for each
resource."""
REST = 4
"""After a look the watcher rests this many times as long as the look took."""
AGAIN_SECONDS = 5.0
"""The time to wait after the database could not be read."""

Publish = Callable[[Scope, ServerEvent], Awaitable[None]]


class Watcher:
    """Looks for changes after hints, while a client watches something. ``begin`` marks the current states, so that later
    commits are news. Each look publishes the changes since the marks, and sets the marks anew."""

    def __init__(self, database: Database, interest: Interest, publish: Publish) -> None:
        self._database = database
        self._interest = interest
        self._publish = publish
        self._watches: dict[Scope, ScopeWatch] = {}
        self._looking = anyio.Lock()
        self._due: set[Scope] = set()
        self._hinted = asyncio.Event()
        for scope in interest.scopes:
            for uri in interest.uris(scope):
                self._follow(scope, uri)
        interest.changed = self._follow

    async def run(self) -> None:
        """Look until cancelled. Raises nothing: failures are logged and tried again."""
        while True:
            await self._interest.until(watched=True)
            # Hints come from this process's own commits and from other processes through the database.
            with self._database.hints(self.hint):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._look_when_hinted)
                    await self._interest.until(watched=False)
                    tasks.cancel_scope.cancel()

    def hint(self, concerns: Concerns) -> None:
        """Note that something may have been committed."""
        self._due |= {scope for scope in self._watches if concerns(scope)}
        if self._due:
            self._hinted.set()

    async def begin(self, scope: Scope) -> None:
        """Mark the watched resources of a scope that have no mark yet. Commits after this are news.

        Raises StorageUnavailable.
        """
        # One look at a time, since a look with older marks would report a change twice.
        async with self._looking:
            watch = self._watches.get(scope)
            if watch is not None and (unmarked := watch.unmarked()) is not None:
                watch.mark(unmarked, await self._database.read(events.look, scope, unmarked))

    async def look(self, scope: Scope) -> None:
        """Publish the changes since the marks of a scope. Raises StorageUnavailable."""
        async with self._looking:
            watch = self._watches.get(scope)
            if watch is None:
                return
            marked = watch.marked()
            news = watch.news(marked, await self._database.read(events.look, scope, marked))
        # Published outside the lock, since a listener may be slow.
        for event in news:
            await self._publish(scope, event)

    async def _look_when_hinted(self) -> None:
        while True:
            await self._hinted.wait()
            # Cleared before the look, so that a hint during it leads to another look.
            self._hinted.clear()
            began = time.monotonic()
            failed = await self._look_at_due()
            if not failed:
                await anyio.sleep(max(LOOK_SECONDS, REST * (time.monotonic() - began)))
                continue
            await anyio.sleep(AGAIN_SECONDS)
            self._due |= failed
            self._hinted.set()

    async def _look_at_due(self) -> set[Scope]:
        """Look at all due scopes. Returns those that failed."""
        # Taken as a whole, so that new hints go into a new set.
        due, self._due = self._due, set()
        failed = set()
        for scope in due:
            try:
                await self.look(scope)
            except LayerloreError as error:
                log.warning("cannot look for changes, and tries again: %s", error)
                failed.add(scope)
            except Exception:
                log.exception("looking for changes failed; it is tried again")
                failed.add(scope)
        return failed

    def _follow(self, scope: Scope, uri: str) -> None:
        watch = self._watches.setdefault(scope, ScopeWatch())
        if uri in self._interest.uris(scope):
            watch.add(uri)
        else:
            watch.drop(uri)
        # An empty watch would be read from the database at each hint.
        if not watch:
            del self._watches[scope]
