"""The signals of a ranking: what each row of a pool has to do with a question. Pure functions.

A first look weighs what a row has of itself. The second look adds what only a ranking shows: how good the best of its
session is, and how near in meaning is what followed. What only asks, or says nothing, is no measure for others: a
stored question has every word of its own.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from layerlore.memory.parts.search_words import split_words
from layerlore.memory.recall.pool import Flags, Floats, Ints, Pool
from layerlore.memory.settings.recall import RecallRules

# Cosines closer than this are equal.
_NO_DIFFERENCE = 1e-6
_MONTHS = frozenset(
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
# The best match by words counts as having at least this share of the question. Where a stray word is all that was
# found, meaning decides.
_LEAST_SHARE = 0.5
# What a word counts that only the messages around a short one have.
_CONTEXT_WORD = 0.5
# Of a message with fewer content words a question is nothing more; with more of them it also tells.
_SHORT_QUESTION = 10
_LONG_QUESTION = 30
# From here on a row hardly tells anything.
_QUIET_ASKS, _QUIET_EMPTY = 0.8, 0.5
# From here on a row is the question itself: what answered it stands for it.
_THE_SAME = 0.7
# The first look: what makes a session good. The formula that the weights were fitted from.
_FIRST_LOOK = {"lexical": 1.0, "context": 1.0, "semantic": 0.5, "speaker": 0.4, "role": 0.3}


@dataclass(frozen=True, slots=True)
class Question:
    """A query as the rows of a pool answer it. ``has``: for each word, which rows have it; ``weights``: its idf;
    ``cosines`` of the rows, NaN where one has no vector, or None where none serve. ``semantic_weight`` and ``squeezed``
    are the embedder's: cosines of some models fill only a part of their range, so only their order counts."""

    words: tuple[str, ...]
    weights: Floats
    has: Flags
    cosines: Floats | None = None
    semantic_weight: float = 0.5
    squeezed: bool = False


@dataclass(frozen=True, slots=True)
class Signals:
    """``by_name``: for each signal its value by row, in most cases from 0 to 1:

    - ``lexical``: the share of the question's words, by idf, that the row has, of the best row's share;
    - ``context``: the same of words that only messages around a short one have;
    - ``semantic``: its cosine as a share of the largest;
    - ``speaker``: said by the one speaker whom the question names;
    - ``role``: said by the user to an assistant, or an entry or a note;
    - ``asks``, ``empty``: how far it only asks, or says nothing;
    - ``same``: how far it asks the same as the question;
    - ``answers``: how far the message before it asks;
    - ``answered``: how far the message before it asks the same as the question, for which it stands;
    - ``followed``: the nearness in meaning of the message after it;
    - ``session``: the first look at the best of its session.

    ``found``: the candidates that share a word or a meaning with the question and are not the question itself, and what
    answered that; ``context_has``: the words that a row
    owes to its context; ``coverage``: the share of the question's words that it has, by idf, those of its context in
    part; ``tells``: neither a short question nor an answer that says nothing."""

    by_name: dict[str, Floats]
    found: Flags
    context_has: Flags
    coverage: Floats
    tells: Flags


def measure_signals(pool: Pool, candidates: Flags, question: Question, rules: RecallRules) -> Signals:
    """Measure what each row of the pool has to do with the question."""
    long = (pool.content_words - _SHORT_QUESTION) / (_LONG_QUESTION - _SHORT_QUESTION)
    asks = pool.asks * np.clip(1.0 - long, 0.0, 1.0)
    tells = ((asks < _QUIET_ASKS) & (pool.empty < _QUIET_EMPTY)) | pool.entries | pool.notes
    measures = candidates & tells if (candidates & tells).any() else candidates
    context_has = _find_context(pool, question, rules)
    own, around = _weigh(question, question.has), _CONTEXT_WORD * _weigh(question, context_has)
    asked = float(question.weights.sum())
    reference = max(float((own + around)[measures].max(initial=0.0)), _LEAST_SHARE * asked) or 1.0
    semantic = _compare_meaning(question, candidates, measures)
    same = asks * _find_sameness(pool, question, semantic)
    by_name = {
        "lexical": np.minimum(own / reference, 1.0),
        "context": np.minimum(around / reference, 1.0),
        "semantic": semantic,
        "speaker": _find_named_speaker(pool, question.words).astype(np.float64),
        "role": np.where(pool.entries | pool.notes, 1.0, (pool.by_user & pool.in_dialogue) * (1.0 - asks)),
        "asks": asks,
        "empty": pool.empty,
        "same": same,
        "answers": _take(asks, pool.beside[1]),
        "answered": _take(np.where(candidates, same, 0.0), pool.beside[1]) * (1.0 - pool.empty),
        "followed": _take(semantic, pool.beside[2]),
    }
    found = candidates & (by_name["lexical"] + by_name["context"] + semantic > 0) & (same < _THE_SAME)
    found |= by_name["answered"] >= _THE_SAME
    first = sum((weight * by_name[name] for name, weight in _FIRST_LOOK.items()), np.zeros(len(pool)))
    by_name["session"] = _best_in_group(pool.sessions, first, found & tells)
    return Signals(by_name, found, context_has, (own + around) / (asked or 1.0), tells)


def _take(values: Floats, at: Ints) -> Floats:
    """The values at these rows, 0 where there is none (-1)."""
    return np.where(at >= 0, values[at], 0.0) if len(values) else values


def _find_sameness(pool: Pool, question: Question, semantic: Floats) -> Floats:
    """How far each row has the question's words, and no others, and means the same; 0 where it is half so."""
    has = question.has.sum(axis=0)
    covered = has / max(len(question.words), 1)
    filled = np.minimum(1.0, has / np.maximum(pool.content_words, 1))
    if question.cosines is None:
        near = np.ones(len(pool))
    elif question.squeezed:
        near = semantic
    else:
        near = np.clip(np.nan_to_num(question.cosines, nan=1.0), 0.0, 1.0)
    return np.asarray(np.clip(2 * covered * filled * near - 1, 0.0, 1.0), np.float64)


def _weigh(question: Question, has: Flags) -> Floats:
    """For each row the summed idf of its words, in a fixed order: equal rows get equal sums to the last bit."""
    total = np.zeros(has.shape[1])
    for at in np.argsort(np.array(question.words)):
        total += question.weights[at] * has[at]
    return total


def _find_context(pool: Pool, question: Question, rules: RecallRules) -> Flags:
    """Which words a short message lacks and a short message around it has. A speaker's name or a date stands beside
    every message: no context."""
    short = pool.chars <= rules.context_chars
    fits = short & ~pool.in_dialogue
    names = {word for name in pool.names for word in split_words(name)}
    found = np.zeros_like(question.has)
    for at, word in enumerate(question.words):
        if _is_of_every_message(word, names):
            continue
        has = question.has[at]
        near = np.zeros(len(pool), np.bool_)
        for beside in pool.beside:
            near |= (beside >= 0) & (has & short)[beside]
        found[at] = near & ~has & fits
    return found


def _is_of_every_message(word: str, names: Collection[str]) -> bool:
    return word in names or word in _MONTHS or word.isdigit()


def _compare_meaning(question: Question, candidates: Flags, measures: Flags) -> Floats:
    """The nearness of each candidate in meaning, from 0 to 1: its cosine as a share of the largest of those that are a
    measure, or (squeezed) of the range of all of them."""
    if question.cosines is None:
        return np.zeros(question.has.shape[1])
    known = candidates & ~np.isnan(question.cosines)
    measured = known & measures if (known & measures).any() else known
    if not known.any():
        return np.zeros(len(known))
    lowest = float(question.cosines[known].min()) if question.squeezed else 0.0
    highest = float(question.cosines[measured].max())
    if highest - lowest < _NO_DIFFERENCE:
        return np.where(known, float(question.squeezed), 0.0)
    return np.where(known, np.clip((question.cosines - lowest) / (highest - lowest), 0.0, 1.0), 0.0)


def _find_named_speaker(pool: Pool, words: Collection[str]) -> Flags:
    """The rows of the one speaker whom the query names, however the name is written; of none if it names several."""
    sought = set(words)
    folded = [tuple(split_words(name)) for name in pool.names]
    named = {name for name in folded if sought.intersection(name)}
    if len(named) != 1:
        return np.zeros(len(pool), np.bool_)
    return np.isin(pool.speakers, [number for number, name in enumerate(folded) if name in named])


def _best_in_group(groups: Ints, scores: Floats, counted: Flags) -> Floats:
    """For each row the best score that a counted one of its group has, at least 0."""
    highest = np.zeros(len(groups) + 1)
    np.maximum.at(highest, groups[counted], scores[counted])
    return highest[groups]
