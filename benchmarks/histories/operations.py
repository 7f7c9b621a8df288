"""What clients did to servers and saw there: each operation with the times between which it took effect."""

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

Action = Literal["add", "read", "count", "find"]
Outcome = Literal["done", "failed", "unsure"]


@dataclass(frozen=True, slots=True)
class Operation:
    """``began`` and ``ended`` are on one clock for all clients of the machine.

    ==========  =========================  ============================================
    ``action``  ``items``                  what a done one has
    ==========  =========================  ============================================
    add         put at the end, in order   ``positions``, from 1, where the answer has them
    read        found, in order            ``number``: how many, as the answer says
    count                                  ``number``
    find        the one sought             ``number``: 1 if it was found, else 0
    ==========  =========================  ============================================

    A failed one has changed nothing. One that is unsure may take effect at any time after it began, or never.
    """

    client: str
    action: Action
    place: str
    began: float
    ended: float
    outcome: Outcome = "done"
    items: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()
    number: int = 0

    @property
    def effective_by(self) -> float:
        """When it has taken effect at the latest."""
        return self.ended if self.outcome == "done" else math.inf


def write_operation(file: TextIO, operation: Operation) -> None:
    file.write(json.dumps(dataclasses.asdict(operation)) + "\n")


def read_operations(file: Path) -> list[Operation]:
    return [_read(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def _read(row: dict[str, Any]) -> Operation:
    return Operation(**{**row, "items": tuple(row["items"]), "positions": tuple(row["positions"])})
