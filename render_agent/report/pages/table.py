"""Tables of questions: cell texts, and the data for the script that filters and sorts them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from render_agent.runs.log.columns import Column

Row = Mapping[str, Any]


def cell_text(value: Any) -> str:
    """Return the text of a cell."""
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


def table_script(
    rows: Sequence[Row],  # one row per question. The script can filter and sort by every key.
    columns: Iterable[Column] = (),
) -> bytes:
    """Return the content of `questions.js`, an ASCII script that sets window.REPORT."""
    names = list(rows[0]) if rows else []
    data = {
        "columns": names,
        "shown": [[column.name, column.cell, column.classes] for column in columns],
        "rows": [[row[name] for name in names] for row in rows],
    }
    return b"window.REPORT = " + json.dumps(data, separators=(",", ":")).encode() + b";\n"


def choices(rows: Sequence[Row], names: Iterable[str]) -> dict[str, list[Any]]:
    """Return the values of each filter; columns with a single value get no filter."""
    values = {name: sorted({row[name] for row in rows if row[name]}) for name in names}
    return {name: options for name, options in values.items() if len(options) > 1}
