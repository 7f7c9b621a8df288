"""The rules that compare an entry with what was said: its words, names, numbers and deeds, and whether it is so."""

from collections.abc import Collection, Iterable, Sequence

import regex

from layerlore.memory.entries.answers import begins_with_assent, dissents
from layerlore.memory.entries.claim import EntryClaim, EvidenceRefused, Rule, Shared, list_carrying
from layerlore.memory.entries.claim_signs import (
    ALIKE,
    CONDITIONED,
    DONE,
    HEDGE,
    INTENT,
    NEGATION,
    NOT_NEGATED,
    PAST,
)
from layerlore.memory.entries.claim_words import CONSENT, DECIDES, DEEDS, is_one_of
from layerlore.memory.entries.clauses import Clause, Meanings, is_deed, is_settling, read_clauses
from layerlore.memory.entries.evidence import EvidenceText
from layerlore.memory.entries.telling_words import TellingWord, is_same_word
from layerlore.memory.parts.search_words import find_stop_words, split_words
from layerlore.memory.parts.speech_acts import fold_sentence

FEWEST_SHARED = 2
"""So many of an entry's telling words must stand in the quoted message, unless it has fewer."""
SHARED = 0.5
"""Of an entry's telling words, names and numbers aside, so many must stand in the quoted message."""
SHARED_BESIDE_VALUES = 1 / 3
"""And so many where two names or numbers do."""
_CONTRAST = regex.compile(
    r"(?i)\b(?:rather than|instead of|over|not|and not|statt|anstatt|anstelle von|nicht|plutôt que|au lieu de|en lugar de|en vez de|invece di|em vez de|in plaats van|zamiast|вместо)\s+(?:the |a |an |use |using )?$"
)
_CONSENT_SAID = regex.compile(
    r"\b(?:yes|ok|okay|fine (?:with|by)|go ahead|signed? off|green ?light|lets?|can|may|free to|thumbs up|in ordnung|passt|darf\w*|kann\w*|d'accord|peut|peux|puede\w*|può|pode\w*|mag|mogen|można|może\w*|можно|может\w*)\b|可以|いいよ|いいです|してもいい|된다|돼"
)
_DECIDE_SAID = regex.compile(
    r"\b(?:let's|we'll|we will|i'll|going with|go with|went with|go for|settled|final|from now on|switch\w*|we use|we're using|it'll be|it will be|take|nehmen|wir machen|on prend|vamos con|andiamo con|we gaan|bierzemy|берём|берем)\b"
)


def check_words(
    claim: EntryClaim,
    message: EvidenceText,
    words: Sequence[TellingWord],
    shared: Collection[TellingWord],
    missing: Sequence[TellingWord],
    told: Sequence[Clause],
    meanings: Meanings | None,
) -> EvidenceRefused | None:
    """Whether enough of the entry's words, and all its names and numbers, are in the quoted message."""
    missing = [*missing, *_list_left_to_question(claim, message, shared, told, meanings)]
    for kind, rule in (("number", "number"), ("name", "name")):
        unstated = tuple(word.text for word in missing if word.kind == kind)
        if unstated:
            return EvidenceRefused(
                rule,  # type: ignore[arg-type]
                f"the quoted message does not have a {kind} of the entry: write only what it says, in its spelling, or "
                "quote the message that has it",
                unstated,
                mendable=kind == "name",
            )
    plain = [word for word in words if word.kind == "word"]
    stated = [word for word in plain if word in shared]
    exact = [word for word in shared if word.kind != "word"]
    least = SHARED_BESIDE_VALUES if len(exact) >= FEWEST_SHARED else SHARED
    unlike = meanings is None and len(exact) >= FEWEST_SHARED and _differ(claim, message)
    enough = unlike or len(stated) >= least * len(plain)
    if enough and len(shared) >= min(FEWEST_SHARED, len(words)):
        return None
    return EvidenceRefused(
        "words",
        "the quoted message shares too few of the entry's telling words: say it in the words and the language of the "
        "message, leave out what it does not say, or quote the message that says it",
        tuple(word.text for word in missing),
        mendable=True,
    )


def _list_left_to_question(
    claim: EntryClaim,
    message: EvidenceText,
    shared: Collection[TellingWord],
    told: Sequence[Clause],
    meanings: Meanings | None,
) -> list[TellingWord]:
    """The names and numbers that only the question has. An answer that says it in its own words says them itself."""
    own = [each for each in told if not each.answered]
    answers = len(own) < len(told) and any(each.telling for each in own)
    if not answers or begins_with_assent(message.text):
        return []
    exact = [word for word in shared if word.kind != "word"]
    unsaid = [word for word in exact if not any(each.states(word, meanings) for each in own)]
    return [word for word in unsaid if not _CONTRAST.search(claim.content[: word.at])]


def _differ(claim: EntryClaim, message: EvidenceText) -> bool:
    """Whether two texts are of different languages."""
    one, other = (find_stop_words(split_words(text)) for text in (claim.content, message.text))
    return one != other


def check_deeds(missing: Iterable[TellingWord], told: Sequence[Clause]) -> EvidenceRefused | None:
    answered = any(each.answered for each in told)
    said = " ".join(each.text for each in told)
    unsaid: list[str] = []
    for word in missing:
        if not is_deed(word) or (answered and is_settling(word)):
            continue
        if is_one_of(word.key, CONSENT) and _CONSENT_SAID.search(said):
            continue
        if is_one_of(word.key, DECIDES) and _DECIDE_SAID.search(said):
            continue
        unsaid.append(word.text)
    if not unsaid:
        return None
    return EvidenceRefused(
        "deed",
        "the entry says that somebody allowed, refused, decided, promised or paid something, and the quoted message has no "
        "word for that: say what it says, no more",
        tuple(unsaid),
    )


def check_crossed(claim: EntryClaim, shared: Shared, told: Sequence[Clause]) -> EvidenceRefused | None:
    """Whether the entry gives a number to what has another one in the message."""
    for part in read_clauses(claim.content):
        inside = [word for word in shared if part.begin <= word.at < part.end]
        for number in (word for word in inside if word.kind == "number"):
            # What else has the number in the message.
            rivals = [own for each in shared[number] for own in each.telling if own.kind != "number"]
            if all(_is_in(own, inside) for own in rivals):
                continue
            for word in inside:
                clauses = shared[word] if word.kind != "number" else []
                if clauses and all(each.numbers and each not in shared[number] for each in clauses):
                    return EvidenceRefused(
                        "crossed",
                        "the quoted message gives that number to something else: keep together what it says together",
                        (number.text, word.text),
                    )
    return None


def _is_in(word: TellingWord, words: Iterable[TellingWord]) -> bool:
    return any(each.key == word.key for each in words)


def check_signs(
    claim: EntryClaim, shared: Shared, told: Sequence[Clause], message: EvidenceText
) -> EvidenceRefused | None:
    """Whether the entry keeps what the message says of its own words: that they are not so, may be so, were so."""
    low = fold_sentence(claim.content)
    refused = _check_negation(low, shared, told, message)
    if refused is not None:
        return refused
    if _only_in(shared, "retracted"):
        return EvidenceRefused("uncertain", "the quoted message takes it back: quote what holds")
    for flag, keeps, reason in (
        ("hedged", HEDGE, "may be so: keep its maybe, might or probably"),
        ("former", PAST, "was so, and is no longer: say so"),
    ):
        if _only_in(shared, flag) and not keeps.search(low):
            rule: Rule = "uncertain" if flag == "hedged" else "former"
            return EvidenceRefused(rule, f"the quoted message says that it {reason}")
    if _only_in(shared, "conditional") and not (CONDITIONED.search(low) or HEDGE.search(low)):
        return EvidenceRefused("condition", "the quoted message says it on a condition: keep its if, when or unless")
    carrying = list_carrying(shared)
    meant = [each for each in carrying if not each.answered and (each.intended or _orders(each, shared))]
    if carrying and len(meant) == len(carrying) and DONE.search(low) and not INTENT.search(low):
        return EvidenceRefused("intent", "the quoted message says that it is to be done, not that it was: say so")
    return None


def _check_negation(low: str, shared: Shared, told: Sequence[Clause], message: EvidenceText) -> EvidenceRefused | None:
    """Whether an entry (``low``: folded) denies what the message denies, and nothing else."""
    denied = NEGATION.search(NOT_NEGATED.sub(" ", low)) is not None
    turned = dissents(message.text) and any(each.answered for each in told)
    if not denied:
        is_not_so = turned or _only_in(shared, "negated")
        if is_not_so and not _says_otherwise(low, told):
            return EvidenceRefused(
                "negation", "the quoted message says that it is not so: keep its not, never or without"
            )
        return None
    said = turned or any(each.negated for each in list_carrying(shared))
    if said or any(each.negated or ALIKE.search(each.text) for each in told):
        return None
    return EvidenceRefused("negation", "the entry denies what the quoted message says: leave out its not or never")


def _orders(clause: Clause, shared: Iterable[TellingWord]) -> bool:
    """Whether a clause begins with the verb of what an entry says was done: it asks for that, unless it is in the past."""
    first = regex.match(
        r"[\s\d.)*•–—-]*(?:\[.?\]\s*)?(?:(?:and|then|also|und|dann|et|y|e|en|i|и)\s+)?(\p{L}+)", clause.text
    )
    if first is None or first[1].endswith(("ed", "ung", "tion")):
        return False
    (begins,) = split_words(first[1])[:1] or ("",)
    return any(is_same_word(begins, word.key) and begins != word.key for word in shared if word.kind == "word") or (
        any(is_one_of(begins, listed) and is_one_of(word.key, listed) for listed in DEEDS for word in shared)
    )


def _says_otherwise(low: str, told: Sequence[Clause]) -> bool:
    """Whether an entry says in words of its own that something is not so: what a clause denies is no such word."""
    for found in ALIKE.finditer(low):
        word = "".join(split_words(regex.match(r"\p{L}*", low[found.start() :])[0]))  # type: ignore[index]
        if not any(each.negated and any(is_same_word(word, other) for other in each.words) for each in told):
            return True
    return False


def _only_in(shared: Shared, flag: str) -> bool:
    """Whether a word that is shared stands only in clauses of which that is true."""
    return any(all(getattr(each, flag) for each in clauses) for clauses in shared.values() if clauses)
