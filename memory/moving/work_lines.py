"""Runs and plans as lines bring them: what all who read stored ones take for granted is looked at before they are stored."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from layerlore.memory.moving.line_numbers import is_number
from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import describe
from layerlore.memory.work.pending_calls import check_calls
from layerlore.memory.work.plan_rules import STATUSES
from layerlore.memory.work.run_usage import LINE_COUNTS
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json

_CLAIM = ("claim", "claimed_by", "claimed_at", "claimed_until")


def check_run(line: Json, where: str, limits: Limits) -> None:
    """Raises InvalidInput or LimitExceeded for a run that no tool could have stored."""
    if not isinstance(line.get("metadata"), dict):
        raise InvalidInput(f"{where}.metadata: must be an object, not {describe(line.get('metadata'))}")
    # Masking made ids and names longer than they came in.
    masked = limits.model_copy(update={"id_chars": 2 * limits.id_chars, "name_chars": 2 * limits.name_chars})
    try:
        check_calls(line.get("pending"), masked)
    except InvalidInput as error:
        raise InvalidInput(f"{where}.{str(error).replace('pending_tool_calls', 'pending', 1)}") from None
    shapes: Mapping[str, Callable[[Any], bool]] = {
        "resumed": _is_answer,
        "answered": lambda each: isinstance(each, str),
        "usage": _is_spent,
    }
    for name, fits in shapes.items():
        value = line.get(name)
        if not isinstance(value, list) or not all(map(fits, value)):
            raise InvalidInput(f"{where}.{name}: is not what an export writes there")
    if line.get("status") == "running" and any(line.get(name) is None for name in _CLAIM):
        raise InvalidInput(f"{where}: a run that is running has {', '.join(_CLAIM)}")


def check_plan(plan: Any, where: str) -> None:
    """Raises InvalidInput for a plan that no tool could have stored."""
    texts, numbers = ("goal", "current_phase"), ("iteration", "last_id")
    whole = isinstance(plan, dict) and isinstance(plan.get("steps"), list)
    if not whole or not _has_texts(plan, texts) or not all(is_number(plan.get(name)) for name in numbers):
        raise InvalidInput(f"{where}: must have {', '.join((*texts, *numbers, 'steps'))}, as an export writes them")
    ids = [step["id"] for step in plan["steps"] if _is_step(step)]
    if len(set(ids)) < len(plan["steps"]):
        raise InvalidInput(f"{where}.steps: each must have an id of its own, phase, status and description")


def _is_step(step: Any) -> bool:
    named = isinstance(step, dict) and _has_texts({"result": "", **step}, ("id", "phase", "description", "result"))
    return named and step.get("status") in STATUSES


def _has_texts(value: Json, names: Sequence[str]) -> bool:
    return all(isinstance(value.get(name), str) for name in names)


def _is_answer(value: Any) -> bool:
    if not isinstance(value, dict) or "data" not in value or not is_number(value.get("at")):
        return False
    return all(isinstance(value.get(name, ""), str) for name in ("tool_call_id", "decision", "by"))


def _is_spent(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2 + LINE_COUNTS:
        return False
    return all(isinstance(each, str) for each in value[:2]) and all(map(is_number, value[2:]))
