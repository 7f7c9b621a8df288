"""Of whom something is said: of the speaker, of somebody else, or by somebody else."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import regex

from layerlore.memory.entries.claim import EntryClaim, EvidenceRefused, Shared, list_carrying
from layerlore.memory.entries.claim_signs import FIRST_PERSON, OTHERS_OWN
from layerlore.memory.entries.claim_words import FILLERS, PERSONS, is_one_of
from layerlore.memory.entries.clauses import Clause
from layerlore.memory.entries.evidence import EvidenceText
from layerlore.memory.entries.telling_words import TellingWord, list_telling
from layerlore.memory.parts.search_words import find_stop_words, split_words
from layerlore.memory.parts.speech_acts import fold_sentence

_USER = "user users user's benutzer* nutzer* utilisat* usuari* utente gebruiker uzytkown* kullanici пользовател* 用户"
_THIRD_PERSON = regex.compile(
    r"^\W*(?P<who>\p{Lu}[\p{L}'-]+)(?:'s \p{L}+)? (?:is|was|has|had|will|said|\p{L}{3,}ed|lives|likes|works|wants|says|owns|prefers|needs|uses|hates|loves|runs|pays|allows|ist|hat|war|wird|wohnt|mag|will|est|a|habite|es|ha|vive|è|mora|woont|heeft)\b"
)
_SECOND_PERSON = regex.compile(
    r"\b(?:you|your|you're|you've|du|dich|dir|dein\w*|sie|ihr\w*|tu|te|ton|ta|tes|vous|votre|tú|tus?|usted|lei|tuo|tua|você|seu|sua|je|jij|jouw|uw|ty|twój|twoj\w*|ты|вы|тебя|вас|вам|sen|siz)\b|你|您|あなた|당신"
)
_OF_MYSELF = regex.compile(
    r"^\W*(?:i|i['’]\p{L}+|my|ich|mein\w*|je|j['’]\p{L}+|mon|ma|mes|yo|mi|mis|io|mio|mia|eu|meu|minha|ik|mijn|я|мо[йяеи])\b",
    regex.IGNORECASE,
)
_THIS_PROJECT = regex.compile(
    r"\b(?:this|these|our) (?:projects?|repo(?:sitor(?:y|ies))?s?|code ?base|code|branch|package|service|app|module)\b"
    r"|\b(?:dies\w*|unser\w*|ce|notre|est[ae]|nuestr[oa]) (?:projekt\w*|repo\w*|projet|dépôt|proyecto|código)\b",
    regex.IGNORECASE,
)
# What may stand in front of a clause and joins it to the one before.
_JOINING = regex.compile(r"^\W*(?:(?:and|but|also|well|so|und|aber|et|mais|y|pero|e|ma|mas|en|maar|ale|и|а|но)\s+)*")
_OF_SOMEBODY_ELSE = EvidenceRefused(
    "person", "the quoted message says it of somebody else: name whom it is about, as the message does"
)


def tells_of_user(content: str, kind: str = "") -> bool:
    """Whether a note to keep is about the user, whatever project it came up in: what the user prefers, or what it says of
    the user or in the first person. What a decision is about, or this project, is the project's."""
    if kind == "decision" or _THIS_PROJECT.search(content):
        return False
    return kind == "preference" or bool(
        _OF_MYSELF.search(content) or any(is_one_of(word, _USER) for word in split_words(content)[:3])
    )


def name_speaker(
    content: str, words: Sequence[TellingWord], message: EvidenceText, told: Sequence[Clause]
) -> Iterator[TellingWord]:
    """The name by which an entry calls who spoke, or was spoken to: it begins the entry, or follows the word user."""
    sign = FIRST_PERSON if message.role == "user" else _SECOND_PERSON
    meant = sign.search(fold_sentence(message.text)) is not None or (
        message.role == "user"
        and not any(_THIRD_PERSON.search(message.text[each.begin : each.end]) for each in told if not each.answered)
    )
    if not meant or not words:
        return
    yield from _name_owner(content, words, message)
    begins = regex.match(r"\W*(?:(?:[Tt]he )?[Uu]ser,? \(?)?", content).end()  # type: ignore[union-attr]
    for word in words:
        gap = content[begins : word.at]
        if gap.strip(" (") or not word.text[:1].isupper() or any(each.states(word, None) for each in told):
            return
        yield word
        begins = word.at + len(word.text)


def _name_owner(content: str, words: Sequence[TellingWord], message: EvidenceText) -> Iterator[TellingWord]:
    """The name whose something is what a user calls his own: *Ana's uncle* for *my uncle*."""
    if message.role != "user":
        return
    own = {piece for found in OTHERS_OWN.findall(fold_sentence(message.text)) for piece in split_words(found)}
    for word in words:
        after = regex.match(r"['’]s?\s+(\p{L}+)", content[word.at + len(word.text) :])
        if word.kind == "name" and after and own.intersection(split_words(after[1])):
            yield word


def check_person(
    claim: EntryClaim, shared: Shared, told: Sequence[Clause], message: EvidenceText
) -> EvidenceRefused | None:
    """Whether what somebody else does is said of the speaker."""
    folded = split_words(claim.content)
    first = next(iter(list_telling(claim.content)), None)
    carrying = list_carrying(shared)
    about_user = claim.of_user or any(is_one_of(word, _USER) for word in folded[:3])
    if _is_of_kin(carrying, folded) and not _is_named(first, told):
        return _OF_SOMEBODY_ELSE
    if _only_cited(carrying) and any(FIRST_PERSON.search(each.text) for each in carrying):
        who = {word.key for each in told for word in each.telling if word.text[:1].isupper() and not each.answered}
        if about_user or first is None or first.key not in _find_citing(message.text, carrying, who):
            return replace(
                _OF_SOMEBODY_ELSE,
                reason="the quoted words are somebody else's, whom the message cites: name who said them",
            )
    if message.role != "user" or FIRST_PERSON.search(fold_sentence(message.text)):
        return None
    replaced = first is not None and first not in shared and first.text[:1].isupper()
    return _OF_SOMEBODY_ELSE if (about_user or replaced) and _tells_of_other(carrying, folded, message) else None


def _is_of_kin(carrying: Sequence[Clause], folded: Collection[str]) -> bool:
    """Whether a clause begins with a person whom the speaker calls his own (*my brother*), and whom the entry, by its
    folded words, does not name."""
    for clause in carrying:
        own = OTHERS_OWN.match(_JOINING.sub("", clause.text))
        for listed in PERSONS if own else ():
            of_kin = any(is_one_of(word, listed) for word in split_words(own[1]))  # type: ignore[index]
            if of_kin and not any(is_one_of(word, listed) for word in folded):
                return True
    return False


def _tells_of_other(carrying: Sequence[Clause], folded: Collection[str], message: EvidenceText) -> bool:
    """Whether a clause begins with a name, and tells what that one does, which the entry does not have."""
    function_words = find_stop_words(split_words(message.text))
    for clause in carrying:
        other = _THIRD_PERSON.search(message.text[clause.begin : clause.end]) if not clause.answered else None
        subject = "".join(split_words(other["who"])[:1]) if other else ""
        known = subject in folded or subject in function_words or is_one_of(subject, FILLERS)
        if other is not None and not known:
            return True
    return False


def _is_named(word: TellingWord | None, told: Sequence[Clause]) -> bool:
    """Whether a word of an entry stands as a name in what was said."""
    return word is not None and any(
        each.key == word.key and each.kind == "name" for clause in told for each in clause.telling
    )


def _only_cited(carrying: Sequence[Clause]) -> bool:
    return bool(carrying) and all(each.cited for each in carrying)


def _find_citing(text: str, carrying: Sequence[Clause], names: Collection[str]) -> set[str]:
    """The names of who may have said what is cited: those of the line, or else those before it."""
    begin = min(each.begin for each in carrying)
    line = text[text.rfind("\n", 0, begin) + 1 : begin]
    speaker = regex.match(
        r"\s*(?:\[[^\]]*\]\s*)?(\p{Lu}[\p{L}.'-]*)(?: \p{L}+)?:", text[text.rfind("\n", 0, begin) + 1 :]
    )
    if speaker:
        return set(split_words(speaker[1]))
    near = line if line.strip(' >"“„«') else text[:begin]
    return {word for word in split_words(near) if word in names}
