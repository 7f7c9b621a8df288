"""Cases: a question, the context that one way of showing gives for it, and later the reply and the judges' verdicts.

A file of cases has one JSON object a line, so that a run can be read or judged again.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from benchmarks.conversations import Conversation, Json, Question
from benchmarks.evidence import Evidence
from benchmarks.metrics import mean

ORDER = "order"
CHANGE = "change"
SUMMARY = "summary"
LIST = "list"
DATE = "date"
ASSISTANT = "assistant-said"
SINGLE = "single"
FALSE_PREMISE = "false premise"
KINDS = (ORDER, CHANGE, SUMMARY, LIST, DATE, ASSISTANT, SINGLE, FALSE_PREMISE)

# Categories of the sets whose questions ask about something that the conversation does not hold or says otherwise.
FALSE_PREMISE_CATEGORIES = ("5", "abstention", "Memory Boundary", "Memory Conflict")

# Categories whose questions ask about a value that changed.
_CHANGE_CATEGORIES = (
    "knowledge_update",
    "contradiction_resolution",
    "knowledge-update",
    "Dynamic Update",
    "track_full_preference_evolution",
)
_ORDER_WORDS = re.compile(
    r"\b(in (what|which) order|the order (in which|of)|in order[.?,]|chronological|sequence)", re.I
)
_DATE_WORDS = re.compile(
    r"\b(when (did|was|were|is|are|does|do|will|has|had)|(what|which) (date|day|week|month|year|time)"
    r"|how long|how many (days|weeks|months|years))\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Case:
    """``shown`` names the way of showing; judges never see it. ``found`` is the share of the gold turns that the context
    shows, ``all_found`` and ``in_order`` whether it shows all of them, and these oldest first; None without gold turns.
    ``verdicts`` are by the names of the judges. A reply or verdict is None while no call for it has succeeded."""

    set: str
    conversation: str
    question: str
    kind: str
    answer: str
    shown: str
    context: str
    tokens: int
    asked_at: str = ""
    found: float | None = None
    all_found: bool | None = None
    in_order: bool | None = None
    reply: str | None = None
    reader_tokens: int = 0
    verdicts: dict[str, bool | None] = field(default_factory=dict)
    judge_tokens: int = 0

    @property
    def decidable(self) -> bool:
        """Whether a judge could decide about a reply: some sets have questions without an answer."""
        return bool(self.answer) or self.kind == FALSE_PREMISE

    @property
    def decided(self) -> bool:
        """Whether every judge gave a verdict."""
        return bool(self.verdicts) and None not in self.verdicts.values()

    @property
    def right(self) -> float:
        """The share of the judges that call the reply right."""
        return mean(float(verdict is True) for verdict in self.verdicts.values())


def kind_of(question: Question, roles: Mapping[str, str], false_premise: Iterable[str]) -> str:
    """The kind of a question, from its category, its words, and the speakers (``roles`` by message id) of its evidence."""
    category = question.category
    spoken = {roles.get(name) for name in question.evidence}
    if category in false_premise:
        return FALSE_PREMISE
    if category == "event_ordering" or _ORDER_WORDS.search(question.text):
        return ORDER
    if category in _CHANGE_CATEGORIES:
        return CHANGE
    if category == "summarization":
        return SUMMARY
    if "temporal" in category or _DATE_WORDS.search(question.text):
        return DATE
    if spoken == {"assistant"} or category == "single-session-assistant":
        return ASSISTANT
    return LIST if len(question.evidence) > 1 else SINGLE


def gold_messages(question: Question, conversation: Conversation) -> list[Json]:
    """The messages of a question's evidence, oldest first."""
    messages = [
        message for _, thread in conversation.threads for message in thread if message["id"] in question.evidence
    ]
    return sorted(messages, key=lambda message: str(message.get("created_at", "")))


def gold_evidence(question: Question, gold: Sequence[Json]) -> Evidence | None:
    """The evidence of a question with its turns in the order of ``gold``; None of a question without evidence."""
    if not question.evidence:
        return None
    return Evidence(question, {message["id"]: message["content"] for message in gold})


def with_evidence(case: Case, evidence: Evidence | None) -> Case:
    """The case with what its context shows of the gold turns, which ``evidence`` has oldest first."""
    if evidence is None:
        return case
    places = evidence.places_in(case.context)
    shown = [place for place in places if place >= 0]
    complete = len(shown) == len(places)
    return replace(
        case,
        found=len(shown) / len(places),
        all_found=complete,
        in_order=complete and shown == sorted(shown),
    )


def write_cases(path: Path, cases: Sequence[Case]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(asdict(case), ensure_ascii=False) for case in cases]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_cases(paths: Iterable[Path]) -> list[Case]:
    cases: list[Case] = []
    for path in paths:
        # Texts may hold line separators that splitlines would break at.
        lines = path.read_text(encoding="utf-8").split("\n")
        cases += [Case(**json.loads(line)) for line in lines if line]
    return cases
