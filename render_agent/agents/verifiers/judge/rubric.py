"""Rubrics: YAML files with the prompts of a judge."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from render_agent.errors import SetupError, os_errors
from render_agent.util.reasons import reason_of
from render_agent.util.safe_parse import parse_yaml

Mode = Literal["yes", "json"]  # score by the probability of yes, or by criteria as JSON

UNNAMED = "what the question is about"  # replaces {named} if the question names no object

_PLACEHOLDER = re.compile(r"\{(question|named)\}")


class Criterion(Struct, frozen=True, forbid_unknown_fields=True):
    """One criterion: its text and the kind of its value (boolean, or a fraction from 0 to 1)."""

    text: str
    kind: Literal["boolean", "fraction"] = "boolean"


class Rubric(Struct, frozen=True, forbid_unknown_fields=True):
    """The prompts of a judge. A mode without a prompt is unavailable. Raises ValueError."""

    name: str
    system: str = ""
    helps: str = ""
    introduction: str = ""
    criteria: dict[str, Criterion] = {}  # criteria by name, in mode json

    def __post_init__(self) -> None:
        if not self.helps and not self.criteria:
            raise ValueError("missing helps, or introduction and criteria")
        if bool(self.criteria) != bool(self.introduction):
            raise ValueError("introduction and criteria must be specified together")

    def prompts(self, mode: Mode, question: str, named: str = "") -> tuple[str, str]:
        """Return the system and the user prompt of a mode; placeholders in `question` are not expanded."""
        entry = "helps" if mode == "yes" else "introduction"
        template = self.helps if mode == "yes" else self.introduction
        if not template:
            raise SetupError(
                f"rubric {self.name} has no entry {entry!r}, which mode {mode} requires. Use another"
                " --judge-mode or --rubric."
            )
        values = {"question": question.strip(), "named": named.strip() or UNNAMED}
        system, user = (
            _PLACEHOLDER.sub(lambda match: values[match[1]], text.strip())
            for text in (self.system, template)
        )
        return system, user


def bundled_rubrics() -> list[str]:
    names = (entry.name for entry in files(__package__).joinpath("rubrics").iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def load_rubric(name: str) -> Rubric:
    """Load a bundled rubric by name, or a rubric file."""
    if name in bundled_rubrics():
        text = files(__package__).joinpath("rubrics", f"{name}.yaml").read_bytes()
    elif not Path(name).is_file():
        raise SetupError(
            f"rubric {name!r} not found. Use a YAML file or one of {', '.join(bundled_rubrics())}."
        )
    else:
        with os_errors(SetupError, f"read {name}"):
            text = Path(name).read_bytes()
    try:
        return msgspec.convert(parse_yaml(text.decode("utf-8")), Rubric)
    except ValueError as error:
        raise SetupError(f"{name} is not a valid rubric: {reason_of(error)}") from error
