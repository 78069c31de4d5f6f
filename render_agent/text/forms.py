"""The form that data from outside must have, and the first place where they have another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Form = Any
"""What a value must be: `str` or `bool`; `None`; `object`, which is anything; a Number; one of OneOf or
Either; Accepted by a test; `[form]`, a list of such; a tuple of forms, a list of exactly these; Each, a
mapping to such; or a mapping of names to forms, in which a name that ends in "?" may be missing, and
others may stand."""


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number within bounds; whole: of no fraction."""

    least: float = -1e15
    most: float = 1e15
    whole: bool = False


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some texts."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Anything that has one of several forms; where it has none, the last one's fault is told."""

    forms: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Each:
    """A mapping of any names, every value of the same form."""

    form: Form


@dataclass(frozen=True, slots=True)
class Accepted:
    """Whatever a test takes; called: what it takes."""

    test: Callable[[object], bool]
    called: str


FINITE = Number(-1.8e308, 1.8e308)
COUNT = Number(0, 1e15, whole=True)


def misfit(data: Any, form: Form, at: str = "") -> str | None:
    """Return in words the first place where data have another form, such as "views[0].kind must be a text".

    None where there is no such place. at: what the data are called.
    """
    match form:
        case Number():
            return None if _is_number(data, form) else _told(at, _bounds(form), data)
        case OneOf(texts):
            fits = isinstance(data, str) and data in texts
            return None if fits else _told(at, f"one of {', '.join(texts)}", data)
        case Either(forms):
            fault = None
            for one in forms:
                if (fault := misfit(data, one, at)) is None:
                    break
            return fault
        case Accepted(test, called):
            return None if test(data) else f"{at} {data!r:.40} is no {called}"
        case Each(inner):
            if not isinstance(data, dict):
                return _told(at, "an object", data)
            return _first(misfit(value, inner, _within(at, name)) for name, value in data.items())
        case list():
            if not isinstance(data, list):
                return _told(at, "a list", data)
            return _first(misfit(each, form[0], f"{at}[{n}]") for n, each in enumerate(data))
        case tuple():
            if not isinstance(data, list) or len(data) != len(form):
                return _told(at, f"a list of {len(form)}", data)
            pairs = zip(data, form, strict=True)
            return _first(misfit(each, one, f"{at}[{n}]") for n, (each, one) in enumerate(pairs))
        case dict():
            return _misfit_of_object(data, form, at)
        case None:
            return None if data is None else _told(at, "null", data)
    what = "a text" if form is str else "true or false"
    return None if isinstance(data, form) else _told(at, what, data)


def _misfit_of_object(data: Any, form: Mapping[str, Form], at: str) -> str | None:
    if not isinstance(data, dict):
        return _told(at, "an object", data)
    for key, inner in form.items():
        name = key.removesuffix("?")
        if name in data:
            if wrong := misfit(data[name], inner, _within(at, name)):
                return wrong
        elif name == key:
            return f"{_within(at, name)} is missing"
    return None


def _first(faults: Any) -> str | None:
    return next((fault for fault in faults if fault is not None), None)


def _within(at: str, name: str) -> str:
    return f"{at}.{name!s:.40}" if at else f"{name!s:.40}"


def _is_number(data: Any, form: Number) -> bool:
    if not isinstance(data, int | float) or isinstance(data, bool):
        return False
    if not form.least <= data <= form.most:  # neither is NaN
        return False
    return not form.whole or isinstance(data, int)


def _bounds(form: Number) -> str:
    kind = "a whole number" if form.whole else "a number"
    return f"{kind} from {form.least:g} to {form.most:g}" if form != FINITE else f"{kind}"


def _told(at: str, what: str, data: Any) -> str:
    shown = f"{type(data).__name__}" if isinstance(data, dict | list) else f"{data!r:.40}"
    return f"{at or 'it'} must be {what}, not {shown}"
