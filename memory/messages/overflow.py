"""The overflow of a thread: what falls out of its window and is to be summarised, as its policy says."""

from collections.abc import Iterable, Sequence

from layerlore.memory.engine.engine import Engine
from layerlore.memory.language.sentences import Sentence, bound_text, read_sentence, split_sentences
from layerlore.memory.language.speech_acts import measure_speech_acts, only_greets
from layerlore.memory.window.policy import WindowPolicy, choose_policy
from layerlore.memory.window.view import count_most_messages
from layerlore.storage.core.records import Json, Thread

# A context has this number of tokens unless the call asks for more.
_CONTEXT_TOKENS = 8_000


def find_policy(engine: Engine, thread: Thread) -> WindowPolicy:
    """The policy of a thread's window; where its own cannot be read, the server's default."""
    return choose_policy(engine.windows, thread, engine.tokens, engine.limits)[0]


def count_step(policy: WindowPolicy) -> int:
    """Tokens that must have fallen out since the last summary before another is made. Until then extracts stand for
    them, so that not every turn costs a call of a model."""
    return 2 * policy.summary_tokens


def may_trim(policy: WindowPolicy, thread: Thread) -> bool:
    """Whether enough may have fallen out of the window to be summarised, by the thread's counts alone."""
    if not policy.summarise:
        return False
    match policy.limit:
        case "messages":
            return thread.message_count > count_most_messages(policy, thread.message_count)
        case "tokens":
            return thread.token_count > policy.max_tokens + count_step(policy)
        case _:
            return thread.raw_tokens > _CONTEXT_TOKENS + count_step(policy)


def find_trimmed(policy: WindowPolicy, thread: Thread, sizes: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Find those of a thread's newest messages (seq and tokens, in order) that its window does not show.

    Rather too few than too many: what is summarised is not to be shown beside its summary.
    """
    if policy.limit == "messages":
        kept = count_most_messages(policy, thread.message_count)
        return sizes[: max(0, len(sizes) - kept)]
    if policy.limit == "tokens":
        most = policy.max_tokens
        fewest = policy.min_messages
    else:
        most = _CONTEXT_TOKENS
        fewest = policy.last_messages
    end = len(sizes)
    left = most
    while end and left > 0:
        end -= 1
        left -= sizes[end][1]
    return sizes[: max(0, min(end, len(sizes) - fewest))]


# A text that asks to such a share only asks: the rest is courtesy.
_ASKS = 0.9
# A request with this many content words that is not a question sets a task.
_TASK = 3
_OBJECTIONS = ("no,", "no ", "nein,", "nein ", "non,", "nee,", "não,", "нет,")


def tells(parts: Sequence[Json]) -> bool:
    """Whether a user's message says something to keep: a rule, a decision, an error, something of themselves, an id or a
    number, an image or a file, or any statement; and not only a question, thanks, or a yes.

    A message that is skipped by mistake is read a little later, with the messages after it.
    """
    texts = [part["text"] for part in parts if part["type"] == "text"]
    if any(part["type"] in ("image", "file") for part in parts):
        return True
    return any(_tells(bound_text(text)) for text in texts)


def _tells(text: str) -> bool:
    sentences = [read_sentence(each) for each in split_sentences(text)]
    if any(_holds_something(each) for each in sentences):
        return True
    # An objection corrects something, even if the rest of the text asks.
    objects = text.lower().startswith(_OBJECTIONS)
    return any(_states(each) for each in sentences) and (objects or measure_speech_acts(text).asks < _ASKS)


def _holds_something(sentence: Sentence) -> bool:
    kinds = sentence.kinds
    if sentence.values or not kinds.isdisjoint(("rule", "decision", "error")):
        return True
    if not sentence.question and sentence.content_words >= _TASK:
        return True
    if "self" not in kinds:
        return False
    if sentence.question:
        # "Did you know that my dog is called Rex?" says something, though it asks.
        return sentence.content_words > 2 and sentence.names > 0
    return "ask" not in kinds or sentence.names > 0


def _states(sentence: Sentence) -> bool:
    if sentence.question or "ask" in sentence.kinds:
        return False
    # Thanks have a few content words themselves: "Thank you, that helped."
    return sentence.content_words > (3 if "polite" in sentence.kinds else 0)


def is_idle(text: str) -> bool:
    """Whether a text only greets, thanks or says goodbye. A yes or an ok, which may accept something, is not idle."""
    return only_greets(text)


def works(parts: Iterable[Json]) -> bool:
    """Whether a message calls a tool or brings a tool's result."""
    return any(part["type"] in ("tool_call", "tool_result") for part in parts)
