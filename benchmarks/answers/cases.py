"""Cases: a question, the context that one way of showing gives for it, and later the reply and the judges' verdicts.

A file of cases has one JSON object a line, so that a run can be read or judged again.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from benchmarks.conversations import Conversation, Question
from benchmarks.evidence import Evidence

ORDER = "order"
LIST = "list"
DATE = "date"
ASSISTANT = "assistant-said"
SINGLE = "single"
FALSE_PREMISE = "false premise"
KINDS = (ORDER, LIST, DATE, ASSISTANT, SINGLE, FALSE_PREMISE)

# Categories of the sets whose questions ask about something that the conversation does not hold.
FALSE_PREMISE_CATEGORIES = ("5", "abstention", "Memory Boundary")

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
    shows, ``all_found`` and ``in_order`` whether it shows all of them, and these in time order; None without gold turns.
    ``verdicts`` are those of the judges in the order in which they were named."""

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
    verdicts: list[bool] = field(default_factory=list)

    @property
    def right(self) -> float:
        """The share of the judges that call the reply right."""
        return sum(self.verdicts) / len(self.verdicts)


def kind_of(question: Question, roles: Mapping[str, str], false_premise: Iterable[str]) -> str:
    """The kind of a question, from its category, its words, and the speakers (``roles`` by message id) of its evidence."""
    category = question.category
    spoken = {roles.get(name) for name in question.evidence}
    if category in false_premise:
        return FALSE_PREMISE
    if category == "event_ordering" or _ORDER_WORDS.search(question.text):
        return ORDER
    if "temporal" in category or _DATE_WORDS.search(question.text):
        return DATE
    if spoken == {"assistant"} or category == "single-session-assistant":
        return ASSISTANT
    return LIST if len(question.evidence) > 1 else SINGLE


def with_evidence(case: Case, question: Question, conversation: Conversation) -> Case:
    """The case with what its context shows of the gold turns."""
    if not question.evidence:
        return case
    places = _places(question, conversation, case.context)
    shown = [place for place in places if place >= 0]
    complete = len(shown) == len(places)
    return replace(
        case,
        found=len(shown) / len(places),
        all_found=complete,
        in_order=complete and shown == sorted(shown),
    )


def gold_messages(question: Question, conversation: Conversation) -> list[dict[str, str]]:
    """The messages of a question's evidence, oldest first."""
    messages = [
        message for _, thread in conversation.threads for message in thread if message["id"] in question.evidence
    ]
    return sorted(messages, key=lambda message: str(message.get("created_at", "")))


def _places(question: Question, conversation: Conversation, context: str) -> list[int]:
    """Where each gold turn stands in the context, oldest turn first; -1 for one that is not shown or is no message."""
    gold = gold_messages(question, conversation)
    places: list[int] = []
    for message in gold:
        alone = replace(question, evidence=frozenset({message["id"]}))
        places += Evidence(alone, {message["id"]: message["content"]}).places_in(context)
    return places + [-1] * (len(question.evidence) - len(gold))


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
