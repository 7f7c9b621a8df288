"""The overflow of a thread: what falls out of its window and is to be summarised, as its policy says."""

from collections.abc import Sequence

from layerlore.memory.engine.engine import Engine
from layerlore.memory.window.policy import WindowPolicy, choose_policy
from layerlore.memory.window.view import count_most_messages
from layerlore.storage.core.records import Thread

# A context has so many tokens unless more are asked for.
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
    most = policy.max_tokens if policy.limit == "tokens" else _CONTEXT_TOKENS
    fewest = policy.min_messages if policy.limit == "tokens" else policy.last_messages
    end = len(sizes)
    left = most
    while end and left > 0:
        end -= 1
        left -= sizes[end][1]
    return sizes[: max(0, min(end, len(sizes) - fewest))]
