"""The rules of evidence: when the words of a message prove what an entry says.

One set of rules for whatever is kept: what callers ask to remember, what models make of a turn, lines of a profile. Each
refusal names its rule and what would be accepted, so that whoever wrote the entry can mend it. Only words are compared:
a rule refuses what they show to be unproven, and nothing that they leave open.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import regex

from layerlore.memory.entries.answers import begins_with_assent, dissents, is_answer
from layerlore.memory.entries.claim import EntryClaim, EvidenceRefused, Rule, Shared
from layerlore.memory.entries.claim_checks import check_crossed, check_deeds, check_signs, check_words
from layerlore.memory.entries.claim_signs import ALIKE
from layerlore.memory.entries.claim_words import FRAME, is_one_of
from layerlore.memory.entries.clauses import Clause, Meanings, Statement, is_settling, read_clauses
from layerlore.memory.entries.dates import is_dated
from layerlore.memory.entries.evidence import ROLES_OF, EvidenceSpan, EvidenceText, Label, find_places
from layerlore.memory.entries.persons import check_person, name_speaker
from layerlore.memory.entries.telling_words import TellingWord, list_telling
from layerlore.memory.parts.speech_acts import find_sentences, measure_speech_acts
from layerlore.memory.text.quotation import blank_blocks

FEWEST_TELLING = 2
"""So many telling words a quotation needs that is neither a whole message nor a whole sentence."""
SHORT_WORDS = 14
"""A message of so few words may answer the agent's before it, which then counts with it."""
_ASKED_CHARS = 600
_ASKED_SENTENCES = 3
_MOST_UNKNOWN = 0.5
# Of a longer message only so much on each side of what is quoted is looked at.
_LONG_CHARS = 2_000
_AROUND_CHARS = 700
_PARTING = regex.compile(r"[.!?。！？]\s|\n")
_RULES: tuple[Rule, ...] = (
    "found", "entry", "telling", "nothing", "asks", "words", "name", "number", "deed", "person", "crossed", "negation",
    "uncertain", "condition", "former", "intent",
)  # fmt: skip


def prove(
    content: str,
    evidence: str,
    label: Label,
    said: Sequence[EvidenceText],
    meanings: Meanings | None = None,
    *,
    of_user: bool = False,
) -> EvidenceSpan | EvidenceRefused:
    """Find where the evidence stands and proves the entry; else the refusal that came nearest to it. ``of_user``: the
    entry is a line about the user, though it does not say so."""
    places = find_places(evidence, label, said)
    return _prove_at(places, EntryClaim(content, of_user), label, meanings) or _find_nothing(label)


def prove_line(
    line: str, said: Sequence[EvidenceText], meanings: Meanings | None = None, *, known: str = ""
) -> EvidenceRefused | None:
    """Why no message proves a line about the user, beside what was ``known`` of the user before; None where one does."""
    claim = EntryClaim(line, of_user=True, known=known)
    found = _prove_at(_list_whole(said), claim, "user_assertion", meanings)
    if found is None:
        return EvidenceRefused("found", "no user says anything in the messages")
    return found if isinstance(found, EvidenceRefused) else None


def _list_whole(said: Sequence[EvidenceText]) -> Iterator[tuple[EvidenceText, EvidenceSpan]]:
    """All of each message, the newest first, without what stands in blocks that are named like ours."""
    for given in sorted(said, key=lambda each: -each.seq):
        message = replace(given, text=blank_blocks(given.text))
        yield message, EvidenceSpan(message.seq, message.revision, message.role, 0, len(message.text))


def _prove_at(
    places: Iterable[tuple[EvidenceText, EvidenceSpan]], claim: EntryClaim, label: Label, meanings: Meanings | None
) -> EvidenceSpan | EvidenceRefused | None:
    """The first of the places that proves the claim; else the refusal that came nearest to it; None without a place."""
    nearest: EvidenceRefused | None = None
    for message, span in places:
        refused = _judge(claim, message, span, label, meanings)
        if refused is None:
            return span
        if nearest is None or _RULES.index(refused.rule) > _RULES.index(nearest.rule):
            nearest = refused
    return nearest


def check_quotation(evidence: str, said: Sequence[EvidenceText]) -> EvidenceRefused | None:
    """Why a quotation of a user proves nothing, whatever it is to prove; None where it tells something."""
    refused: EvidenceRefused | None = None
    for message, span in find_places(evidence, "user_assertion", said):
        refused = _check_quotation(message, span, _read_statement(message, span, "user_assertion"))
        if refused is None:
            return None
    return refused or _find_nothing("user_assertion")


def _find_nothing(label: Label) -> EvidenceRefused:
    whose = " or ".join(ROLES_OF[label])
    return EvidenceRefused("found", f"stands word for word in none of the {whose} messages: quote one of them exactly")


def list_compared(content: str, evidence: str, label: Label, said: Sequence[EvidenceText]) -> list[TellingWord]:
    """The telling words whose meanings decide whether the evidence proves the entry."""
    found = list_telling(content)
    for message, span in find_places(evidence, label, said):
        for clause in _read_statement(message, span, label).told:
            found += clause.telling
    return found


def _judge(
    claim: EntryClaim, message: EvidenceText, span: EvidenceSpan, label: Label, meanings: Meanings | None
) -> EvidenceRefused | None:
    message, span = _narrow(message, span)
    statement = _drop_unanswered(_read_statement(message, span, label), claim, message, meanings)
    if claim.known:
        statement = replace(statement, known=[*statement.known, *read_clauses(claim.known)])
    told = statement.told
    refused = _check_quotation(message, span, statement)
    if refused is not None:
        return refused
    words = _list_claimed(claim, message, told)
    if not words:
        return EvidenceRefused("entry", "the entry says nothing that words could prove: say who or what it is about")
    shared = _find_shared(words, statement, message, meanings)
    words = [word for word in words if word in shared or not is_dated(claim, word, message)]
    if not claim.known and _count_own(shared, statement) < min(FEWEST_TELLING, len(words)):
        shared = {}
    missing = [word for word in words if word not in shared]
    return (
        check_words(claim, message, words, shared, missing, told, meanings)
        or check_deeds(missing, told)
        or check_person(claim, shared, told, message)
        or check_crossed(claim, shared, told)
        or check_signs(claim, shared, told, message)
    )


def _find_shared(
    words: Sequence[TellingWord], statement: Statement, message: EvidenceText, meanings: Meanings | None
) -> Shared:
    """The words that are stated, or said in words of another kind: what is denied, and what is settled by an answer."""
    told = statement.told
    stating = {word: statement.find_stating(word, meanings) for word in words}
    shared = {word: clauses for word, clauses in stating.items() if clauses}
    denied = [each for each in told if each.negated] if shared else []
    if dissents(message.text):
        denied += [each for each in told if each.answered]
    for word in words:
        if word in shared:
            continue
        # Never is forbidden, and what nobody can stand is disliked.
        if denied and word.kind == "word" and ALIKE.match(word.key):
            shared[word] = denied
        elif statement.asked_before and is_settling(word):
            shared[word] = list(statement.asked_before)
    return shared


def _narrow(message: EvidenceText, span: EvidenceSpan) -> tuple[EvidenceText, EvidenceSpan]:
    """Of a long message what stands around the quotation, from the beginning to the end of lines or sentences."""
    text = message.text
    if len(text) <= _LONG_CHARS:
        return message, span
    begin = max(0, span.starts - _AROUND_CHARS)
    end = min(len(text), span.ends + _AROUND_CHARS)
    if begin:
        parted = _PARTING.search(text, begin, span.starts)
        begin = parted.end() if parted else begin
    ends = [found.end() for found in _PARTING.finditer(text, span.ends, end)] if end < len(text) else []
    end = ends[-1] if ends else end
    cut = replace(span, starts=span.starts - begin, ends=span.ends - begin)
    return replace(message, text=text[begin:end]), cut


def _count_own(shared: Shared, statement: Statement) -> int:
    """How many of the words are stated by the message, or by what it answers, and not only beside it."""
    own = [*statement.clauses, *statement.asked_before]
    return sum(any(each in own for each in clauses) for clauses in shared.values())


def _read_statement(message: EvidenceText, span: EvidenceSpan, label: Label) -> Statement:
    """What the message says and, where it is a short answer quoted whole, what it answers; beside what the user
    said directly before it."""
    clauses = read_clauses(message.text)
    beside = [each for each in read_clauses(message.beside) if not each.asked]
    if not message.before:
        return Statement(clauses, known=beside)
    short = len(message.text.split()) <= SHORT_WORDS and _leaves_nothing_out(message, span)
    asked = _find_asked(message.before, proposed=label == "user_accepted_assistant_proposal") if short else ""
    return Statement(clauses, read_clauses(asked, answered=True) if asked else (), beside)


def _drop_unanswered(
    statement: Statement, claim: EntryClaim, message: EvidenceText, meanings: Meanings | None
) -> Statement:
    """Without the agent's words, where the message neither agrees, nor denies, nor says something of the entry."""
    if not statement.asked_before or is_answer(message.text) or begins_with_assent(message.text):
        return statement
    own = [each for each in statement.clauses if not each.asked]
    if any(each.states(word, meanings) for word in list_telling(claim.content) for each in own):
        return statement
    return replace(statement, asked_before=())


def _find_asked(before: str, *, proposed: bool) -> str:
    """What a short answer to an agent's message (``before``) is about: the last question of that message with the
    sentences directly before it, _ASKED_SENTENCES together; where it asks nothing and the answer accepts what is
    ``proposed``, its last _ASKED_CHARS characters; else ""."""
    sentences = list(find_sentences(before))
    asking = [at for at, (begin, end) in enumerate(sentences) if measure_speech_acts(before[begin:end]).asks > 0]
    if asking:
        first = max(0, asking[-1] + 1 - _ASKED_SENTENCES)
        return before[sentences[first][0] : sentences[asking[-1]][1]]
    return before[-_ASKED_CHARS:] if proposed else ""


def _leaves_nothing_out(message: EvidenceText, span: EvidenceSpan) -> bool:
    """Whether a quotation leaves out nothing that tells."""
    rest = f"{message.text[: span.starts]} {message.text[span.ends :]}"
    return not list_telling(rest)


def _check_quotation(message: EvidenceText, span: EvidenceSpan, statement: Statement) -> EvidenceRefused | None:
    quoted = message.text[span.starts : span.ends]
    telling = list_telling(quoted)
    if len(telling) < FEWEST_TELLING and not _is_whole(message, span, statement, telling):
        return EvidenceRefused(
            "telling",
            f"tells too little: quote at least {FEWEST_TELLING} telling words together, or the whole message",
        )
    clauses = statement.find_at(span.starts, span.ends)
    if any(each.asked for each in clauses) and not any(each.telling and not each.asked for each in clauses):
        return EvidenceRefused(
            "asks", "only asks, and a question proves nothing: quote where it is stated, or the answer to it"
        )
    sentence = _widen(message.text, span)
    if not statement.asked_before and measure_speech_acts(sentence).empty > _MOST_UNKNOWN:
        return EvidenceRefused("nothing", "says that something is not known, which proves nothing: quote what is known")
    return None


def _is_whole(message: EvidenceText, span: EvidenceSpan, statement: Statement, telling: Sequence[TellingWord]) -> bool:
    """Whether a quotation is all that the message, a sentence or a clause of it tells."""
    if statement.asked_before and (telling or is_answer(message.text)):
        return True
    if not telling:
        return False
    parts = [*find_sentences(message.text)]
    if len(message.text[span.starts : span.ends].split()) > 1:
        parts += [(each.begin, each.end) for each in statement.clauses]
    for begin, end in parts:
        if begin < span.ends and span.starts < end:
            outside = f"{message.text[begin : max(begin, span.starts)]} {message.text[min(end, span.ends) : end]}"
            if not list_telling(outside):
                return True
    return False


def _widen(text: str, span: EvidenceSpan) -> str:
    """The sentences in which a span stands."""
    return " ".join(text[begin:end] for begin, end in find_sentences(text) if begin < span.ends and span.starts < end)


def _list_claimed(claim: EntryClaim, message: EvidenceText, told: Sequence[Clause]) -> list[TellingWord]:
    """The telling words of an entry that must be stated: not who it is about, where that is the speaker."""
    content = _drop_label(claim.content) if claim.of_user else claim.content
    words = [word for word in list_telling(content) if word.kind != "word" or not is_one_of(word.key, FRAME)]
    seen = {word.key for word in name_speaker(content, words, message, told)}
    return [word for word in words if word.key not in seen and not seen.add(word.key)]  # type: ignore[func-returns-value]


def _drop_label(line: str) -> str:
    """A line of a document without the label before its value: ``Name: Ana`` states Ana."""
    label, parted, value = line.partition(":")
    return value if parted and len(list_telling(value)) and len(label.split()) <= _ASKED_SENTENCES else line


def link_replies(said: Sequence[EvidenceText]) -> list[EvidenceText]:
    """The texts of a conversation in order: each of a user's with the agent's before it, or with his own directly before
    it, and each of an agent's with the user's that it answers."""
    found: list[EvidenceText] = []
    of_turn: list[str] = []
    for message in sorted(said, key=lambda each: each.seq):
        before = ""
        if message.role == "user" and found and found[-1].role == "assistant":
            before, of_turn = found[-1].text, []
        found.append(replace(message, before=before, beside="\n".join(of_turn)))
        if message.role == "user":
            of_turn.append(message.text)
    return found
