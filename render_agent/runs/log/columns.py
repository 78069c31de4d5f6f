"""Table columns, declared as annotations on the fields of a row struct."""

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
    """A table column. Annotates a field of the struct that represents a row."""

    header: str = ""
    saved: bool = False
    """True if the column is in `results.json` and `results.csv`, False if only in exports and data frames."""
    cell: Literal["question", "mark", "answer", "number", "text"] | None = None
    """Cell style in the report; None omits the column."""
    wide_only: bool = False  # True if narrow screens hide the column
    filter: bool = False  # True if the report can be filtered by the column
    decimals: int | None = None  # decimals of a share that the report shows in percent
    name: str = ""  # name of the field, set by `columns_of`
    kind: Kind = "text"  # type of the values, set by `columns_of`
    optional: bool = False  # True if the field has a default, set by `columns_of`

    @property
    def classes(self) -> str:
        """CSS classes of the heading and the cells."""
        alignment = {"mark": "number", "answer": "answer", "number": "number"}.get(self.cell or "")
        return " ".join(filter(None, (alignment, "wide-only" if self.wide_only else None)))


@cache
def columns_of(row_type: type[Struct]) -> tuple[Column, ...]:
    """Return the columns of a table: the fields of its row struct, those of base classes last."""
    fields = {field.name: field for field in structs.fields(row_type)}
    bases = {name for base in row_type.__bases__ for name in getattr(base, "__struct_fields__", ())}
    return tuple(
        replace(
            next((note for note in get_args(field.type) if isinstance(note, Column)), Column()),
            name=field.name,
            kind=_kind(field.type),
            optional=not field.required,
        )
        for field in sorted(fields.values(), key=lambda field: field.name in bases)
    )


def _kind(row_type: Any) -> Kind:
    """Return the column kind of an annotation: `Annotated`, optional, or a plain type."""
    if get_origin(row_type) is None:
        return _KINDS[row_type]
    return _kind(next(part for part in get_args(row_type) if part is not NoneType))
