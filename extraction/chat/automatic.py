"""Which model is asked, if any: nobody's conversations are sent anywhere unless a setting says so.

``auto`` is such a setting: it takes a small model of the first provider here whose key is in the environment. Keys that
a host happens to pass on do nothing by themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

AUTO = "auto"
NONE = "none"

KINDS = ("observe", "reflect", "entries", "profile", "session_memory", "title", "summary")
"""The kinds of jobs that a model can be named for."""

TABLE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gemini/gemini-2.5-flash", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    ("openai/gpt-5.4-mini", ("OPENAI_API_KEY",)),
    ("anthropic/claude-haiku-5-5", ("ANTHROPIC_API_KEY",)),
    ("mistral/mistral-small-latest", ("MISTRAL_API_KEY",)),
    ("groq/openai/gpt-oss-120b", ("GROQ_API_KEY",)),
    ("openrouter/google/gemini-2.5-flash", ("OPENROUTER_API_KEY",)),
)
"""Models by litellm's names, and the variables that hold the key of their provider, in the order of preference."""

VARIABLES = tuple(variable for _, variables in TABLE for variable in variables)


@dataclass(frozen=True, slots=True)
class Pick:
    """What ``auto`` takes, and the variable that decided."""

    model: str
    variable: str


@dataclass(frozen=True, slots=True)
class Models:
    """The model of each kind of job, empty where there is none. ``auto`` is what ``auto`` takes, or would take."""

    by_kind: Mapping[str, str] = field(default_factory=dict)
    auto: Pick | None = None
    asked_for_auto: bool = False

    @property
    def distinct(self) -> list[str]:
        """Every model that is asked, in the order of the kinds."""
        return list(dict.fromkeys(model for model in self.by_kind.values() if model))


def pick(environ: Mapping[str, str]) -> Pick | None:
    """What ``auto`` takes with these variables; None without a key that it knows."""
    found = (Pick(model, name) for model, names in TABLE for name in names if environ.get(name, "").strip())
    return next(found, None)


def models(model: str, by_kind: Mapping[str, str], environ: Mapping[str, str]) -> Models:
    """Which model each kind has. Names: litellm's, ``auto``, ``none``; empty counts as ``none`` for ``model``, and
    for a kind as ``model``."""
    auto = pick(environ)
    named = {kind: by_kind.get(kind) or model for kind in KINDS}
    meant = {AUTO: auto.model if auto else "", NONE: ""}
    return Models({kind: meant.get(name, name) for kind, name in named.items()}, auto, AUTO in named.values())


def told(chosen: Models) -> str:
    """Who thinks, in one line for people."""
    by_model = {model: [kind for kind in KINDS if chosen.by_kind.get(kind) == model] for model in chosen.distinct}
    parts = [
        name if len(kinds) == len(KINDS) else f"{name} ({', '.join(kinds)})"
        for name, kinds in ((_named(model, chosen), kinds) for model, kinds in by_model.items())
    ]
    if parts:
        return f"{'; '.join(parts)}: conversations are sent to {'it' if len(parts) == 1 else 'them'}"
    if chosen.asked_for_auto:
        return f"auto, which finds no key: none of {', '.join(VARIABLES)} is set, so no model is asked"
    if chosen.auto is None:
        return "none: nothing is sent anywhere (auto would find no key)"
    return f"none: nothing is sent anywhere (auto would take {chosen.auto.model}, by {chosen.auto.variable})"


def _named(model: str, chosen: Models) -> str:
    by_auto = chosen.asked_for_auto and chosen.auto is not None and chosen.auto.model == model
    return f"{model} (auto, by {chosen.auto.variable})" if by_auto and chosen.auto else model
