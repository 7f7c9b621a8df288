"""Exchanges: a thread's messages in the order that providers want, with every tool call answered directly after it."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from layerlore.memory.parts.parts import plain_text, says_something, text_part
from layerlore.memory.shapes.layout import ContextLayout
from layerlore.memory.shapes.provider_parts import describe_media
from layerlore.memory.text.quotation import escape_tags, neutralize_turns, neutralize_turns_json, quote_line, quote_text
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json, Message, Role

_Said = TypeVar("_Said")
_REFUSED = linear_re.compile(r"[^a-zA-Z0-9_-]")


def make_tool_name(name: str, most: int) -> str:
    """The name, or one of at most ``most`` (12 or more) letters, digits, _ and - that is made of it: what can stay, and
    a digest, so that no two names become one."""
    if len(name) <= most and not _REFUSED.search(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{_REFUSED.sub('_', name)[: most - 11]}_{digest}"


class CallIds:
    """The ids of one request's calls, each given once.

    An id that the API takes stays as it is. One that it would refuse, or that an earlier call had (some models count
    their calls anew in each turn, and Anthropic refuses an id that comes twice), is replaced by a digest of it and of
    how often it was replaced before, so that the same messages give the same ids whatever stands after them.
    """

    def __init__(self, allowed: linear_re.Pattern) -> None:
        self._allowed = allowed
        self._replaced: Counter[str] = Counter()
        self._given: set[str] = set()

    def make_fresh(self, call_id: str) -> str:
        """The id for the next call, whose own id is ``call_id``."""
        found = call_id if self._allowed.fullmatch(call_id) else self._make(call_id)
        while found in self._given:
            found = self._make(call_id)
        self._given.add(found)
        return found

    def _make(self, call_id: str) -> str:
        self._replaced[call_id] += 1
        digest = hashlib.sha256(f"{self._replaced[call_id]} {call_id}".encode()).hexdigest()
        return f"call_{digest[:24]}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one speaker says at once, and what its tools answer.

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
class ContextExchanges:
    """The messages of a context as exchanges. A result that came after the newest user message goes to its call, so it
    may have left the turn."""

    predefined: tuple[Exchange, ...]
    before: tuple[Exchange, ...]
    turn: tuple[Exchange, ...]

    @property
    def ends_with_question(self) -> bool:
        """Whether nothing follows the newest user message."""
        return len(self.turn) == 1 and self.turn[0].role == "user"

    @property
    def system_texts(self) -> Iterator[str]:
        """What predefined messages of the role system say, for a provider that has a place of its own for it."""
        return (join_spoken(step) for step in self.predefined if step.role == "system")

    @property
    def examples(self) -> Iterator[Exchange]:
        """The other predefined messages."""
        return (step for step in self.predefined if step.role != "system")

    def place_volatile(self, before: Sequence[_Said], volatile: Sequence[_Said], turn: Sequence[_Said]) -> list[_Said]:
        """All in order: the volatile part stands in front of a question that nothing follows, and else at the end."""
        return [*before, *volatile, *turn] if self.ends_with_question else [*before, *turn, *volatile]


def make_exchanges(laid: ContextLayout, ids: CallIds) -> ContextExchanges:
    """The messages of a context, each call with an id that ``ids`` gave."""
    predefined = tuple(split_exchanges(laid.predefined, ids))
    thread = tuple(split_exchanges((*laid.before, *laid.turn), ids))
    cut = sum(step.at < len(laid.before) for step in thread)
    return ContextExchanges(predefined, thread[:cut], thread[cut:])


def split_exchanges(messages: Sequence[Message], ids: CallIds) -> Iterator[Exchange]:
    """The messages in order, but for results: each moves up to its call, the latest of its id before it.

    A message in which something is said after a call is taken apart there. A call without a result, a result without
    a call, and every result of a call but the first become texts, since no provider takes them.
    """
    answers = _find_answers(messages)
    moved = set(answers.values())
    for at, message in enumerate(messages):
        role: Role = "user" if message.role == "tool" else message.role
        name = message.name and quote_line(message.name)
        said: list[Json] = []
        calls: list[Json] = []
        results: list[Json] = []
        for index, part in enumerate(message.parts):
            answer = answers.get((at, index))
            if answer is not None:
                call_id = ids.make_fresh(part["id"])
                calls.append({**part, "id": call_id})
                found = messages[answer[0]].parts[answer[1]]
                results.append({**found, "result": neutralize_turns_json(found["result"]), "tool_call_id": call_id})
                continue
            if calls:
                yield Exchange(role, name, (*said, *calls), tuple(results), at)
                said, calls, results = [], [], []
            if (at, index) not in moved:
                said += _make_sayable(part, role)
        if said or calls:
            yield Exchange(role, name, (*said, *calls), tuple(results), at)


_Place = tuple[int, int]


def join_spoken(step: Exchange) -> str:
    """All of a step in one text, with notes for what is none."""
    text = "\n".join(part["text"] if part["type"] == "text" else describe_media(part) for part in step.said)
    return f"{step.name}: {text}" if step.name else text


def list_spoken(step: Exchange) -> list[Json]:
    """What a step says, its speaker named in the first text: where a provider has no place for names."""
    if not step.name:
        return [*step.said]
    first = next((at for at, part in enumerate(step.said) if part["type"] == "text"), None)
    return [text_part(f"{step.name}: {part['text']}") if at == first else part for at, part in enumerate(step.said)]


def _find_answers(messages: Iterable[Message]) -> dict[_Place, _Place]:
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


def _make_sayable(part: Json, role: Role) -> list[Json]:
    # Ours are blocks in what systems and users say; the author of an assistant's words or a tool's result follows from
    # its place.
    shown = neutralize_turns if role == "assistant" else escape_tags
    if part["type"] in ("tool_call", "tool_result"):
        return [text_part(plain_text([part], quote_text))]
    silent = not says_something(part) or (part["type"] == "reasoning" and role != "assistant")
    if part["type"] == "text":
        text = shown(part["text"])
        return [text_part(text)] if text else []
    return [] if silent else [part]
