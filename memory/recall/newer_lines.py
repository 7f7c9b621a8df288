"""Which shown lines give a newer value: another number, day or time for the same thing than an earlier line of the same
speaker.

A mark on two different things misleads and a missing one does little harm, since both lines are shown. So a value is newer
only if the words around it are the same: either many of those that few other lines have, or all of a short sentence.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import combinations

from layerlore.memory.language.search_words import split_words
from layerlore.memory.language.sentence_values import SentenceValue, ValuedSentence, begin_word, is_same_form
from layerlore.memory.language.statements import contradicts
from layerlore.memory.language.word_lists import word_set
from layerlore.memory.recall.hit_lines import MemoryLine, Place, is_note
from layerlore.memory.rules.ages import day
from layerlore.storage.core.records import Message

# At most this number of lines with values is compared, so that the pairs stay few.
_MOST_LINES = 40
# The fewest rare words around both of two values that make them values of one thing. Rare are the words of the question, and
# those that at most a quarter of the lines have, and no more than four.
_FEWEST_SHARED = 3
_FEWEST_SOUGHT = 2
_RARE_SHARE = 0.25
_MOST_RARE = 4
# Where lines are few, every word is rare, so one more must be shared. So must one more if the question has fewer than
# two of them.
_FEW_LINES = 8
# A longer sentence says more than one value.
_SHORT_SENTENCE = 4
# Words are counted by their beginning.
_KEY = 5


def find_newer(lines: Sequence[MemoryLine], sought: Collection[str] = ()) -> dict[Place, Message]:
    """The places of the lines that give a newer value, each with the message that gives the value before it."""
    # Entries that contradict each other are marked where they are stored.
    own = [line for line in lines if line.message.role == "user" and not line.is_entry and not is_note(line.message)]
    own.sort(key=lambda line: (line.message.said_at, line.message.seq))
    found = _find_contradictions(own)
    frequency = _WordFrequency(own, sought)
    valued = [line for line in own if line.values.sentences]
    # In time order, so that the last of the earlier lines stays.
    for earlier, later in combinations(valued[-_MOST_LINES:], 2):
        if _speaker(earlier) == _speaker(later) and _gives_newer(earlier, later, frequency):
            found[later.place] = earlier.message
    return found


def mark_newer(lines: Sequence[MemoryLine], sought: Collection[str]) -> list[MemoryLine]:
    """The lines, with a mark on those that give a newer value. ``sought``: the words of the question."""
    newer = find_newer(lines, sought)
    return [
        replace(line, newer_than=_name_earlier(line.message, newer[line.place])) if line.place in newer else line
        for line in lines
    ]


def _name_earlier(later: Message, earlier: Message) -> str:
    """The number of the earlier message, with its day if it is of another thread."""
    if earlier.thread_id == later.thread_id:
        return f"#{earlier.seq}"
    return f"#{earlier.seq} of {day(earlier.said_at)}"


def _find_contradictions(lines: Sequence[MemoryLine]) -> dict[Place, Message]:
    """The lines with a statement that begins like an earlier one and says otherwise."""
    found: dict[Place, Message] = {}
    said: dict[tuple[object, ...], tuple[str, Message]] = {}
    for line in lines:
        speaker = _speaker(line)
        for opening, sentence in line.values.openings.items():
            key = (speaker, opening)
            before = said.get(key)
            if before is not None and contradicts(sentence, before[0]):
                found[line.place] = before[1]
            said[key] = (sentence, line.message)
    return found


def _speaker(line: MemoryLine) -> tuple[str, str | None]:
    return line.message.whose, line.message.name


class _WordFrequency:
    """How many lines have a word."""

    def __init__(self, lines: Sequence[MemoryLine], sought: Collection[str]) -> None:
        self._lines = lines
        self._sought = frozenset(sought)
        # The pair itself has the word.
        self._most = min(_MOST_RARE, max(2, len(lines) * _RARE_SHARE))

    def find_fewest(self, shared: Collection[str]) -> int:
        """The fewest shared words that make two values values of one thing."""
        if len(self._lines) < _FEW_LINES or len(self._sought.intersection(shared)) < _FEWEST_SOUGHT:
            return _FEWEST_SHARED + 1
        return _FEWEST_SHARED

    def is_rare(self, word: str) -> bool:
        return word in self._sought or self._counts[word[:_KEY]] <= self._most

    @cached_property
    def _counts(self) -> Counter[str]:
        # Needed only for the few pairs whose values differ.
        return Counter(word for line in self._lines for word in {each[:_KEY] for each in split_words(line.text)})


def _gives_newer(earlier: MemoryLine, later: MemoryLine, frequency: _WordFrequency) -> bool:
    for sentence in later.values.sentences:
        for before in earlier.values.sentences:
            pairs = list(_pair_values(sentence, before))
            # With two amounts that differ, each belongs to the other: 80 % of 5 questions, 85 % of 8.
            is_single = sum(value.kind == "amount" for value, _ in pairs) < 2
            if is_single and any(_is_newer(value, sentence, old, before, frequency) for value, old in pairs):
                return True
    return False


def _pair_values(later: ValuedSentence, earlier: ValuedSentence) -> Iterator[tuple[SentenceValue, SentenceValue]]:
    """The values of the same kind that differ, and whose units have a word in common."""
    for value in later.values:
        for old in earlier.values:
            if value.kind == old.kind and value.text != old.text and _shares_unit(value.unit, old.unit):
                yield value, old


def _shares_unit(unit: Sequence[str], other: Sequence[str]) -> bool:
    return not unit or any(_has_word(word, other) for word in unit)


def _is_same_unit(unit: Sequence[str], other: Sequence[str]) -> bool:
    return len(unit) == len(other) and all(is_same_form(*pair) for pair in zip(unit, other, strict=True))


def _is_newer(
    value: SentenceValue,
    later: ValuedSentence,
    old: SentenceValue,
    earlier: ValuedSentence,
    frequency: _WordFrequency,
) -> bool:
    names_both = not value.was and _names_both(value, later, old)
    # Comparing the words costs most, and most pairs differ in something else.
    if value.was:
        # A change from another value is another thing's.
        may_be_same = value.was == old.text
    else:
        may_be_same = names_both or (value.is_alone and old.is_alone and _is_same_unit(value.unit, old.unit))
    if not may_be_same:
        return False
    shared = _list_shared(value.around, old.around)
    # The word that is counted is no more than the kind: "problems" is shared by all problems.
    if len(value.unit) > 1:
        shared += _list_shared(value.unit[:-1], old.unit[:-1])
    rare = [word for word in shared if frequency.is_rare(word)]
    if value.was or names_both:
        is_same = len(rare) > 0
    else:
        is_same = len(rare) >= frequency.find_fewest(rare) or _is_same_statement(value, later, old, earlier)
    # What was yesterday is over, and another day has its own value: two runs, not two lengths of one run.
    return is_same and not (later.is_dated or earlier.is_dated)


def _names_both(value: SentenceValue, later: ValuedSentence, old: SentenceValue) -> bool:
    """Whether a sentence gives the old day or time beside the new one, and no other: "on the 8th, not on the 1st"."""
    # Two amounts of one sentence are often of two things: "3 winners out of 10".
    if value.kind == "amount" or later.is_question:
        return False
    return {each.text for each in later.values if each.kind == value.kind} == {value.text, old.text}


def _is_same_statement(
    value: SentenceValue, later: ValuedSentence, old: SentenceValue, earlier: ValuedSentence
) -> bool:
    """Whether two short sentences say the same but for their values."""
    if later.is_question or earlier.is_question or later.kinds != earlier.kinds:
        return False
    if not 0 < len(later.words) <= _SHORT_SENTENCE or len(later.words) != len(earlier.words):
        return False
    if not all(_has_word(word, earlier.words) for word in later.words):
        return False
    if value.kind == "amount":
        # A verb before an amount tells what was done: "ran 5 km". "The team has 5 people" says how it is.
        is_state = _follows_plain_word(value, later) and _follows_plain_word(old, earlier)
        return is_state and later.kinds == {"amount"}
    being = word_set("statements.being")
    return len(later.kinds) > 1 or not (being.isdisjoint(later.plain_words) or being.isdisjoint(earlier.plain_words))


def _follows_plain_word(value: SentenceValue, sentence: ValuedSentence) -> bool:
    return value.after in sentence.plain_words and value.after not in word_set("statements.prepositions")


def _list_shared(words: Sequence[str], others: tuple[str, ...]) -> list[str]:
    """The words that the others have, too, but for their endings."""
    beginnings = _list_beginnings(others)
    return [word for word in words if begin_word(word) in beginnings and _has_word(word, others)]


@lru_cache(maxsize=1024)
def _list_beginnings(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(begin_word, words))


def _has_word(word: str, others: Collection[str]) -> bool:
    return word in others or any(is_same_form(word, other) for other in others)
