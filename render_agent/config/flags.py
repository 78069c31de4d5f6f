"""The options of a run as click reads them: on the command line, and as keywords in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from render_agent.text.reasons import reason_of, short_repr


class Size(click.ParamType[tuple[int, int]]):
    """A picture's size, written 640x480."""

    name = "WxH"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        """Return (width, height)."""
        if isinstance(value, tuple):
            return value
        width, _, height = str(value).lower().partition("x")
        if not (width.isdecimal() and height.isdecimal()):
            self.fail(f"{value!r} is not a size: write it as 640x480")
        if not all(32 <= int(side) <= 4096 for side in (width, height)):
            self.fail("both sides must be 32 to 4096 pixels")
        return int(width), int(height)


class Named(click.Choice[str]):
    """The name of one of the program's own parts, or of one that an installed package brings."""

    def __init__(self, kind: registry.Kind, choices: Sequence[str]) -> None:
        super().__init__(choices)
        self.kind = kind

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the name."""
        if value not in self.choices and not registry.is_known(self.kind, str(value)):
            known = registry.names(self.kind)
            self.fail(
                f"there is no {self.kind} {value!r}: choose one of {', '.join(known)}, or install the"
                f" package that brings it{did_you_mean(str(value), known)}"
            )
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin so."""
        return [
            CompletionItem(name)
            for name in registry.names(self.kind)
            if name.startswith(incomplete)
        ]


class Names(click.ParamType[tuple[str, ...]]):
    """Names of parts of one kind, such as kinds of view, written ego,top,around."""

    name = "LIST"

    def __init__(self, kind: registry.Kind, *, optional: bool = False) -> None:
        self.kind: registry.Kind = kind
        self.optional = optional

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Return the names in the order given."""
        if isinstance(value, tuple):
            return value
        if self.optional and not value:
            return ()
        names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
        if not set(names) <= set(registry.built_in(self.kind)):
            known = registry.names(self.kind)
            if wrong := [name for name in names if name not in known]:
                self.fail(
                    f"{','.join(wrong)!r} is not a {self.kind}: choose from {','.join(known)}"
                )
        return names


class Parts(click.ParamType[tuple[str, ...]]):
    """Names with commas between them."""

    name = "LIST"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Return the names in the order given."""
        if isinstance(value, tuple):
            return value
        return tuple(part for part in (part.strip() for part in value.split(",")) if part)


class Texts(click.types.StringParamType):
    """One of several texts; in the environment they stand side by side, split at semicolons."""

    envvar_list_splitter = ";"


class _Bounded(click.types._NumberRangeBase):  # type: ignore[type-arg]
    """A number with bounds, whose errors are in plain words."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number; a fraction is no whole number, also where Python gives it."""
        try:
            number = super().convert(value, param, ctx)
            return number if isinstance(value, str) or number == value else self.fail("")
        except click.BadParameter:
            bounds = f"from {self.min} to {self.max}" if self.max else f"of at least {self.min}"
            return self.fail(f"{value!r} is not a {self.name} {bounds}", param, ctx)


class Whole(_Bounded, click.IntRange):
    """A whole number with a lower bound."""

    name = "whole number"


class Real(_Bounded, click.FloatRange):
    """A number with a lower bound."""

    name = "number"


class Auto(click.ParamType[int | str]):
    """A whole number, or auto."""

    name = "N|auto"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | str:
        """Return the number or "auto"."""
        if value == AUTO:
            return AUTO
        if not (str(value).isdecimal() and int(value) > 0):
            self.fail(f"{value!r} is neither {AUTO} nor a number above 0")
        return int(value)


TYPES: dict[str, click.ParamType[Any]] = {
    "image_size": Size(),
    "kinds": Names("kind of view"),
    "probe": Names("probe", optional=True),
    "devices": Parts(),
    "finish_together": Auto(),
    "batch_size": Auto(),
    "field_of_view": Real(20, 140),
    "limit": Whole(min=1),
    "max_model_len": Whole(min=1),
    "thinking_budget": Whole(min=0),
    "temperature": Real(min=0),
}


def run_option(entry: Field[Any], **settings: Any) -> click.Option:
    """Return the option of the command line that a field of RunConfig declares.

    settings: what else click is given, such as `shell_complete`.
    """
    declared = entry.metadata
    flag = "--" + entry.name.replace("_", "-")
    more: dict[str, Any] = {
        "help": declared["text"],
        "default": entry.default,
        "show_default": entry.default not in (None, ()),
        **settings,
    }
    if isinstance(entry.default, bool):
        return click.Option([flag, entry.name], is_flag=True, **more | {"show_default": False})
    if isinstance(entry.default, int | float):
        more["metavar"] = "N" if isinstance(entry.default, int) else "X"
    if "separator" in declared:
        more["default"] = declared["separator"].join(map(str, entry.default))  # type: ignore[arg-type]
    elif isinstance(entry.default, tuple):
        more |= {"multiple": True, "type": Texts()}
    if "part" in declared:
        more["type"] = Named(declared["part"], declared["choices"])
    elif "choices" in declared:
        more["type"] = click.Choice(declared["choices"])
    elif entry.name in TYPES:
        more["type"] = TYPES[entry.name]
    elif isinstance(entry.default, int):
        more["type"] = Whole(declared["minimum"]) if "minimum" in declared else click.INT
    if "metavar" in declared:
        more["metavar"] = declared["metavar"]
    return click.Option([flag, entry.name], **more)


def given_options(context: click.Context | None) -> dict[str, Any]:
    """Return the options of a run that were given to a command: typed, in the environment or in a file."""
    if context is None:
        return {}
    return {
        name: value
        for name, value in context.params.items()
        if name in OPTIONS and context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options given by name in Python as RunConfig takes them, each read as its flag would be.

    Lists stand for tuples, paths for their texts, and None for what is not given. UsageError where
    there is no such option or its flag would refuse the value.
    """
    context = click.Context(click.Command("render-agent"))
    parsed: dict[str, Any] = {}
    for name, value in options.items():
        if name not in OPTIONS:
            raise UsageError(f"there is no option {short_repr(name)}{did_you_mean(name, OPTIONS)}")
        if value is None:
            continue
        try:
            parsed[name] = run_option(OPTIONS[name]).type_cast_value(
                context, _as_typed(name, value)
            )
        except (click.UsageError, TypeError) as error:  # of lists, which click does not expect
            refusal = error.message if isinstance(error, click.UsageError) else error
            raise UsageError(
                f"{name}={short_repr(value)} is not valid: {reason_of(refusal)}"
            ) from error
    return parsed


def _as_typed(name: str, value: Any) -> Any:
    """Return a value as it would be typed: paths as texts, parts with what stands between them."""
    if not isinstance(OPTIONS[name].default, tuple):
        return fspath(value) if isinstance(value, PathLike) else value
    alone = isinstance(value, str | PathLike) or not isinstance(value, Iterable)
    words = [
        fspath(part) if isinstance(part, PathLike) else part
        for part in ([value] if alone else value)
    ]
    separator = OPTIONS[name].metadata.get("separator")
    return tuple(words) if separator is None else separator.join(map(str, words))
