"""The options that every command has, and how its help shows them."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from layerlore.server.launch import FLAGS
from layerlore.server.settings import Settings

OfTenant = Annotated[str, typer.Option("--tenant", help="Of which tenant; local is this machine's.")]
"""Beside --agent and --resource, which name agent and resource as everywhere."""
OnlyTenant = Annotated[str | None, typer.Option("--tenant", help="Only of this tenant.", show_default=False)]
OnlyAgent = Annotated[str | None, typer.Option("--agent", help="Only of this agent.", show_default=False)]
OnlyResource = Annotated[str | None, typer.Option("--resource", help="Only of this resource.", show_default=False)]
"""Of a command that is about everybody's memory where nothing else is said."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _option(flag: str, setting: str) -> inspect.Parameter:
    text: str | None = "A TOML file with settings; configs/ has complete ones."
    if setting != "config":
        text = Settings.model_fields[setting].description
    annotation = Annotated[str | None, typer.Option(flag, help=text, show_default=False, rich_help_panel="Launch")]
    return inspect.Parameter(setting, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


_OPTIONS = {setting: _option(flag, setting) for flag, setting in FLAGS.items()}


def with_options(function: Callable[..., Any], own: list[inspect.Parameter]) -> Callable[..., Any]:
    """``function``, to be called with the context, its own parameters and the launch options that it has not itself."""
    names = {parameter.name for parameter in own}
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *own, *(option for setting, option in _OPTIONS.items() if setting not in names)]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


def _without_types(parameters: list[Any]) -> list[Any]:
    for each in parameters:
        if isinstance(each, TyperOption) and each.is_flag:
            each.metavar = ""
    return parameters


class Command(TyperCommand):
    """Its flags, which take no value, show no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """Likewise."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))
