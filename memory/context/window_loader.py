"""Reads as much of a thread as its window can hold: the cost follows the window, not the thread."""

from collections.abc import Sequence
from dataclasses import dataclass

from layerlore.memory.context.caches import WindowMessages
from layerlore.memory.context.context_blocks import OVERHEAD
from layerlore.memory.parts.tokens import PER_MESSAGE, TokenCounter
from layerlore.memory.window.fit import find_newest_from_user
from layerlore.memory.window.omissions import holds_newest, strip_orphans
from layerlore.memory.window.policy import WindowPolicy
from layerlore.memory.window.view import count_leading, lighten_messages
from layerlore.storage.core.records import Message, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages import windows

# Rows of one read. A first guess that is too small costs one more.
_MOST_ROWS = 1000
_FEWEST_ROWS = 20
_SPARE = 1.1


@dataclass(frozen=True, slots=True)
class LoadedWindow:
    """The newest messages of a thread in one run, and before it, if the policy wants them, its first ones and the
    newest from the user; ``older`` counts those that lie before the run and are not given."""

    lead: tuple[Message, ...]
    run: tuple[Message, ...]
    older: int


async def load_window(
    tx: Tx,
    scope: Scope,
    thread: Thread,
    policy: WindowPolicy,
    budget: int,
    counter: TokenCounter,
    known: WindowMessages,
) -> LoadedWindow:
    """What the window of the policy is made of, as far as ``budget`` tokens can hold it. ``known``: what the thread's
    last window held, which becomes what this one holds."""
    run = await _read_newest(tx, scope, thread, policy, budget, counter, known)
    known.keep(run)
    lead: list[Message] = []
    if run and run[0].seq > 1 and len(run) < thread.message_count:
        first = await windows.first(tx, scope, thread, most=count_leading(policy))
        lead = [message for message in first if message.seq < run[0].seq]
        if find_newest_from_user(run) is None:
            asked = await windows.latest_from_user(tx, scope, thread)
            if asked is not None and all(message.seq != asked.seq for message in lead):
                lead.append(asked)
    return LoadedWindow(tuple(lead), tuple(run), max(0, thread.message_count - len(run) - len(lead)))


async def _read_newest(
    tx: Tx,
    scope: Scope,
    thread: Thread,
    policy: WindowPolicy,
    budget: int,
    counter: TokenCounter,
    known: WindowMessages,
) -> list[Message]:
    most = _count_most(policy, thread)
    average = thread.token_count / max(1, thread.message_count) + OVERHEAD
    rows = min(_MOST_ROWS, int(_SPARE * _limit_tokens(policy, budget) / average) + _FEWEST_ROWS)
    run: list[Message] = []
    while len(run) < most:
        asked = min(rows, most - len(run))
        if run:
            before = run[0].seq
        else:
            before = None
        page = await windows.newest(tx, scope, thread, most=asked, before=before, make=known.make)
        run = [*page, *run]
        if len(page) < asked or _is_enough(run, policy, budget, counter):
            break
    return run


def _count_most(policy: WindowPolicy, thread: Thread) -> int:
    """How many messages the window can have at most; one more shows that something lies before it."""
    if policy.limit != "messages":
        return thread.message_count
    if policy.trim == "continuous":
        return policy.max_messages
    return policy.threshold


def _limit_tokens(policy: WindowPolicy, budget: int) -> int:
    if policy.limit == "tokens":
        return min(budget, policy.max_tokens)
    return budget


def _is_enough(run: Sequence[Message], policy: WindowPolicy, budget: int, counter: TokenCounter) -> bool:
    """Whether what lies before the run cannot be in the window."""
    newest = holds_newest(run, max(1, find_floor(policy)))
    # More messages than that can never be shown, whatever the policy wants to keep.
    if not newest and len(run) < budget // (PER_MESSAGE + OVERHEAD):
        return False
    light = strip_orphans(lighten_messages(run, policy, counter), counter)
    spent = sum(message.tokens for message in light)
    if policy.limit == "tokens" and spent > policy.max_tokens:
        return True
    return spent + len(light) * OVERHEAD > budget


def find_floor(policy: WindowPolicy) -> int:
    """How many of the newest messages the policy keeps whatever they cost."""
    return {"observed": policy.last_messages, "tokens": policy.min_messages, "messages": 0}[policy.limit]
