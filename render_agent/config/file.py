"""Options from a YAML file, as `--config` names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from render_agent.config.option import did_you_mean
from render_agent.config.run import OPTIONS
from render_agent.errors import UsageError, os_errors
from render_agent.util.reasons import reason_of, short_repr
from render_agent.util.safe_parse import parse_yaml, read_bounded

MOST_BYTES = 1 << 20
"""Of a file of options."""


def options_of_file(file: str) -> dict[str, str | list[str]]:
    """Return the options in a YAML file, as texts, as they would be typed; null is not given.

    A list stands for an option that may be given more than once, or has parts ("kinds: [ego, top]").
    UsageError where it cannot be read, names no option, or holds something that no option can be.
    """
    try:
        with os_errors(UsageError, f"read --config {file}"):
            document = parse_yaml(read_bounded(Path(file), MOST_BYTES).decode())
    except ValueError as error:
        raise UsageError(
            f"--config {file} is not YAML ({reason_of(error)}): write one option per line, such as max_turns: 9"
        ) from error
    if not isinstance(document, dict | None):
        raise UsageError(
            f"--config {file} must hold options: write one a line, such as max_turns: 9"
        )
    options: dict[str, str | list[str]] = {}
    for key, value in (document or {}).items():
        name = str(key).replace("-", "_")
        if name not in OPTIONS:
            meant = did_you_mean(name, OPTIONS)
            raise UsageError(f"--config {file}: there is no option {short_repr(name)}{meant}")
        if value is not None:
            options[name] = _typed(name, value, file)
    return options


def _typed(name: str, value: Any, file: str) -> str | list[str]:
    """Return the value of an option in a file as it would be typed."""
    values = value if isinstance(value, list) else [value]
    wrong = [part for part in values if not isinstance(part, str | int | float)]
    several = isinstance(OPTIONS[name].default, tuple)
    if wrong or (isinstance(value, list) and not several):
        raise UsageError(f"--config {file}: {name} must be one value, not {short_repr(value)}")
    words = [str(part).lower() if isinstance(part, bool) else str(part) for part in values]
    separator = OPTIONS[name].metadata.get("separator")
    return words if several and separator is None else (separator or "").join(words)
