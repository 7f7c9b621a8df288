"""A thread's messages as providers want them told: every tool call is answered directly after it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from layerlore.memory.context.layout import Laid
from layerlore.memory.context.provider_names import CallIds
from layerlore.memory.parts import plain_text, says_something, text_part
from layerlore.memory.quoting import escaped, quoted, quoted_line, turnless, turnless_json
from layerlore.storage.records import Json, Message, Role


@dataclass(frozen=True, slots=True)
class Step:
    """What one side says at once, and what its tools answer.

    ``parts`` are text, reasoning (an assistant's only), image and file parts, and after them the calls; ``results``
    answer the calls, in their order and under their ids. ``at`` is the index of the message that it is from.
    """

    role: Role
    name: str | None
    parts: tuple[Json, ...]
    results: tuple[Json, ...]
    at: int

    @property
    def calls(self) -> tuple[Json, ...]:
        return self.parts[len(self.parts) - len(self.results) :]

    @property
    def said(self) -> tuple[Json, ...]:
        return self.parts[: len(self.parts) - len(self.results)]


@dataclass(frozen=True, slots=True)
class Told:
    """The messages of a context as steps. A result that came after the newest user message goes to its call, so it may
    have left the turn."""

    predefined: tuple[Step, ...]
    before: tuple[Step, ...]
    turn: tuple[Step, ...]

    @property
    def ends_with_question(self) -> bool:
        """Whether nothing follows the newest user message."""
        return len(self.turn) == 1 and self.turn[0].role == "user"


def told(laid: Laid, ids: CallIds) -> Told:
    """The messages of a context, each call with an id that ``ids`` gave."""
    predefined = tuple(steps(laid.predefined, ids))
    thread = tuple(steps((*laid.before, *laid.turn), ids))
    cut = sum(step.at < len(laid.before) for step in thread)
    return Told(predefined, thread[:cut], thread[cut:])


def steps(messages: Sequence[Message], ids: CallIds) -> Iterator[Step]:
    """The messages in order, but for results: each moves up to its call, the latest of its id before it.

    A message in which something is said after a call is taken apart there. A call without a result, a result without
    a call, and every result of a call but the first become texts, since no provider takes them.
    """
    answers = _answers(messages)
    moved = set(answers.values())
    for at, message in enumerate(messages):
        role: Role = "user" if message.role == "tool" else message.role
        name = message.name and quoted_line(message.name)
        said: list[Json] = []
        calls: list[Json] = []
        results: list[Json] = []
        for index, part in enumerate(message.parts):
            answer = answers.get((at, index))
            if answer is not None:
                call_id = ids.fresh(part["id"])
                calls.append({**part, "id": call_id})
                found = messages[answer[0]].parts[answer[1]]
                results.append({**found, "result": turnless_json(found["result"]), "tool_call_id": call_id})
                continue
            if calls:
                yield Step(role, name, (*said, *calls), tuple(results), at)
                said, calls, results = [], [], []
            if (at, index) not in moved:
                said += _sayable(part, role)
        if said or calls:
            yield Step(role, name, (*said, *calls), tuple(results), at)


_Place = tuple[int, int]


def _answers(messages: Iterable[Message]) -> dict[_Place, _Place]:
    """Where each call's result is: index of the message, index of the part."""
    answers: dict[_Place, _Place] = {}
    latest: dict[str, _Place] = {}
    for at, message in enumerate(messages):
        for index, part in enumerate(message.parts):
            if part["type"] == "tool_call":
                latest[part["id"]] = (at, index)
            elif part["type"] == "tool_result" and part["tool_call_id"] in latest:
                answers.setdefault(latest[part["tool_call_id"]], (at, index))
    return answers


def _sayable(part: Json, role: Role) -> list[Json]:
    # Ours are blocks in what systems and users say; an assistant's words and tools' results are told by their places.
    shown = turnless if role == "assistant" else escaped
    if part["type"] in ("tool_call", "tool_result"):
        return [text_part(plain_text([part], quoted))]
    silent = not says_something(part) or (part["type"] == "reasoning" and role != "assistant")
    if part["type"] == "text":
        text = shown(part["text"])
        return [text_part(text)] if text else []
    return [] if silent else [part]
