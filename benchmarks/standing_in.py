"""A stand-in for a model, so that what surrounds a model can be measured without one: what it is shown, what its answers
must be like, and what becomes of them. It says nothing about how well a model takes notes: a rule picks the words of each
message that look like ids, numbers, dates and codes, and its first words beside them."""

import json
import re
from collections.abc import Sequence
from typing import Any

from layerlore.extraction.chat.chat_port import ChatAnswer
from layerlore.extraction.kinds.kind import Material
from layerlore.storage.audit.usage_rows import UsageSums

Json = dict[str, Any]

NAME = "stand-in/1"

# Words of a message at its beginning, and how many more are kept for what they look like, by who said it.
_FIRST_WORDS = 10
_MOST_KEPT = {"user": 20}
_MOST_KEPT_OF_OTHERS = 10
# What has nothing to be kept is noted if it is as long as this, in words.
_TELLING_WORDS = 25
# Notes in a row that a reflection makes one of, and how many values of each it keeps, by its level.
_ROW = 6
_KEPT_BY_LEVEL = (6, 4, 2, 1)

_WORD = re.compile(r"[^\s\"'“”(){}\[\],:;=<>|`*!?…]+")
_CODE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|E[A-Z]{5,}|[a-z]+_[a-z]+|\w+(?:Error|Exception)")
_FEWEST_CHARS = 4


class StandIn:
    """A chat that observes and reflects by rule: the same material gives the same answer."""

    def model(self, kind: str) -> str:
        return NAME if kind in ("observe", "reflect") else ""

    async def answer(self, kind: str, material: Material) -> ChatAnswer:
        content = json.loads(material.content)
        answer = _observed(content) if kind == "observe" else _reflected(content, _KEPT_BY_LEVEL[material.inputs.level])
        return ChatAnswer(answer, NAME, UsageSums())


def _observed(content: Json) -> Json:
    told = {each["seq"]: _noted(each) for each in content["messages"]}
    texts = {text: seq for seq, text in told.items() if text}  # each once
    markers = {each["seq"]: "important" if each["role"] == "user" else "info" for each in content["messages"]}
    notes = [
        {"marker": markers[seq], "text": text, "from_seq": seq, "to_seq": seq, "refers_to": None, "details": []}
        for text, seq in texts.items()
    ]
    return {"observations": notes, "nothing_to_note": not notes, "current_task": None, "next_step": None}


def _reflected(content: Json, most: int) -> Json:
    free = [note for note in content["observations"] if note["marker"] != "critical"]
    merges = [_merge(free[at : at + _ROW], most) for at in range(0, len(free), _ROW)]
    return {"merge": list({merge["text"]: merge for merge in merges}.values()), "drop": []}


def _merge(row: list[Json], most: int) -> Json:
    return {
        "supersedes": [note["id"] for note in row],
        "marker": min((note["marker"] for note in row), key=("important", "completion", "info").index),
        "text": "; ".join(dict.fromkeys(" ".join(_words(note["text"], 2, most)) for note in row)),
        "refers_to": None,
    }


def _noted(message: Json) -> str:
    """What is noted of a message; nothing of small talk."""
    most = _MOST_KEPT.get(message["role"], _MOST_KEPT_OF_OTHERS)
    words = _words(message["text"], _FIRST_WORDS, most)
    telling = len(message["text"].split()) >= _TELLING_WORDS or any(map(_is_marked, words))
    return f"{message.get('name') or message['role']}: {' '.join(words)}" if telling else ""


def _words(text: str, first: int, most: int) -> Sequence[str]:
    """The first words, and behind them those that look like codes or have a digit, the longer ones first."""
    words = list(dict.fromkeys(word.strip(".-/") for word in _WORD.findall(text)))
    begun, rest = words[:first], words[first:]
    marked = [word for word in rest if _is_marked(word)]
    chosen = set(sorted(marked, key=lambda word: (_CODE.fullmatch(word) is None, -len(word)))[:most])
    return [*begun, *(word for word in rest if word in chosen)]


def _is_marked(word: str) -> bool:
    return bool(_CODE.fullmatch(word)) or (len(word) >= _FEWEST_CHARS and any(sign.isdigit() for sign in word))
