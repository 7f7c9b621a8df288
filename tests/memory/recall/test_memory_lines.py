"""The lines of memories in a context, fitted again and again while its room is settled."""

from collections.abc import Sequence

from layerlore.memory.context.context_blocks import FittedMemory, FoldedTexts, MemoryFitter, ShownContext
from layerlore.memory.parts.tokens import load_counter
from layerlore.memory.recall.memory_block import RecalledMemory
from layerlore.memory.recall.results import Hit, ScoreParts
from layerlore.storage.core.records import Message

COUNTER = load_counter()
NOW = 1_700_000_000_000
PARTS = ScoreParts(0, 1.0, 1.0, {}, None, 1.0, (), ())


def message(seq: int, text: str, thread: str = "other") -> Message:
    return Message(thread, seq, f"m{seq}", "user", "Ana", [{"type": "text", "text": text}], {}, 9, "x", NOW, NOW, 1)


def recalled(*texts: str) -> RecalledMemory:
    hits = tuple(Hit(message(at, text), 1.0, lambda: PARTS) for at, text in enumerate(texts, 1))
    return RecalledMemory((), hits, {"tea": 1.0})


def shown(*messages: Message, answered_from: int = 0, blocks: Sequence[str] = ()) -> ShownContext:
    return ShownContext("main", messages, answered_from, blocks, FoldedTexts())


def fit(memory: RecalledMemory, beside: ShownContext, most: int = 2000) -> FittedMemory:
    return MemoryFitter(memory, COUNTER, now=NOW).fit(beside, most)


def text_of(fitted: FittedMemory) -> str:
    return fitted.block.text if fitted.block else ""


MANY = recalled(
    *(f"Tea number {at} was served in the garden, and " + "it was good " * (at % 7 * 9) for at in range(40))
)


def test_fitted_again_they_are_what_they_are_when_they_are_fitted_anew() -> None:
    fitter = MemoryFitter(MANY, COUNTER, now=NOW)
    windows = [shown(), shown(MANY.hits[3].message), shown(blocks=[text_of(fit(MANY, shown(), 300))]), shown()]
    for beside in windows:
        for most in (1500, 200, 4000, 60):
            assert fitter.fit(beside, most) == fit(MANY, beside, most)


def test_what_the_context_shows_or_says_anyhow_is_not_told_again() -> None:
    memory = recalled("The tea is kept in the blue tin.", "Tea at four.", "The tea was a present from Graz, they said.")
    assert "blue tin" not in text_of(
        fit(memory, shown(message(7, "I say: The TEA is\nkept in the blue tin. Yes.", "main")))
    )
    assert "Tea at four" not in text_of(fit(memory, shown(blocks=["tea at four."])))
    assert "Tea at four" in text_of(fit(memory, shown(blocks=["tea at four. And coffee."])))
    told = text_of(fit(memory, shown()))
    assert [line for line in ("blue tin", "at four", "from Graz") if line not in told] == []


def test_what_is_being_answered_is_not_told() -> None:
    hit = Hit(message(9, "What tea do I like best of all?", "main"), 1.0, lambda: PARTS)
    memory = RecalledMemory((), (hit,), {"tea": 1.0})
    assert fit(memory, shown(answered_from=9)) == FittedMemory()
    assert "like best" in text_of(fit(memory, shown(answered_from=10)))


def test_a_repetition_is_shown_once_and_again_where_the_better_hit_is_shown_elsewhere() -> None:
    memory = recalled("The tea is served at four in the garden.", "The tea is served at four in the garden.")
    block = text_of(fit(memory, shown()))
    assert block.count("served at four") == 1
    assert "#1 user" in block
    beside = ShownContext("other", [message(1, "", "other")], 0, (), FoldedTexts())
    assert "#2 user" in text_of(fit(memory, beside))


def test_texts_that_say_something_else_in_the_same_words_are_both_shown() -> None:
    memory = recalled("Ana reports to Ben in the office.", "Ben reports to Ana in the office.")
    block = text_of(fit(memory, shown()))
    assert "Ana reports to Ben" in block
    assert "Ben reports to Ana" in block
