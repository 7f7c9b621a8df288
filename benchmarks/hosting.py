"""Plays a host that lives with a memory server: asks before anything is stored, stores questions and answers, asks again.

Every question begins a thread of its own, in one conversation's resource.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from benchmarks.asking import vectors_complete
from benchmarks.conversations import Conversation, Json, Question
from benchmarks.evidence import Evidence, texts_of
from benchmarks.servers import Connection, ToolFailed
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.recall.recall_text import NEWEST, NOTHING, NOTHING_YET, UNSURE

RECALL = "recall_memory"
CONTEXT = "get_context"
# What the tools are asked for where nothing else is said: of a recall its own default, which is not sent.
RECALL_TOKENS = 1_500
CONTEXT_TOKENS = 4_000

BEFORE = "before"
STORED = "stored"
AFTER = "after"

NO_ANSWER = "none"
NOT_SURE = "not sure"

# The preamble, that nothing was said on a day, and that it is unsure whether the hits are about it.
_OPENING_LINES = 3

# {asked} is the question as a part of a sentence, {question} as it was asked.
_NOT_SURE = (
    "I'm not sure {asked}.",
    "I don't know {asked}, sorry.",
    "I looked, but I can't say {asked}.",
    "I cannot say for certain {asked}; you may have to remind me.",
    "Let me check {asked}. I'll come back to you.",
    'There is nothing in what I know that answers "{question}"',
    "I don't have that information.",
    "Hmm, I don't remember anything about that.",
    "I'm afraid I can't tell.",
    "That was never mentioned to me, as far as I can see.",
    "No idea. Could you tell me more?",
    "Let me check that for you.",
)


class Standing(Enum):
    """What an answer says of itself."""

    CONFIDENT = "confident"
    UNSURE = "unsure"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a figure belongs: which system was asked, when, with what kind of answers stored, in how many tokens."""

    system: str
    stage: str
    answers: str
    room: int


@dataclass(frozen=True, slots=True)
class Result:
    """What one answer came to. ``tokens`` are counted; the shares are those of ``benchmarks.evidence``."""

    category: str
    share: float
    strict: float
    tokens: int
    standing: Standing
    degraded: bool = False


@dataclass(slots=True)
class Tally:
    """Results by place: of real questions, and the standings of absent ones."""

    results: dict[Place, list[Result]] = field(default_factory=dict)
    absent: dict[Place, list[Standing]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def add(self, place: Place, result: Result) -> None:
        self.results.setdefault(place, []).append(result)

    def add_absent(self, place: Place, standing: Standing) -> None:
        self.absent.setdefault(place, []).append(standing)


@dataclass(frozen=True, slots=True)
class Rooms:
    """The tokens that each tool is asked for, in turn."""

    recall: Sequence[int]
    context: Sequence[int]


DEFAULT_ROOMS = Rooms((RECALL_TOKENS,), (CONTEXT_TOKENS,))


def judge(answer: str) -> Standing:
    """What a recall's answer says of its hits, in the lines before them."""
    opening = answer.splitlines()[:_OPENING_LINES]
    # The newest messages may follow, but they do not answer.
    if any(line.startswith((NOTHING, NOTHING_YET, NEWEST)) for line in opening):
        return Standing.NOTHING
    return Standing.UNSURE if UNSURE in opening else Standing.CONFIDENT


def _says_degraded(answer: str) -> bool:
    """Whether the answer says so itself, in one of its outer lines, where what somebody said does not stand."""
    lines = answer.splitlines()
    return any("degraded" in line for line in (*lines[:2], *lines[-1:]))


class Judge:
    """Turns answers into results: knows the evidence of a conversation's questions, and counts tokens."""

    def __init__(self, conversation: Conversation, counter: TokenCounter) -> None:
        texts = texts_of(conversation)
        self._evidence = {question: Evidence(question, texts) for question in conversation.questions}
        self._counter = counter

    def result(self, question: Question, answer: str, standing: Standing = Standing.CONFIDENT) -> Result:
        shown = self._evidence[question].shown_in(answer)
        tokens = self._counter.text(answer)
        return Result(question.category, shown.share, shown.strict, tokens, standing, _says_degraded(answer))


class Host:
    """One conversation's user and assistant, on an open connection; ``answers`` says what is stored after questions."""

    def __init__(
        self, connection: Connection, questions: Sequence[Question], answers: str, judge: Judge, tally: Tally
    ) -> None:
        self._connection = connection
        self._questions = questions
        self._answers = answers
        self._judge = judge
        self._tally = tally
        self._chance = random.Random(0)
        self.said: list[str] = []
        """What was stored, in order."""

    async def ask_before(self, rooms: Rooms) -> None:
        """Ask everything, each in a new thread that nothing was ever stored in."""
        await self._ask_all(BEFORE, "", rooms)

    async def live(self) -> None:
        """Store each question in a new thread, ask it there, and store what is answered."""
        for number, question in enumerate(self._questions):
            thread = f"lived/{number}"
            await self._store(thread, "user", question.text)
            await self._recall(question, Place(RECALL, STORED, self._answers, RECALL_TOKENS))
            await self._context(question, thread, "", Place(CONTEXT, STORED, self._answers, CONTEXT_TOKENS))
            if self._answers == NOT_SURE:
                await self._store(thread, "assistant", draw_not_sure(question.text, self._chance))

    async def ask_after(self, rooms: Rooms) -> None:
        """Ask everything again, each in a new thread, once the vectors of what was stored are there."""
        await vectors_complete(self._connection)
        await self._ask_all(AFTER, self._answers, rooms)

    async def ask_absent(self, questions: Sequence[str], stage: str, answers: str = "") -> None:
        """Ask what no one ever spoke of."""
        for question in questions:
            answer = await self._connection.call(RECALL, query=question)
            self._tally.add_absent(Place(RECALL, stage, answers, RECALL_TOKENS), judge(answer))

    async def _ask_all(self, stage: str, answers: str, rooms: Rooms) -> None:
        for number, question in enumerate(self._questions):
            for room in rooms.recall:
                await self._recall(question, Place(RECALL, stage, answers, room))
            for room in rooms.context:
                thread = f"new/{stage}/{number}"
                await self._context(question, thread, question.text, Place(CONTEXT, stage, answers, room))

    async def _store(self, thread: str, role: str, text: str) -> None:
        await self._connection.call("add_messages", thread_id=thread, messages=[{"role": role, "content": text}])
        self.said.append(text)

    async def _recall(self, question: Question, place: Place) -> None:
        # The tool's own default is not sent, so that the default itself is measured.
        room = {} if place.room == RECALL_TOKENS else {"max_tokens": place.room}
        answer = await self._connection.call(RECALL, query=question.text, **room)
        self._tally.add(place, self._judge.result(question, answer, judge(answer)))

    async def _context(self, question: Question, thread: str, query: str, place: Place) -> None:
        request: dict[str, Any] = {"query": query} if query else {}
        try:
            answer = await self._connection.call(CONTEXT, thread_id=thread, max_tokens=place.room, **request)
        # A context that failed counts as one that shows nothing.
        except ToolFailed as failure:
            self._tally.failed.append(str(failure))
            answer = ""
        self._tally.add(place, self._judge.result(question, answer))


def draw_not_sure(question: str, chance: random.Random) -> str:
    """One of the ways to say that nothing is known about a question."""
    asked = question[:1].lower() + question[1:].rstrip("?!. ")
    return chance.choice(_NOT_SURE).format(asked=asked, question=question)


def as_messages(said: Sequence[str], said_at: str) -> list[Json]:
    """What was stored, as messages of a conversation that were said at a time (ISO 8601)."""
    return [
        {"id": f"lived/{number}", "name": "user", "content": text, "created_at": said_at}
        for number, text in enumerate(said)
    ]
