"""The cases as they stand in ``data``, and the seeded sample of them that a quick run takes."""

import json
import random
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

DATA = Path(__file__).with_name("data")
ASSISTANT = "assistant: "

Case = TypeVar("Case")
Json = dict[str, Any]
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Sample:
    """Which share of the cases is taken, and the seed that draws it."""

    share: float = 1.0
    seed: int = 1

    def of(self, cases: Sequence[Case], kind: Callable[[Case], object] = lambda _: "") -> list[Case]:
        """The drawn cases in their order: the share of each kind, and at least one of it."""
        random_source = random.Random(self.seed)
        places: dict[object, list[int]] = {}
        for place, case in enumerate(cases):
            places.setdefault(kind(case), []).append(place)
        drawn: list[int] = []
        for of_kind in places.values():
            wanted = max(1, round(self.share * len(of_kind)))
            drawn += random_source.sample(of_kind, wanted)
        return [cases[place] for place in sorted(drawn)]


def message(text: str) -> Json:
    """A message of the role that the text begins with, or else of the user."""
    for role in ("user", "assistant"):
        said = text.removeprefix(f"{role}: ")
        if said != text:
            return {"role": role, "content": said}
    return {"role": "user", "content": text}


def read_toml(name: str) -> Json:
    """A data file by its name without the ending."""
    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))


def read_json(name: str) -> Any:
    """A data file by its name without the ending."""
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def pairs_of(name: str) -> list[tuple[str, Pair]]:
    """The pairs of a data file, each with its kind."""
    return [(kind["kind"], (first, second)) for kind in read_toml(name)["kinds"] for first, second in kind["pairs"]]
