"""What the calls cost that keep an agent's state: working memory, plan, attempts, a run's checkpoint, steps, events."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from benchmarks.call_rounds import Contender, RawCommits, alternate
from benchmarks.sample_text import SampleText
from benchmarks.servers import Connection
from benchmarks.tables import figure, verdict

HEADER = (
    "call",
    "p50 ms",
    "p95 ms",
    "CPU ms",
    "no-op p50",
    "no-op CPU",
    "ratio p50",
    "ratio CPU",
    "expected",
    "verdict",
)
STATE_THREAD = "state"
STATE_BYTES = 20_000

# As an add of a message: a call that does nothing, and a durable commit.
WRITE_RATIO = 1.5
READ_RATIO = 2.0

Act = Callable[[], Awaitable[object]]


def _acts(our: Connection, text: SampleText) -> dict[str, Act]:
    """Each call by its name; a run's three are one, since each needs the one before."""
    numbers = count()
    state = {"messages": [text.text() for _ in range(STATE_BYTES // 200)]}

    def call(tool: str, **arguments: Any) -> Act:
        return lambda: our.call(tool, thread_id=STATE_THREAD, **arguments)

    async def write_memory() -> None:
        await our.call("update_working_memory", content=f"{next(numbers)} {text.text()}", thread_id=STATE_THREAD)

    async def update_plan() -> None:
        patch = {"steps": [{"index": 0, "status": "in_progress", "result": f"{next(numbers)}"}]}
        await our.call("plan", action="update", plan=patch, thread_id=STATE_THREAD)

    async def run() -> None:
        name = f"run-{next(numbers)}"
        await our.call("suspend_run", run_id=name, state=state, thread_id=STATE_THREAD)
        resumed = await our.call("resume_run", run_id=name)
        await our.call("complete_run", run_id=name, claim=resumed["claim"])

    step = {"type": "tool_result", "operation_id": "op", "tool_name": "wind", "result": text.text()}
    return {
        "update_working_memory": write_memory,
        "get_working_memory": call("get_working_memory"),
        "plan update": update_plan,
        "plan review": call("plan", action="review"),
        "log_attempt": call("log_attempt", task_key="bench", action="try", result=text.text()),
        "record_steps": call("record_steps", steps=[step]),
        "suspend, resume, complete": run,
        "list_events": call("list_events", limit=20),
        "get_briefing": call("get_briefing", task="go on", task_key="bench"),
    }


READS = frozenset({"get_working_memory", "plan review", "list_events", "get_briefing"})
CALLS_IN_ONE = {"suspend, resume, complete": 3}


async def state_rows(
    our: Connection, idle: Connection, raw: RawCommits | None, *, rounds: int, calls: int
) -> tuple[list[list[str]], list[dict[str, Any]]]:
    """A row and the figures of each call, timed in turns with no-op calls and, on SQLite, with raw commits."""
    text = SampleText(2)
    plan = {"goal": "measure", "steps": [{"description": text.text()} for _ in range(5)]}
    await our.call("plan", action="create", plan=plan, thread_id=STATE_THREAD)
    rows, kept = [], []
    for name, act in _acts(our, text).items():
        contenders = {
            "ours": Contender(act, our.server),
            "no-op": Contender(lambda: idle.call("noop", text=text.text()), idle.server),
        }
        if raw is not None:
            contenders["commit"] = Contender(lambda: raw.commit(text.text()))
        timed = await alternate(contenders, rounds=rounds, calls=calls)
        mine, noop = timed["ours"], timed["no-op"]
        many = CALLS_IN_ONE.get(name, 1)
        floor = noop.ms(0.5) + (timed["commit"].ms(0.5) if "commit" in timed and name not in READS else 0.0)
        most = (READ_RATIO if name in READS else WRITE_RATIO) * many * floor
        held = mine.ms(0.5) <= most
        values = (mine.ms(0.5), mine.ms(0.95), mine.cpu_ms_per_call, noop.ms(0.5), noop.cpu_ms_per_call)
        cpu = mine.cpu_ms_per_call / noop.cpu_ms_per_call if noop.cpu_ms_per_call else float("nan")
        ratios = (mine.ms(0.5) / noop.ms(0.5), cpu)
        rows.append([name, *map(figure, (*values, *ratios)), f"{most:.2f} ms", verdict(held)])
        kept.append(
            {
                "call": name,
                "p50_ms": values[0],
                "p95_ms": values[1],
                "cpu_ms": values[2],
                "noop_p50_ms": values[3],
                "holds": held,
            }
        )
    return rows, kept
