"""What a host could show without a memory server: the lines ``[day] speaker: text`` that fit into some room.

Either the best by BM25, best first, or the newest, oldest first. The line that no longer fits is cut to what is left.
"""

from collections.abc import Iterable, Sequence

from benchmarks.baselines import Baselines, dated_line
from benchmarks.conversations import Conversation, Json
from layerlore.memory.parts.tokens import TokenCounter

# Less than what a cut line is worth.
_LEAST_TOKENS = 8


class PlainLines:
    """The messages of one conversation as lines, and an index of them. Close it."""

    def __init__(self, conversation: Conversation, counter: TokenCounter, further: Sequence[Json] = ()) -> None:
        """``further`` are messages, with ``id``, ``name`` and ``created_at``, that were said after all others."""
        threads = [*conversation.threads, ("further", list(further))]
        self._counter = counter
        self._lines = {message["id"]: dated_line(message) for _, thread in threads for message in thread}
        self._tokens = {name: counter.text(f"{line}\n") for name, line in self._lines.items()}
        said = sorted((message.get("created_at", ""), at) for at, message in enumerate(_all(threads)))
        names = list(self._lines)
        self._newest = [names[at] for _, at in reversed(said)]
        self._index = Baselines(Conversation(conversation.id, threads, []), None)

    def best(self, question: str, rooms: Iterable[int]) -> list[str]:
        """For each room, in tokens, the lines with the question's words."""
        ranked = self._index.dated(question, len(self._lines))
        return ["\n".join(self._filled(ranked, room)) for room in rooms]

    def newest(self, rooms: Iterable[int]) -> list[str]:
        """For each room, in tokens, the end of the conversation."""
        return ["\n".join(reversed(self._filled(self._newest, room))) for room in rooms]

    def close(self) -> None:
        self._index.close()

    def _filled(self, names: Iterable[str], room: int) -> list[str]:
        kept: list[str] = []
        for name in names:
            if self._tokens[name] > room:
                if room >= _LEAST_TOKENS:
                    kept.append(self._counter.cut(self._lines[name], room - 1))
                break
            kept.append(self._lines[name])
            room -= self._tokens[name]
        return kept


def _all(threads: Iterable[tuple[str, list[Json]]]) -> list[Json]:
    return [message for _, thread in threads for message in thread]
