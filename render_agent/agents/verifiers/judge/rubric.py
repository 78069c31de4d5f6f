"""Rubrics: what a judge is asked, as a YAML file that anybody can write."""

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

Mode = Literal["yes", "json"]
"""How a judge is asked: for the probability of yes, or for criteria as JSON."""

UNNAMED = "what the question is about"
"""Stands for {named} where nobody says what that is."""

_PLACEHOLDER = re.compile(r"\{(question|named)\}")


class Criterion(Struct, frozen=True, forbid_unknown_fields=True):
    """One criterion: what is asked, and whether its value is true or false or a number from 0 to 1."""

    text: str
    kind: Literal["boolean", "fraction"] = "boolean"


class Rubric(Struct, frozen=True, forbid_unknown_fields=True):
    """What a judge is asked in each mode.

    system: what the judge is told first. helps: what is asked in mode yes. introduction and criteria, by
    name: in mode json. Empty where the rubric cannot be used that way.
    """

    name: str
    system: str = ""
    helps: str = ""
    introduction: str = ""
    criteria: dict[str, Criterion] = {}

    def __post_init__(self) -> None:
        if not self.helps and not self.criteria:
            raise ValueError("it asks nothing: give helps, or introduction and criteria")
        if bool(self.criteria) != bool(self.introduction):
            raise ValueError("introduction and criteria go together")

    def prompts(self, mode: Mode, question: str, named: str = "") -> tuple[str, str]:
        """Return the system prompt and the user prompt of a mode.

        question: any text; nothing in it is taken for a placeholder. named: what it names, as words.
        SetupError where the rubric has nothing to ask in this mode.
        """
        entry = "helps" if mode == "yes" else "introduction"
        template = self.helps if mode == "yes" else self.introduction
        if not template:
            raise SetupError(
                f"the rubric {self.name} has no entry {entry!r}, which mode {mode} asks"
            )
        values = {"question": question.strip(), "named": named.strip() or UNNAMED}
        system, user = (
            _PLACEHOLDER.sub(lambda match: values[match[1]], text.strip())
            for text in (self.system, template)
        )
        return system, user


def bundled_rubrics() -> list[str]:
    """Return the names of the rubrics that the program brings along."""
    names = (entry.name for entry in files(__package__).joinpath("rubrics").iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def load_rubric(name: str) -> Rubric:
    """Return the rubric of a file or of a name. SetupError where there is none, or it has a fault."""
    if name in bundled_rubrics():
        text = files(__package__).joinpath("rubrics", f"{name}.yaml").read_bytes()
    elif not Path(name).is_file():
        raise SetupError(
            f"there is no rubric {name!r}: give a YAML file or one of {', '.join(bundled_rubrics())}"
        )
    else:
        with os_errors(SetupError, f"read {name}"):
            text = Path(name).read_bytes()
    try:
        return msgspec.convert(parse_yaml(text.decode("utf-8")), Rubric)
    except ValueError as error:
        raise SetupError(f"{name} is no rubric: {reason_of(error)}") from error
