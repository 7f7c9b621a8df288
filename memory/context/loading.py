"""Reads as much of a thread as its window can hold: the cost follows the window, not the thread."""

from collections.abc import Sequence
from dataclasses import dataclass

from layerlore.memory.context.message_lines import OVERHEAD
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.window.fitting import newest_from_user
from layerlore.memory.window.policy import WindowPolicy
from layerlore.memory.window.view import leading, lightened
from layerlore.storage import windows
from layerlore.storage.records import Message, Scope, Thread
from layerlore.storage.transaction import Tx

# Rows of one read. A first guess that is too small costs one more.
_MOST_ROWS = 1000
_FEWEST_ROWS = 20
_SPARE = 1.1


@dataclass(frozen=True, slots=True)
class Loaded:
    """The newest messages of a thread in one run, and before it, if the policy wants them, its first ones and the
    newest from the user; ``older`` counts those that lie before the run and are not given."""

    lead: tuple[Message, ...]
    run: tuple[Message, ...]
    older: int


async def load(
    tx: Tx, scope: Scope, thread: Thread, policy: WindowPolicy, budget: int, counter: TokenCounter, *, cursor: int = 0
) -> Loaded:
    """What the window of the policy is made of, as far as ``budget`` tokens can hold it."""
    run = await _newest(tx, scope, thread, policy, budget, counter, cursor)
    lead: list[Message] = []
    if run and run[0].seq > 1 and len(run) < thread.message_count:
        first = await windows.first(tx, scope, thread, most=leading(policy))
        lead = [message for message in first if message.seq < run[0].seq]
        if newest_from_user(run) is None:
            asked = await windows.latest_from_user(tx, scope, thread)
            if asked is not None and all(message.seq != asked.seq for message in lead):
                lead.append(asked)
    return Loaded(tuple(lead), tuple(run), max(0, thread.message_count - len(run) - len(lead)))


async def _newest(
    tx: Tx, scope: Scope, thread: Thread, policy: WindowPolicy, budget: int, counter: TokenCounter, cursor: int
) -> list[Message]:
    most = _most(policy, thread)
    average = thread.token_count / max(1, thread.message_count) + OVERHEAD
    rows = min(_MOST_ROWS, int(_SPARE * _tokens(policy, budget) / average) + _FEWEST_ROWS)
    run: list[Message] = []
    while len(run) < most:
        asked = min(rows, most - len(run))
        page = await windows.newest(tx, scope, thread, most=asked, before=run[0].seq if run else None)
        run = [*page, *run]
        if len(page) < asked or _enough(run, policy, budget, counter, cursor):
            break
    return run


def _most(policy: WindowPolicy, thread: Thread) -> int:
    """How many messages the window can have at most; one more shows that something lies before it."""
    if policy.limit != "messages":
        return thread.message_count
    return policy.max_messages if policy.trim == "continuous" else policy.threshold


def _tokens(policy: WindowPolicy, budget: int) -> int:
    return min(budget, policy.max_tokens) if policy.limit == "tokens" else budget


def _enough(run: Sequence[Message], policy: WindowPolicy, budget: int, counter: TokenCounter, cursor: int) -> bool:
    """Whether what lies before the run cannot be in the window."""
    if policy.limit == "observed" and run[0].seq <= cursor and len(run) >= policy.last_messages:
        return True
    # More messages than that can never be shown, whatever the policy wants to keep.
    if len(run) < min(floor_of(policy), budget // OVERHEAD):
        return False
    spent = sum(message.tokens for message in lightened(run, policy, counter))
    if policy.limit == "tokens" and spent > policy.max_tokens:
        return True
    return spent + len(run) * OVERHEAD > budget


def floor_of(policy: WindowPolicy) -> int:
    """How many of the newest messages the policy keeps whatever they cost."""
    return {"observed": policy.last_messages, "tokens": policy.min_messages, "messages": 0}[policy.limit]
