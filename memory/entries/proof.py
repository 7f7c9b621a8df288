"""The gate of evidence: whether the words that are quoted for an entry stand where they may.

A quotation must stand word for word in a message of a role that the label allows, have a content word, and be more than
a question. Nothing else refuses an entry. Its names and numbers that no quotation contains are marked as unproven.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from layerlore.memory.entries.evidence import (
    ROLES_OF,
    EvidenceSpan,
    EvidenceText,
    Label,
    find_places,
    rests_on_others,
)
from layerlore.memory.entries.unproven import list_unproven
from layerlore.memory.parts.search_words import find_names, find_stop_words, split_words
from layerlore.memory.parts.speech_acts import find_question, find_sentences, fold_sentence
from layerlore.storage.core import linear_re

ACCEPTED: Label = "user_accepted_assistant_proposal"

# A wish in the shape of a question: it says what the user wants from now on.
_WISH = linear_re.compile(
    r"\b(?:can|could|would|will) you\b(?=.*\b(?:please|always|never|from now on|in (?:the )?future|stop|remember|keep in mind|note that|call me|avoid|make sure|only|instead)\b)"
    r"|\bwould you mind\b|\b(?:kannst|könntest|würdest) du\b(?=.*\b(?:bitte|immer|nie|ab jetzt|künftig|in zukunft|merk\w*|nur|aufhören)\b)|\b(?:können|könnten|würden) sie\b(?=.*\b(?:bitte|immer|nie|künftig|nur)\b)"
    r"|\b(?:peux-tu|pourrais-tu|tu peux|tu pourrais|pouvez-vous|pourriez-vous)\b(?=.*\b(?:toujours|jamais|désormais|plus|arrêter|retenir|noter|s'il)\b)"
    r"|\b(?:puedes|podrías|puede|podría)\b(?=.*\b(?:siempre|nunca|por favor|recordar|dejar de|a partir)\b)|\b(?:puoi|potresti|può|potrebbe)\b(?=.*\b(?:sempre|mai|per favore|ricordare|smettere|d'ora)\b)"
    r"|\b(?:pode|poderia|podes|podias)\b(?=.*\b(?:sempre|nunca|por favor|lembrar|parar)\b)|\b(?:kun|kan|zou|wil) (?:je|u)\b(?=.*\b(?:altijd|nooit|voortaan|alsjeblieft|onthouden|stoppen)\b)"
    r"|\b(?:możesz|mógłbyś|mogłabyś)\b(?=.*\b(?:zawsze|nigdy|proszę|pamiętać)\b)|\b(?:можешь|можете|мог бы|могли бы)\b(?=.*\b(?:всегда|никогда|пожалуйста|запомнить|перестать)\b)"
)
# After such a word a question gives its reason, which is stated.
_REASON = linear_re.compile(
    r"\b(?:since|because|given that|seeing that|weil|da ich|denn|parce que|car|puisque|porque|ya que|perché|poiché"
    r"|omdat|bo|ponieważ|потому что|так как)\b|因为|なので"
)


@dataclass(frozen=True, slots=True)
class EvidenceRefused:
    """Why a quotation is not accepted. ``reason`` says what would be, without a word of the entry or the message; ``at``:
    the number of the quotation."""

    rule: Literal["found", "content", "asks"]
    reason: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class Proof:
    """The places of an entry's quotations, each once; and its names and numbers that none of them contains."""

    spans: tuple[EvidenceSpan, ...]
    unproven: tuple[str, ...] = ()


def list_quotations(evidence: str | Sequence[str]) -> list[str]:
    """The quotations that were given, without empty ones."""
    given = [evidence] if isinstance(evidence, str) else evidence
    return [quote for quote in given if quote.strip()]


def prove(
    content: str, quotations: Sequence[str], label: Label, said: Sequence[EvidenceText]
) -> Proof | EvidenceRefused:
    """Find where each quotation stands; else why one of them is refused."""
    if not quotations:
        return _find_nothing(label)
    spans: list[EvidenceSpan] = []
    texts: list[str] = []
    for at, quotation in enumerate(quotations):
        found = _find_accepted(quotation, label, said)
        if isinstance(found, EvidenceRefused):
            return replace(found, at=at)
        message, span = found
        if span not in spans:
            spans.append(span)
        texts.append(message.text[span.starts : span.ends])
        if label == ACCEPTED:
            # The user's yes is about what the assistant proposed.
            texts.append(message.before)
    return Proof(tuple(spans), tuple(list_unproven(content, texts)))


def _find_accepted(
    quotation: str, label: Label, said: Sequence[EvidenceText]
) -> tuple[EvidenceText, EvidenceSpan] | EvidenceRefused:
    """The first place where the quotation stands and is accepted; else why the last one is not."""
    refused = _find_nothing(label)
    for message, span in find_places(quotation, label, said):
        quoted = message.text[span.starts : span.ends]
        is_answer = label == ACCEPTED and quoted.strip() == message.text.strip()
        if not is_answer and not has_content(quoted):
            refused = EvidenceRefused("content", "has only words such as 'the' or 'it': quote the words that say it")
        elif only_asks(message.text, span.starts, span.ends):
            refused = EvidenceRefused(
                "asks", "only asks, which states nothing: quote where it is stated, or the answer"
            )
        else:
            return message, span
    return refused


def _find_nothing(label: Label) -> EvidenceRefused:
    whose = " or ".join(ROLES_OF[label])
    return EvidenceRefused("found", f"stands word for word in none of the {whose} messages: quote one of them exactly")


def has_content(text: str) -> bool:
    """Whether a text has a word that is no function word of its language."""
    words = split_words(text)
    names = find_names(text)
    function_words = find_stop_words([word for word in words if word not in names]) - names
    return any(word not in function_words for word in words)


def only_asks(text: str, starts: int, ends: int) -> bool:
    """Whether all that stands from ``starts`` to ``ends`` of a text belongs to questions."""
    asks = False
    for begin, end in find_sentences(text):
        if end <= starts or ends <= begin:
            continue
        asks_from = _find_question(text[begin:end])
        stated_to = end if asks_from < 0 else begin + asks_from
        if has_content(text[max(begin, starts) : max(starts, min(stated_to, ends))]):
            return False
        reason = _REASON.search(fold_sentence(text[begin:end])) if asks_from >= 0 else None
        if reason and begin + reason.start() <= max(begin, starts) + len("because "):
            return False
        asks = asks or asks_from >= 0
    return asks


def _find_question(sentence: str) -> int:
    """The place in a sentence at which its question begins; -1 if it asks nothing, or is a wish in the shape of a question."""
    if _WISH.search(fold_sentence(sentence)):
        return -1
    # After a full stop only a request asks, as after an exclamation mark: "Did that yesterday." states.
    stated = sentence.endswith(".")
    return find_question(f"{sentence[:-1]}!" if stated else sentence)


def link_replies(said: Sequence[EvidenceText]) -> list[EvidenceText]:
    """The texts of a conversation in order, each of a user's with the assistant's that it answers."""
    found: list[EvidenceText] = []
    for message in sorted(said, key=lambda each: each.seq):
        answered = found[-1].text if found and found[-1].role == "assistant" and message.role == "user" else ""
        found.append(replace(message, before=answered))
    return found


def is_retold(content: str, label: Label, said: Sequence[EvidenceText]) -> bool:
    """Whether an entry that is attributed to the user says what others said: it is then trusted as theirs."""
    if label != "user_assertion":
        return False
    own = [each.text for each in said if each.role == "user"]
    return rests_on_others(content, own, [each.text for each in said if each.role != "user"])
