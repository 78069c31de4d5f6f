"""Files of questions: jsonl, json, parquet and tsv files with rows in VSI-Bench's format."""

from __future__ import annotations

import ast
import csv
import io
from pathlib import Path, PurePosixPath
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError, os_errors
from render_agent.extras import require
from render_agent.tasks.rows import question_from_row
from render_agent.util.memory import bounded_memory
from render_agent.util.reasons import reason_of, short_repr, shortened
from render_agent.util.safe_parse import parse_json, read_bounded

SUFFIXES = (".jsonl", ".json", ".parquet", ".tsv")
"""The formats that are read; any other file is read as jsonl."""

VLMEVALKIT_COLUMNS = {
    "index": "id",
    "prefix": "dataset",
    "video": "scene_name",
    "type": "question_type",
    "candidates": "options",
    "answer": "ground_truth",
}
"""VLMEvalKit's names of columns → VSI-Bench's; a column under VSI-Bench's own name comes first."""

NO_OPTIONS = ("", "nan", "None", "null", "[]")
"""How a tsv says that a question has no options."""

MAX_PARQUET_BYTES = 384 << 20
"""Of memory that reading a table may take: few bytes may be said to stand for any number."""

Rows = list[dict[str, Any]]


def load_questions(path: Path, benchmark: str) -> list[Question]:
    """Return the questions of a file in its order, their scans not yet looked for.

    Errors: QuestionsError naming the row, where the file or one of its rows is not in VSI-Bench's
    format, or where two rows share an id.
    """
    questions: dict[str, Question] = {}
    for number, row in enumerate(read_rows(path), 1):
        try:
            question = question_from_row(row, benchmark, None)
        except QuestionsError as error:
            raise QuestionsError(f"{path}, row {number}: {error}") from error
        if question.id in questions:
            raise QuestionsError(
                f"{path}, row {number}: the id {shortened(question.id)} was there before; ids must be unique"
            )
        questions[question.id] = question
    return list(questions.values())


def read_rows(path: Path) -> Rows:
    """Return the rows of a file of questions, in its order and by VSI-Bench's names of columns.

    .jsonl: an object a line. .json: a list of objects. .parquet: needs pyarrow. .tsv: a table with a
    head, as VLMEvalKit writes it. Errors: QuestionsError where the file cannot be read or holds
    something else; SetupError where pyarrow is needed and not there.
    """
    kind = path.suffix.lower()
    if kind == ".parquet":
        rows: list[Any] = _parquet(path)
    else:
        text = _text(path)
        reader = {".json": _array, ".tsv": _table}.get(kind, _lines)
        rows = reader(text, path)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise QuestionsError(
                f"{path}, row {number}: a row must be an object, not {short_repr(row)}"
            )
    if not rows:
        raise QuestionsError(f"{path} holds no questions")
    return rows


def _text(path: Path) -> str:
    with os_errors(QuestionsError, f"read the questions in {path}", also=ValueError):
        return read_bounded(path).decode("utf-8-sig")


def _array(text: str, path: Path) -> list[Any]:
    try:
        rows = parse_json(text)
    except ValueError as error:
        raise QuestionsError(f"{path} is no JSON: {error}") from error
    if not isinstance(rows, list):
        raise QuestionsError(f"{path} must hold a list of rows")
    return rows


def _lines(text: str, path: Path) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(parse_json(line))
        except ValueError as error:
            raise QuestionsError(f"{path}, line {number} is no JSON: {error}") from error
    return rows


def _parquet(path: Path) -> list[Any]:
    require(f"reading {path}", "pyarrow", instead="give the same questions as jsonl, json or tsv")
    import pyarrow
    from pyarrow import parquet

    try:
        with bounded_memory(MAX_PARQUET_BYTES + 8 * path.stat().st_size):
            rows: list[Any] = parquet.read_table(path, use_threads=False).to_pylist()
    # texts that are no UTF-8, times that Python has no date for
    except (OSError, ValueError, OverflowError, pyarrow.ArrowException) as error:
        raise QuestionsError(f"cannot read the questions in {path}: {reason_of(error)}") from error
    return rows


def _table(text: str, path: Path) -> list[Any]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t", strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise QuestionsError(
            f"{path}, line {reader.line_num} is no row of a tsv: {error}"
        ) from error
    for number, row in enumerate(rows, 1):
        if None in row or None in row.values():
            width = len(reader.fieldnames or ())
            raise QuestionsError(
                f"{path}, row {number}: it has not the {width} columns of the head"
            )
    return [_renamed(row, path, number) for number, row in enumerate(rows, 1)]


def _renamed(row: dict[str, Any], path: Path, number: int) -> dict[str, Any]:
    """Return a row of VLMEvalKit's with VSI-Bench's names and values."""
    renamed = {name: value for name, value in row.items() if name not in VLMEVALKIT_COLUMNS}
    for theirs, ours in VLMEVALKIT_COLUMNS.items():
        if theirs in row:
            renamed.setdefault(ours, row[theirs])
    if "video" in row:
        # The scene's name alone, or where its video lies: scannet/scene0011_00.mp4
        video = PurePosixPath(row["video"])
        if "scene_name" not in row:
            renamed["scene_name"] = video.name.removesuffix(".mp4")
        if "dataset" not in renamed and video.parent.name:
            renamed["dataset"] = video.parent.name
    options = renamed.get("options")
    if options is not None:
        renamed["options"] = _options_of_cell(options, path, number)
    return renamed


def _options_of_cell(text: str, path: Path, number: int) -> Any:
    """Return the options that a cell of a tsv holds as the text of a list."""
    if text.strip() in NO_OPTIONS:
        return None
    try:
        return ast.literal_eval(text)
    # What literal_eval says that it raises on texts that are no literals.
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise QuestionsError(
            f"{path}, row {number}: the options must be a list such as ['A. left', ...], not"
            f" {short_repr(text)}"
        ) from error
