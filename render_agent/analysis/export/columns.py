"""Rows with typed columns, written as CSV or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from render_agent.extras import require

Kind = Literal["text", "int", "float", "bool"]
Columns = Mapping[str, Kind]


def write_csv(file: Path, columns: Columns, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as CSV (UTF-8); what is not known stays empty. OSError where it cannot be written."""
    with file.open("w", encoding="utf-8", errors="backslashreplace", newline="") as opened:
        writer = csv.DictWriter(opened, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(file: Path, columns: Columns, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as Parquet; what is not known is null. SetupError without pyarrow."""
    require("Parquet", "pyarrow", instead="take --format csv")
    import pyarrow
    from pyarrow import parquet

    types = {
        "text": pyarrow.string(),
        "int": pyarrow.int64(),
        "float": pyarrow.float64(),
        "bool": pyarrow.bool_(),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    plain = [
        {name: _storable(row.get(name), kind) for name, kind in columns.items()} for row in rows
    ]
    parquet.write_table(pyarrow.Table.from_pylist(plain, schema=schema), file)


def _storable(value: Any, kind: Kind) -> Any:
    """Return a value as its column holds it; a lone surrogate, which UTF-8 lacks, as its escape."""
    if kind == "text" and value is not None:
        return str(value).encode("utf-8", "backslashreplace").decode()
    return value
