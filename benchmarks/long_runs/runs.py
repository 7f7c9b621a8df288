"""Runs of 150 to 400 messages, the same for the same seed, with what was planted in them."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from benchmarks.long_runs.coding import Coding
from benchmarks.long_runs.draw import Draw
from benchmarks.long_runs.operations import Operations
from benchmarks.long_runs.phrases import Phrases
from benchmarks.long_runs.planting import Json, LongRun, Plant, PlantedKind, RunKind, Turn, list_lines, list_texts
from benchmarks.long_runs.support import Support
from benchmarks.long_runs.toolwork import Step

FEWEST, MOST = 150, 400
"""Messages of a run."""
_BEGIN = datetime(2026, 4, 13, 8, 2, tzinfo=UTC)
# How many of each kind are planted: the least and the most. What tools say is planted once for so many of their results.
_PLANTED: dict[PlantedKind, tuple[int, int]] = {
    "rule": (6, 10),
    "correction": (6, 9),
    "fact": (12, 18),
    "user's id": (4, 6),
}
_TELLING_STEPS = {"coding": (0.14, 0.1), "operations": (0.14, 0.1), "support": (0.4, 0.2)}
# How many other sentences stand around a request, each as often as the others.
_CHATTER = {
    "coding": (0, 0, 1, 1, 2, 3, 5, 9),
    "operations": (0, 0, 1, 1, 2, 3, 5, 9),
    "support": (0, 1, 2, 3, 4, 6, 9, 12),
}
# The larger, the more of it lies far back.
_FAR = 1.4


class Work(Protocol):
    """One kind of work: what its user says and what its agent does."""

    @property
    def phrases(self) -> Phrases: ...
    @property
    def steps_of_a_turn(self) -> tuple[int, int]: ...
    def noise(self) -> Step: ...
    def telling_id(self) -> Step: ...
    def error(self) -> Step: ...
    def answer(self) -> str: ...
    def pasted(self) -> str: ...


_WORK: dict[RunKind, Any] = {"coding": Coding, "operations": Operations, "support": Support}


@dataclass(slots=True)
class _Drafted:
    """A turn before it is written: the sentences of what the user says, and what the agent does."""

    said: list[str]
    steps: list[Step]
    planted: list[tuple[PlantedKind, tuple[str, ...], str]] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    """Messages of the user's before the turn's."""


def make_run(kind: RunKind, seed: int) -> LongRun:
    return _Maker(kind, seed).make()


class _Maker:
    def __init__(self, kind: RunKind, seed: int) -> None:
        self._kind, self._seed = kind, seed
        self._draw = Draw(f"{kind}/{seed}")
        self._work: Work = _WORK[kind](self._draw)
        self._random: random.Random = self._draw.random
        self._careless = self._draw.chance(0.4)
        self._now = _BEGIN + timedelta(minutes=self._draw.number(0, 300))

    def make(self) -> LongRun:
        drafted = self._draft()
        for kind, (least, most) in _PLANTED.items():
            self._plant(kind, drafted, self._draw.number(least, most))
        turns = [self._write(turn) for turn in drafted]
        lines = [list_lines(text) for turn in turns for message in turn.messages for text in list_texts(message)]
        # What is said twice by chance would be seen where it was not planted.
        plants = [plant for plant in self._list_plants(drafted) if sum(map(plant.is_shown, lines)) == 1]
        return LongRun(self._kind, self._seed, turns, plants)

    def _draft(self) -> list[_Drafted]:
        """Turns until there are as many messages as were drawn; what is planted in them adds a few."""
        wanted = self._draw.number(FEWEST + 5, MOST - 25)
        turns: list[_Drafted] = []
        messages = 0
        while messages < wanted:
            turns.append(self._draft_turn())
            messages += 2 + 2 * len(turns[-1].steps)
        return turns

    def _draft_turn(self) -> _Drafted:
        phrases = self._work.phrases
        if self._draw.chance(0.12):
            return _Drafted([self._draw.one(phrases.small_talk)], [])
        said = [self._draw.said(self._draw.one(phrases.asks))]
        more = self._draw.one(_CHATTER[self._kind])
        for sentence in self._random.sample(phrases.chatter, more):
            said.insert(self._draw.number(0, len(said)), self._draw.said(sentence))
        steps = [self._draft_step() for _ in range(self._draw.number(*self._work.steps_of_a_turn))]
        return _Drafted(said, steps)

    def _draft_step(self) -> Step:
        ids, errors = _TELLING_STEPS[self._kind]
        drawn = self._random.random()
        if drawn < ids:
            return self._work.telling_id()
        return self._work.error() if drawn < ids + errors else self._work.noise()

    def _plant(self, kind: PlantedKind, turns: list[_Drafted], count: int) -> None:
        phrases = self._work.phrases
        templates: dict[PlantedKind, tuple[str, ...]] = {
            "rule": phrases.rules,
            "correction": phrases.corrections,
            "fact": phrases.facts,
            "user's id": phrases.ids,
        }
        for template in self._random.sample(templates[kind], min(count, len(templates[kind]))):
            sentence, values = self._draw.filled(template)
            turn = turns[int((len(turns) - 1) * self._random.random() ** _FAR)]
            turn.planted.append((kind, values, sentence))
            if self._draw.chance(0.25):
                turn.alone.append(sentence)
            else:
                turn.said.insert(self._draw.number(0, len(turn.said)), sentence)

    def _list_plants(self, turns: list[_Drafted]) -> list[Plant]:
        plants = []
        for place, turn in enumerate(turns):
            found = [*turn.planted, *(each for step in turn.steps for each in step.planted)]
            for kind, values, sentence in found:
                plants.append(Plant(f"{self._kind}/{self._seed}/{len(plants)}", kind, values, sentence, place))
        return plants

    def _write(self, turn: _Drafted) -> Turn:
        """The user's messages in one call, each of the agent's steps in one, and its answer."""
        self._pass_time(60, 2_400)
        if self._draw.chance(0.04):
            self._now += timedelta(hours=self._draw.number(9, 60))
        request = [self._user(text) for text in [*turn.alone, self._joined(turn.said)]]
        steps = [[self._timed(message, 2, 40) for message in step.messages] for step in turn.steps]
        answer = self._timed({"role": "assistant", "content": self._work.answer()}, 3, 30)
        return Turn([request, *steps, [answer]])

    def _user(self, text: str) -> Json:
        return self._timed({"role": "user", "content": text}, 5, 90)

    def _timed(self, message: Json, least: int, most: int) -> Json:
        self._pass_time(least, most)
        return {**message, "created_at": self._now.isoformat()}

    def _pass_time(self, least: int, most: int) -> None:
        self._now += timedelta(seconds=self._draw.number(least, most))

    def _joined(self, sentences: list[str]) -> str:
        """One after the other, by points or with something pasted between; written as this user writes."""
        written = [self._typed(sentence) for sentence in sentences]
        if len(written) > 2 and self._draw.chance(0.2):
            return "\n".join(f"{self._draw.one('-*')} {sentence}" for sentence in written)
        if self._draw.chance(0.08):
            written.insert(self._draw.number(0, len(written)), f"\n{self._work.pasted()}\n")
        return self._draw.one((" ", " ", " ", "\n", "\n\n")).join(written)

    def _typed(self, sentence: str) -> str:
        if self._careless and self._draw.chance(0.5):
            return sentence[0].lower() + sentence[1:]
        return sentence if sentence[-1] in ".!?" else sentence + self._draw.one((".", ".", "!", " :)", "..."))
