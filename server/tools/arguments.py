"""Checks the arguments of a call, and decides which of them count as left out.

Some clients send every argument, because their provider requires it (OpenAI's strict mode) or because they know no
better: null, ``""``, ``0``, ``[]`` or ``{}`` then stands for an argument that they do not mean. So an optional argument
counts as left out when it is null, equal to its default, or empty. An empty value that has a meaning (``title: ""``
removes a title) keeps it only in a call that leaves out another argument: a call with all of them fills them in.
"""

import difflib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, ValidationError
from pydantic.fields import FieldInfo

from layerlore.memory.rules.ages import end_of_day
from layerlore.memory.rules.time_zones import current_zone
from layerlore.memory.rules.validation import parse_time
from layerlore.storage.core import linear_re

if TYPE_CHECKING:
    from mcp.server.mcpserver.tools import Tool

Arguments = dict[str, Any]
"""The arguments of a call, by name."""

EMPTY_SAYS = "the empty value of this argument has a meaning"
"""Annotates such an argument."""
NULL_SAYS = "null has a meaning for this argument"
"""Annotates an argument for which null is a value, in a call that leaves out another argument."""
UNLISTED = "no model needs this argument"
"""Annotates an argument that a tool accepts but does not list."""
NESTED = "a client may fill in the objects of this argument"
"""Annotates an argument whose objects follow the same rule as calls: an empty value counts as left out of an object that
has every key of its schema, and keeps its meaning in any other."""

_DATE = linear_re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}")
_MOST_PROBLEMS = 5
# An error shows at most this many characters of an unknown name.
_LONGEST_NAME = 64
_EMPTY: dict[str, Any] = {"integer": 0, "array": [], "object": {}}
_HUMP = linear_re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_COUNTERPARTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("conversation_id", "chat_id", "session_id", "conversation", "thread", "chat"), ("thread_id",)),
    **dict.fromkeys(
        (
            "top_k",
            "topk",
            "k",
            "semantic_limit",
            "num_results",
            "max_results",
            "last_messages",
            "max_messages",
            "last_n",
        ),
        ("limit",),
    ),
    **dict.fromkeys(
        ("threshold", "semantic_threshold", "similarity_threshold", "score_threshold", "min_relevance"), ("min_score",)
    ),
    **dict.fromkeys(("from", "start", "start_date", "date_from", "from_date", "after_date"), ("since",)),
    **dict.fromkeys(("to", "end", "end_date", "date_to", "to_date", "before_date"), ("until",)),
    **dict.fromkeys(("max_token", "token_limit", "token_budget", "tokens"), ("max_tokens",)),
    **dict.fromkeys(("question", "q", "search", "search_query", "input"), ("query", "data")),
    **dict.fromkeys(("text", "fact", "note", "memory", "value", "working_memory"), ("content", "query")),
    **dict.fromkeys(("quote", "quotes"), ("evidence",)),
    **dict.fromkeys(("role", "message_roles"), ("roles",)),
    **dict.fromkeys(("message", "message_list"), ("messages",)),
    **dict.fromkeys(("sort_by", "sort", "order"), ("order_by",)),
    **dict.fromkeys(("name", "conversation_title"), ("title",)),
    **dict.fromkeys(("message_ids", "id", "memory_id", "memory_ids", "entry_ids"), ("ids", "entry_id")),
    **dict.fromkeys(("mode", "delete_mode"), ("which",)),
    **dict.fromkeys(("resume_data", "response", "payload"), ("data",)),
    **dict.fromkeys(("checkpoint", "snapshot", "workflow_state"), ("state",)),
    **dict.fromkeys(("ttl", "expires_in"), ("ttl_seconds",)),
    **dict.fromkeys(("step", "conversation_steps"), ("steps",)),
    **dict.fromkeys(("result", "response_data"), ("output",)),
    **dict.fromkeys(("include_state",), ("with_state",)),
    **dict.fromkeys(("execution_id", "workflow_run_id"), ("run_id",)),
    **dict.fromkeys(("task", "task_id"), ("task_key",)),
    **dict.fromkeys(("error", "failure"), ("output", "reason")),
    **dict.fromkeys(("memory_scope",), ("scope",)),
    **dict.fromkeys(("memory_type", "types", "kind", "type"), ("kinds", "types")),
}
"""Other systems' names for an argument, each with ours. The first of ours that the tool has is meant."""

_OF_CALLER = "no argument names a user or an agent: they come from the credential, or from how the server is launched"
_IN_SETTINGS = "it is a setting of the server, not of a call"
_ELSEWHERE: tuple[tuple[frozenset[str], dict[str, str]], ...] = (
    (
        frozenset({"user_id", "user", "resource_id", "resource", "agent_id", "agent", "tenant_id", "tenant", "run_as"}),
        {"": _OF_CALLER},
    ),
    (
        frozenset({"offset", "skip", "page"}),
        {"cursor": "use cursor: pages continue with the next_cursor of the last", "limit": "use limit"},
    ),
    (
        frozenset({"goal", "current_phase", "iteration", "phases", "phase"}),
        {"plan": 'it is a key inside plan: plan={"goal": ..., "current_phase": ..., "steps": [...]}'},
    ),
    (frozenset({"steps", "status"}), {"plan": 'it is a key inside plan: plan={"steps": [...]}'}),
    (
        frozenset({"content", "role", "files", "created_at", "tool_calls"}),
        {"messages": 'it is a key of a message: messages=[{"role": "user", "content": "..."}]'},
    ),
    (
        frozenset({"metadata", "history_ids", "input_ids", "response_ids", "turn", "persistence"}),
        {"messages": "it is a key inside messages"},
    ),
    (frozenset({"approved", "approve", "deny"}), {"data": 'use data={"approved": true}', "decisions": "use decisions"}),
    (
        frozenset(
            {"schema", "template", "system_prompt", "generate_title", "embedder", "embedding", "embedding_model"}
        ),
        {"": _IN_SETTINGS},
    ),
    (
        frozenset({"trim_mode", "drop", "trim", "limit_type", "max_images", "threshold", "summarize_prompt"}),
        {"window": "it is a key inside window", "": "update_thread(window={...}) sets it for a conversation"},
    ),
    (frozenset({"descending", "asc", "desc", "direction"}), {"order_by": "use descending"}),
    (frozenset({"namespace", "container", "collection"}), {"": _OF_CALLER}),
)
"""Arguments of other systems that are something else here: for a tool that has the first argument ("": for any), the hint."""

_SAME_VALUES: dict[str, dict[str, str]] = {
    "scope": {
        **dict.fromkeys(("user", "profile", "user_profile", "global", "agent"), "resource"),
        **dict.fromkeys(("conversation", "session", "chat", "session_memory"), "thread"),
    },
    "status": {
        **dict.fromkeys(("success", "succeeded", "done", "finished"), "completed"),
        **dict.fromkeys(("error", "failure"), "failed"),
        **dict.fromkeys(("canceled", "aborted"), "cancelled"),
        **dict.fromkeys(("waiting", "paused", "pending"), "suspended"),
        "active": "running",
    },
    "roles": {"human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool"},
    "which": {
        **dict.fromkeys(("last", "latest", "by_latest", "by_latest_workflow_request"), "last_turn"),
        "everything": "all",
    },
    "kinds": {
        **dict.fromkeys(("entries", "memory", "memories", "fact", "facts", "episodic"), "entry"),
        **dict.fromkeys(("messages", "conversation", "conversations"), "message"),
    },
    "mode": {"overwrite": "replace", "set": "replace", "add": "append"},
    "format": {"markdown": "text", "md": "text", "vercel": "ai-sdk", "ai_sdk": "ai-sdk", "google": "gemini"},
    "detail": {"full": "high", "brief": "low", "short": "low"},
    "order_by": {"created": "created_at", "updated": "updated_at"},
}
"""By argument, other systems' values and ours."""


def check_arguments(tool: "Tool", arguments: dict[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """The arguments for the tool's function, with defaults for those that are left out, and the names of the others.
    Raises ToolError."""
    from mcp.server.mcpserver.exceptions import ToolError

    schemas: Mapping[str, Any] = tool.parameters.get("properties", {})
    allowed = list(schemas)
    arguments = _rename(arguments, allowed)
    unknown = [name for name in arguments if name not in allowed]
    if unknown:
        if allowed:
            takes = f"it takes {', '.join(allowed)}"
        else:
            takes = "it takes none"
        hint = _find_hint(unknown[0], allowed) or suggest_name(unknown[0], allowed)
        raise ToolError(f"{tool.name} has no argument {quote_name(unknown[0])}{hint} ({takes})")
    named = {name: _rename_value(name, value, schemas[name]) for name, value in arguments.items()}
    given = drop_left_out(tool, named)
    try:
        # drop_left_out has read JSON text already, and the SDK's own function would read it again.
        return tool.fn_metadata.arg_model.model_validate(given).model_dump_one_level(), frozenset(given)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        shown = "; ".join(f"{_place(problem['loc'])}: {problem['msg']}" for problem in problems[:_MOST_PROBLEMS])
        raise ToolError(f"{tool.name}: {shown}") from error


def _rename(arguments: Mapping[str, Any], allowed: Collection[str]) -> Arguments:
    """The arguments under our names, where another system has another name for the same."""
    found: Arguments = {}
    for name, value in arguments.items():
        short = name[:_LONGEST_NAME]
        # Names of other systems come in camelCase, snake_case and with hyphens.
        snake = _HUMP.sub("_", short).lower().replace("-", "_")
        known = (snake, *_COUNTERPARTS.get(snake, ()))
        # A value is never moved to an argument that the call names itself.
        ours = next((each for each in known if each in allowed and each not in arguments and each not in found), name)
        found[name if name in allowed else ours] = value
    return found


def _rename_value(name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    """The value of an argument with other systems' values replaced by ours. A single text stands for a list."""
    items: Mapping[str, Any] = schema.get("items", {})
    if schema.get("type") != "array" or items.get("type") != "string":
        return _find_same(name, value, schema)
    # A text that begins with a bracket is a list as JSON, which is read later.
    is_one = isinstance(value, str) and value and not value.lstrip().startswith("[")
    if is_one:
        values = [value]
    else:
        values = value
    if isinstance(values, list):
        return [_find_same(name, each, items) for each in values]
    return values


def _find_same(name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    same = _SAME_VALUES.get(name)
    if same is None or not isinstance(value, str):
        return value
    known = schema.get("enum") or same.values()
    # A value that the tool knows is never replaced.
    if value in known:
        return value
    snake = _HUMP.sub("_", value[:_LONGEST_NAME].strip()).lower().replace("-", "_").replace(" ", "_")
    meant = (same.get(snake), snake)
    return next((each for each in meant if each in known), value)


def _find_hint(name: str, allowed: Collection[str]) -> str:
    """The hint of an error about an argument of other systems that has another place here; "" without one."""
    snake = _HUMP.sub("_", name[:_LONGEST_NAME]).lower()
    hints = next((hints for names, hints in _ELSEWHERE if snake in names), {})
    hint = next((text for argument, text in hints.items() if not argument or argument in allowed), "")
    if not hint:
        ours = next((each for each in _COUNTERPARTS.get(snake, ()) if each in allowed), "")
        if ours:
            hint = f"it is the same as {ours}, which is given, too"
    if hint:
        return f"; {hint}"
    return ""


def quote_name(name: str) -> str:
    """An unknown name as an error quotes it, cut if it is long."""
    return repr(name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…")


def suggest_name(name: str, allowed: list[str]) -> str:
    """The hint of an error if an allowed name is similar to this one; "" otherwise."""
    near = difflib.get_close_matches(name[:_LONGEST_NAME], allowed, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return ""


def _write_number(value: Any) -> Any:
    # For Python a bool is an int, but it is not a time.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number:
        return str(value)
    return value


Moment = Annotated[str, BeforeValidator(_write_number)]
"""A time as an argument: ISO 8601, or a number of seconds or milliseconds since 1970, whose digits the function gets."""


def parse_since(text: str, where: str = "since") -> int:
    """A ``since`` in milliseconds since 1970: one that names no zone is in that of the call."""
    return parse_time(text, where, current_zone())


def parse_until(text: str) -> int:
    """An ``until`` in milliseconds since 1970: a date alone means the whole day, to its last moment."""
    moment = parse_time(text, "until", current_zone())
    # A date alone parses as the day's first moment, which would exclude the whole day.
    if _DATE.fullmatch(text.strip()):
        return end_of_day(moment)
    return moment


def drop_left_out(tool: "Tool", arguments: Mapping[str, Any]) -> Arguments:
    """The arguments that do not count as left out, with JSON text read where it stands for a list or an object."""
    schemas: Mapping[str, Any] = tool.parameters["properties"]
    fields = tool.fn_metadata.arg_model.model_fields
    # Objects and lists may come as JSON text, and an empty one inside it counts as left out.
    sent = tool.fn_metadata.pre_parse_json(dict(arguments))
    # A client that fills in everything knows only the listed arguments.
    listed = {name: each for name, each in schemas.items() if UNLISTED not in fields[name].metadata}
    filled_in = _fills_in(sent, listed)
    # A client that names every argument sends null for those that it does not mean.
    names_all = listed.keys() <= sent.keys()
    kept: Arguments = {}
    for name, raw in sent.items():
        if NESTED in fields[name].metadata:
            value = _without_empty(raw, schemas[name])
        else:
            value = raw
        null_says = value is None and NULL_SAYS in fields[name].metadata and not names_all
        if null_says or not _is_left_out(value, fields[name], schemas[name], filled_in):
            kept[name] = value
    return kept


def _fills_in(sent: Mapping[str, Any], schemas: Mapping[str, Any]) -> bool:
    return all(sent.get(name) is not None for name in schemas)


def _is_left_out(value: Any, field: FieldInfo, schema: Mapping[str, Any], filled_in: bool) -> bool:
    if field.is_required():
        return False
    if value is None:
        return True
    if EMPTY_SAYS in field.metadata and not filled_in:
        return False
    return _is_empty(value, schema) or value == field.default


def _is_empty(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether it is the empty text, which is empty for every type, or the empty value of the schema's type."""
    # For Python False equals 0, but as an argument it has a meaning.
    return not isinstance(value, bool) and value in ("", _EMPTY.get(schema.get("type", ""), ""))


def _without_empty(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_without_empty(each, schema.get("items", {})) for each in value]
    if not isinstance(value, dict):
        return value
    schemas: Mapping[str, Any] = schema.get("properties", {})
    filled_in = bool(schemas) and _fills_in(value, schemas)
    inner = {name: _without_empty(each, schemas.get(name, {})) for name, each in value.items()}
    return {
        name: each
        for name, each in inner.items()
        if not (filled_in and name in schemas and _is_empty(each, schemas[name]))
    }


def _place(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".") or "arguments"
