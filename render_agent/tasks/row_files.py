"""Question files: jsonl, json, parquet and tsv with rows in VSI-Bench's format."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError, os_errors
from render_agent.extras import require
from render_agent.tasks.rows import question_from_row
from render_agent.util.memory import limit_memory
from render_agent.util.reasons import reason_of, short_repr, truncate
from render_agent.util.safe_parse import parse_json, read_text

SUFFIXES = (".jsonl", ".json", ".parquet", ".tsv")  # files with any other suffix are read as jsonl

# VLMEvalKit's column names -> VSI-Bench's; VSI-Bench's own names take precedence.
VLMEVALKIT_COLUMNS = {
    "index": "id",
    "prefix": "dataset",
    "video": "scene_name",
    "type": "question_type",
    "candidates": "options",
    "answer": "ground_truth",
}

MAX_FAULTS = 20  # rows to report at once

# Memory limit, because a small compressed file can expand to any size.
MAX_PARQUET_BYTES = 384 << 20

Rows = list[dict[str, Any]]


def load_questions(path: Path, benchmark: str) -> list[Question]:
    """Read the questions of a file, in order and without their scans."""
    questions, faults = [], []
    ids: set[str | None] = set()
    for number, row in enumerate(read_rows(path), 1):
        id_ = str(row["id"]) if "id" in row else None
        try:
            if id_ is not None and id_ in ids:
                raise QuestionsError(f"duplicate id {truncate(id_)}")
            questions.append(question_from_row(row, benchmark, None))
        except QuestionsError as error:
            faults.append(f"row {number}: {error}")
            if len(faults) == MAX_FAULTS:
                break
        ids.add(id_)
    _refuse_faults(path, faults)
    return questions


def read_rows(path: Path) -> Rows:
    """Read the rows of a question file, in order and with VSI-Bench's column names.

    A .jsonl file has one object per line, a .json file a list of objects, and a .tsv file a header row, as written by
    VLMEvalKit. Reading .parquet requires pyarrow.
    """
    kind = path.suffix.lower()
    if kind == ".csv":
        raise QuestionsError(f"{path} is a csv file. Convert it to jsonl, json, parquet or tsv.")
    if kind == ".parquet":
        rows: list[Any] = _parquet(path)
    else:
        text = _text(path)
        reader = {".json": _array, ".tsv": _table}.get(kind, _lines)
        rows = reader(text, path)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise QuestionsError(f"{path}, row {number}: expected an object, not {short_repr(row)}")
    if not rows:
        raise QuestionsError(f"{path} contains no questions")
    return rows


def _text(path: Path) -> str:
    with os_errors(QuestionsError, f"read the questions in {path}", also=ValueError):
        return read_text(path)


def _array(text: str, path: Path) -> list[Any]:
    try:
        rows = parse_json(text, object_pairs_hook=_unique)
    except ValueError as error:
        raise QuestionsError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(rows, list):
        raise QuestionsError(f"{path} must contain a list of rows")
    return rows


def _lines(text: str, path: Path) -> list[Any]:
    rows: list[Any] = []
    faults: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            rows += [parse_json(line, object_pairs_hook=_unique)] if line.strip() else []
        except ValueError as error:
            faults.append(f"line {number} is not valid JSON: {error}")
            if len(faults) == MAX_FAULTS:
                break
    _refuse_faults(path, faults)
    return rows


def _refuse_faults(path: Path, faults: Sequence[str]) -> None:
    if faults:
        raise QuestionsError(f"{path}, " + "\n".join(faults))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of an object; raise ValueError if a name occurs twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"duplicate name {short_repr(repeated)}")
    return fields


def _parquet(path: Path) -> list[Any]:
    require(f"reading {path}", "pyarrow", instead="convert the questions to jsonl, json or tsv")
    import pyarrow
    from pyarrow import parquet

    try:
        with limit_memory(MAX_PARQUET_BYTES + 8 * path.stat().st_size):
            rows: list[Any] = parquet.read_table(path, use_threads=False).to_pylist()
    # ValueError: not UTF-8; OverflowError: timestamps out of Python's range
    except (OSError, ValueError, OverflowError, pyarrow.ArrowException) as error:
        raise QuestionsError(f"cannot read the questions in {path}: {reason_of(error)}") from error
    return rows


def _table(text: str, path: Path) -> list[Any]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t", strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise QuestionsError(
            f"{path}, line {reader.line_num} is not a valid tsv row: {error}"
        ) from error
    columns = reader.fieldnames or ()
    if len(set(columns)) < len(columns):
        raise QuestionsError(f"{path} has two columns with the same name")
    for number, row in enumerate(rows, 1):
        if None in row or None in row.values():
            raise QuestionsError(
                f"{path}, row {number}: expected {len(columns)} columns as in the header row"
            )
    return [_convert_row(row) for row in rows]


def _convert_row(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row in VLMEvalKit's format to VSI-Bench's column names."""
    result = {name: value for name, value in row.items() if name not in VLMEVALKIT_COLUMNS}
    for theirs, ours in VLMEVALKIT_COLUMNS.items():
        if theirs in row:
            result.setdefault(ours, row[theirs])
    if "video" in row:
        # Either the scene's name, or the path of its video: scannet/scene0011_00.mp4
        video = PurePosixPath(row["video"])
        if "scene_name" not in row:
            result["scene_name"] = video.name.removesuffix(".mp4")
        if "dataset" not in result and video.parent.name:
            result["dataset"] = video.parent.name
    return result
