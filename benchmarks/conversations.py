"""Conversation sets: files of people's (or a person's and an assistant's) conversations, with questions about them.

README.md shows the shape of a file. Nothing of a set is kept here.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What one call of add_messages takes, and well below the longest line that the server reads.
MESSAGES_PER_CALL = 100
CHARACTERS_PER_CALL = 500_000

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """``evidence`` are the ids of the messages that hold the answer; none only where every question is read. ``answer`` is
    the set's own ("" where it has none), ``asked_at`` the day on which the set says that it is asked."""

    text: str
    category: str
    evidence: frozenset[str]
    answer: str = ""
    asked_at: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation: its threads, each a name and messages as ``add_messages`` takes them, and its questions."""

    id: str
    threads: list[tuple[str, list[Json]]]
    questions: list[Question]

    @property
    def message_count(self) -> int:
        return sum(len(messages) for _, messages in self.threads)


def read_set(path: Path, *, every_question: bool = False) -> list[Conversation]:
    """The conversations of one file; questions without evidence are left out unless every question is wanted."""
    sets = json.loads(path.read_text(encoding="utf-8"))
    return [_conversation(raw, every_question=every_question) for raw in sets]


def drawn_questions(questions: list[Question], most: int | None) -> list[Question]:
    """At most ``most`` of the questions (None: all), drawn by a seed, in their order."""
    if most is None or most >= len(questions):
        return questions
    kept = random.Random(0).sample(range(len(questions)), most)
    return [questions[at] for at in sorted(kept)]


def batches(messages: list[Json]) -> Iterator[list[Json]]:
    """The messages, in order, in as many calls as they need."""
    batch: list[Json] = []
    size = 0
    for message in messages:
        length = len(message["content"])
        # A message that is longer than a call may be gets a call of its own.
        if batch and (len(batch) == MESSAGES_PER_CALL or size + length > CHARACTERS_PER_CALL):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += length
    if batch:
        yield batch


def _conversation(raw: Json, *, every_question: bool) -> Conversation:
    name = str(raw["id"])
    threads = [
        (f"{name}/{session['id']}", [_message(name, session, turn) for turn in session["turns"]])
        for session in raw["sessions"]
    ]
    questions = [
        Question(
            question["question"],
            str(question["category"]),
            frozenset(_id(name, turn) for turn in question["evidence"]),
            str(question.get("answer") or ""),
            str(question.get("date") or ""),
        )
        for question in raw["questions"]
        if question["evidence"] or every_question
    ]
    return Conversation(name, threads, questions)


def _message(conversation: str, session: Json, turn: Json) -> Json:
    message = {
        "id": _id(conversation, turn["id"]),
        "role": turn.get("role") or "user",
        "name": turn["speaker"],
        "content": turn["text"],
    }
    # Sets date their sessions or each turn; a turn's own date is more exact.
    said_at = turn.get("date") or session.get("date")
    if said_at:
        message["created_at"] = said_at
    if turn.get("caption"):
        # The text stays the message's content: that is what the evidence of a question is looked for in.
        message["images"] = [{"type": "image", "caption": turn["caption"]}]
    return message


def _id(conversation: str, turn: str) -> str:
    return f"{conversation}/{turn}"
