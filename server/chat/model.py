"""Any chat model that litellm reaches: a provider's, or that of a server with OpenAI's interface, such as Ollama."""

import asyncio
import importlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]
Say = Callable[[str], None]
"""Takes each piece of a text as it comes."""

# litellm ships its price list, and would look for a newer one on the web and read a .env file otherwise.
_OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}


class ModelFailed(Exception):
    """The model gave no answer; the text says why in one line."""


@dataclass(frozen=True)
class ToolCall:
    """A call that a model asks for. ``arguments`` is text as the model wrote it: usually a JSON object."""

    id: str
    name: str
    arguments: str

    def read_arguments(self) -> Json:
        """Raises ValueError where they are no JSON object."""
        given = json.loads(self.arguments or "{}")
        if not isinstance(given, dict):
            raise ValueError("must be a JSON object")
        return given

    def for_model(self) -> Json:
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True)
class ModelReply:
    """A model's text, the calls that it asks for, and its tokens as the provider counts them."""

    text: str
    calls: list[ToolCall] = field(default_factory=list)
    usage: Json = field(default_factory=dict)
    model: str = ""

    def as_message(self) -> Json:
        """The message that stands for it in the next request to the model."""
        if self.calls:
            calls = {"tool_calls": [call.for_model() for call in self.calls]}
        else:
            calls = {}
        return {"role": "assistant", "content": self.text, **calls}


class ChatModel(Protocol):
    """The interface of a model for the agent."""

    name: str

    async def ask(self, messages: list[Json], tools: list[Json], say: Say | None = None) -> ModelReply:
        """One answer; with ``say`` it is streamed there as it comes. Raises ModelFailed."""

    async def close(self) -> None:
        """No request follows that."""


class LitellmModel:
    """A model by its litellm name (``openai/gpt-5-mini``, ``ollama_chat/llama3.2``), with the keys in the variables that
    litellm reads, or with one given."""

    def __init__(self, name: str, *, api_base: str = "", api_key: str = "") -> None:
        self.name = name
        self._options: Json = {"timeout": 600, "max_retries": 2, "drop_params": True}
        if api_base:
            # OpenAI's library wants a key, also for a server that asks for none.
            self._options |= {"api_base": api_base, "api_key": api_key or os.environ.get("OPENAI_API_KEY") or "none"}
        elif api_key:
            self._options |= {"api_key": api_key}

    async def ask(self, messages: list[Json], tools: list[Json], say: Say | None = None) -> ModelReply:
        litellm = await asyncio.to_thread(load_litellm)
        self._check_key(litellm)
        request = {"model": self.name, "messages": messages, **self._options, **({"tools": tools} if tools else {})}
        try:
            if say is None:
                answer = await litellm.acompletion(**request)
            else:
                # litellm counts the tokens of a stream from all chunks together.
                chunks = []
                async for chunk in await litellm.acompletion(
                    **request, stream=True, stream_options={"include_usage": True}
                ):
                    chunks.append(chunk)
                    # The last chunk has only the usage, and no choices.
                    say((chunk.choices and chunk.choices[0].delta.content) or "")
                answer = litellm.stream_chunk_builder(chunks, messages=messages)
        # litellm raises classes of its providers' libraries, which have no common base.
        except Exception as error:
            raise ModelFailed(f"{self.name}: {_first_line(error)}") from error
        return self._read(answer)

    def _check_key(self, litellm: Any) -> None:
        """Raises ModelFailed if the provider needs a key and none is set: its library would try again for half a minute."""
        if "api_key" in self._options:
            return
        missing = litellm.validate_environment(model=self.name)["missing_keys"]
        # Other variables have substitutes that litellm does not name: profiles, default addresses.
        if missing and all(name.endswith("_API_KEY") for name in missing):
            raise ModelFailed(f"{self.name}: it needs a key: set {' or '.join(missing)}")

    async def close(self) -> None:
        """Close the connections that litellm keeps for this event loop."""
        litellm = await asyncio.to_thread(load_litellm)
        # Open connections would make the event loop warn at its end; litellm caches them in a second place, too.
        await litellm.close_litellm_async_clients()
        litellm.in_memory_llm_clients_cache.flush_cache()

    def _read(self, answer: Any) -> ModelReply:
        message = answer.choices[0].message
        calls = [
            ToolCall(each.id or f"call-{place}", each.function.name or "", each.function.arguments or "")
            # Some local servers give no id, and a tool's result must name one.
            for place, each in enumerate(message.tool_calls or ())
        ]
        usage = getattr(answer, "usage", None)
        return ModelReply(message.content or "", calls, usage.model_dump(exclude_none=True) if usage else {}, self.name)


def load_litellm() -> Any:
    """The module, whose import takes seconds. The first model call would do it, too."""
    os.environ.update(_OFFLINE)
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    # litellm would download a tokenizer from the web to count tokens.
    litellm.disable_hf_tokenizer_download = True
    return litellm


def _first_line(error: Exception) -> str:
    """litellm's errors begin with the name of their class."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


_RULES: tuple[tuple[str, str, Callable[[str], Json]], ...] = (
    (r"\?$", "recall_memory", lambda said: {"query": said, "limit": 5}),
    (
        r"\b(i am|i'm|i like|i love|i hate|i live|my \w+ is)\b",
        "update_working_memory",
        lambda said: {"scope": "resource", "content": f"- {said}"},
    ),
    (r"^(remember|note)\b", "remember", lambda said: {"content": said.partition(" ")[2] or said}),
    (
        r"^plan\b",
        "plan",
        lambda said: {
            "action": "create",
            "plan": {"goal": said, "steps": [{"description": each} for each in ("think", "do", "check")]},
        },
    ),
)
_NOTHING = (
    'I follow a script. "I like ..." goes into your profile, "remember ..." into a note, "plan ..." makes a plan, and a '
    "question is looked up. /memories shows what is kept, /context what a model would be shown."
)


# The text that the context puts before the user's words.
_BLOCKS = re.compile(r"\A(?:<([a-z-]+)>\n.*?\n</\1>\s*)+", re.DOTALL)


_DONE = {
    "update_working_memory": "I have put that into your profile. /memories shows it.",
    "remember": "I keep that in mind. /memories shows it.",
}


def _find_called(messages: list[Json]) -> str:
    """The name of the tool that was called last; "" without a call."""
    calls = [call for each in messages for call in each.get("tool_calls", ())]
    return str(calls[-1]["function"]["name"]) if calls else ""


def _report(tool: str, result: str) -> str:
    """A sentence about a tool's change, or the tool's text. Tools that change something answer with JSON, errors with text."""
    if tool in _DONE and result.startswith("{"):
        return _DONE[tool]
    return f"The tool says:\n\n```\n{result}\n```"


class ScriptedModel:
    """Calls the tool that fits the user's words, and reports the result."""

    name = "scripted"

    async def ask(self, messages: list[Json], tools: list[Json], say: Say | None = None) -> ModelReply:
        said = [(each["role"], _BLOCKS.sub("", str(each.get("content") or ""))) for each in messages]
        role, content = next(reversed([each for each in said if each[1] or each[0] != "user"]))
        if role == "user":
            called = self._choose(content, tools)
        else:
            called = None
        if called:
            text = ""
        elif role == "tool":
            text = _report(_find_called(messages), content)
        else:
            text = _NOTHING
        if say is not None:
            for piece in re.findall(r"\s*\S+", text):
                say(piece)
                await asyncio.sleep(0.01)
        spent = {"prompt_tokens": sum(len(each[1]) for each in said) // 4, "completion_tokens": len(text) // 4 + 1}
        return ModelReply(text, [called] if called else [], {**spent, "cost": 0}, self.name)

    async def close(self) -> None:
        """There is nothing to close."""

    def _choose(self, said: str, tools: list[Json]) -> ToolCall | None:
        offered = {each["function"]["name"] for each in tools}
        for pattern, name, arguments in _RULES:
            if name in offered and re.search(pattern, said, re.IGNORECASE):
                return ToolCall("call-1", name, json.dumps(arguments(said)))
        return None
