"""Run options as click reads them, on the command line and as keywords in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field
from os import PathLike, fspath
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from render_agent import registry
from render_agent.config.option import AUTO, did_you_mean
from render_agent.config.run import OPTIONS
from render_agent.errors import UsageError
from render_agent.util.reasons import short_repr


class Size(click.ParamType[tuple[int, int]]):
    """Width and height of an image, written 640x480."""

    name = "WxH"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        """Return (width, height)."""
        if isinstance(value, tuple):
            return value
        width, _, height = str(value).lower().partition("x")
        if not (width.isdecimal() and height.isdecimal()):
            self.fail(f"{value!r} is not a size: write it as 640x480", param, ctx)
        if not all(32 <= int(side) <= 4096 for side in (width, height)):
            self.fail("both sides must be 32 to 4096 pixels", param, ctx)
        return int(width), int(height)


class Part(click.ParamType[str]):
    """Name of a part of the registry, built in or from an installed package."""

    name = "NAME"

    def __init__(self, kind: registry.Kind) -> None:
        self.kind: registry.Kind = kind

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the name."""
        if value not in registry.built_in(self.kind):
            known = registry.names(self.kind)
            if value not in known:
                self.fail(
                    f"there is no {self.kind} {value!r}: choose from {', '.join(known)}"
                    f"{did_you_mean(str(value), known)}",
                    param,
                    ctx,
                )
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin with `incomplete`."""
        names = registry.names(self.kind)
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class Parts(click.ParamType[tuple[str, ...]]):
    """Comma-separated words."""

    name = "LIST"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Return the words in the order given, each once."""
        words = value.split(",") if isinstance(value, str) else value
        return tuple(dict.fromkeys(str(word).strip() for word in words if str(word).strip()))


class Texts(click.types.StringParamType):
    """One of several texts; separated by semicolons in the environment."""

    envvar_list_splitter = ";"


class Auto(click.ParamType[int | str]):
    """A positive whole number, or auto."""

    name = "N|auto"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return the name as it is; click would write it in capitals."""
        return self.name

    def convert(self, value: Any, param: Any, ctx: Any) -> int | str:
        """Return the number or "auto"."""
        if value == AUTO:
            return AUTO
        if not (str(value).isdecimal() and int(value) > 0):
            self.fail(f"{value!r} is neither {AUTO} nor a number above 0", param, ctx)
        return int(value)


TYPES: dict[str, click.ParamType[Any]] = {
    "image_size": Size(),
    "kinds": Parts(),
    "probe": Parts(),
    "devices": Parts(),
    "finish_together": Auto(),
    "batch_size": Auto(),
    "field_of_view": click.FloatRange(20, 140),
    "limit": click.IntRange(min=1),
    "thinking_budget": click.IntRange(min=0),
    "temperature": click.FloatRange(min=0),
}


def declaration(entry: Field[Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the names and the other arguments of the click option that a field of RunConfig declares."""
    declared, default = entry.metadata, entry.default
    settings: dict[str, Any] = {
        "help": declared["text"],
        "default": default,
        "show_default": default not in (None, ()) and not isinstance(default, bool),
    }
    if isinstance(default, bool):
        settings["is_flag"] = True
    elif "separator" in declared:
        settings["default"] = declared["separator"].join(map(str, default))  # type: ignore[arg-type]
    elif isinstance(default, tuple):
        settings |= {"multiple": True, "type": Texts()}
    if "part" in declared:
        settings |= {"type": Part(declared["part"])}
        settings["metavar"] = "|".join(registry.built_in(declared["part"]))
    elif "choices" in declared:
        settings["type"] = click.Choice(declared["choices"])
    elif entry.name in TYPES:
        settings["type"] = TYPES[entry.name]
    elif isinstance(default, int) and not isinstance(default, bool):
        settings["type"] = click.IntRange(min=declared.get("minimum"))
    elif declared.get("path") and not isinstance(default, tuple):
        settings["type"] = click.Path()
    if "metavar" in declared:
        settings["metavar"] = declared["metavar"]
    return ["--" + entry.name.replace("_", "-"), entry.name], settings


def given_options(context: click.Context | None) -> dict[str, Any]:
    """Return the run options that were given to a command: typed, in the environment or in a file."""
    if context is None:
        return {}
    return {
        name: value
        for name, value in context.params.items()
        if name in OPTIONS and context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options given by name in Python as RunConfig takes them, each read as its flag would be.

    Lists may stand for tuples and paths for strings; None is an option that is not given. UsageError if
    there is no such option or its flag would refuse the value.
    """
    context = click.Context(click.Command("render-agent"))
    parsed: dict[str, Any] = {}
    for name, value in options.items():
        if name not in OPTIONS:
            raise UsageError(f"there is no option {short_repr(name)}{did_you_mean(name, OPTIONS)}")
        if value is None:
            continue
        names, settings = declaration(OPTIONS[name])
        option = click.Option(names, **settings)
        try:
            parsed[name] = option.type_cast_value(context, _as_typed(name, value))
        except click.UsageError as error:
            raise UsageError(error.format_message()) from error
        except TypeError as error:  # of lists, which click does not expect
            raise UsageError(f"{names[0]} cannot be {short_repr(value)}: {error}") from error
    return parsed


def _as_typed(name: str, value: Any) -> Any:
    """Return a value as it would be typed."""
    default = OPTIONS[name].default
    if not isinstance(default, tuple):
        return value if isinstance(value, bool | list | tuple | dict) else _text(value)
    alone = isinstance(value, str | PathLike) or not isinstance(value, Iterable)
    words = [_text(part) for part in ([value] if alone else value)]
    separator = OPTIONS[name].metadata.get("separator")
    return tuple(words) if separator is None else separator.join(words)


def _text(value: Any) -> str:
    return fspath(value) if isinstance(value, PathLike) else str(value)
