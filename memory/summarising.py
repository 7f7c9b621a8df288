"""What of a thread falls out of its window and is to be summarised, as its policy says."""

from collections.abc import Sequence

from layerlore.memory.engine import Engine
from layerlore.memory.window import choosing
from layerlore.memory.window.policy import WindowPolicy
from layerlore.memory.window.view import most_messages
from layerlore.storage.records import Thread

# A context has so many tokens unless more are asked for.
_CONTEXT_TOKENS = 8_000


def policy_of(engine: Engine, thread: Thread) -> WindowPolicy:
    """The policy of a thread's window; where its own cannot be read, the server's default."""
    return choosing.policy_of(engine.windows, thread, engine.tokens, engine.limits)[0]


def step_of(policy: WindowPolicy) -> int:
    """Tokens that must have fallen out since the last summary before there is another: until then extracts tell them,
    and not every turn costs a call of a model."""
    return 2 * policy.summary_tokens


def may_trim(policy: WindowPolicy, thread: Thread) -> bool:
    """Whether as much may have fallen out of the window as is summarised at once; by the thread's counts alone."""
    if not policy.summarise:
        return False
    match policy.limit:
        case "messages":
            return thread.message_count > most_messages(policy, thread.message_count)
        case "tokens":
            return thread.token_count > policy.max_tokens + step_of(policy)
        case _:
            return thread.raw_tokens > _CONTEXT_TOKENS + step_of(policy)


def trimmed(policy: WindowPolicy, thread: Thread, sizes: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Of the newest messages of a thread (seq and tokens, in order), those that its window does not show.

    Rather too few than too many: what is summarised is not to be shown beside its summary.
    """
    if policy.limit == "messages":
        kept = most_messages(policy, thread.message_count)
        return sizes[: max(0, len(sizes) - kept)]
    most = policy.max_tokens if policy.limit == "tokens" else _CONTEXT_TOKENS
    fewest = policy.min_messages if policy.limit == "tokens" else policy.last_messages
    end = len(sizes)
    left = most
    while end and left > 0:
        end -= 1
        left -= sizes[end][1]
    return sizes[: max(0, min(end, len(sizes) - fewest))]
