"""Briefings: what a sub-agent without a memory needs for a task, and what resumes a thread's work."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest

from layerlore.memory.context.briefing_text import (
    RULES_OF_MESSAGE,
    Briefing,
    BriefingNote,
    RecalledLine,
    render_json,
    render_text,
)
from layerlore.memory.context.context_answers import BriefingAnswer
from layerlore.memory.context.context_blocks import wrap_open_work
from layerlore.memory.digest.digest import NoteKind, rank_notes, take_notes
from layerlore.memory.documents import working_memory
from layerlore.memory.documents.working_memory import drop_expired_lines, render_block
from layerlore.memory.engine.engine import Engine
from layerlore.memory.language.search_words import find_query_words, split_words
from layerlore.memory.recall.hit_lines import make_line
from layerlore.memory.recall.memory_block import (
    RecalledMemory,
    find_memory,
    join_memory,
    prepare_memory,
    read_person,
    render_entry,
)
from layerlore.memory.recall.recall import PreparedRecall
from layerlore.memory.recall.recall_text import drop_repeated
from layerlore.memory.rules.ages import age
from layerlore.memory.rules.validation import check_text
from layerlore.memory.text.quotation import quote_line, wrap_block
from layerlore.memory.work import attempts, plan
from layerlore.memory.work.plan import render_lines, render_open
from layerlore.memory.work.plan_rules import is_open
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import ROLES, Message, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import observations
from layerlore.storage.derived.observations import Observation
from layerlore.storage.messages import message_pages, windows
from layerlore.storage.threads import threads

# Messages and attempts that are examined, the newest; of the messages before them, this number is read for notes.
MOST_MESSAGES = 50
MOST_ATTEMPTS = 100
MOST_NOTED = 400
# The notes of a conversation that a sub-agent may need, chosen without a model.
_TOLD: frozenset[NoteKind] = frozenset({"correction", "rule", "fact", "failure", "result"})
_MOST_NOTES = 300
# Behind what rules are sorted by.
_BEHIND_RULES = 3
# At most 12 recalled lines, even if there is room for more. The search reads this number of characters of the task.
_MOST_RECALLED, _RECALL_TOKENS, _SOUGHT_CHARS = 12, 1600, 1000
# The events of a thread's log that resume_work reads.
MOST_RESUMED = 500


async def gather_briefing(engine: Engine, scope: Scope, thread_id: str, task: str, *, task_key: str) -> Briefing:
    """Read the material of a briefing; of attempts, those at the task with the key (empty: none). An unknown thread has
    no material. Raises InvalidInput, LimitExceeded."""
    if not check_text(task, "task").strip():
        raise InvalidInput("task: must not be empty; say what is to be done")
    if task_key:
        key = attempts.check_key(engine, task_key)[0]
    else:
        key = ""
    # The briefing repeats the task, so secrets in it are masked as in a stored message.
    task, _ = engine.masked(task)
    kept = await working_memory.read_current(engine, scope.of_person, "resource")
    profile = drop_expired_lines(kept, engine.now())
    recalled = await _recall(engine, scope, thread_id, task)
    found = Briefing(task, thread_id, profile=profile, recalled=recalled)
    # A new thread has no rows; the profile and the recalled lines are a briefing all the same.
    with contextlib.suppress(NotFound):
        open_plan = await plan.read_open_plan(engine, scope, thread_id)
        page = await engine.database.read(message_pages.page, scope, thread_id, roles=ROLES, limit=MOST_MESSAGES)
        rows, unnoted = await engine.database.read(_read_noted, scope, thread_id)
        logged = None
        if key:
            logged = await attempts.list_attempts(engine, scope, thread_id, task_key=key, limit=MOST_ATTEMPTS)
        found = replace(
            found,
            plan=open_plan,
            messages=page.messages,
            total_messages=page.total,
            attempts=logged.attempts if logged else (),
            total_attempts=logged.total if logged else 0,
            # Notes on up to 400 messages take long enough to hold up other calls of the event loop.
            notes=await asyncio.to_thread(_list_notes, task, rows, unnoted),
        )
    return found


async def _read_noted(tx: Tx, scope: Scope, thread_id: str) -> tuple[list[Observation], list[Message]]:
    """What is noted of a thread, shown or waiting; and the newest messages of which nothing is."""
    thread = await threads.find(tx, scope, thread_id)
    rows = await observations.read(tx, scope, thread.thread_uid, "active", "buffered")
    # Waiting notes reach further than the observed ones, and no message may be noted twice.
    after = max(thread.buffered_seq, thread.observed_seq)
    _, unnoted = await windows.between(
        tx, scope, thread, after=after, before=thread.next_seq, first=0, newest=MOST_NOTED
    )
    return rows, unnoted


def _list_notes(task: str, rows: Sequence[Observation], unnoted: Sequence[Message]) -> list[BriefingNote]:
    """Rules, corrections and what else is critical, the weightiest and newest first as far as the task lets them; then
    the rest."""
    ranked = [note for note in rank_notes(take_notes(unnoted)) if note.kind in _TOLD]
    extracts = [
        BriefingNote(
            note.seq,
            f"#{note.seq} {note.role}: {quote_line(note.text)}",
            note.kind in ("correction", "rule"),
            whole=note.role == "user",
            stands=(note.seq, note.place),
        )
        for note in ranked
    ]
    newest = sorted(rows, key=lambda row: (_find_class(row), -row.to_seq, -row.observation_id))
    noted = [
        BriefingNote(
            row.to_seq,
            f"#{row.to_seq} {quote_line(row.text)}",
            row.marker == "critical",
            stands=(row.to_seq, row.observation_id),
        )
        for row in newest
    ]
    ruling = _sort_rules(task, [note for note in (*extracts, *noted) if note.rules])
    # One of each in turn: neither the extracts nor an observer's notes push the others out.
    others = zip_longest(_without_rules(extracts), _without_rules(noted))
    rest = [replace(note, stands=(_BEHIND_RULES, *note.stands)) for pair in others for note in pair if note]
    return [*ruling, *rest][:_MOST_NOTES]


def _sort_rules(task: str, rules: Sequence[BriefingNote]) -> list[BriefingNote]:
    """Sort the rules. Those that share words with the task come first. Those of a message with many rules come last, since
    it was hardly written for this conversation. Rules of one kind stay in time order, since a later one may take an
    earlier one back."""
    sought, of_message = set(find_query_words(task)), Counter(note.seq for note in rules)

    def rank(note: BriefingNote) -> int:
        if not sought.isdisjoint(split_words(note.text)):
            return 0
        if of_message[note.seq] > RULES_OF_MESSAGE:
            return 2
        return 1

    return [replace(note, stands=(rank(note), *note.stands)) for note in sorted(rules, key=rank)]


def _without_rules(notes: Sequence[BriefingNote]) -> list[BriefingNote]:
    return [note for note in notes if not note.rules]


def _find_class(row: Observation) -> int:
    """The worth of a note: what users and tools brought comes before what an agent merely said."""
    if row.text.startswith(("assistant: ", "tool: ")):
        if " -> " in row.text:
            return 4
        return 5
    return ("critical", "important", "completion", "info").index(row.marker)


async def _find_memory(tx: Tx, scope: Scope, engine: Engine, prepared: PreparedRecall) -> RecalledMemory:
    return await find_memory(tx, engine, scope, prepared)


async def _recall(engine: Engine, scope: Scope, thread_id: str, task: str) -> list[RecalledLine]:
    """The memories that fit the task, the likeliest first."""
    if len(task) <= _SOUGHT_CHARS:
        pieces = [task]
    else:
        # A long task says its aim at the beginning or at the end; between them stands material.
        pieces = [task[: _SOUGHT_CHARS // 2], task[-_SOUGHT_CHARS // 2 :]]
    prepared = await prepare_memory(engine, scope, pieces, asking=thread_id)
    if prepared is None:
        return []
    recalled = await engine.database.read(_find_memory, scope, engine, prepared)
    person = await read_person(engine, scope, pieces, prepared.request.subject)
    if person is not None:
        recalled = join_memory(recalled, person.recalled)
    now = engine.now()
    lines = [RecalledLine(render_entry(entry, now)) for entry in recalled.entries]
    # Entries stand in no doubt, but weak hits would mislead a sub-agent.
    if recalled.confidence == "nothing":
        return lines
    for hit in drop_repeated(recalled.hits)[:_MOST_RECALLED]:
        own = hit.message.whose != "you" and hit.message.thread_id == thread_id
        line = make_line(hit.message, recalled.sought, chunk=hit.chunk)
        if hit.is_note:
            lines.append(RecalledLine(f"- {line}"))
            continue
        if own:
            where = "this conversation"
        else:
            where = f"thread {quote_line(hit.message.thread_id)}"
        said = f"- [{where}, {age(hit.message.said_at, now)}] {str(line).strip()}"
        # With its seq the line is dropped where the briefing shows that message whole.
        lines.append(RecalledLine(said, hit.message.seq if own else 0))
    return lines


async def get_briefing(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    task: str,
    *,
    task_key: str,
    max_tokens: int,
    json: bool,
) -> str | BriefingAnswer:
    """Brief a sub-agent for a task within ``max_tokens``, as text or as JSON. The task itself is never cut.

    Raises what ``gather_briefing`` raises, and LimitExceeded when the task alone is too long.
    """
    found = await gather_briefing(engine, scope, thread_id, task, task_key=task_key)
    return await asyncio.to_thread(render_json if json else render_text, found, engine.tokens, max_tokens)


@dataclass(frozen=True, slots=True)
class ResumableWork:
    """The work of a thread as texts (none: it has no work yet); and, where it has no open plan, what is open in other
    threads as a block, "" if nothing is."""

    own: list[str]
    elsewhere: str


async def resume_work(engine: Engine, scope: Scope, thread_id: str) -> ResumableWork:
    """Render what resumes a thread's work: its suspended runs, its plan, its attempts by task and its session memory, as
    far as they exist; an unknown thread has none of them. And what is open elsewhere."""
    own_plan = await plan.read_open_plan(engine, scope, thread_id)
    elsewhere = ""
    # Work of other threads would distract from an open plan of this one.
    if own_plan is None or not is_open(own_plan):
        found = await plan.read_elsewhere(engine, scope, thread_id)
        if found:
            elsewhere = wrap_open_work(render_open(found))
        else:
            elsewhere = ""
    try:
        logged = await attempts.list_attempts(engine, scope, thread_id, task_key="", limit=MOST_RESUMED)
    except NotFound:
        return ResumableWork([], elsewhere)
    suspended = await plan.read_suspended(engine, scope, thread_id)
    if suspended:
        texts = [wrap_open_work(render_open(suspended))]
    else:
        texts = []
    if own_plan:
        texts += [wrap_block("plan", "\n".join(render_lines(own_plan)))]
    by_task = [
        f"Task {quote_line(key)}:\n" + "\n".join(attempts.render_attempts(list(of_task)))
        for key, of_task in groupby(logged.attempts, key=lambda each: each.task_key)
    ]
    missing = logged.total - len(logged.attempts)
    if by_task:
        if missing:
            cut = [f"({missing} earlier attempts are left out)"]
        else:
            cut = []
        texts.append(wrap_block("previous-attempts", "\n".join([*cut, *by_task])))
    document = await working_memory.read_current(engine, scope, "thread", thread_id)
    session_memory = render_block(drop_expired_lines(document, engine.now()))
    return ResumableWork([*texts, *([session_memory] if session_memory else [])], elsewhere)
