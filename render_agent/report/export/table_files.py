"""Tables as CSV or Parquet files with typed columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from render_agent.extras import require
from render_agent.runs.log.columns import Column, Kind


def write_csv(file: Path, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as UTF-8 CSV; missing values are empty. Raises OSError if the file cannot be written."""
    with file.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
        writer = csv.DictWriter(stream, [column.name for column in columns], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(file: Path, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as Parquet; missing values are null. Raises SetupError if pyarrow is not installed."""
    require("Parquet", "pyarrow", instead="use --format csv")
    import pyarrow
    from pyarrow import parquet

    types = {
        "text": pyarrow.string(),
        "int": pyarrow.int64(),
        "float": pyarrow.float64(),
        "bool": pyarrow.bool_(),
    }
    schema = pyarrow.schema([(column.name, types[column.kind]) for column in columns])
    plain = [
        {column.name: _storable(row.get(column.name), column.kind) for column in columns}
        for row in rows
    ]
    parquet.write_table(pyarrow.Table.from_pylist(plain, schema=schema), file)


def _storable(value: Any, kind: Kind) -> Any:
    """Convert a value to the type of its column, with lone surrogates escaped (not valid in UTF-8)."""
    if kind == "text" and value is not None:
        return str(value).encode("utf-8", "backslashreplace").decode()
    return value
