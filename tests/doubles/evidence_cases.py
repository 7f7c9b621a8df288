"""Entries with the words they quote, from conversations of many kinds and languages: faithful ones and invented ones.

Written before the gate of evidence, from the words alone. ``how`` an entry is invented: its ``quote`` stands nowhere, the
words are of another ``role``, they are only a ``question``, or its names and numbers are ``twisted``: these are kept with
marks (``unproven``), and the others are refused.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

How = Literal["quote", "role", "question", "twisted"]
_LABELS = {
    "user": "user_assertion",
    "accepted": "user_accepted_assistant_proposal",
    "found": "verified_assistant_finding",
}


@dataclass(frozen=True, slots=True)
class EvidenceCase:
    """An entry and its evidence. ``messages``: the role and the text of each message; ``how``: None for a faithful entry."""

    talk: str
    language: str
    messages: tuple[tuple[str, str], ...]
    label: str
    entry: str
    evidence: tuple[str, ...]
    how: How | None = None
    unproven: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.language}: {self.entry}"


def _read() -> list[EvidenceCase]:
    found: list[EvidenceCase] = []
    for talk in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")):
        messages = tuple((role, text) for role, text in talk["messages"])
        rows: list[tuple[How | None, list[Any]]] = [(None, row) for row in talk["faithful"]]
        rows += [(row[0], row[1:]) for row in talk["invented"]]
        for how, (label, entry, evidence, *marks) in rows:
            quotes = (evidence,) if isinstance(evidence, str) else tuple(evidence)
            unproven = tuple(marks[0]) if marks else ()
            case = EvidenceCase(talk["talk"], talk["language"], messages, _LABELS[label], entry, quotes, how, unproven)
            found.append(case)
    return found


EVIDENCE_CASES: list[EvidenceCase] = _read()
