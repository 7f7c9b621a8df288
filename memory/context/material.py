"""The material of a context: everything it is made of, read in one transaction and cut to the room there is. The
newest images and files are read whole, as many as an answer has room for; notes stand for the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from layerlore.memory.context.caches import (
    ExtractCache,
    ObservationCache,
    ThreadObservations,
    WindowCache,
    WindowMessages,
)
from layerlore.memory.context.context_blocks import (
    OVERHEAD,
    ContextPiece,
    make_attempts_piece,
    make_document_piece,
    make_open_work_piece,
    make_plan_piece,
    make_task_piece,
)
from layerlore.memory.context.window_loader import LoadedNotes, LoadedWindow, ModelSummary, find_floor, load_window
from layerlore.memory.documents.denied_lines import read_newer
from layerlore.memory.documents.working_memory import WorkingMemoryDocument, drop_expired_lines
from layerlore.memory.engine.engine import Engine
from layerlore.memory.messages.reader import READ_BYTES
from layerlore.memory.parts.media import list_media, make_media_note
from layerlore.memory.parts.parts import MEDIA, media_bytes
from layerlore.memory.recall.memory_block import PersonMemory, RecalledMemory, find_memory, join_memory
from layerlore.memory.recall.recall import PreparedRecall
from layerlore.memory.window.fit import blank_results, find_newest_from_user
from layerlore.memory.window.policy import WindowPolicy, choose_policy
from layerlore.memory.window.steady import SteadyWindow, choose_steady, count_tool_limit, find_settled_start
from layerlore.memory.window.view import ASKED_SHARE, build_window
from layerlore.memory.work.plan import find_elsewhere, find_suspended
from layerlore.memory.work.plan_rules import is_open
from layerlore.memory.work.work_answers import OpenWorkAnswer
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Json, Message, Scope, StoredJson, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, session_notes, working_memory
from layerlore.storage.derived.subjects import subject_in
from layerlore.storage.messages import windows
from layerlore.storage.messages.message_rows import place_of
from layerlore.storage.threads import threads
from layerlore.storage.work import plans, steps
from layerlore.storage.work.plans import Revision

ORDER = (
    "user-profile",
    "session-memory",
    "current-task",
    "plan",
    "previous-attempts",
    "open-work",
    "predefined-messages",
)
"""The blocks that need only so much, the most important first."""

# If not every message is shown, notes may take this share of the room that these blocks leave, and this number of
# tokens more, but no more than the larger share.
_NOTES = 0.3
_MORE_NOTES = 400
_MOST_NOTES = 0.45
# The same in the shapes of providers, where a window keeps its start: till it moves on, it needs room to grow.
_NOTES_BESIDE_SETTLED = 0.25


def share_blocks(needs: Mapping[str, int], room: int, others: int) -> dict[str, int]:
    """The room that each block gets of the room that it needs: together half of the room, or what ``others`` leave of
    it. Each takes at most half of what those before it left; what is left then goes to them in their order."""
    left = max(0, room // 2, room - _round_up(others))
    wanted = [name for name in ORDER if needs.get(name)]
    given: dict[str, int] = {}
    for name in wanted:
        given[name] = min(needs[name], left // 2)
        left -= given[name]
    for name in wanted:
        more = min(needs[name] - given[name], left)
        given[name] += more
        left -= more
    return given


def _round_up(tokens: int) -> int:
    """Round up by an eighth at most: a block that is cut keeps its bytes while messages come that are longer or
    shorter."""
    step = 1 << max(0, tokens.bit_length() - 4)
    return -(-tokens // step) * step


@dataclass(frozen=True, slots=True)
class MemoryClaim:
    """The room that memories may claim: ``most`` tokens, but at most as many as all threads hold (``outside``), or the
    other threads if all messages of this one are shown (``elsewhere``). It depends on what is stored, not on what is
    asked."""

    most: int = 0
    outside: int = 0
    elsewhere: int = 0

    def within(self, room: int) -> int:
        """The tokens that are set aside where not all messages are shown: at most half of what blocks leave."""
        return max(0, min(self.most, self.outside, room // 2))

    @property
    def beside_all(self) -> int:
        """The tokens that are set aside where all messages are shown."""
        return min(self.most, self.elsewhere)


@dataclass(frozen=True, slots=True)
class ContextShares:
    """The tokens that the blocks leave: the ``room`` for messages, ``notes`` and ``memory`` together, and the shares of the
    two. ``settled``: the tokens that the messages have whatever is noted and recalled."""

    room: int
    notes: int
    memory: int
    settled: int


def share_rest(room: int, claim: MemoryClaim, messages: int, question: int, *, keeps_start: bool) -> ContextShares:
    """Share out what the blocks leave. ``messages``: what all of them would take that may be shown; ``question``: what the
    user's newest takes, for which notes make room within a half of all."""
    memory = claim.within(room)
    notes = int(min(room * _MOST_NOTES, room * _NOTES + _MORE_NOTES))
    if keeps_start:
        notes = int(room * _NOTES_BESIDE_SETTLED)
    settled = room - memory - notes
    if not keeps_start:
        notes = min(notes, room - memory - min(int(question / ASKED_SHARE) + 1, room // 2))
    return ContextShares(room, max(notes, room - memory - messages), memory, settled)


CLOSING_TOKENS = 80
"""Set aside for the line that says what is in the context; a longer one takes its room from the messages."""
# With the frames of the conversation's blocks.
REPORT_TOKENS = 110 + CLOSING_TOKENS
# The newest attempts of a thread that are shown.
MOST_ATTEMPTS = 20
# About what an entry takes.
_ENTRY_TOKENS = 50


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """A request for a context within ``max_tokens``, with the memories that were ``prepared`` (None: with none), in a
    project with those of the ``person``.
    ``now`` is milliseconds since 1970, ``media`` bytes of images and files (base64). ``keeps_start``: what a prompt
    cache keeps is worth more than the last of the room."""

    thread_id: str
    max_tokens: int
    now: int
    prepared: PreparedRecall | None = None
    media: int = 0
    keeps_start: bool = False
    person: PersonMemory | None = None


@dataclass(frozen=True, slots=True)
class ContextMaterial:
    """All that a context may show, and the ``shares`` of the room.

    ``run``: the messages of the thread that the policy shows and that may fit, weighed; ``whole``: these are all that it
    shows. ``settled``: the seq where messages begin that surely fit, the same while the thread grows for a while; 0: all
    do; ``gap``: where the newest begin that the policy shows, if it leaves some out, and a summary of those may have
    ``summary_tokens``. ``left_out`` stands for those before, of ``total`` in the thread. ``note`` says why the policy
    is not the one that was set. ``keeps_start``: the window begins at the settled place. ``read`` has what is made of
    single messages. ``newest``: the seqs of the thread's newest messages, as far as they were read.
    """

    thread_id: str
    policy: WindowPolicy
    note: str
    pieces: Sequence[ContextPiece]
    given: dict[str, int]
    shares: ContextShares
    predefined: Sequence[Message] = ()
    run: Sequence[Message] = ()
    whole: bool = True
    cut: Sequence[int] = ()
    settled: int = 0
    gap: int = 0
    summary_tokens: int = 0
    keeps_start: bool = False
    steady: SteadyWindow | None = None
    left_out: LoadedNotes = field(default_factory=LoadedNotes)
    total: int = 0
    newest: Sequence[int] = ()
    observed: int = 0
    recalled: RecalledMemory = field(default_factory=RecalledMemory)
    read: WindowMessages = field(default_factory=WindowMessages)

    @property
    def first(self) -> Sequence[Message]:
        """The messages that the policy keeps from the thread's beginning; none behind the gap counts as one of them."""
        if self.policy.drop != "middle" or self.policy.limit == "observed":
            return ()
        return [each for each in self.run[: self.policy.keep_first] if not self.gap or each.seq < self.gap]


@dataclass(frozen=True, slots=True)
class _ReadWindow:
    """The messages that the policy shows and that may fit, weighed; the predefined ones apart. ``whole`` and ``gap`` are as
    in ContextMaterial, ``shortened`` are the seqs of those that the policy cut."""

    loaded: LoadedWindow
    read: WindowMessages
    predefined: Sequence[Message]
    run: Sequence[Message]
    whole: bool
    gap: int
    shortened: Sequence[int]
    summary_tokens: int


async def gather_context(tx: Tx, scope: Scope, engine: Engine, request: ContextRequest) -> ContextMaterial:
    """Read all that a context may show, and share the tokens out."""
    thread = await find_thread(tx, scope, request.thread_id)
    policy, note = (
        choose_policy(engine.windows, thread, engine.tokens, engine.limits) if thread else (engine.windows.default, "")
    )
    room = request.max_tokens - REPORT_TOKENS
    if policy.limit == "tokens":
        # The limit is for all that a model is shown, so that what is recalled counts, too.
        room = min(room, policy.max_tokens)
    pieces = await make_pieces(tx, engine, scope, thread, request.person, now=request.now)
    claim = await _claim_memory(
        tx, engine, scope, thread, request.person, min(request.max_tokens, room + REPORT_TOKENS)
    )
    needs: dict[str, int] = {each.name: each.tokens for each in pieces}
    # A new thread has no window, but the profile, open work and memories all the same.
    if thread is None:
        given = share_blocks(needs, room, claim.beside_all)
        shares = share_rest(room - sum(given.values()), claim, 0, 0, keeps_start=False)
        recalled = await find_with_person(tx, engine, scope, request.prepared, request.person, thread, room=shares.room)
        return ContextMaterial(request.thread_id, policy, note, pieces, given, shares, recalled=recalled)
    # Reads for the whole room, since min_messages may lift the policy's own limit below.
    window = await _read_window(tx, scope, engine, thread, policy, request)
    if policy.limit == "tokens" and policy.min_messages:
        # These are shown even if they exceed the limit (seed 001).
        least = count_messages(window.run[-policy.min_messages :])
        room = min(request.max_tokens - REPORT_TOKENS, max(room, least))
    needs["predefined-messages"] = count_messages(window.predefined)
    noted = await engine.caches.of(ObservationCache).get(tx, scope, thread.thread_uid)
    if noted:
        active = noted.before(0, engine.tokens).tokens
    else:
        active = 0
    # The unread rest would not fit: so much as if it were all of the room.
    messages = max(count_messages(window.run), 0 if window.whole else room + 1)
    others = messages + active + claim.beside_all
    given = share_blocks(needs, room, others)
    left = room - sum(given.values())
    newest = find_newest_from_user(window.run)
    if newest is None:
        question = 0
    else:
        question = count_messages([window.run[newest]])
    shares = share_rest(left, claim, messages, question, keeps_start=request.keeps_start)
    # If everything fits, no message is left out, and the window needs no settled start.
    steady, settled = None, 0
    if others > left:
        floor = find_floor(policy)
        if request.keeps_start and policy.limit == "observed":
            steady = choose_steady(window.run, request.max_tokens, shares.settled, floor=floor, overhead=OVERHEAD)
        if steady:
            settled = steady.begins
        else:
            settled = find_settled_start(window.run, shares.settled, floor=floor, overhead=OVERHEAD)
    # Where all messages are shown, memories have what these leave.
    most = max(shares.memory, left - messages)
    recalled = await find_with_person(tx, engine, scope, request.prepared, request.person, thread, room=most)
    material = ContextMaterial(
        request.thread_id,
        policy,
        note,
        pieces,
        given,
        shares,
        window.predefined,
        window.run,
        window.whole,
        window.shortened,
        steady=steady,
        settled=settled,
        gap=window.gap,
        summary_tokens=window.summary_tokens,
        keeps_start=request.keeps_start,
        total=thread.message_count,
        newest=[message.seq for message in window.loaded.run],
        observed=thread.observed_seq if noted and noted.has_active else 0,
        recalled=recalled,
        read=window.read,
    )
    left_out = await _find_left_out(tx, scope, engine, thread, material, noted)
    run = await fill_media(tx, scope, thread, material.run, request.media) if request.media else material.run
    return replace(material, left_out=left_out, run=run)


async def _read_window(
    tx: Tx, scope: Scope, engine: Engine, thread: Thread, policy: WindowPolicy, request: ContextRequest
) -> _ReadWindow:
    known = engine.caches.of(WindowCache).get(scope, thread)
    # A window that moves in steps shows little of each of many messages.
    if request.keeps_start and policy.limit == "observed":
        most = count_tool_limit(request.max_tokens)
    else:
        most = None
    loaded = await load_window(
        tx, scope, thread, policy, request.max_tokens - REPORT_TOKENS, engine.tokens, known, most_each=most
    )
    window = build_window([*loaded.lead, *loaded.run], policy, engine.tokens, older=loaded.older)
    weighed = [known.weigh(message, engine.tokens) for message in window.messages]
    run = [message for message in weighed if message.seq > 0]
    observed = policy.limit == "observed"
    return _ReadWindow(
        loaded,
        known,
        [message for message in weighed if message.seq <= 0],
        run,
        whole=not (observed and loaded.older),
        gap=0 if observed else _find_gap(loaded, run, thread),
        shortened=window.shortened,
        summary_tokens=window.summary_tokens,
    )


def count_messages(messages: Sequence[Message]) -> int:
    """The most tokens that messages take in a context."""
    return sum(message.tokens + OVERHEAD for message in messages)


async def _find_left_out(
    tx: Tx,
    scope: Scope,
    engine: Engine,
    thread: Thread,
    material: ContextMaterial,
    noted: ThreadObservations | None,
) -> LoadedNotes:
    """The notes about the messages before the settled ones, or before those that the policy shows."""
    policy, before = material.policy, max(material.settled, material.gap)
    observed = policy.limit == "observed"
    if not before or not (policy.summarise or observed):
        return LoadedNotes(noted)
    # Messages that the policy keeps from the beginning are shown, so no note stands for them.
    kept = max((message.seq for message in material.first if message.seq < before), default=0)
    if noted:
        after = max(kept, thread.observed_seq, thread.buffered_seq)
    else:
        after = kept
    summary, after = await _find_summary(tx, scope, thread, after, before)

    def blank(message: Message) -> Message:
        return blank_results([message], 0, engine.tokens)[0]

    # The window blanks old tool results under this policy, and extracts must not bring them back.
    if policy.blank_tool_results:
        lighten = blank
    else:
        lighten = None
    # Where a model took notes as it saw fit, the user's rules and corrections are shown all the same.
    if noted and noted.by_a_model and not summary:
        told_from = kept
    else:
        told_from = after
    extracts = await engine.caches.of(ExtractCache).get(
        tx, scope, thread, told_from, before, noted=after if told_from < after else 0, lighten=lighten
    )
    return LoadedNotes(noted, extracts, summary, None if observed else material.summary_tokens, after)


async def _find_summary(
    tx: Tx, scope: Scope, thread: Thread, after: int, before: int
) -> tuple[ModelSummary | None, int]:
    """The newest summary that a model made of messages behind the seq ``after`` and before ``before``; and the seq of
    the last message that it covers."""
    made = await session_notes.newest(tx, scope, thread.thread_uid, before=before)
    if made is None or made.upto_seq <= after:
        return None, after
    began = max(after, made.from_seq - 1)
    covered = await windows.state_between(tx, scope, thread, after=began, before=made.upto_seq + 1)
    return ModelSummary(made.text, covered), made.upto_seq


def _find_gap(loaded: LoadedWindow, shown: Sequence[Message], thread: Thread) -> int:
    """The seq where the newest messages begin that the policy shows without a gap; 0 where it shows all."""
    if len(shown) == thread.message_count:
        return 0
    seqs = {message.seq for message in shown}
    begins = thread.next_seq
    for message in reversed(loaded.run):
        if message.seq not in seqs:
            break
        begins = message.seq
    return begins


async def find_thread(tx: Tx, scope: Scope, thread_id: str) -> Thread | None:
    """The thread; None for one without messages."""
    try:
        return await threads.find(tx, scope, thread_id)
    except NotFound:
        return None


async def find_with_person(
    tx: Tx,
    engine: Engine,
    scope: Scope,
    prepared: PreparedRecall | None,
    person: PersonMemory | None,
    thread: Thread | None,
    *,
    room: int | None = None,
) -> RecalledMemory:
    """The memories of the scope for the thread, in a project with the person's. ``room``: see ``find_memory``."""
    if thread:
        subject = subject_in(thread.metadata)
    else:
        subject = ""
    found = await find_memory(tx, engine, scope, prepared, subject, room=room)
    if person:
        return join_memory(found, person.recalled)
    return found


async def _claim_memory(
    tx: Tx, engine: Engine, scope: Scope, thread: Thread | None, person: PersonMemory | None, room: int
) -> MemoryClaim:
    """The tokens that memories may claim. They depend on what is stored, not on the question, so that a window keeps its
    start whatever is recalled."""
    if not engine.context.memory:
        return MemoryClaim()
    _, _, tokens = await threads.count_live(tx, scope)
    person = person or PersonMemory()
    tokens += person.tokens
    there = await entries.count(tx, scope) + person.entries
    if engine.entries.injected:
        kept = there * _ENTRY_TOKENS
    else:
        kept = 0
    elsewhere = max(0, tokens - (thread.token_count if thread else 0)) + kept
    return MemoryClaim(int(room * engine.context.memory_share), tokens + kept, elsewhere)


async def make_pieces(
    tx: Tx,
    engine: Engine,
    scope: Scope,
    thread: Thread | None,
    person: PersonMemory | None,
    *,
    now: int,
    seen_after: int | None = None,
) -> list[ContextPiece]:
    """The blocks that a context has beside its messages, notes and memories. The profile is the person's.
    ``seen_after``: a host shows its model the messages after this seq by itself."""
    if person:
        written = person.profile
    else:
        written = await working_memory.read_newest(tx, scope, None)
    profile = WorkingMemoryDocument("resource", "", engine.working_memory.of("resource"), written)
    profile = drop_expired_lines(profile, now)
    if profile.content:
        pieces = [make_document_piece(profile, "user-profile", engine.tokens)]
    else:
        pieces = []
    if thread:
        open_plan = await plans.read_newest(tx, scope, thread)
    else:
        open_plan = None
    if thread:
        pieces += await _make_own_pieces(tx, engine, scope, thread, open_plan, now=now, seen_after=seen_after)
    found: OpenWorkAnswer | None = None
    # Open work of other threads is shown if this one has no plan.
    if open_plan is None or not is_open(open_plan.plan):
        found = await find_elsewhere(tx, scope, thread, now=now)
    if thread:
        own = await find_suspended(tx, scope, thread.thread_uid, now=now)
    else:
        own = []
    if own or found:
        opened: OpenWorkAnswer = found or {"open": []}
        opened["open"] = [*own, *opened["open"]]
        pieces.append(make_open_work_piece(opened, engine.tokens))
    return pieces


async def _make_own_pieces(
    tx: Tx,
    engine: Engine,
    scope: Scope,
    thread: Thread,
    open_plan: Revision | None,
    *,
    now: int,
    seen_after: int | None,
) -> list[ContextPiece]:
    """The blocks of the thread itself."""
    counter, rules = engine.tokens, engine.working_memory.of("thread")
    pieces: list[ContextPiece] = []
    written = await working_memory.read_newest(tx, scope, thread)
    newer = await read_newer(tx, scope, thread, written)
    kept = WorkingMemoryDocument("thread", thread.thread_id, rules, written, newer, seen_after)
    kept = drop_expired_lines(kept, now)
    if kept.content:
        pieces.append(make_document_piece(kept, "session-memory", counter))
    if thread.current_task or thread.next_step:
        pieces.append(make_task_piece(thread.current_task, thread.next_step, counter))
    if open_plan is not None:
        pieces.append(make_plan_piece(open_plan.plan, counter))
    logged = await steps.read_newest(tx, scope, thread, task_key="", limit=MOST_ATTEMPTS)
    if logged.attempts:
        pieces.append(make_attempts_piece(logged, counter))
    return pieces


async def fill_media(tx: Tx, scope: Scope, thread: Thread, window: Sequence[Message], most: int) -> tuple[Message, ...]:
    """The messages with their images and files, or notes in their place. ``most`` is bytes of base64."""
    seqs = [message.seq for message in window if any(_list_places(message.parts))]
    if not seqs:
        return tuple(window)
    places = {place for message in window for place in _list_places(message.parts)}
    found: dict[str, Json] = {}
    left, to_read = most, READ_BYTES

    def take(message: Message) -> bool:
        nonlocal left, to_read
        # From the end: the newest images get the room first.
        for place, part in reversed([*list_media(message.parts, message.seq)]):
            if place not in places:
                continue
            fits = len(part["data"]) <= left
            if fits:
                left -= len(part["data"])
            found[place] = part if fits else make_media_note(part, place)
        # Bytes that do not fit were read all the same, so the reading ends after READ_BYTES.
        to_read -= sum(map(media_bytes, message.parts))
        return to_read > 0

    await windows.whole(tx, scope, thread, seqs, take)
    return tuple(
        replace(message, parts=[_part(part, found) for part in message.parts]) if message.seq in seqs else message
        for message in window
    )


def _list_places(parts: Sequence[Any]) -> list[str]:
    """List the places of the images and files that were left out."""
    inside = [each for part in parts for each in _inner(part)]
    return [place for each in inside if (place := place_of(each))]


def _inner(part: Json) -> list[Json]:
    if part["type"] in MEDIA:
        return [part]
    result = part.get("result")
    if part["type"] == "tool_result" and isinstance(result, list):
        entries = result
    else:
        entries = []
    return [each for each in entries if isinstance(each, dict) and each.get("type") in MEDIA]


def _part(part: Json, found: dict[str, Json]) -> StoredJson:
    if part["type"] in MEDIA:
        return _filled_media(part, found)
    if not _inner(part):
        return part
    inner = [_filled_media(each, found) if each in _inner(part) else each for each in part["result"]]
    return {**part, "result": inner}


def _filled_media(part: Json, found: dict[str, Json]) -> StoredJson:
    place = place_of(part)
    if not place:
        return part
    # The note of an unread file gives no size.
    rest = {name: value for name, value in part.items() if name != "data"}
    return found.get(place, {**rest, "part": place})
