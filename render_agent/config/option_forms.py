"""What the saved options of a run must be, by the types that they are declared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from typing import Any

from render_agent.text.forms import FINITE, Accepted, Either, Form, Number, misfit

WHOLE = Number(-(2**63), 2**63, whole=True)


def _is_auto(value: object) -> bool:
    """Whether a value is a count, one written as a text, or auto."""
    if isinstance(value, str):
        return value == "auto" or (value.isdecimal() and 0 < len(value) < 10)
    return misfit(value, Number(1, 2**63, whole=True)) is None


FORMS: dict[str, Form] = {
    "bool": bool,
    "int": WHOLE,
    "int | None": Either((None, WHOLE)),
    "int | str": Accepted(_is_auto, "number, and not auto"),
    "float": FINITE,
    "str": str,
    "str | None": Either((None, str)),
    "tuple[str, ...]": [str],
    "tuple[int, int]": (Number(1, 65536, whole=True), Number(1, 65536, whole=True)),
}
"""By the annotation of an option."""


def misfit_of_options(saved: Mapping[str, Any], options: Mapping[str, Field[Any]]) -> str | None:
    """Return in words which saved option is unknown, or cannot have its value; None where all fit."""
    for name, value in saved.items():
        if name not in options:
            return f"there is no option {name!r:.60}"
        given = list(value) if isinstance(value, tuple) else value
        if wrong := misfit(given, _form(options[name]), name):
            return f"the option {wrong}"
    return None


def _form(entry: Field[Any]) -> Form:
    form = FORMS[str(entry.type)]
    least = entry.metadata.get("minimum")
    return form if least is None else Number(least, form.most, whole=form.whole)
