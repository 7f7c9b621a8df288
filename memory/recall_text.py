"""What was recalled, as text for a model to read or as JSON for a program; both say what was cut or held back."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from layerlore.memory.ages import age, day, iso
from layerlore.memory.blocks import PREAMBLE
from layerlore.memory.hit_blocks import Block, blocks_of, told_apart
from layerlore.memory.parts import plain_text
from layerlore.memory.quoting import one_line, quoted, quoted_line
from layerlore.memory.reading import CUT_MARK, Detail, cut_to_fit
from layerlore.memory.recall import Hit, Parts, Recalled
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.trust import from_outside, speaker_of
from layerlore.storage.json_text import to_json
from layerlore.storage.records import Json, Message

# Longest text of a hit and of a neighbour with detail="low", in characters.
HIT_CHARS = 500
NEIGHBOUR_CHARS = 160
# Of a long text, how much is shown before the first word that was looked for.
_LEAD_CHARS = 80
# Of an entry, how many of its sources are named.
_MOST_SOURCES = 2
# Set aside for the mark of a cut.
_MARK_TOKENS = 8

NOTHING = "Nothing relevant is remembered about this."

_Answer = TypeVar("_Answer", str, Json)


def as_text(
    recalled: Recalled, counter: TokenCounter, *, now: int, detail: Detail, max_tokens: int, explain: bool = False
) -> str:
    """Hits as blocks of a thread's lines, best first, as many as the budget holds; hits whose neighbours overlap or
    touch share a block. The first hit is always there, alone and cut if need be.

    The last line says what did not fit, which signals served, what was degraded, and what the floor held back.
    """
    if not recalled.hits:
        closing = _closing(recalled, 0, shortened=False)
        return f"{NOTHING}\n{closing}" if recalled.held_back or recalled.degraded else NOTHING

    def shown(hits: Sequence[Hit], shortened: bool = False) -> str:
        lines = [_block(block, recalled.words, now, detail, explain) for block in blocks_of(hits)]
        return "\n".join([PREAMBLE, *lines, _closing(recalled, len(hits), shortened)])

    fitting = _most(recalled.hits, shown, lambda text: counter.text(text) <= max_tokens)
    if fitting:
        return fitting
    alone = [_without_neighbours(recalled.hits[0])]
    if counter.text(text := shown(alone, shortened=True)) <= max_tokens:
        return text
    block = _block(blocks_of(alone)[0], recalled.words, now, detail, explain)
    closing = _closing(recalled, 1, shortened=True)
    left = max_tokens - counter.text(PREAMBLE) - counter.text(closing) - _MARK_TOKENS
    return "\n".join([PREAMBLE, counter.cut(block, max(left, 0)) + CUT_MARK, closing])


def _most(
    hits: Sequence[Hit], shown: Callable[[Sequence[Hit]], _Answer], fits: Callable[[_Answer], bool]
) -> _Answer | None:
    """The answer with as many of the hits as fit; None if not even the first does."""
    if fits(whole := shown(hits)):
        return whole
    found = None
    least, over = 0, len(hits)
    while over - least > 1:
        middle = (least + over) // 2
        if fits(answer := shown(hits[:middle])):
            least, found = middle, answer
        else:
            over = middle
    return found


def _without_neighbours(hit: Hit) -> Hit:
    return replace(hit, before=[], after=[])


def _closing(recalled: Recalled, shown: int, shortened: bool) -> str:
    unfit = len(recalled.hits) - shown
    missing = [*(["hit 1 is shortened"] if shortened else []), *([f"{unfit} more do not fit"] if unfit else [])]
    said = [
        *([f"{shown} hit{'' if shown == 1 else 's'}"] if recalled.hits else []),
        *([f"cut to max_tokens: {', '.join(missing)}"] if missing else []),
        *([f"held back as not relevant enough: {recalled.held_back}"] if recalled.held_back else []),
        f"signals: {', '.join(recalled.signals)}",
        *([f"degraded: {', '.join(recalled.degraded)}"] if recalled.degraded else []),
    ]
    return f"[{'; '.join(said)}]"


def _block(block: Block, sought: Sequence[str], now: int, detail: Detail, explain: bool) -> str:
    best = block.hits[0][1]
    numbers = ", ".join(str(number) for number, _ in block.hits)
    said_at = best.message.said_at
    scores = ", ".join(f"{hit.score:.2f}" for _, hit in block.hits)
    if best.is_entry:
        return _entry_block(block, numbers, scores, sought, now, detail, explain)
    thread = quoted_line(best.message.thread_id)
    lines = [f"{numbers}. thread {thread}, {day(said_at)} ({age(said_at, now)}), score {scores}"]
    hits = {hit.message.seq for _, hit in block.hits}
    for message in block.messages:
        is_hit = message.seq in hits
        on = f" [{day(message.said_at)}]" if is_hit and day(message.said_at) != day(said_at) else ""
        most = HIT_CHARS if is_hit else NEIGHBOUR_CHARS
        text = _shown(message, most, detail, sought if is_hit else ())
        lines.append(f"   {'> ' if is_hit else ''}#{message.seq}{on} {speaker_of(message)}: {text}")
    if explain:
        lines += [f"   hit {number} (#{hit.message.seq}): {_explained(hit)}" for number, hit in block.hits]
    return "\n".join(lines)


def _entry_block(
    block: Block, numbers: str, scores: str, sought: Sequence[str], now: int, detail: Detail, explain: bool
) -> str:
    ((number, hit),) = block.hits
    entry = hit.message
    lines = [
        f"{numbers}. entry {entry.id}, {day(entry.said_at)} ({age(entry.said_at, now)}), score {scores}",
        f"   > [{_rests_on(entry)}] {_shown(entry, HIT_CHARS, detail, sought)}",
    ]
    if explain:
        lines.append(f"   hit {number}: {_explained(hit)}")
    return "\n".join(lines)


def _rests_on(entry: Message) -> str:
    """Its kind, whose word it is, and where that stands. Before its text, so that nothing in that can pass for it."""
    told = entry.metadata
    kind = f"{told['kind']}; " if "kind" in told else ""
    if not told["sources"]:
        return f"{kind}kept as an assistant's own word"
    named = ((quoted_line(each["thread_id"]), each["seq"]) for each in told["sources"][:_MOST_SOURCES])
    places = ", ".join(f"thread {thread} #{seq}" for thread, seq in named)
    more = len(told["sources"]) - _MOST_SOURCES
    return f"{kind}{told['trust']}'s words in {places}" + (f" and {more} more" if more > 0 else "")


def _explained(hit: Hit) -> str:
    parts = hit.parts
    added = [
        f"lexical {parts.lexical:.2f}" + (f" ({', '.join(parts.words)})" if parts.words else ""),
        f"context {parts.context:.2f}" + (f" ({', '.join(parts.context_words)})" if parts.context_words else ""),
        f"semantic {parts.semantic:.2f}" + ("" if parts.cosine is None else f" (cosine {parts.cosine:.2f})"),
        f"speaker {parts.speaker:.2f}",
        f"role {parts.role:.2f}",
        f"session {parts.session:.2f}",
    ]
    aged = f" x recency {parts.recency:.2f}" if parts.recency != 1 else ""
    return (
        f"relevance {parts.relevance:.2f} of query {parts.query + 1}, ranking {parts.ranking:.2f} = "
        f"{' + '.join(added)}{aged}"
    )


def _shown(message: Message, most: int, detail: Detail, sought: Sequence[str]) -> str:
    text = one_line(plain_text(message.parts, quoted))
    return text if detail == "high" or len(text) <= most else excerpt(text, sought, most)


def excerpt(text: str, sought: Sequence[str], most: int) -> str:
    """``most`` characters of a longer text, where most of the words are that were looked for, with marks of the cuts."""
    folded = text.casefold()
    # The beginning of a word, since what stands in the text may be another form of it.
    places = sorted(at for word in sought if (at := folded.find(word[: max(4, len(word) - 3)])) >= 0)
    densest = max(places, key=lambda at: (sum(at <= other < at + most for other in places), -at), default=0)
    start = max(0, min(densest - _LEAD_CHARS, len(text) - most))
    end = start + most
    return ("… " if start else "") + text[start:end] + (CUT_MARK if end < len(text) else "")


def as_json(
    recalled: Recalled, counter: TokenCounter, *, now: int, detail: Detail, max_tokens: int, explain: bool = False
) -> Json:
    """The same as JSON, hits best first; a message that stands around several hits is told once, with the best of
    them. ``explain`` adds each hit's parts."""

    def shown(hits: Sequence[Hit], cut: bool = False) -> Json:
        return {
            "hits": [_entry(hit, recalled.words, now, detail, explain) for hit in told_apart(hits)],
            "signals": list(recalled.signals),
            **({"degraded": list(recalled.degraded)} if recalled.degraded else {}),
            **({"held_back": recalled.held_back} if recalled.held_back else {}),
            **({"words": list(recalled.words)} if explain else {}),
            **({"cut": f"max_tokens={max_tokens} reached"} if cut or len(hits) < len(recalled.hits) else {}),
        }

    def size(answer: Json) -> int:
        return counter.text(to_json(answer))

    fitting = _most(recalled.hits, shown, lambda answer: size(answer) <= max_tokens)
    if fitting is not None or not recalled.hits:
        return fitting or shown([])
    alone = shown([_without_neighbours(recalled.hits[0])], cut=True)
    if size(alone) <= max_tokens:
        return alone
    for detailed in ("words", "parts"):
        alone.pop(detailed, None)
        alone["hits"][0].pop(detailed, None)
    (entry,) = alone["hits"]
    left = max_tokens - size({**alone, "hits": []}) - _MARK_TOKENS
    return {**alone, "hits": [cut_to_fit(counter, entry, entry["text"], left)]}


def _entry(hit: Hit, sought: Sequence[str], now: int, detail: Detail, explain: bool) -> Json:
    return {
        **(_of_entry if hit.is_entry else _of_message)(hit.message, detail, sought),
        "age": age(hit.message.said_at, now),
        "score": round(hit.score, 4),
        **({"parts": _numbers(hit.parts)} if explain else {}),
        **_around("before", hit.before, detail),
        **_around("after", hit.after, detail),
    }


def _of_message(message: Message, detail: Detail, sought: Sequence[str]) -> Json:
    return {"kind": "message", "thread_id": message.thread_id, **_message(message, HIT_CHARS, detail, sought)}


def _of_entry(entry: Message, detail: Detail, sought: Sequence[str]) -> Json:
    told = {name: value for name, value in entry.metadata.items() if name != "kind"}
    return {
        "kind": "entry",
        "id": entry.id,
        **({"about": entry.metadata["kind"]} if "kind" in entry.metadata else {}),
        "text": _shown(entry, HIT_CHARS, detail, sought),
        "said_at": iso(entry.said_at),
        **told,
    }


def _numbers(parts: Parts) -> Json:
    return {
        "query": parts.query + 1,
        "relevance": round(parts.relevance, 4),
        "ranking": round(parts.ranking, 4),
        "lexical": round(parts.lexical, 4),
        "context": round(parts.context, 4),
        "semantic": round(parts.semantic, 4),
        "cosine": None if parts.cosine is None else round(parts.cosine, 4),
        "speaker": round(parts.speaker, 4),
        "role": round(parts.role, 4),
        "session": round(parts.session, 4),
        "recency": round(parts.recency, 4),
        "words": list(parts.words),
        "context_words": list(parts.context_words),
    }


def _around(name: str, others: Sequence[Message], detail: Detail) -> Json:
    return {name: [_message(other, NEIGHBOUR_CHARS, detail) for other in others]} if others else {}


def _message(message: Message, most: int, detail: Detail, sought: Sequence[str] = ()) -> Json:
    return {
        "id": message.id,
        "seq": message.seq,
        "role": message.role,
        **({"name": message.name} if message.name else {}),
        **({"trust": trust} if (trust := from_outside(message)) else {}),
        "text": _shown(message, most, detail, sought),
        "said_at": iso(message.said_at),
    }
