"""Tables whose head and cells come from one list of columns, in the page and in the script that filters it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of a table of questions.

    name: the key of its value in a row. kind: how a cell is drawn: `question` (image, link and text), `mark`
    (coloured by the outcome), `answer` (clamped), `number` or `text`. style: further classes of its cells.
    """

    name: str
    label: str
    kind: Literal["question", "mark", "answer", "number", "text"] = "text"
    style: str = ""

    @property
    def classes(self) -> str:
        """The classes of its head and its cells."""
        kind = {"mark": "number", "answer": "answer", "number": "number"}.get(self.kind, "")
        return " ".join(filter(None, (kind, self.style)))

    def text(self, row: Row) -> str:
        """Return the text of a cell."""
        value = row[self.name]
        if value is None:
            return "–"
        return f"{value:g}" if isinstance(value, float) else str(value)


def table_script(rows: Sequence[Row], columns: Iterable[Column] = ()) -> bytes:
    """Return `questions.js`, which sets window.REPORT; it is ASCII, whatever the texts hold.

    columns: those that the script draws; it can filter and sort by every key of a row.
    """
    names = list(rows[0]) if rows else []
    data = {
        "columns": names,
        "shown": [[column.name, column.kind, column.classes] for column in columns],
        "rows": [[row[name] for name in names] for row in rows],
    }
    return b"window.REPORT = " + json.dumps(data, separators=(",", ":")).encode() + b";\n"


def choices(rows: Sequence[Row], names: Iterable[str]) -> dict[str, list[Any]]:
    """Return by name the values that a filter offers, without those of which there is only one."""
    values = {name: sorted({row[name] for row in rows if row[name]}) for name in names}
    return {name: own for name, own in values.items() if len(own) > 1}
