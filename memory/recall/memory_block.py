"""The ``<memory>`` block of a context: entries, and lines of earlier messages, that fit the question. They are found
in the caller's own transaction, with what ``prepare_memory`` made before it. A context in a project also takes a part of the
person's own memory: the profile, and what fits the question."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from layerlore.memory.engine.engine import Engine
from layerlore.memory.entries.entries import drop_expired
from layerlore.memory.entries.evidence import add_contradicted
from layerlore.memory.language.search_words import find_query_words
from layerlore.memory.recall.denied_notes import mark_denied_notes
from layerlore.memory.recall.hit_lines import mark_unproven, mark_whose
from layerlore.memory.recall.recall import PreparedRecall, RecallRequest, find_current_hits, prepare_recall
from layerlore.memory.recall.recall_answers import Confidence
from layerlore.memory.recall.results import Hit, RecallResult, join_results, mark_messages
from layerlore.memory.rules.ages import age, day, name_end
from layerlore.memory.text.quotation import quote_line, wrap_block
from layerlore.storage.core.records import Message, Scope
from layerlore.storage.core.scopes import RECALL_KINDS
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, entry_curation, subjects, working_memory
from layerlore.storage.derived.entries import Entry
from layerlore.storage.derived.working_memory import Version
from layerlore.storage.threads import threads

DESCRIPTION = "Notes for every conversation, and what earlier ones hold about this question."

# Some hits are entries. Less room has the first of the same lines, and needs fewer of them. Of 789 answers from four
# conversations of LoCoMo, REALTALK and BEAM, one had other lines than with 16 tokens a hit.
_MOST_HITS = 250
_TOKENS_OF_HIT = 24
_FEWEST_HITS = 20
_BESIDE_ENTRIES = tuple(kind for kind in RECALL_KINDS if kind != "entry")


@dataclass(frozen=True, slots=True)
class RecalledMemory:
    """The memories that a context may show: entries, newest first, and the hits among messages and notes, best first.
    ``sought``: the words looked for and their weights, none without a question; ``confidence``: how far the hits
    are about it; ``degraded``: what was missing, and why; ``silent``: the days that the question names, if nothing was said
    on any of them."""

    entries: tuple[Message, ...] = ()
    hits: tuple[Hit, ...] = ()
    sought: Mapping[str, float] = field(default_factory=dict)
    confidence: Confidence = "sure"
    degraded: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


async def prepare_memory(
    engine: Engine, scope: Scope, questions: Sequence[str], *, asking: str = "", subject: str = ""
) -> PreparedRecall | None:
    """Prepare to find what fits the questions of the thread ``asking``, which is about the ``subject``; None
    where nothing is to be found. A remote embedder is not asked."""
    searched = [question for question in questions if find_query_words(question)]
    if not engine.context.memory or not searched:
        return None
    if engine.entries.injected:
        kinds = RECALL_KINDS
    else:
        kinds = _BESIDE_ENTRIES
    wanted = RecallRequest(
        searched, limit=_MOST_HITS, kinds=kinds, explained=True, asking=asking, in_context=True, subject=subject
    )
    # Every turn builds a context, so only vectors that cost no request are used.
    return await prepare_recall(engine, scope, wanted, engine.recall, at_hand=True)


async def find_memory(
    tx: Tx,
    engine: Engine,
    scope: Scope,
    prepared: PreparedRecall | None,
    subject: str = "",
    *,
    room: int | None = None,
) -> RecalledMemory:
    """Find the entries and the messages that fit, and what the user prefers whatever he asks; where nothing is asked
    (None), the entries that were kept last. Nothing of it is about another ``subject``. ``room``: the tokens that they may
    take, if that is known: no more hits are read than may stand in it."""
    if not engine.context.memory:
        return RecalledMemory()
    if prepared is None:
        return RecalledMemory(tuple(await _find_kept(tx, engine, scope, None, subject, engine.now())))
    if room is not None:
        limit = min(prepared.request.limit, max(room, 0) // _TOKENS_OF_HIT + _FEWEST_HITS)
        prepared = replace(prepared, request=replace(prepared.request, limit=limit))
    found = await find_current_hits(tx, scope, prepared)
    fitting = [hit.message for hit in found.hits if hit.is_entry][: engine.entries.auto_inject_top_k]
    hits = tuple(await mark_denied_notes(tx, scope, [hit for hit in found.hits if not hit.is_entry]))
    kept = await _find_kept(tx, engine, scope, fitting, subject or prepared.request.subject, prepared.now)
    return RecalledMemory(tuple(kept), hits, prepared.matches.weights, found.confidence, found.degraded, found.silent)


def join_memory(project: RecalledMemory, person: RecalledMemory) -> RecalledMemory:
    """The memories of a project and of a person together: pinned entries first, then the project's. Each entry and hit
    names its owner."""
    found = join_results(_as_result(project), _as_result(person), _MOST_HITS)
    kept = (*mark_messages(project.entries, "project"), *mark_messages(person.entries, "you"))
    return RecalledMemory(
        tuple(sorted(kept, key=lambda entry: not _is_pinned(entry))),
        tuple(found.hits),
        found.weights,
        found.confidence,
        found.degraded,
        found.silent,
    )


def _as_result(memory: RecalledMemory) -> RecallResult:
    if memory.hits:
        confidence = memory.confidence
    else:
        confidence = "nothing"
    return RecallResult(
        [*memory.hits],
        degraded=memory.degraded,
        weights=memory.sought,
        confidence=confidence,
        silent=memory.silent,
    )


async def _find_kept(
    tx: Tx, engine: Engine, scope: Scope, fitting: Sequence[Message] | None, subject: str, now: int
) -> list[Message]:
    """The entries to show: pinned ones first, then the newest first; none if the settings want none. ``fitting``: those
    that the question found; None: nothing is asked, and the newest are shown."""
    if not engine.entries.injected or not await entries.count(tx, scope):
        return []
    others = (await subjects.find_others(tx, scope, subject)).entry_ids
    rules = engine.entries
    # More are read than shown, since those about another subject are left out afterwards.
    preferred = await entry_curation.read_preferences(tx, scope, most=rules.preferences_top_k + len(others))
    standing = [*await entry_curation.read_pinned(tx, scope), *_leave_out(preferred, others, rules.preferences_top_k)]
    if fitting is None:
        newest = await entry_curation.read_page(tx, scope, before=None, limit=rules.auto_inject_top_k + len(others))
        standing += _leave_out(newest, others, rules.auto_inject_top_k)
    standing = _leave_out(standing, others, len(standing))
    found = fitting or []
    wanted = {entry.entry_id for entry in standing}.difference(entry.id for entry in found)
    if wanted:
        kept = await entries.as_messages(tx, scope, wanted)
    else:
        kept = {}
    # An entry comes with the one that contradicts it, or the older one would pass for the truth.
    both = drop_expired(await add_contradicted(tx, scope, [*found, *kept.values()]), now)
    both = [entry for entry in both if entry.id not in others]
    return sorted(both, key=lambda entry: (not _is_pinned(entry), -entry.said_at, entry.id))


def _leave_out(found: Sequence[Entry], others: Collection[str], most: int) -> list[Entry]:
    """The first entries that are not about another subject."""
    return [entry for entry in found if entry.entry_id not in others][:most]


def _is_pinned(entry: Message) -> bool:
    return "pinned" in entry.metadata


def render_entry(entry: Message, now: int) -> str:
    """The line of an entry, with its age and, where it is not a user's, whose word it is. Where two entries contradict
    each other, each has its day, and the older says so."""
    on = age(entry.said_at, now)
    if "newer" in entry.metadata:
        on = f"{day(entry.said_at)}; a newer entry says otherwise"
    elif "older" in entry.metadata:
        on = f"{day(entry.said_at)}; newer than what says otherwise"
    if "expires_at" in entry.metadata:
        on += f"; until {name_end(entry.metadata['expires_at'])}"
    text = quote_line(str(entry.parts[0]["text"]))
    return f"- {mark_whose(entry)}{_say_trust(entry)}{text}{mark_unproven(entry)} ({on})"


def _say_trust(entry: Message) -> str:
    """Say whose word an entry is, where it is not a user's."""
    trust = entry.metadata["trust"]
    if trust == "user":
        return ""
    return f"[{trust}] "


def wrap_memory_block(lines: Sequence[str]) -> str:
    """The lines of entries and of messages as the block; "" without any."""
    if not lines:
        return ""
    return wrap_block("memory", "\n".join(lines), DESCRIPTION)


@dataclass(frozen=True, slots=True)
class PersonMemory:
    """``tokens``: the number in all of the person's own threads; ``entries``: how many are stored."""

    profile: Version | None = None
    recalled: RecalledMemory = field(default_factory=RecalledMemory)
    tokens: int = 0
    entries: int = 0


async def read_person(engine: Engine, scope: Scope, questions: Sequence[str], subject: str = "") -> PersonMemory | None:
    """The person's memories for a thread with the ``subject``, beside those of a project; None if the scope is not a
    project's.
    """
    if not scope.person:
        return None
    # The person's own scope has no threads of the project, so no thread asks there.
    prepared = await prepare_memory(engine, scope.of_person, questions, subject=subject)
    return await engine.database.read(_read, scope.of_person, engine, prepared, subject)


async def read_subject(engine: Engine, scope: Scope, thread_id: str) -> str:
    """The subject of a project's thread, by which the person's memory is narrowed too; "" where the scope is no
    project's."""
    if scope.person:
        return await engine.database.read(subjects.read_subject, scope, thread_id)
    return ""


async def _read(tx: Tx, scope: Scope, engine: Engine, prepared: PreparedRecall | None, subject: str) -> PersonMemory:
    _, _, tokens = await threads.count_live(tx, scope)
    return PersonMemory(
        await working_memory.read_newest(tx, scope, None),
        await find_memory(tx, engine, scope, prepared, subject),
        tokens,
        await entries.count(tx, scope),
    )
