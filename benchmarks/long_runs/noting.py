"""A stand-in for a fair small model that takes notes: each message told shorter, the user's nearly whole. It knows nothing
of what is planted."""

import json
from collections.abc import Sequence

from benchmarks.long_runs.planting import Json
from benchmarks.standing_in import StandIn
from layerlore.extraction.chat.chat_port import ChatAnswer
from layerlore.extraction.kinds.kind import Material
from layerlore.storage.audit.usage_rows import UsageSums

NAME = "stand-in/notes"

# Words that are kept of a message, from its beginning and its end, by who said it.
_KEPT = {"user": (60, 30), "assistant": (14, 6), "tool": (10, 12)}
_FEWEST_WORDS = 5


class NoteTaker(StandIn):
    """Observes by shortening; reflects as any stand-in."""

    def model(self, kind: str) -> str:
        return NAME if kind in ("observe", "reflect") else ""

    async def answer(self, kind: str, material: Material) -> ChatAnswer:
        if kind != "observe":
            return await super().answer(kind, material)
        notes = [note for each in json.loads(material.content)["messages"] if (note := _note(each))]
        return ChatAnswer(
            {
                "observations": list({note["text"]: note for note in notes}.values()),
                "nothing_to_note": not notes,
                "current_task": None,
                "next_step": None,
            },
            NAME,
            UsageSums(),
        )


def _note(message: Json) -> Json | None:
    words = message["text"].split()
    if len(words) < _FEWEST_WORDS:
        return None
    text = f"{message['role']}: {' '.join(_shortened(words, *_KEPT.get(message['role'], (10, 5))))}"
    marker = "important" if message["role"] == "user" else "info"
    seq = message["seq"]
    return {"marker": marker, "text": text, "from_seq": seq, "to_seq": seq, "refers_to": None, "details": []}


def _shortened(words: Sequence[str], first: int, last: int) -> Sequence[str]:
    return words if len(words) <= first + last else [*words[:first], "...", *words[-last:]]
