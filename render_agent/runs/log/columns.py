"""Columns of tables, declared by annotations on the fields of the struct that is a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from msgspec import Struct, structs

Kind = Literal["text", "int", "float", "bool"]
_KINDS: dict[Any, Kind] = {str: "text", int: "int", float: "float", bool: "bool"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; annotates a field of the struct that is a row of the table.

    Attributes:
        header: Column head in the table of the report.
        saved: True if the column is in `results.json` and `results.csv`; else in exports and data frames only.
        cell: How the table of the report draws it; None leaves it out.
        wide_only: True if narrow screens hide it.
        filter: True if the table of the report can be filtered by it.
        decimals: Decimals of a share that the report shows in percent.
        name, kind, optional: Taken from the field; an optional column has a default.
    """

    header: str = ""
    saved: bool = False
    cell: Literal["question", "mark", "answer", "number", "text"] | None = None
    wide_only: bool = False
    filter: bool = False
    decimals: int | None = None
    name: str = ""
    kind: Kind = "text"
    optional: bool = False

    @property
    def classes(self) -> str:
        """CSS classes of the header and the cells."""
        alignment = {"mark": "number", "answer": "answer", "number": "number"}.get(self.cell or "")
        return " ".join(filter(None, (alignment, "wide-only" if self.wide_only else None)))


@cache
def columns_of(form: type[Struct]) -> tuple[Column, ...]:
    """Return the columns of a table: the fields of its rows, those of base classes last."""
    fields = {field.name: field for field in structs.fields(form)}
    bases = {name for base in form.__bases__ for name in getattr(base, "__struct_fields__", ())}
    return tuple(
        replace(
            next((note for note in get_args(field.type) if isinstance(note, Column)), Column()),
            name=field.name,
            kind=_kind(field.type),
            optional=not field.required,
        )
        for field in sorted(fields.values(), key=lambda field: field.name in bases)
    )


def _kind(form: Any) -> Kind:
    """Return the kind of a column, of its annotation: `Annotated`, optional, or a plain type."""
    if get_origin(form) is None:
        return _KINDS[form]
    return _kind(next(part for part in get_args(form) if part is not NoneType))
