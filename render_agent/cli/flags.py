"""Run options as command-line flags, and as entries of a YAML file."""

from __future__ import annotations

from dataclasses import Field
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from render_agent import registry
from render_agent.errors import UsageError, os_errors
from render_agent.options import OPTIONS, flag_of, parse_options, parse_value
from render_agent.util.reasons import reason_of

MAX_FILE_BYTES = 1 << 20  # maximum size of a YAML option file


class OptionType(click.ParamType[Any]):
    """Click type of a run option; each value of a repeatable option is parsed separately."""

    name = "value"
    envvar_list_splitter = ";"

    def __init__(self, entry: Field[Any]) -> None:
        self.entry = entry

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            result = parse_value(self.entry, value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if is_repeatable(self.entry):
            (result,) = result
        kind: registry.Kind | None = self.entry.metadata.get("part")
        if kind is not None and result not in registry.names(kind):
            self.fail(registry.unknown(kind, result), param, ctx)
        return result

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete names and choices, or else paths."""
        metadata = self.entry.metadata
        kind: registry.Kind | None = metadata.get("part") or metadata.get("names")
        choices = registry.names(kind) if kind else metadata.get("choices", ())
        items = [CompletionItem(name) for name in choices if name.startswith(incomplete)]
        return [*items, CompletionItem(incomplete, type="file")] if "path" in metadata else items


def is_repeatable(entry: Field[Any]) -> bool:
    """Return True if the flag can be repeated, as opposed to taking one separated list."""
    return isinstance(entry.default, tuple) and "separator" not in entry.metadata


def declaration(entry: Field[Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the names and settings of the click option for a field of RunConfig."""
    metadata, default = entry.metadata, entry.default
    kind: registry.Kind | None = metadata.get("part") or metadata.get("names")
    settings: dict[str, Any] = {"help": metadata["text"], "default": default}
    if kind:
        settings["help"] = metadata["text"].format(names=", ".join(registry.names(kind)))
    if isinstance(default, bool):
        return [flag_of(entry.name), entry.name], {**settings, "is_flag": True}
    settings |= {"type": OptionType(entry), "show_default": default not in (None, ())}
    if is_repeatable(entry):
        settings["multiple"] = True
    elif isinstance(default, tuple):
        settings["default"] = metadata["separator"].join(map(str, default))
    if "part" in metadata:
        settings["metavar"] = "|".join(registry.names(metadata["part"]))
    else:
        default_metavar = (
            "N" if "int" in str(entry.type) else "X" if entry.type == "float" else "TEXT"
        )
        settings["metavar"] = metadata.get("metavar") or "|".join(
            metadata.get("choices", [default_metavar])
        )
    return [flag_of(entry.name), entry.name], settings


def given_options(context: click.Context | None) -> dict[str, Any]:
    """Return the run options specified for a command: typed, in the environment, or in a file."""
    if context is None:
        return {}
    return {
        name: value
        for name, value in context.params.items()
        if name in OPTIONS and context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }


def options_of_file(file: str) -> dict[str, Any]:
    """Return the options in a YAML file (`--config`), parsed like keyword arguments; null means not set."""
    from render_agent.util.safe_parse import parse_yaml, read_text

    try:
        with os_errors(UsageError, f"read --config {file}"):
            document = parse_yaml(read_text(Path(file), MAX_FILE_BYTES))
    except ValueError as error:
        raise UsageError(
            f"--config {file} is not YAML ({reason_of(error)}). Write one option per line, e.g. max_turns: 9"
        ) from error
    if not isinstance(document, dict | None):
        raise UsageError(
            f"--config {file} must contain options. Write one per line, e.g. max_turns: 9"
        )
    options = {str(key).replace("-", "_"): value for key, value in (document or {}).items()}
    try:
        return parse_options(options)
    except UsageError as error:
        raise UsageError(f"--config {file}: {error}") from error
