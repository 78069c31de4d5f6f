"""Rubrics: what a judge is asked, as a YAML file that anybody can write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from render_agent.errors import SetupError
from render_agent.text.safe_parse import parse_yaml

Mode = Literal["yes", "json", "pairwise"]
"""How a judge is asked: for the probability of yes, for criteria as JSON, for the better of two."""

Kind = Literal["boolean", "fraction"]
"""What a criterion's value is: true or false, or a number from 0 to 1."""

MOST_BYTES, MOST_CRITERIA, MOST_TEXT = 64 * 1024, 32, 4000
"""Of the file, in a rubric, and characters of one of its texts."""

MOST_WEIGHT = 1_000_000

LONGEST_REASON = 160
"""Characters of the reason that is asked for with every criterion, where the rubric says nothing."""

TEXTS = {"yes": "helps", "pairwise": "better", "json": "introduction"}
"""The entry of a rubric that holds what is asked, by mode."""

PLACEHOLDERS = ("question", "named")
UNNAMED = "what the question is about"
"""Stands for {named} where nobody says what that is."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_ -]{0,39}")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Criterion:
    """One criterion: what is asked, what its value is, and its weight beside the others' weights."""

    text: str
    kind: Kind = "boolean"
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Rubric:
    """What a judge is asked in each mode.

    system: what the judge is told first. helps, better, introduction: what is asked in modes yes,
    pairwise and json; empty where the rubric cannot be used that way. criteria: of mode json, by
    name. longest_reason: characters.
    """

    name: str
    system: str = ""
    helps: str = ""
    better: str = ""
    introduction: str = ""
    criteria: Mapping[str, Criterion] | None = None
    longest_reason: int = LONGEST_REASON

    def prompts(self, mode: Mode, question: str, named: str = "") -> tuple[str, str]:
        """Return the system prompt and the user prompt of a mode.

        question: any text; nothing in it is taken for a placeholder. named: what it names, as words.
        SetupError where the rubric has nothing to ask in this mode.
        """
        asked = str(getattr(self, TEXTS[mode]))
        if not asked:
            raise SetupError(
                f"the rubric {self.name} has no entry {TEXTS[mode]!r}, which mode {mode} asks"
            )
        given = {"question": question.strip(), "named": named.strip() or UNNAMED}
        return _filled(self.system, given), _filled(asked, given)

    def asks_about_a_question(self, mode: Mode) -> bool:
        """Whether what is asked in a mode holds the question."""
        return "{question}" in self.system + str(getattr(self, TEXTS[mode]))

    def value(self, found: Mapping[str, float]) -> float:
        """Return the weighted mean of all criteria's values, 0 to 1."""
        criteria = self.criteria or {}
        total = sum(entry.weight for entry in criteria.values())
        return sum(entry.weight * found[name] for name, entry in criteria.items()) / total


def shipped() -> list[str]:
    """Return the names of the rubrics that the program brings along."""
    folder = files(__package__).joinpath("rubrics")
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in folder.iterdir()
        if entry.name.endswith(".yaml")
    )


def load_rubric(name: str) -> Rubric:
    """Return the rubric of a file or of a name. SetupError with a sentence for every fault it has."""
    path = Path(name)
    if name in shipped():
        text = files(__package__).joinpath("rubrics", f"{name}.yaml").read_bytes()
    elif not path.is_file():
        raise SetupError(
            f"there is no rubric {name!r}: give a YAML file or one of {', '.join(shipped())}"
        )
    else:
        try:
            with path.open("rb") as file:
                text = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise SetupError(f"cannot read {path}: {error.strerror or error}") from error
    return read_rubric(text, name)


def read_rubric(text: bytes, source: str = "the rubric") -> Rubric:
    """Return the rubric that a YAML text holds; `source` names it in messages.

    SetupError with a sentence for every fault it has.
    """
    if len(text) > MOST_BYTES:
        raise SetupError(f"{source} is no rubric: it is larger than {MOST_BYTES // 1024} KiB")
    try:
        data = parse_yaml(text.decode("utf-8"))
    except ValueError as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SetupError(f"{source} is no YAML: {told[:200]}") from error
    faults = faults_of(data)
    if faults:
        raise SetupError(f"{source} is no rubric: {'; '.join(faults)}")
    criteria = {
        name: Criterion(
            entry["text"].strip(), entry.get("kind", "boolean"), float(entry.get("weight", 1))
        )
        for name, entry in data.get("criteria", {}).items()
    }
    return Rubric(
        data["name"],
        **{key: data.get(key, "").strip() for key in ("system", *TEXTS.values())},
        criteria=criteria,
        longest_reason=data.get("longest_reason", LONGEST_REASON),
    )


def faults_of(data: Any) -> list[str]:
    """Return a sentence for everything that keeps what YAML gave from being a rubric."""
    if not isinstance(data, dict):
        return ["it must hold entries such as name, helps and criteria"]
    found = _unknown(data, ("name", "system", *TEXTS.values(), "longest_reason", "criteria"))
    if not (isinstance(data.get("name"), str) and _NAME.fullmatch(data["name"])):
        found.append("name must be a short name of letters, digits, spaces, - and _")
    for key in ("system", *TEXTS.values()):
        if key in data:
            found += _text_faults(key, data[key])
    longest = data.get("longest_reason", LONGEST_REASON)
    if not (isinstance(longest, int) and not isinstance(longest, bool) and 1 <= longest <= 1000):
        found.append("longest_reason must be a whole number from 1 to 1000")
    criteria = data.get("criteria", {})
    if not isinstance(criteria, dict):
        return [*found, "criteria must be a mapping from names to criteria"]
    if len(criteria) > MOST_CRITERIA:
        return [*found, f"criteria are {len(criteria)}, and may be {MOST_CRITERIA} at the most"]
    for name, entry in criteria.items():
        found += _criterion_faults(name, entry)
    if not any(data.get(key) for key in TEXTS.values()):
        found.append(f"it asks nothing: give one of {', '.join(TEXTS.values())}")
    if bool(criteria) != bool(data.get("introduction")):
        found.append("introduction and criteria go together: one is given without the other")
    return found


def _criterion_faults(name: Any, entry: Any) -> list[str]:
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        return [
            "a criterion's name must be a short name of letters, digits, spaces, - and _ (YAML takes"
            " yes, no, on and off for true and false: put them in quotes)"
        ]
    if not isinstance(entry, dict):
        return [f"criterion {name} must have text, kind and weight"]
    found = [f"criterion {name}: {fault}" for fault in _unknown(entry, ("text", "kind", "weight"))]
    found += [f"criterion {name}: {fault}" for fault in _text_faults("text", entry.get("text"))]
    if entry.get("kind", "boolean") not in get_args(Kind):
        found.append(f"criterion {name}: kind must be one of {', '.join(get_args(Kind))}")
    weight = entry.get("weight", 1)
    number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not (number and 0 < weight <= MOST_WEIGHT):
        found.append(f"criterion {name}: weight must be a number above 0, at most {MOST_WEIGHT}")
    return found


def _text_faults(key: str, text: Any) -> list[str]:
    if not isinstance(text, str) or not text.strip():
        return [f"{key} must be a text"]
    if len(text) > MOST_TEXT:
        return [f"{key} is longer than {MOST_TEXT} characters"]
    unknown = sorted(set(_PLACEHOLDER.findall(text)) - set(PLACEHOLDERS))
    return [f"{key} holds {{{name}}}, which stands for nothing" for name in unknown]


def _unknown(data: Mapping[Any, Any], known: tuple[str, ...]) -> list[str]:
    wrong = [key for key in data if key not in known]
    return [
        f"there is no entry {key[:40]!r}, only {', '.join(known)}"
        if isinstance(key, str)
        else f"names of entries must be texts, only {', '.join(known)}"
        for key in wrong[:1]
    ]


def _filled(text: str, given: Mapping[str, str]) -> str:
    """Return a text with its placeholders filled, in one pass, so that what is filled in stays as it is."""
    return _PLACEHOLDER.sub(lambda found: given[found[1]], text)
