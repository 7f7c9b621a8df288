"""The result of a recall, and how the results of a project and of its person become one answer, best first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from layerlore.memory.recall.hit_lines import is_note
from layerlore.memory.recall.message_texts import MessageTexts
from layerlore.memory.recall.recall_answers import Confidence, Signal
from layerlore.storage.core.records import Message, Whose
from layerlore.storage.derived.entries import PLACE

# A hit of the person's memory comes after a hit of the project's that is about as relevant.
_FARTHER = 0.9


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """The parts of a hit's score, which is the relevance of the query with this number times how likely the hit is
    beside the best one, e to the power of the difference of their ranking scores. A ranking score is ``recency`` times
    the sum of what each signal ``added``; ``cosine`` is None where the message has no vector yet, or none serve."""

    query: int
    relevance: float
    ranking: float
    added: Mapping[str, float]
    cosine: float | None
    recency: float
    words: tuple[str, ...]
    context_words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """One ranked result, its score from 0 to 1, its neighbours, and the number of the chunk that was found. ``explain``
    gives what made the score: most answers do not say. An entry or a note has the shape of a
    message here (``entries.as_message``, ``notes.as_messages``) and no neighbours."""

    message: Message
    score: float
    explain: Callable[[], ScoreParts]
    before: list[Message] = field(default_factory=list)
    after: list[Message] = field(default_factory=list)
    chunk: int = 0
    kept: MessageTexts | None = None

    @property
    def texts(self) -> MessageTexts:
        """What is made of the message alone."""
        return self.kept if self.kept and self.kept.message is self.message else MessageTexts(self.message)

    @property
    def is_entry(self) -> bool:
        return self.message.thread_id.startswith(PLACE)

    @property
    def is_note(self) -> bool:
        return is_note(self.message)


@dataclass(frozen=True, slots=True)
class RecallResult:
    """The hits, best first; the words that were looked for, and their weights; the signals that served, and which did
    not, and why; how many hits a floor held back; and how sure it is that the hits are about the query.

    ``newest_only``: nothing matches the query, and the hits are the newest messages of the place that it names, or, where
    meanings could not be compared, of all that is stored."""

    hits: list[Hit]
    words: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ("lexical",)
    degraded: tuple[str, ...] = ()
    held_back: int = 0
    weights: Mapping[str, float] = field(default_factory=dict)
    confidence: Confidence = "sure"
    newest_only: bool = False


def find_confidence(found: Sequence[Confidence]) -> Confidence:
    """The best of all."""
    return "sure" if "sure" in found else "unsure" if "unsure" in found else "nothing"


def mark_hit(hit: Hit, whose: Whose) -> Hit:
    """The hit as one that says whose it is, with its neighbours."""
    before, after = mark_messages(hit.before, whose), mark_messages(hit.after, whose)
    marked = replace(hit.message, whose=whose)
    return replace(hit, message=marked, before=before, after=after, kept=MessageTexts(marked))


def mark_messages(messages: Sequence[Message], whose: Whose) -> list[Message]:
    """The messages, or entries, as ones that say whose they are."""
    return [replace(each, whose=whose) for each in messages]


def join_results(project: RecallResult, person: RecallResult, limit: int) -> RecallResult:
    """Both answers as one of at most ``limit`` hits: each says whose it is, and the project's come before the person's
    that are about as relevant."""
    ranked: list[tuple[float, Hit]] = []
    sides: list[tuple[RecallResult, Whose, float]] = [(project, "project", 1.0), (person, "you", _FARTHER)]
    for found, whose, weight in sides:
        ranked += [(weight * hit.score, mark_hit(hit, whose)) for hit in found.hits]
    ranked.sort(key=lambda each: -each[0])
    return RecallResult(
        [hit for _, hit in ranked[:limit]],
        words=project.words,
        signals=max(project.signals, person.signals, key=len),
        degraded=tuple(dict.fromkeys((*project.degraded, *person.degraded))),
        held_back=project.held_back + person.held_back,
        weights={**person.weights, **project.weights},
        confidence=find_confidence((project.confidence, person.confidence)),
        newest_only=bool(ranked) and project.newest_only and person.newest_only,
    )
