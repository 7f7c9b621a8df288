"""What was spent in a run: its own calls of models, those of its sub-agents, and the sum of all (seed 002's
``SubAgentUsage`` and ``totalCost``).

It is kept with the run as lines, one for each agent and model; the run's own have no agent. Runs of sub-agents that name
the run as their parent keep lines of their own, and count as that agent's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields

from layerlore.memory.usage.sums import add_lines, present_spent
from layerlore.memory.work.run_answers import RunUsage, SubAgentUsage
from layerlore.storage.audit.usage import Spent, UsageLine
from layerlore.storage.core.damaged_values import list_of
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.work import runs

MOST_BELOW = 500
"""Runs of sub-agents whose spending is summed."""
# Agents and models that are told apart in one run; what others spend is one line.
_MOST_LINES = 100
_OTHERS = "others"

LINE_COUNTS = len(fields(Spent))
"""How many numbers a line is kept with, behind the agent and the model."""

AgentLine = tuple[str, UsageLine]
"""A line, and the sub-agent who spent it (empty: the run's own agent)."""


async def spend(tx: Tx, scope: Scope, thread: Thread, run_id: str, lines: Sequence[AgentLine]) -> None:
    """Add lines to a run of a thread that the transaction holds. Nothing happens where there is no such run."""
    before = await runs.read_spent(tx, scope, thread, run_id)
    if before is not None:
        await runs.spend(tx, scope, thread, run_id, _write(_merge([*_read(before), *lines])))


async def read_below(tx: Tx, scope: Scope, run_id: str) -> list[AgentLine]:
    """What the runs of sub-agents spent, under their workflow's name, else their run's."""
    found = await runs.read_spent_below(tx, scope, run_id, most=MOST_BELOW)
    return [(agent or workflow_id or id_, line) for id_, workflow_id, spent in found for agent, line in _read(spent)]


def show_usage(own: str, below: Sequence[AgentLine]) -> RunUsage | None:
    """The sum, and the lines of each sub-agent, the most expensive first; None where nothing was spent."""
    lines = _merge([*_read(own), *below])
    if not lines:
        return None
    usage: RunUsage = {**present_spent(add_lines(line for _, line in lines))}
    shown = [_show_sub_agent(agent, line) for agent, line in sorted(lines, key=_rank) if agent]
    if shown:
        usage["sub_agents"] = shown
    return usage


def _show_sub_agent(agent: str, line: UsageLine) -> SubAgentUsage:
    if not line.model:
        return {"agent": agent, **present_spent(line.spent)}
    return {"agent": agent, "model": line.model, **present_spent(line.spent)}


def _rank(found: AgentLine) -> tuple[int, int, str, str]:
    agent, line = found
    return -line.spent.cost_nano_usd, -(line.spent.input_tokens + line.spent.output_tokens), agent, line.model


def _merge(lines: Iterable[AgentLine]) -> list[AgentLine]:
    sums: dict[tuple[str, str], Spent] = {}
    for agent, line in lines:
        key = (agent, line.model)
        if key not in sums and len(sums) >= _MOST_LINES:
            key = (_OTHERS if agent else "", "")
        sums[key] = sums.get(key, Spent()) + line.spent
    return [(agent, UsageLine(model, "", spent)) for (agent, model), spent in sums.items()]


def _write(lines: Iterable[AgentLine]) -> str:
    return to_json([[agent, line.model, *astuple(line.spent)] for agent, line in lines])


def _read(text: str) -> list[AgentLine]:
    return [(agent, UsageLine(model, "", Spent(*counts))) for agent, model, *counts in list_of(text)]
