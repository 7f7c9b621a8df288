"""Any chat model that litellm can reach. Conversations leave this machine: only models that were named are asked."""

import asyncio
import functools
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from layerlore.extraction.chat.automatic import Models
from layerlore.extraction.chat.failures import SETUP_PAUSE_MS, RequestRefused, failed
from layerlore.extraction.chat.port import Answer, ThinkingFailed
from layerlore.extraction.chat.replies import Reply, read_reply
from layerlore.extraction.chat.structured import Form, Wrong, form_for, in_words, read_answer
from layerlore.memory.embedding.fitting import fit
from layerlore.memory.embedding.worker import Worker
from layerlore.memory.json_schema import check_schema
from layerlore.memory.litellm_loading import lacks_address, load_litellm
from layerlore.prompts import render
from layerlore.storage.records import Json

if TYPE_CHECKING:
    from layerlore.extraction.kind import Material

log = logging.getLogger(__name__)

T = TypeVar("T")

CHARACTERS_A_TOKEN = 16
"""An answer of more characters than so many for each token that it may have is not looked at."""

# Of an answer that could not be used, as it is shown to the model that wrote it.
_MOST_SHOWN = 20_000
# Seconds beyond the timeout: that is meant for a silence, and a server may send a byte now and then.
_GRACE = 5.0
# Requests that were given up and have not ended.
_MOST_LEFT = 8
_BLANK = "-"
# What OpenAI's library insists on and a server of one's own does not look at.
_NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class Turn:
    """One request, answered: what was said, and the answer in it (None: it is wrong)."""

    reply: Reply
    json: Json | None
    wrong: Wrong | None


class LitellmChat:
    """Models by litellm's names, with the keys in litellm's own variables, or one key for all of them."""

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
        """``timeout_seconds``: of one request, of which an answer takes three at most. ``max_answer_tokens``: of one
        answer, or as many as the model can."""
        self._models = models
        self._timeout = timeout_seconds
        self._deadline = timeout_seconds + grace
        self._most_tokens = max_answer_tokens
        self._options: dict[str, Any] = {
            "timeout": timeout_seconds,
            "max_retries": 0,
            "num_retries": 0,
            "drop_params": True,
        }
        if api_base:
            self._options["api_base"] = api_base
        self._api_key = api_key
        # Models that refused a schema: they are asked in words from then on.
        self._in_words: set[str] = set()
        self._left: set[Worker] = set()

    def model(self, kind: str) -> str:
        return self._models.by_kind.get(kind, "")

    async def answer(self, kind: str, material: "Material") -> Answer:
        """As the port says. An answer that is wrong is asked for once more, with what is wrong about it."""
        model = self.model(kind)
        if not model:
            raise ThinkingFailed(
                f"no model is set for {kind}", retryable=True, retry_after_ms=SETUP_PAUSE_MS, of_setup=True
            )
        check_schema(material.schema, f"the schema of {kind}")
        litellm = await self._litellm()
        first = await self._first(litellm, model, material)
        if first.json is not None:
            return Answer(first.json, model, first.reply.spent)
        second = await self._repaired(litellm, model, material, first)
        spent = first.reply.spent + second.reply.spent
        if second.json is None:
            raise ThinkingFailed(f"{model}: its answer cannot be used: {second.wrong}", retryable=True, spent=spent)
        return Answer(second.json, model, spent)

    async def _litellm(self) -> Any:
        try:
            return await _done_by(Worker("chat-load"), load_litellm)
        except Exception as error:
            log.exception("litellm cannot be loaded")
            raise ThinkingFailed(
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
        turn = await self._turn(litellm, model, material, in_words(material.schema))
        log.info("%s takes no schema: it is asked in words", model)
        self._in_words.add(model)
        return turn

    async def _repaired(self, litellm: Any, model: str, material: "Material", first: Turn) -> Turn:
        assert first.wrong is not None
        form = await self._form(litellm, model, material.schema)
        asked = render("repair", wrong=first.wrong.told, schema=material.schema).text
        try:
            return await self._turn(
                litellm,
                model,
                material,
                form,
                {"role": "assistant", "content": fit(first.reply.text, _MOST_SHOWN)},
                {"role": "user", "content": fit(asked, len(asked))},
            )
        except ThinkingFailed as error:
            error.spent = first.reply.spent + error.spent
            raise

    async def _form(self, litellm: Any, model: str, schema: Json) -> Form:
        if model in self._in_words:
            return in_words(schema)
        try:
            return await _done_by(Worker("chat-form"), functools.partial(form_for, litellm, model, schema))
        except Exception as error:  # noqa: BLE001 - litellm may look for what is not there
            raise failed(model, error) from None

    async def _turn(self, litellm: Any, model: str, material: "Material", form: Form, *more: Json) -> Turn:
        """One request. Raises ThinkingFailed for what is no answer at all."""
        self._left = {worker for worker in self._left if not worker.join(0)}
        if len(self._left) >= _MOST_LEFT:
            raise ThinkingFailed(
                f"{model}: {len(self._left)} requests were given up and have not ended", retryable=True
            )
        instructions = material.instructions + form.words
        talk = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": material.content or _BLANK},
            *more,
        ]
        worker = Worker("chat")
        try:
            with anyio.fail_after(self._deadline):
                return await _done_by(
                    worker, functools.partial(self._exchange, litellm, model, talk, form, material.schema)
                )
        except TimeoutError:
            self._left.add(worker)
            raise ThinkingFailed(f"{model}: no answer in {self._timeout:g} s", retryable=True) from None

    def _exchange(self, litellm: Any, model: str, talk: list[Json], form: Form, schema: Json) -> Turn:
        """In a thread: ask, count what it cost before anything else, read."""
        options = {**self._options, "max_tokens": self._tokens_for(litellm, model)}
        if form.response_format is not None:
            options["response_format"] = form.response_format
        if key := self._key_for(model):
            options["api_key"] = key
        try:
            self._check_address(litellm, model)
            answered = litellm.completion(model=model, messages=talk, **options)
        except ThinkingFailed:
            raise
        except Exception as error:  # noqa: BLE001 - litellm passes on what its providers' libraries raise
            raise failed(model, error) from None
        reply = read_reply(model, talk, answered, self._most_tokens * CHARACTERS_A_TOKEN)
        try:
            return Turn(reply, read_answer(reply.text, schema), None)
        except Wrong as wrong:
            return Turn(reply, None, wrong)

    def _check_address(self, litellm: Any, model: str) -> None:
        """Raises ThinkingFailed where litellm would choose an address that nobody named."""
        if "api_base" not in self._options and lacks_address(litellm, model):
            raise ThinkingFailed(
                f"{model}: it has no address: set llm.api_base",
                retryable=True,
                retry_after_ms=SETUP_PAUSE_MS,
                of_setup=True,
            )

    def _tokens_for(self, litellm: Any, model: str) -> int:
        known = litellm.model_cost.get(model) or litellm.model_cost.get(model.partition("/")[2]) or {}
        most = known.get("max_output_tokens")
        return min(self._most_tokens, most) if isinstance(most, int) and most > 0 else self._most_tokens

    def _key_for(self, model: str) -> str:
        own_server = "api_base" in self._options and model.startswith("openai/")
        return self._api_key or (_NO_KEY if own_server and not os.environ.get("OPENAI_API_KEY") else "")


async def _done_by(worker: Worker, work: Callable[[], T]) -> T:
    """Do it in the worker's thread, which ends with it. Who is cancelled leaves it behind: the process can end."""
    future = worker.submit(work)
    future.add_done_callback(lambda _: worker.stop())
    return await asyncio.wrap_future(future)
