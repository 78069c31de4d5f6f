"""Rubrics: what a judge is asked, as a YAML file that anybody can write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from render_agent.errors import SetupError, os_errors
from render_agent.text.reasons import reason_of
from render_agent.text.safe_parse import Each, convert, parse_yaml

Mode = Literal["yes", "json", "pairwise"]
"""How a judge is asked: for the probability of yes, for criteria as JSON, for the better of two."""

Kind = Literal["boolean", "fraction"]
"""What a criterion's value is: true or false, or a number from 0 to 1."""

MAX_RUBRIC_BYTES, MAX_CRITERIA, MAX_TEXT_CHARACTERS = 64 * 1024, 32, 4000
"""Of the file, in a rubric, and characters of one of its texts."""

MAX_WEIGHT = 1_000_000

MAX_REASON_CHARACTERS = 160
"""Characters of the reason that is asked for with every criterion, where the rubric says nothing."""

TEXTS = {"yes": "helps", "pairwise": "better", "json": "introduction"}
"""The entry of a rubric that holds what is asked, by mode."""

PLACEHOLDERS = ("question", "named")
UNNAMED = "what the question is about"
"""Stands for {named} where nobody says what that is."""

ShortName = Annotated[str, Meta(pattern=r"\A[A-Za-z][A-Za-z0-9_ -]{0,39}\Z")]
Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_CHARACTERS)]

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Criterion(Struct, frozen=True, forbid_unknown_fields=True):
    """One criterion: what is asked, what its value is, and its weight beside the others' weights."""

    text: Text
    kind: Kind = "boolean"
    weight: Annotated[float, Meta(gt=0, le=MAX_WEIGHT)] = 1.0

    def __post_init__(self) -> None:
        _check_placeholders("text", self.text)


class Rubric(Struct, frozen=True, forbid_unknown_fields=True):
    """What a judge is asked in each mode.

    system: what the judge is told first. helps, better, introduction: what is asked in modes yes,
    pairwise and json; empty where the rubric cannot be used that way. criteria: of mode json, by
    name. longest_reason: characters. ValueError where its parts do not fit each other.
    """

    name: ShortName
    system: Text = ""
    helps: Text = ""
    better: Text = ""
    introduction: Text = ""
    criteria: Each[ShortName, Criterion] = {}
    longest_reason: Annotated[int, Meta(ge=1, le=1000)] = MAX_REASON_CHARACTERS

    def __post_init__(self) -> None:
        for key in ("system", *TEXTS.values()):
            _check_placeholders(key, getattr(self, key))
        if not any(getattr(self, key) for key in TEXTS.values()):
            raise ValueError(f"it asks nothing: give one of {', '.join(TEXTS.values())}")
        if len(self.criteria) > MAX_CRITERIA:
            raise ValueError(f"criteria may be {MAX_CRITERIA} at the most")
        if bool(self.criteria) != bool(self.introduction):
            raise ValueError(
                "introduction and criteria go together: one is given without the other"
            )

    def prompts(self, mode: Mode, question: str, named: str = "") -> tuple[str, str]:
        """Return the system prompt and the user prompt of a mode.

        question: any text; nothing in it is taken for a placeholder. named: what it names, as words.
        SetupError where the rubric has nothing to ask in this mode.
        """
        template = str(getattr(self, TEXTS[mode]))
        if not template:
            raise SetupError(
                f"the rubric {self.name} has no entry {TEXTS[mode]!r}, which mode {mode} asks"
            )
        values = {"question": question.strip(), "named": named.strip() or UNNAMED}
        return _filled(self.system, values), _filled(template, values)

    def asks_about_a_question(self, mode: Mode) -> bool:
        """Whether what is asked in a mode holds the question."""
        return "{question}" in self.system + str(getattr(self, TEXTS[mode]))

    def value(self, marks: Mapping[str, float]) -> float:
        """Return the weighted mean of all criteria's values, 0 to 1."""
        total = sum(entry.weight for entry in self.criteria.values())
        return sum(entry.weight * marks[name] for name, entry in self.criteria.items()) / total


def bundled_rubrics() -> list[str]:
    """Return the names of the rubrics that the program brings along."""
    folder = files(__package__).joinpath("rubrics")
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in folder.iterdir()
        if entry.name.endswith(".yaml")
    )


def load_rubric(name: str) -> Rubric:
    """Return the rubric of a file or of a name. SetupError where there is none, or it has a fault."""
    path = Path(name)
    if name in bundled_rubrics():
        text = files(__package__).joinpath("rubrics", f"{name}.yaml").read_bytes()
    elif not path.is_file():
        raise SetupError(
            f"there is no rubric {name!r}: give a YAML file or one of {', '.join(bundled_rubrics())}"
        )
    else:
        with os_errors(SetupError, f"read {path}"), path.open("rb") as file:
            text = file.read(MAX_RUBRIC_BYTES + 1)
    return read_rubric(text, name)


def read_rubric(text: bytes, source: str = "the rubric") -> Rubric:
    """Return the rubric that a YAML text holds; `source` names it in messages.

    SetupError naming the entry that has a fault.
    """
    if len(text) > MAX_RUBRIC_BYTES:
        raise SetupError(f"{source} is no rubric: it is larger than {MAX_RUBRIC_BYTES // 1024} KiB")
    try:
        data = _stripped(parse_yaml(text.decode("utf-8")))
    except ValueError as error:
        raise SetupError(f"{source} is no YAML: {reason_of(error)}") from error
    try:
        rubric: Rubric = convert(data, Rubric)
    except ValueError as error:
        raise SetupError(f"{source} is no rubric: {error}{_hint(data)}") from error
    return rubric


def _stripped(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _stripped(value) for name, value in data.items()}
    return data.strip() if isinstance(data, str) else data


def _hint(data: Any) -> str:
    """Return a hint where YAML took a name for true or false, else an empty text."""
    criteria = data.get("criteria") if isinstance(data, dict) else None
    names = [name for names in (data, criteria) if isinstance(names, dict) for name in names]
    if not any(isinstance(name, bool) for name in names):
        return ""
    return " (YAML takes yes, no, on and off for true and false: put them in quotes)"


def _check_placeholders(key: str, text: str) -> None:
    unknown = sorted(set(_PLACEHOLDER.findall(text)) - set(PLACEHOLDERS))
    if unknown:
        raise ValueError(f"{key} holds {{{unknown[0]}}}, which stands for nothing")


def _filled(text: str, fields: Mapping[str, str]) -> str:
    """Return a text with its placeholders filled, in one pass, so that what is filled in stays as it is."""
    return _PLACEHOLDER.sub(lambda match: fields[match[1]], text)
