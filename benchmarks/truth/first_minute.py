"""The first minute: a few messages are stored, then the user asks at once, in four ways."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import over_http, over_stdio
from benchmarks.truth.cases import Sample, read_toml
from benchmarks.truth.figures import Bound, Figure
from benchmarks.truth.memory_client import Memory, launched, opened, shows

PART = "first minute"
SHOWN = 0.95
WAYS = (
    "same connection",
    "second connection",
    "question stored first",
    "client B over HTTP",
    "over stdio",
)
STDIO_LANGUAGE = "en"


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
        self._by_way = {way: Figure(PART, way, Bound(SHOWN)) for way in WAYS}
        self._by_language = {language: Figure(PART, f"in {language}") for language in languages}
        self._by_wording = {wording: Figure(PART, f"in {wording}") for wording in wordings}
        self._all = Figure(PART, "all", Bound(SHOWN))

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
    stores = sample.of(read_stores())
    shown = Shown(stores)
    for number, store in enumerate(stores):
        await _ask_here(folder, f"minute-{number}", store, shown)
        await _ask_after_storing(folder, f"stored-{number}", store, shown)
    languages = list(dict.fromkeys(store.language for store in stores))
    for language in _served_languages(languages, sample):
        await _ask_over_http(folder, language, stores, shown)
    await _ask_over_stdio(folder, stores, shown)
    return shown.figures


async def _ask_here(folder: Path, resource: str, store: Store, shown: Shown) -> None:
    """Ask on the connection that stored the messages, in the same thread, then on another connection."""
    async with opened(folder, resource) as memory:
        await memory.say(store.messages)
        await _ask("same connection", memory, store, shown)
    async with opened(folder, resource) as memory:
        await _ask("second connection", memory, store, shown)


async def _ask_after_storing(folder: Path, resource: str, store: Store, shown: Shown) -> None:
    """Ask as a host does that stores each message of the user before the model sees it."""
    for number, question in enumerate(store.questions):
        async with opened(folder, f"{resource}-{number}") as memory:
            await memory.say(store.messages)
            await memory.say([question.text])
            shown.add("question stored first", store, question, await memory.recall(question.text))


async def _ask_over_http(folder: Path, language: str, stores: Sequence[Store], shown: Shown) -> None:
    """Client A stores in the default thread, and client B asks there."""
    async with over_http(launched(folder, f"http-{language}"), clients=2) as (first, second):
        writer, reader = Memory(first), Memory(second)
        for store in stores:
            if store.language == language:
                await writer.say(store.messages)
                await _ask("client B over HTTP", reader, store, shown)


async def _ask_over_stdio(folder: Path, stores: Sequence[Store], shown: Shown) -> None:
    """Ask on the connection that stored the messages, with the server as a process of its own."""
    async with over_stdio(launched(folder, "stdio")) as connection:
        memory = Memory(connection)
        for store in stores:
            if store.language == STDIO_LANGUAGE:
                await memory.say(store.messages)
                await _ask("over stdio", memory, store, shown)


async def _ask(way: str, memory: Memory, store: Store, shown: Shown) -> None:
    for question in store.questions:
        shown.add(way, store, question, await memory.recall(question.text))


def _served_languages(languages: Sequence[str], sample: Sample) -> list[str]:
    """Each language needs a server's start, so a sample takes fewer."""
    return sample.of(languages)
