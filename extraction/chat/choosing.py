"""The chat that the settings ask for."""

from collections.abc import Mapping
from typing import Protocol

from pydantic import SecretStr

from layerlore.extraction.chat.automatic import Models, models
from layerlore.extraction.chat.litellm_chat import LitellmChat


class Choice(Protocol):
    """The settings that choose: see ``configs/sqlite.toml``."""

    @property
    def model(self) -> str: ...

    @property
    def by_kind(self) -> Mapping[str, str]: ...

    @property
    def api_base(self) -> str: ...

    @property
    def api_key(self) -> SecretStr: ...

    @property
    def timeout_seconds(self) -> float: ...

    @property
    def max_answer_tokens(self) -> int: ...


def models_of(choice: Choice, environ: Mapping[str, str]) -> Models:
    """Which model each kind of job has, with these variables."""
    return models(choice.model, choice.by_kind, environ)


def chat(choice: Choice, environ: Mapping[str, str]) -> LitellmChat | None:
    """The chat, nothing of it loaded yet; None where no kind of job has a model."""
    chosen = models_of(choice, environ)
    if not chosen.distinct:
        return None
    return LitellmChat(
        chosen,
        api_base=choice.api_base,
        api_key=choice.api_key.get_secret_value(),
        timeout_seconds=choice.timeout_seconds,
        max_answer_tokens=choice.max_answer_tokens,
    )
