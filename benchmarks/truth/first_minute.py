"""The first minute: a few messages are stored, then the user asks at once, in six ways."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import over_http, over_stdio
from benchmarks.truth.cases import Sample, read_toml
from benchmarks.truth.figures import Figure
from benchmarks.truth.memory_client import Memory, launched, opened, shows

PART = "first minute"
SHOWN = 0.95
WAYS = (
    "same connection",
    "same connection, a moment later",
    "second connection",
    "question stored first",
    "client B over HTTP",
    "over stdio",
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, how it is put, and a text that the answer must show."""

    wording: str
    text: str
    answer: str


@dataclass(frozen=True, slots=True)
class Store:
    """The first messages of a user, and the questions about them."""

    language: str
    messages: list[str]
    questions: list[Question]


class Shown:
    """Counts the same answers by the way that was taken, by the language and by the wording."""

    def __init__(self, stores: Sequence[Store]) -> None:
        languages = dict.fromkeys(store.language for store in stores)
        wordings = dict.fromkeys(question.wording for store in stores for question in store.questions)
        self._by_way = {way: Figure(PART, way, SHOWN) for way in WAYS}
        self._by_language = {language: Figure(PART, f"in {language}") for language in languages}
        self._by_wording = {wording: Figure(PART, f"in {wording}") for wording in wordings}
        self._all = Figure(PART, "all", SHOWN)

    @property
    def figures(self) -> list[Figure]:
        return [
            *self._by_way.values(),
            *self._by_language.values(),
            *self._by_wording.values(),
            self._all,
        ]

    def add(self, way: str, store: Store, question: Question, answer: str) -> None:
        is_shown = shows(answer, question.answer)
        case = f"{way}, {store.language}: {question.text}"
        counted = (
            self._by_way[way],
            self._by_language[store.language],
            self._by_wording[question.wording],
            self._all,
        )
        for figure in counted:
            figure.add(is_shown, case)


def read_stores() -> list[Store]:
    """The stores of all languages."""
    return [
        Store(language["code"], store["messages"], [Question(*each) for each in store["questions"]])
        for language in read_toml("first_minute")["languages"]
        for store in language["stores"]
    ]


async def measure(folder: Path, sample: Sample) -> list[Figure]:
    """The share of questions for which the right line is shown, by way, language and wording."""
    stores = sample.of(read_stores(), kind=lambda store: store.language)
    shown = Shown(stores)
    async with opened(folder, "here") as first, opened(folder, "here") as second:
        await first.embedder_loaded()
        for store in stores:
            await _store(first, store)
            await _ask("same connection", first, store, shown)
            await _ask("second connection", second, store, shown)
            await first.vectors_made()
            await _ask("same connection, a moment later", first, store, shown)
            await _ask_after_storing(first, store, shown)
    async with over_http(launched(folder, "http"), clients=2) as (writer, reader):
        for store in stores:
            await _store(Memory(writer), store)
            await _ask("client B over HTTP", Memory(reader), store, shown)
    async with over_stdio(launched(folder, "stdio")) as connection:
        memory = Memory(connection)
        for store in stores:
            await _store(memory, store)
            await _ask("over stdio", memory, store, shown)
    return shown.figures


async def _store(memory: Memory, store: Store) -> None:
    """Begin anew in the default thread of the connection."""
    await memory.erase()
    await memory.say(store.messages)


async def _ask(way: str, memory: Memory, store: Store, shown: Shown) -> None:
    for question in store.questions:
        shown.add(way, store, question, await memory.recall(question.text))


async def _ask_after_storing(memory: Memory, store: Store, shown: Shown) -> None:
    """Ask as a host does that stores each message of the user before the model sees it."""
    for question in store.questions:
        await _store(memory, store)
        await memory.say([question.text])
        shown.add("question stored first", store, question, await memory.recall(question.text))
