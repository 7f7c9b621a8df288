"""The chat with any model that litellm can reach. Conversations leave this machine: only named models are used."""

import asyncio
import functools
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from layerlore.extraction.chat.chat_port import (
    AnswerForm,
    ChatAnswer,
    ChatFailed,
    Models,
    WrongAnswer,
    choose_form,
    choose_models,
    describe_schema,
    read_answer,
)
from layerlore.memory.embedding.port import clip_text
from layerlore.memory.embedding.remote import lacks_address, load_litellm
from layerlore.memory.embedding.thread_worker import Worker
from layerlore.memory.rules.json_schema import check_schema
from layerlore.memory.rules.validation import Limits
from layerlore.memory.settings.note_settings import LlmSettings
from layerlore.memory.usage.model_usage import ModelUsage, load_prices, price_call, read_usage
from layerlore.prompts import render
from layerlore.storage.audit.usage_rows import UsageSums
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json
from layerlore.storage.core.traces import CLIENT, Attributes, annotate, span

if TYPE_CHECKING:
    from layerlore.extraction.kinds.kind import Material
SETUP_PAUSE_MS = 300_000
_LONGEST_PAUSE_MS = 3_600_000

_OF_SETUP = "setup"
_OF_MOMENT = "moment"
_OF_REQUEST = "request"

# litellm's errors, the more specific first: the text for the caller, and the cause.
_ERRORS: tuple[tuple[str, str, str], ...] = (
    ("AuthenticationError", "its key is missing or was refused", _OF_SETUP),
    ("PermissionDeniedError", "its key may not use it", _OF_SETUP),
    ("NotFoundError", "no such model there", _OF_SETUP),
    ("LiteLLMUnknownProvider", "no such model: auto, none, or PROVIDER/MODEL as litellm names it", _OF_SETUP),
    ("PaymentRequiredError", "the account has no credit left", _OF_SETUP),
    ("ContextWindowExceededError", "the material is too long for it", _OF_REQUEST),
    ("ContentPolicyViolationError", "the provider's content policy refused the material", _OF_MOMENT),
    ("UnsupportedParamsError", "it does not support what was asked for", _OF_REQUEST),
    ("BadRequestError", "the request was refused", _OF_REQUEST),
    ("UnprocessableEntityError", "the request was refused", _OF_REQUEST),
    ("RateLimitError", "too many requests", _OF_MOMENT),
    ("Timeout", "no answer in time", _OF_MOMENT),
    ("InternalServerError", "no connection, or an error there", _OF_MOMENT),
    ("ServiceUnavailableError", "unavailable", _OF_MOMENT),
    ("BadGatewayError", "unavailable", _OF_MOMENT),
    ("APIConnectionError", "no connection, or an unreadable answer", _OF_MOMENT),
)
# Errors for which litellm has no class of its own, by their words, and the class to treat them as.
_WORDS = (
    ("insufficient_quota", "PaymentRequiredError"),
    ("Missing credentials", "AuthenticationError"),
    ("API key not valid", "AuthenticationError"),
    ("LLM Provider NOT provided", "LiteLLMUnknownProvider"),
    # llama-cpp-python's server, which knows no schema, answers with status 500.
    ("'response_format'", "UnsupportedParamsError"),
)
_STATUSES = {402: "PaymentRequiredError", 403: "PermissionDeniedError", 413: "ContextWindowExceededError"}
_IN_ITS_WORDS = linear_re.compile(r'"retryDelay":\s*"(\d+(?:\.\d+)?)s"')  # Gemini puts it in the body


class RequestRefused(ChatFailed):
    """The provider refused the request; it may accept one without a schema."""


def convert_error(model: str, error: Exception) -> ChatFailed:
    """Log an error of litellm, and return the failure to raise for it."""
    log.warning("asking %s failed: %s: %.300s", model, type(error).__name__, error)
    words = str(error)
    kinds = [
        *(kind for part, kind in _WORDS if part in words),
        # An error that is not in the table counts as its base class.
        *(kind.__name__ for kind in type(error).__mro__),
        _STATUSES.get(getattr(error, "status_code", 0), ""),
    ]
    for kind, reason, fault in _ERRORS:
        if kind in kinds:
            return _failure(f"{model}: {reason}", kind, fault, error)
    status = getattr(error, "status_code", None)
    return ChatFailed(
        f"{model}: {type(error).__name__} {status or ''}".rstrip(),
        # An error of unknown kind may pass, unless its status blames the request.
        retryable=not isinstance(status, int) or status >= 500,
    )


def _failure(text: str, kind: str, fault: str, error: Exception) -> ChatFailed:
    if fault == _OF_SETUP:
        return ChatFailed(text, retryable=True, retry_after_ms=SETUP_PAUSE_MS, of_setup=True)
    if fault == _OF_REQUEST:
        # A request without the schema would be too long as well, so it is not tried.
        refused = RequestRefused if kind != "ContextWindowExceededError" else ChatFailed
        return refused(text, retryable=False)
    return ChatFailed(text, retryable=True, retry_after_ms=read_retry_after(error))


def read_retry_after(error: Exception) -> int | None:
    """How long the provider asks to wait, in milliseconds: an hour at most. None if it does not say."""
    headers: Any = getattr(error, "litellm_response_headers", None)
    headers = headers or getattr(getattr(error, "response", None), "headers", None) or {}
    said = _milliseconds(headers.get("retry-after-ms"), 1) or _milliseconds(headers.get("retry-after"), 1000)
    if said is None:
        found = _IN_ITS_WORDS.search(str(error))
        if found:
            said = _milliseconds(found[1], 1000)
        else:
            said = None
    if said is None:
        return None
    return max(0, min(said, _LONGEST_PAUSE_MS))


def _milliseconds(value: Any, unit: int) -> int | None:
    """A number of units, or the time until an HTTP date."""
    if value is None:
        return None
    try:
        return round(min(float(value), _LONGEST_PAUSE_MS) * unit)
    except (ValueError, OverflowError):
        pass
    try:
        return round((parsedate_to_datetime(str(value)).timestamp() - time.time()) * 1000)
    except (ValueError, OverflowError):
        return None


_LIMITS = Limits()
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete text of a model, and the cost of the request."""

    text: str
    spent: UsageSums


def read_reply(model: str, talk: list[Json], answered: Any, most: int) -> Reply:
    """Read the text and its cost. Raises ChatFailed for a refusal, and for an answer that is empty, was cut off, or has
    more characters than ``most``."""
    choice = next(iter(_field(answered, "choices") or ()), None)
    message = _field(choice, "message")
    text = _text_of(_field(message, "content"))
    # The provider charges for an answer that cannot be used, too.
    cost = _cost(model, talk, text, _field(answered, "usage"))
    problem = _problem(text, message, _field(choice, "finish_reason"), most)
    if problem:
        raise ChatFailed(f"{model}: {problem}", retryable=True, spent=cost)
    return Reply(text, cost)


def _problem(text: str, message: Any, finish: Any, most: int) -> str:
    if finish == "content_filter":
        return "the provider's content filter stopped the answer"
    if _field(message, "refusal") or _field(_field(message, "provider_specific_fields"), "refusal"):
        return "it refused to answer"
    if len(text) > most:
        return f"its answer has {len(text):,} characters; at most {most:,} are allowed (llm.max_answer_tokens)"
    if finish == "length":
        return "its answer was cut off: it needs more tokens than llm.max_answer_tokens, or than the model has"
    if text.strip():
        return ""
    return "its answer is empty"


def _text_of(content: Any) -> str:
    """The text of a message, which some providers return in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text_of(_field(part, "text")) for part in content)
    return ""


def _cost(model: str, talk: list[Json], text: str, used: Any) -> UsageSums:
    """The cost as the provider counted it, else an estimate at four characters a token."""
    if hasattr(used, "model_dump"):
        raw = used.model_dump(exclude_none=True)
    else:
        raw = used
    try:
        if raw:
            usage = read_usage(raw, "usage", _LIMITS)
        else:
            usage = None
    except InvalidInput:
        usage = None
    if usage is None or not (usage.input or usage.output):
        sent = sum(len(each["content"]) for each in talk)
        usage = ModelUsage(input=-(-sent // _CHARACTERS_A_TOKEN), output=-(-len(text) // _CHARACTERS_A_TOKEN))
    return price_call(usage, model, load_prices()).spent


def _field(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name)
    return getattr(value, name, None)


log = logging.getLogger(__name__)

T = TypeVar("T")

CHARACTERS_A_TOKEN = 16
"""An answer with more characters than this for each token that it may have is not read."""

# Characters of an unusable answer that its model sees with the request to correct it.
_MOST_SHOWN = 20_000
# Seconds beyond the timeout, which litellm restarts with every byte that a server sends.
_GRACE = 5.0
# The most abandoned requests that may still run.
_MOST_LEFT = 8
_BLANK = "-"
# OpenAI's library insists on a key that a private server does not check.
_NO_KEY = "none"


def open_chat(settings: LlmSettings, environ: Mapping[str, str]) -> "LitellmChat | None":
    """The chat that the settings ask for, with nothing loaded yet; None if no kind of job has a model."""
    chosen = choose_models(settings.model, settings.by_kind, environ)
    if not chosen.distinct:
        return None
    return LitellmChat(
        chosen,
        api_base=settings.api_base,
        api_key=settings.api_key.get_secret_value(),
        timeout_seconds=settings.timeout_seconds,
        max_answer_tokens=settings.max_answer_tokens,
    )


@dataclass(frozen=True, slots=True)
class Turn:
    """One request and its reply. ``json``: the answer in it, None if it is wrong."""

    reply: Reply
    json: Json | None
    wrong: WrongAnswer | None


class LitellmChat:
    """Models by litellm's names, with the keys in litellm's own variables, or with one key for all of them."""

    def __init__(
        self,
        models: Models,
        *,
        api_base: str = "",
        api_key: str = "",
        timeout_seconds: float = 60.0,
        max_answer_tokens: int = 16_384,
        grace: float = _GRACE,
    ) -> None:
        """``timeout_seconds``: for one request; an answer takes up to three. ``max_answer_tokens``: the most tokens of one
        answer, or the model's own limit if that is lower."""
        self._models = models
        self._timeout = timeout_seconds
        self._deadline = timeout_seconds + grace
        self._most_tokens = max_answer_tokens
        self._options: dict[str, Any] = {
            "timeout": timeout_seconds,
            # Jobs have their own attempts, with pauses that hold for all workers.
            "max_retries": 0,
            "num_retries": 0,
            "drop_params": True,
        }
        if api_base:
            self._options["api_base"] = api_base
        self._api_key = api_key
        # Models that refused a schema: from then on the prompt describes it in words.
        self._in_words: set[str] = set()
        self._left: set[Worker] = set()

    def model(self, kind: str) -> str:
        return self._models.by_kind.get(kind, "")

    async def answer(self, kind: str, material: "Material") -> ChatAnswer:
        """Ask for one answer; ask once more, saying what is wrong, if the first one is wrong. Raises ChatFailed."""
        model = self.model(kind)
        if not model:
            raise ChatFailed(
                f"no model is set for {kind}", retryable=True, retry_after_ms=SETUP_PAUSE_MS, of_setup=True
            )
        # A wrong schema is our own defect, and must not cost a request.
        check_schema(material.schema, f"the schema of {kind}")
        litellm = await self._litellm()
        first = await self._first(litellm, model, material)
        if first.json is not None:
            return ChatAnswer(first.json, model, first.reply.spent)
        second = await self._repaired(litellm, model, material, first)
        spent = first.reply.spent + second.reply.spent
        if second.json is None:
            raise ChatFailed(f"{model}: its answer cannot be used: {second.wrong}", retryable=True, spent=spent)
        return ChatAnswer(second.json, model, spent)

    async def _litellm(self) -> Any:
        try:
            return await _run_in(Worker("chat-load"), load_litellm)
        except Exception as error:
            log.exception("litellm cannot be loaded")
            raise ChatFailed(
                f"litellm cannot be loaded ({type(error).__name__})",
                retryable=True,
                retry_after_ms=SETUP_PAUSE_MS,
                of_setup=True,
            ) from None

    async def _first(self, litellm: Any, model: str, material: "Material") -> Turn:
        form = await self._form(litellm, model, material.schema)
        try:
            return await self._turn(litellm, model, material, form)
        except RequestRefused:
            if form.response_format is None:
                raise
        turn = await self._turn(litellm, model, material, describe_schema(material.schema))
        log.info("%s takes no schema: it is asked in words", model)
        self._in_words.add(model)
        return turn

    async def _repaired(self, litellm: Any, model: str, material: "Material", first: Turn) -> Turn:
        assert first.wrong is not None
        form = await self._form(litellm, model, material.schema)
        correction = render("repair", wrong=first.wrong.for_model, schema=material.schema).text
        try:
            return await self._turn(
                litellm,
                model,
                material,
                form,
                {"role": "assistant", "content": clip_text(first.reply.text, _MOST_SHOWN)},
                {"role": "user", "content": clip_text(correction, len(correction))},
            )
        except ChatFailed as error:
            error.spent = first.reply.spent + error.spent
            raise

    async def _form(self, litellm: Any, model: str, schema: Json) -> AnswerForm:
        if model in self._in_words:
            return describe_schema(schema)
        try:
            return await _run_in(Worker("chat-form"), functools.partial(choose_form, litellm, model, schema))
        except Exception as error:  # noqa: BLE001 - litellm may raise anything
            raise convert_error(model, error) from None

    async def _turn(self, litellm: Any, model: str, material: "Material", form: AnswerForm, *more: Json) -> Turn:
        """Send one request. Raises ChatFailed without a readable answer."""
        # Requests that ran out of time go on in their threads, and must not pile up.
        self._left = {worker for worker in self._left if not worker.join(0)}
        if len(self._left) >= _MOST_LEFT:
            raise ChatFailed(f"{model}: {len(self._left)} requests were given up and have not ended", retryable=True)
        instructions = material.instructions + form.words
        talk = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": material.content or _BLANK},
            *more,
        ]
        worker = Worker("chat")
        attributes: Attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
        try:
            with span(f"chat {model}", attributes, CLIENT), anyio.fail_after(self._deadline):
                turn = await _run_in(
                    worker, functools.partial(self._exchange, litellm, model, talk, form, material.schema)
                )
                annotate("gen_ai.usage.input_tokens", turn.reply.spent.input_tokens)
                annotate("gen_ai.usage.output_tokens", turn.reply.spent.output_tokens)
                return turn
        except TimeoutError:
            self._left.add(worker)
            raise ChatFailed(f"{model}: no answer in {self._timeout:g} s", retryable=True) from None

    def _exchange(self, litellm: Any, model: str, talk: list[Json], form: AnswerForm, schema: Json) -> Turn:
        """In a thread: ask, count the cost first, then read the answer."""
        options = {**self._options, "max_tokens": self._tokens_for(litellm, model)}
        if form.response_format is not None:
            options["response_format"] = form.response_format
        if key := self._key_for(model):
            options["api_key"] = key
        try:
            self._check_address(litellm, model)
            answered = litellm.completion(model=model, messages=talk, **options)
        except ChatFailed:
            raise
        except Exception as error:  # noqa: BLE001 - litellm passes on errors of its providers' libraries
            raise convert_error(model, error) from None
        reply = read_reply(model, talk, answered, self._most_tokens * CHARACTERS_A_TOKEN)
        try:
            return Turn(reply, read_answer(reply.text, schema), None)
        except WrongAnswer as wrong:
            return Turn(reply, None, wrong)

    def _check_address(self, litellm: Any, model: str) -> None:
        """Raises ChatFailed if litellm would choose an address that no setting names."""
        if "api_base" not in self._options and lacks_address(litellm, model):
            raise ChatFailed(
                f"{model}: it has no address: set llm.api_base",
                retryable=True,
                retry_after_ms=SETUP_PAUSE_MS,
                of_setup=True,
            )

    def _tokens_for(self, litellm: Any, model: str) -> int:
        known = litellm.model_cost.get(model) or litellm.model_cost.get(model.partition("/")[2]) or {}
        most = known.get("max_output_tokens")
        if isinstance(most, int) and most > 0:
            return min(self._most_tokens, most)
        return self._most_tokens

    def _key_for(self, model: str) -> str:
        own_server = "api_base" in self._options and model.startswith("openai/")
        return self._api_key or (_NO_KEY if own_server and not os.environ.get("OPENAI_API_KEY") else "")


async def _run_in(worker: Worker, work: Callable[[], T]) -> T:
    """Run work in the worker's thread, which ends with it. On cancellation the thread is abandoned, so that the process
    can end."""
    future = worker.submit(work)
    future.add_done_callback(lambda _: worker.stop())
    return await asyncio.wrap_future(future)
