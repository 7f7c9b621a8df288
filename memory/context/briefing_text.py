"""A briefing as text and as JSON, within a number of tokens: the pieces of all its lines stand in one order, and
as many of them are shown as there is room for. So what is shown with less room is also shown with more."""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal, get_args

from layerlore.memory.context.context_answers import (
    BriefingAnswer,
    BriefingMessage,
    BriefingPlan,
    BriefingSections,
)
from layerlore.memory.documents.working_memory import WorkingMemoryDocument, render_block, render_readable
from layerlore.memory.language.search_words import find_query_words, split_words
from layerlore.memory.parts.parts import plain_text
from layerlore.memory.parts.tokens import CUT_MARK, TokenCounter
from layerlore.memory.rules.answers import order_keys
from layerlore.memory.text.quotation import (
    Tag,
    escape_tags,
    format_speaker,
    join_lines,
    quote_line,
    quote_text,
    wrap_block,
)
from layerlore.memory.text.trust import find_outside_trust
from layerlore.memory.work import attempts
from layerlore.memory.work.plan import find_current_step, render_phase, render_step
from layerlore.storage.core.errors import LimitExceeded
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Message, Plan
from layerlore.storage.work.steps import Attempt

FEWEST_TOKENS = 300
MOST_TOKENS = 20_000
MESSAGE_CHARS = 600
"""The longest text of a message."""
# A longer text is shown in pieces of this number of characters, as far as there is room.
_STRETCH = 240
# The user's rules and corrections that come before everything else, and the lines of each other kind that come before
# the rest.
_FIRST_RULES, _FIRST = 24, 3
RULES_OF_MESSAGE = 8
"""At most 8 rules of one message come first: a pasted manual has more."""
# Among the first rules stands what is remembered about the task: from the fourth on it has this share of the room.
_RECALLED_SHARE = 0.4
# Set aside for the line that says what was left out, and for what a task needs at least.
_LEFT_OUT_TOKENS, _LEAST_TOKENS = 60, 150

Section = Literal["notes", "plan", "user_profile", "previous_attempts", "memory", "messages"]
SECTIONS: tuple[Section, ...] = get_args(Section)
_TAGS: dict[Section, Tag] = {
    "notes": "observations",
    "plan": "plan",
    "user_profile": "user-profile",
    "previous_attempts": "previous-attempts",
    "memory": "memory",
    "messages": "conversation",
}
_DESCRIPTIONS: dict[Section, str] = {
    "notes": "What the user rules and corrects in this conversation, and what else is to be known of it.",
    "memory": "What is remembered that may bear on the task.",
}


@dataclass(frozen=True, slots=True)
class BriefingNote:
    """A note of the conversation. ``seq``: of the message it is from, ``rules``: it is a rule, a correction or critical;
    ``whole``: its message says all that it says; ``stands``: sorts those that are shown."""

    seq: int
    text: str
    rules: bool
    whole: bool = False
    stands: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RecalledLine:
    """A line of what is remembered; ``seq``: of the message in this thread that it is from, 0 for none."""

    text: str
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Briefing:
    """The material of a briefing; ``total_messages`` and ``total_attempts`` also count those that are not in it. Notes
    and recalled lines: what matters most first, whatever the order in which they are shown."""

    task: str
    thread_id: str
    plan: Plan | None = None
    profile: WorkingMemoryDocument | None = None
    messages: Sequence[Message] = ()
    total_messages: int = 0
    attempts: Sequence[Attempt] = ()
    total_attempts: int = 0
    notes: Sequence[BriefingNote] = ()
    recalled: Sequence[RecalledLine] = ()


_Key = tuple[Section, int, int]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of an item of a section.

    ``place``: the item's place in its section. ``part`` of ``parts``: which part of the item it is. ``shows_whole``: the seq
    of the message that it shows whole. ``drawn_from``: the seq of the message that says the same; beside that message
    this piece need not be shown."""

    section: Section
    place: int
    part: int
    value: Any
    parts: int = 1
    drawn_from: int = 0
    shows_whole: int = 0

    @property
    def key(self) -> _Key:
        return self.section, self.place, self.part


def render_text(found: Briefing, counter: TokenCounter, max_tokens: int) -> str:
    """Render the briefing as blocks of text; the last line says what was left out. Raises LimitExceeded."""
    task = f"<task>\n{escape_tags(found.task)}\n</task>"

    def shown(pieces: Sequence[_Piece]) -> str:
        kept = _assemble(found, pieces)
        parts = [task, *(_block(found, name, kept[name]) for name in SECTIONS if name in kept)]
        if "left_out" in kept:
            parts.append(f"[left out, since max_tokens={max_tokens}: {'; '.join(kept['left_out'])}]")
        return "\n".join(parts)

    def frame(section: Section) -> str:
        tag = _TAGS[section]
        return wrap_block(tag, CUT_MARK, _DESCRIPTIONS.get(section, "x" * 90 if section == "user_profile" else ""))

    return shown(_choose(found, counter, max_tokens, task, shown, frame, lambda piece: escape_tags(_line(piece))))


def render_json(found: Briefing, counter: TokenCounter, max_tokens: int) -> BriefingAnswer:
    """Render the briefing as JSON; ``left_out`` says what had no room. Raises LimitExceeded."""
    head: BriefingAnswer = {"thread_id": found.thread_id, "task": found.task}

    def shown(pieces: Sequence[_Piece]) -> str:
        return to_json({**head, **_assemble(found, pieces)})

    def frame(section: Section) -> str:
        return to_json({section: [CUT_MARK], "current_phase": "", "iteration": 0, "goal": ""})

    chosen = _choose(found, counter, max_tokens, to_json(head), shown, frame, lambda piece: to_json(piece.value))
    return {**head, **_assemble(found, chosen)}


def _choose(
    found: Briefing,
    counter: TokenCounter,
    max_tokens: int,
    task: str,
    shown: Callable[[Sequence[_Piece]], str],
    frame: Callable[[Section], str],
    render: Callable[[_Piece], str],
) -> Sequence[_Piece]:
    """The longest beginning of all pieces that fits, without pieces that its whole messages repeat."""
    needed = counter.text(task)
    if needed + _LEAST_TOKENS > max_tokens:
        raise LimitExceeded(
            f"task: takes {needed:,} tokens, and max_tokens={max_tokens:,}; "
            f"shorten it, or raise max_tokens (at most {MOST_TOKENS:,})"
        )
    pieces = _order(found)
    room = max_tokens - needed - _LEFT_OUT_TOKENS
    # Each piece is counted once: to render every beginning of the list would take quadratic time.
    costs = [counter.text(render(piece)) + 1 for piece in pieces]
    frames = {section: counter.text(frame(section)) + 2 for section in SECTIONS}
    # From the piece that shows a message whole on, other pieces from that message are dropped.
    whole_at = {piece.shows_whole: at for at, piece in enumerate(pieces) if piece.shows_whole}
    spent, fits = 0, 0
    live: Counter[Section] = Counter()

    def count(at: int, sign: int) -> int:
        section = pieces[at].section
        before = live[section]
        live[section] += sign
        # The frame of a section costs tokens only while a piece of the section is shown.
        if (before == 0) != (live[section] == 0):
            framed = frames[section]
        else:
            framed = 0
        return sign * (costs[at] + framed)

    for at, piece in enumerate(pieces):
        if whole_at.get(piece.drawn_from, len(pieces)) > at:
            spent += count(at, 1)
        if piece.shows_whole:
            repeated = [each for each in range(at) if pieces[each].drawn_from == piece.shows_whole]
            spent += sum(count(each, -1) for each in repeated)
        # A longer beginning may fit where a shorter one did not: a whole message replaces several pieces.
        if spent <= room:
            fits = at + 1
    # Pieces may count otherwise together than each alone.
    while fits and counter.text(shown(_drop_repeated(pieces[:fits]))) > max_tokens:
        fits -= 1
    return _drop_repeated(pieces[:fits])


def _drop_repeated(pieces: Sequence[_Piece]) -> list[_Piece]:
    shown_whole = {piece.shows_whole for piece in pieces if piece.shows_whole}
    return [piece for piece in pieces if piece.drawn_from not in shown_whole]


def _order(found: Briefing) -> list[_Piece]:
    """All pieces: the user's rules and corrections, among many of them what is remembered, then the first of each kind,
    then the rest of each in turn, and what tools answered last."""
    noted = _list_notes(found)
    first, rules = _part_rules(found, noted)
    other = [piece for piece, note in zip(noted, found.notes, strict=True) if not note.rules]
    plan, profile = _list_plan(found), _list_profile(found)
    tried = _list_attempts(found)
    woven, recalled = _weave(first, _list_recalled(found))
    said, answered = _list_messages(found)
    # The first three pieces of a plan begin its goal, its phase and its step.
    ahead = [woven, plan[:3], tried[:1], said[:1]]
    soon = [profile[:_FIRST], recalled[:_FIRST], tried[1:_FIRST], said[1:_FIRST]]
    rest = [
        # Notes say the most for their length.
        *(rules, *(other[at::_FIRST] for at in range(_FIRST)), said[_FIRST:], recalled[_FIRST:]),
        *(tried[_FIRST:], profile[_FIRST:], plan[3:]),
    ]
    in_turn = [piece for row in zip_longest(*rest) for piece in row if piece is not None]
    return [*(piece for each in (*ahead, *soon) for piece in each), *in_turn, *answered]


def _part_rules(found: Briefing, noted: Sequence[_Piece]) -> tuple[list[_Piece], list[_Piece]]:
    """The rules that come first, few of any one message; and the others."""
    first: list[_Piece] = []
    others: list[_Piece] = []
    of_message: Counter[int] = Counter()
    for piece, note in zip(noted, found.notes, strict=True):
        if not note.rules:
            continue
        of_message[note.seq] += 1
        has_room = len(first) < _FIRST_RULES and of_message[note.seq] <= RULES_OF_MESSAGE
        (first if has_room else others).append(piece)
    return first, others


def _weave(rules: Sequence[_Piece], recalled: Sequence[_Piece]) -> tuple[list[_Piece], list[_Piece]]:
    """The rules, and from the fourth on, among them, as much of what is remembered as has its share of the characters;
    and the rest of that. However much there is room for, both are in it."""
    woven: list[_Piece] = []
    ruled = told = taken = 0
    for at, rule in enumerate(rules):
        while at >= _FIRST and taken < len(recalled) and told < _RECALLED_SHARE * (ruled + told):
            told += len(recalled[taken].value)
            woven.append(recalled[taken])
            taken += 1
        woven.append(rule)
        ruled += len(rule.value)
    return woven, [*recalled[taken:]]


def _list_notes(found: Briefing) -> list[_Piece]:
    standing = sorted(range(len(found.notes)), key=lambda at: found.notes[at].stands)
    places = {at: place for place, at in enumerate(standing)}
    return [
        # Rules stay where they are seen at once, whatever the messages say.
        _Piece("notes", places[at], 0, note.text, drawn_from=note.seq if note.whole and not note.rules else 0)
        for at, note in enumerate(found.notes)
    ]


def _list_plan(found: Briefing) -> list[_Piece]:
    """The beginning of the goal, the phase, that of the step, and the rest of both."""
    if not found.plan:
        return []
    step = find_current_step(found.plan)
    texts = (quote_line(found.plan["goal"]), render_phase(found.plan), render_step(step) if step else "")
    listed = [_split("plan", place, text) for place, text in enumerate(texts)]
    return [*(pieces[0] for pieces in listed if pieces), *(piece for pieces in listed for piece in pieces[1:])]


def _list_profile(found: Briefing) -> list[_Piece]:
    """The beginnings of the lines that bear on the task, then those of the others, then the rest."""
    lines = _profile_lines(found)
    sought = set(find_query_words(found.task))
    bearing = {place: len(sought.intersection(split_words(line))) for place, line in enumerate(lines)}
    listed = [
        _split("user_profile", place, lines[place]) for place in sorted(bearing, key=lambda at: (-bearing[at], at))
    ]
    return [*(pieces[0] for pieces in listed if pieces), *(piece for pieces in listed for piece in pieces[1:])]


def _profile_lines(found: Briefing) -> list[str]:
    if found.profile and found.profile.content:
        return render_readable(found.profile).split("\n")
    return []


def _list_attempts(found: Briefing) -> list[_Piece]:
    """The beginnings of the attempts, the last first, then the rest of them."""
    logged = attempts.render_attempts(found.attempts)
    listed = [_split("previous_attempts", place, logged[place]) for place in reversed(range(len(logged)))]
    return [*(pieces[0] for pieces in listed if pieces), *(piece for pieces in listed for piece in pieces[1:])]


def _list_messages(found: Briefing) -> tuple[list[_Piece], list[_Piece]]:
    """The messages of people and assistants, the newest first; and those of tools alone."""
    said: list[_Piece] = []
    answered: list[_Piece] = []
    for message in reversed(found.messages):
        entry = _message_entry(message)
        if not entry["text"].endswith(CUT_MARK):
            whole = message.seq
        else:
            whole = 0
        piece = _Piece("messages", message.seq, 0, entry, shows_whole=whole)
        speaks = any(part["type"] == "text" or "caption" in part for part in message.parts)
        (said if speaks else answered).append(piece)
    return said, answered


def _split(section: Section, place: int, text: str) -> list[_Piece]:
    """A text in stretches, each but the last behind a space if there is one."""
    found: list[str] = []
    while text or not found:
        if len(text) <= _STRETCH:
            end = len(text)
        else:
            # Without a space rfind gives -1, and the sum 0: the word is then cut.
            end = text.rfind(" ", _STRETCH // 2, _STRETCH) + 1 or _STRETCH
        found.append(text[:end])
        text = text[end:]
    return [_Piece(section, place, part, stretch, len(found)) for part, stretch in enumerate(found)]


def _assemble(found: Briefing, chosen: Sequence[_Piece]) -> BriefingSections:
    """The sections that have something in them, and in ``left_out`` what had no room."""
    kept: dict[Section, dict[int, list[_Piece]]] = {name: {} for name in SECTIONS}
    for piece in chosen:
        kept[piece.section].setdefault(piece.place, []).append(piece)
    # A plan begins with its goal.
    listed = {name: [_join(pieces) for _, pieces in sorted(kept[name].items())] for name in SECTIONS}
    sections: BriefingSections = {}
    if listed["notes"]:
        sections["notes"] = listed["notes"]
    if plan := _show_plan(found, kept["plan"]):
        sections["plan"] = plan
    if profile := _show_profile(found, kept["user_profile"]):
        sections["user_profile"] = profile
    if listed["previous_attempts"]:
        sections["previous_attempts"] = listed["previous_attempts"]
    if listed["memory"]:
        sections["memory"] = listed["memory"]
    if listed["messages"]:
        sections["messages"] = listed["messages"]
    if left_out := list(_describe_left_out(found, chosen, kept)):
        sections["left_out"] = left_out
    return sections


def _show_plan(found: Briefing, kept: dict[int, list[_Piece]]) -> BriefingPlan | None:
    # The answer's type requires a goal and a phase, so a plan without room for both is left out.
    if not found.plan or 0 not in kept or 1 not in kept:
        return None
    plan: BriefingPlan = {
        "goal": _join(kept[0]),
        "current_phase": found.plan["current_phase"],
        "iteration": found.plan["iteration"],
    }
    if 2 in kept and kept[2][0].value:
        plan["current_step"] = _join(kept[2])
    return plan


def _show_profile(found: Briefing, kept: dict[int, list[_Piece]]) -> str:
    text = "\n".join(_join(pieces) for _, pieces in sorted(kept.items()))
    if len(kept) < len(_profile_lines(found)) and text.strip():
        return f"{text}{CUT_MARK}"
    return text


def _join(pieces: Sequence[_Piece]) -> Any:
    """The text of consecutive pieces together, with a mark where it goes on."""
    if not isinstance(pieces[0].value, str):
        return pieces[0].value
    text = "".join(piece.value for piece in sorted(pieces, key=lambda piece: piece.part))
    if len(pieces) == pieces[0].parts:
        return text
    return text.rstrip() + CUT_MARK


def _describe_left_out(
    found: Briefing, chosen: Sequence[_Piece], kept: dict[Section, dict[int, list[_Piece]]]
) -> Iterator[str]:
    count = Counter(piece.section for piece in chosen)
    if count["plan"] < len(_list_plan(found)):
        yield "words of the plan"
    if count["user_profile"] < len(_list_profile(found)):
        yield "words of the profile"
    if missing := found.total_attempts - len(kept["previous_attempts"]):
        yield f"{missing} earlier attempts"
    keys = {piece.key for piece in chosen}
    yield from _describe_cut_attempts(found, keys, kept["previous_attempts"])
    shown_whole = {piece.shows_whole for piece in chosen if piece.shows_whole}
    for name, pieces in (("notes", _list_notes(found)), ("memories", _list_recalled(found))):
        missing = sum(piece.key not in keys and piece.drawn_from not in shown_whole for piece in pieces)
        if missing:
            yield f"{missing} {name}"
    yield from _describe_missing_messages(found, kept["messages"])


def _describe_cut_attempts(found: Briefing, keys: Container[_Key], kept: Container[int]) -> Iterator[str]:
    """Name what is missing of the attempts that are shown; the first is the last that was made."""
    tried = [piece for piece in _list_attempts(found) if piece.place in kept]
    cut = {piece.place for piece in tried if piece.key not in keys}
    if cut:
        yield "words of the last attempt" if tried[0].place in cut else "words of attempts"


def _describe_missing_messages(found: Briefing, kept: Mapping[int, Any]) -> Iterator[str]:
    _, answered = _list_messages(found)
    answers = sum(piece.place not in kept for piece in answered)
    if answers:
        yield f"{answers} messages of tools"
    if missing := found.total_messages - len(kept) - answers:
        yield f"{missing} earlier messages"


def _list_recalled(found: Briefing) -> list[_Piece]:
    return [_Piece("memory", at, 0, line.text, drawn_from=line.seq) for at, line in enumerate(found.recalled)]


def _block(found: Briefing, name: Section, value: Any) -> str:
    if name == "user_profile":
        assert found.profile is not None
        assert found.profile.changed is not None
        return render_block(replace(found.profile, changed=replace(found.profile.changed, content=value)))
    if name == "plan":
        if "current_step" in value:
            step = [f"Current step: {value['current_step']}"]
        else:
            step = []
        lines = [f"Goal: {value['goal']}", render_phase(value), *step]
    elif name == "messages":
        lines = [_message_line(entry) for entry in value]
    else:
        lines = value
    return wrap_block(_TAGS[name], "\n".join(lines), _DESCRIPTIONS.get(name, ""))


def _line(piece: _Piece) -> str:
    if isinstance(piece.value, str):
        return piece.value
    return _message_line(piece.value)


def _message_entry(message: Message) -> BriefingMessage:
    text = join_lines(plain_text(message.parts, quote_text))
    if len(text) <= MESSAGE_CHARS:
        shown = text
    else:
        shown = text[:MESSAGE_CHARS] + CUT_MARK
    entry: BriefingMessage = {"seq": message.seq, "role": message.role, "text": shown}
    if message.name:
        entry["name"] = message.name
    if outside := find_outside_trust(message):
        entry["trust"] = outside
    return order_keys(BriefingMessage, entry)


def _message_line(entry: BriefingMessage) -> str:
    trust = entry.get("trust", "")
    speaker = format_speaker(entry["role"], entry.get("name"), "" if trust == entry["role"] else trust)
    return f"#{entry['seq']} {speaker}: {entry['text']}"
