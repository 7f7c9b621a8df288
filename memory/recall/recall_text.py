"""The answer of a recall, as text for a model to read or as JSON for a program; both say what was cut or held back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, cast

from layerlore.memory.messages.reader import Detail, cut_to_fit
from layerlore.memory.parts.tokens import CUT_MARK, TokenCounter
from layerlore.memory.recall.evidence_budget import (
    OVERVIEW_SHARE,
    SHORT_SHARE,
    Evidence,
    pack_lines,
    rank_evidence,
)
from layerlore.memory.recall.hit_lines import (
    Beside,
    MemoryLine,
    ShownTexts,
    find_place,
    make_line,
    mark_best,
    render_lines,
    show_text,
)
from layerlore.memory.recall.newer_lines import find_newer, mark_newer
from layerlore.memory.recall.recall_answers import (
    AddedScores,
    Certainty,
    Confidence,
    DegradedParts,
    EntryAbout,
    NoteAbout,
    RecallAnswer,
    RecalledHit,
    RecalledMessage,
    ShownScore,
)
from layerlore.memory.recall.results import Hit, RecallResult, ScoreParts
from layerlore.memory.rules.ages import age, day, iso
from layerlore.memory.text.quotation import PREAMBLE, mark_degraded
from layerlore.memory.text.trust import find_outside_trust
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Message

# Left out one after the other, where the ids of a hit leave little room for its text; "" stands for nothing.
_DISPENSABLE: tuple[Literal["", "name", "age", "said_at"], ...] = ("", "name", "age", "said_at")
# Set aside for the mark of a cut, and for what joined texts cost more than their parts.
_MARK_TOKENS = 8

NOTHING = "Nothing relevant is remembered about this."
EMPTY = "This memory is empty."
"""Stands behind NOTHING where nothing at all is stored."""
UNSURE = "Not sure that these are about it:"
SILENT = "Nothing was said on {days}. Of other days:"
"""Before lines of other days than the question names."""
NOTHING_YET = (
    "Nothing was found by words alone, and not everything could be compared by meaning: ask again in a moment."
)
"""Stands for NOTHING where vectors are still to come."""
NEWEST = "Nothing there matches the query. These are the newest messages there:"
NEWEST_OF_ALL = "The newest messages:"
ADVICE = "Other short wordings may find more: several in one call as queries, also in another language."
"""Stands behind the first answer of a connection that is in doubt."""


def drop_repeated(hits: Sequence[Hit]) -> list[Hit]:
    """The hits without those that repeat a better one to the letter."""
    shown = ShownTexts()
    return [hit for hit in hits if shown.add(hit.texts)]


def separate_neighbours(hits: Sequence[Hit]) -> list[Hit]:
    """Keep each neighbour once, with the best of its hits, and remove neighbours that are hits themselves."""
    shown = {find_place(hit.message) for hit in hits}
    found = []
    for hit in hits:
        around = [[each for each in side if find_place(each) not in shown] for side in (hit.before, hit.after)]
        shown |= {find_place(each) for side in around for each in side}
        found.append(replace(hit, before=around[0], after=around[1]))
    return found


def render_text(
    recalled: RecallResult,
    counter: TokenCounter,
    *,
    now: int,
    detail: Detail,
    max_tokens: int,
    explain: bool = False,
    overview: bool = False,
) -> str:
    """The recalled hits as lines in time order under heads of thread and day, as many as the budget holds: the better ones
    whole, others as short lines. The best hit is always there, alone and cut if need be.

    ``overview``: with more short lines, and fewer whole ones. The first line says what was degraded; the last one how many hits
    did not fit, which signals served, how many a floor held back, and today's date, since no line gives its age.
    """
    opening = _opening(recalled)
    if not recalled.hits:
        closing = _closing_line(recalled, 0, 0, now)
        if recalled.held_back or recalled.degraded:
            return f"{opening}\n{closing}"
        return opening
    hits = drop_repeated(recalled.hits)
    # The real number of shown hits is known only after packing, so the closing line is estimated with all of them.
    closing = _closing_line(recalled, len(hits), len(recalled.hits), now)
    room = max_tokens - counter.known(f"{opening}\n{closing}") - _MARK_TOKENS
    lines = _pack(hits, recalled, counter, room, detail=detail, explain=explain, overview=overview)
    scores = {find_place(hit.message): hit.score for hit in recalled.hits}

    def shown() -> list[str]:
        count = sum(not line.beside for line in lines)
        shortened = any(line.shortened for line in lines)
        closing = _closing_line(recalled, count, len(hits), now, shortened)
        marked = mark_newer(lines, recalled.weights)
        if recalled.newest_only:
            body = render_lines(marked)
        else:
            body = render_lines(mark_best(marked, scores))
        return [opening, *body, closing]

    # Lines may cost more tokens together than one by one, so the last ones go until all fits.
    while lines and counter.lines(told := shown()) > max_tokens:
        lines.pop()
    if lines:
        return "\n".join(told)
    best = hits[0]
    line = make_line(best.message, recalled.weights, chunk=best.chunk, detail=detail)
    whole, closing = "\n".join(render_lines([line])), _closing_line(recalled, 1, len(hits), now, shortened=True)
    most = max(room, 0)
    # A cut text may take more tokens than its uncut beginning did, so it shrinks until all fits.
    while (
        counter.text(text := "\n".join([opening, counter.cut(whole, most) + CUT_MARK, closing])) > max_tokens and most
    ):
        most = max(0, most - max(1, counter.text(text) - max_tokens))
    return text


def _pack(
    hits: Sequence[Hit],
    recalled: RecallResult,
    counter: TokenCounter,
    room: int,
    *,
    detail: Detail,
    explain: bool,
    overview: bool,
) -> list[MemoryLine]:
    """The lines of the hits that fit."""

    def find_cost(at: int) -> int:
        texts = hits[at].texts
        return texts.tokens if detail == "high" else texts.tokens_of_line

    order = rank_evidence(len(hits), find_cost)
    packed = pack_lines(
        ((at, _make_evidence(hits[at], at + 1, recalled, detail, explain)) for at in order),
        counter,
        room,
        short_share=OVERVIEW_SHARE if overview else SHORT_SHARE,
        # A whole message may be longer than all the others together.
        passing_long=detail == "high",
    )
    return packed.lines


def _make_evidence(hit: Hit, number: int, recalled: RecallResult, detail: Detail, explain: bool) -> Evidence:
    if explain:
        note = f"hit {number}: score {hit.score:.2f}, {_explain(hit)}"
    else:
        note = ""
    return Evidence(hit.texts, recalled.weights, hit.chunk, hit.before, hit.after, note, detail)


def render_doubts(confidence: Confidence, silent: Sequence[str]) -> list[str]:
    """The lines that stand before hits in doubt: the days that the question names, if nothing was said on them, and that it
    is unsure whether the hits answer."""
    doubts: list[str] = []
    if silent:
        doubts.append(SILENT.format(days=" or ".join(silent)))
    if confidence == "unsure":
        doubts.append(UNSURE)
    return doubts


def leaves_doubt(recalled: RecallResult) -> bool:
    """Whether other wordings may find more: nothing was found, or it is unsure whether the hits are about the query."""
    return recalled.confidence != "sure" and not recalled.degraded and not recalled.is_empty


def _opening(recalled: RecallResult) -> str:
    if recalled.newest_only and recalled.degraded:
        return f"{PREAMBLE} {mark_degraded(recalled.degraded)}\n{NOTHING_YET} {NEWEST_OF_ALL}"
    if recalled.is_empty:
        empty = f"{NOTHING} {EMPTY}"
    elif recalled.degraded:
        empty = NOTHING_YET
    else:
        empty = NOTHING
    first = " ".join(filter(None, [PREAMBLE if recalled.hits else empty, mark_degraded(recalled.degraded)]))
    if recalled.newest_only:
        return f"{first}\n{NEWEST}"
    if recalled.hits:
        return "\n".join([first, *render_doubts(recalled.confidence, recalled.silent)])
    return first


def _closing_line(recalled: RecallResult, shown: int, hits: int, now: int, shortened: bool = False) -> str:
    if shown >= hits:
        count = f"{shown} hit{'' if shown == 1 else 's'}"
    else:
        count = f"{shown} of {hits} hits fit in max_tokens"
    said = [
        *([count] if recalled.hits else []),
        *([f"{'it' if shown == 1 else 'the best'} is cut to max_tokens"] if shortened else []),
        *([f"held back below the floor: {recalled.held_back}"] if recalled.held_back else []),
        f"signals: {', '.join(recalled.signals)}",
        *([f"today: {day(now)}"] if recalled.hits else []),
    ]
    return f"[{'; '.join(said)}]"


def _explain(hit: Hit) -> str:
    parts = hit.explain()
    notes = {
        "lexical": ", ".join(parts.words),
        "context": ", ".join(parts.context_words),
        "semantic": "" if parts.cosine is None else f"cosine {parts.cosine:.2f}",
    }
    added = [
        f"{name} {value:.2f}" + (f" ({notes[name]})" if notes.get(name) else "")
        for name, value in parts.added.items()
        if round(value, 2)
    ]
    if parts.recency != 1:
        aged = f" x recency {parts.recency:.2f}"
    else:
        aged = ""
    return (
        f"relevance {parts.relevance:.2f} of query {parts.query + 1}, ranking {parts.ranking:.2f} = "
        f"{' + '.join(added)}{aged}"
    )


def render_json(
    recalled: RecallResult, counter: TokenCounter, *, now: int, detail: Detail, max_tokens: int, explain: bool = False
) -> RecallAnswer:
    """The recalled hits as JSON, best first, as many as the budget holds, the first cut if need be and none where its
    ids alone have no room; a neighbour of several hits appears once, with the best of them. ``explain`` adds each
    hit's parts."""
    listed = recalled.hits

    def shown(hits: Sequence[Hit], cut: bool = False) -> RecallAnswer:
        newer = find_newer([hit.texts.make_line(recalled.weights, hit.chunk) for hit in hits], recalled.weights)
        rows = [_hit_json(hit, recalled.weights, now, detail, explain) for hit in separate_neighbours(hits)]
        for hit, row in zip(hits, rows, strict=True):
            place = find_place(hit.message)
            if place in newer:
                row["newer_than"] = newer[place].id
        answer = _answer_json(recalled, rows)
        if explain:
            answer["words"] = list(recalled.words)
        if cut or len(hits) < len(listed):
            answer["cut"] = f"max_tokens={max_tokens} reached"
        return answer

    def size(answer: RecallAnswer) -> int:
        return counter.text(to_json(answer))

    fitting = _fit_most(listed, shown, lambda answer: size(answer) <= max_tokens)
    if fitting is not None or not listed:
        return fitting or shown([])
    alone = shown([replace(listed[0], before=[], after=[])], cut=True)
    if size(alone) <= max_tokens:
        return alone
    # The explanation goes before any of the text: the one hit is worth more.
    alone.pop("words", None)
    (entry,) = alone["hits"]
    entry.pop("parts", None)
    text = entry["text"]
    left = max_tokens - size({**alone, "hits": []}) - _MARK_TOKENS
    for dispensable in _DISPENSABLE:
        if dispensable:
            entry.pop(dispensable, None)
        cut: RecallAnswer = {**alone, "hits": [cut_to_fit(counter, entry, text, left)]}
        if size(cut) <= max_tokens:
            return cut
    return {**alone, "hits": []}


def _answer_json(recalled: RecallResult, rows: list[RecalledHit]) -> RecallAnswer:
    degraded: DegradedParts = {}
    if recalled.degraded:
        degraded["degraded"] = list(recalled.degraded)
    certainty: Certainty = {}
    if rows and recalled.confidence != "sure":
        certainty["confidence"] = recalled.confidence
    if rows and recalled.newest_only:
        certainty["note"] = NEWEST
    elif rows and recalled.silent:
        certainty["note"] = SILENT.format(days=" or ".join(recalled.silent))
    answer: RecallAnswer = {**degraded, "hits": rows, **certainty, "signals": list(recalled.signals)}
    if recalled.held_back:
        answer["held_back"] = recalled.held_back
    return answer


def _fit_most(
    hits: Sequence[Hit], shown: Callable[[Sequence[Hit]], RecallAnswer], fits: Callable[[RecallAnswer], bool]
) -> RecallAnswer | None:
    """The answer with as many of the hits as fit; None if not even the first does."""
    if fits(whole := shown(hits)):
        return whole
    # The size grows with the number of hits, so a binary search saves most of the renderings.
    found = None
    least, over = 0, len(hits)
    while over - least > 1:
        middle = (least + over) // 2
        if fits(answer := shown(hits[:middle])):
            least, found = middle, answer
        else:
            over = middle
    return found


def _hit_json(hit: Hit, sought: Mapping[str, float], now: int, detail: Detail, explain: bool) -> RecalledHit:
    text = show_text(hit.message, sought, hit.chunk, detail=detail)
    shown = _show_hit(hit, text)
    shown["age"] = age(hit.message.said_at, now)
    shown["score"] = round(hit.score, 4)
    if explain:
        shown["parts"] = _parts_json(hit.explain())
    if hit.before:
        shown["before"] = _neighbours_json("before", hit.before, detail)
    if hit.after:
        shown["after"] = _neighbours_json("after", hit.after, detail)
    return shown


def _show_hit(hit: Hit, text: str) -> RecalledHit:
    if hit.is_note:
        return _note_hit_json(hit.message, text)
    if hit.is_entry:
        return _entry_hit_json(hit.message, text)
    return _message_hit_json(hit.message, text)


def _message_hit_json(message: Message, text: str) -> RecalledHit:
    shown: RecalledHit = {"kind": "message"}
    if message.whose:
        shown["whose"] = message.whose
    shown["thread_id"] = message.thread_id
    return {**shown, **_message_json(message, text)}


def _note_hit_json(note: Message, text: str) -> RecalledHit:
    """A note as JSON, with the text that is shown of it."""
    shown: RecalledHit = {"kind": note.role}
    if note.whose:
        shown["whose"] = note.whose
    shown["id"] = note.id
    about = cast("NoteAbout", note.metadata)
    return {**shown, **about, "text": text, "said_at": iso(note.said_at)}


def _entry_hit_json(entry: Message, text: str) -> RecalledHit:
    about = cast("EntryAbout", {name: value for name, value in entry.metadata.items() if name != "kind"})
    if "expires_at" in entry.metadata:
        about["expires_at"] = iso(entry.metadata["expires_at"])
    shown: RecalledHit = {"kind": "entry"}
    if entry.whose:
        shown["whose"] = entry.whose
    shown["id"] = entry.id
    if "kind" in entry.metadata:
        shown["about"] = entry.metadata["kind"]
    return {**shown, "text": text, "said_at": iso(entry.said_at), **about}


def _parts_json(parts: ScoreParts) -> ShownScore:
    added = cast("AddedScores", {name: round(value, 4) for name, value in parts.added.items()})
    return {
        "query": parts.query + 1,
        "relevance": round(parts.relevance, 4),
        "ranking": round(parts.ranking, 4),
        **added,
        "cosine": None if parts.cosine is None else round(parts.cosine, 4),
        "recency": round(parts.recency, 4),
        "words": list(parts.words),
        "context_words": list(parts.context_words),
    }


def _neighbours_json(name: Beside, others: Sequence[Message], detail: Detail) -> list[RecalledMessage]:
    return [_message_json(other, show_text(other, {}, beside=name, detail=detail)) for other in others]


def _message_json(message: Message, text: str) -> RecalledMessage:
    row: RecalledMessage = {"id": message.id, "seq": message.seq, "role": message.role}
    if message.name:
        row["name"] = message.name
    trust = find_outside_trust(message)
    if trust:
        row["trust"] = trust
    row["text"] = text
    row["said_at"] = iso(message.said_at)
    return row
