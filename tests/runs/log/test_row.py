"""Result rows: columns come from the fields, values from the log."""

import csv
import io
from typing import Annotated

import pytest
from factories.runs import make_questions, play, walking_engine
from msgspec import Struct

from render_agent.runs.log.columns import Column, columns_of
from render_agent.runs.log.row import COLUMNS, Row, csv_text, row_of, score_of
from render_agent.runs.read import RunData
from render_agent.util.safe_parse import Count, Number, convert


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return play(folder, make_questions(folder), walking_engine(4), max_turns=5)


def test_columns_reflect_the_fields():
    class Base(Struct, kw_only=True):
        last: bool

    class Table(Base, kw_only=True):
        name: Annotated[str, Column("Name", saved=True, cell="text", wide_only=True)]
        size: Annotated[Number | None, Column(decimals=1)] = None
        number: Count = 0

    columns = columns_of(Table)
    assert [(column.name, column.kind, column.optional) for column in columns] == [
        ("name", "text", False),
        ("size", "float", True),
        ("number", "int", True),
        ("last", "bool", False),
    ]
    assert (columns[0].header, columns[0].saved, columns[0].classes) == ("Name", True, "wide-only")
    assert (columns[1].decimals, columns[2].saved) == (1, False)


def test_result_rows_match_the_log(run):
    path, results = run
    rows = [row_of(state) for state in RunData(path).states]
    assert [row.to_json() for row in rows] == results["questions"]
    names = {*COLUMNS, "score_parsed"}
    assert all(row.keys() == names for row in results["questions"])
    for row in rows:
        assert convert(row.to_json(), Row).to_json() == row.to_json()


def test_optional_columns_appear_if_set():
    row = dict.fromkeys(COLUMNS, 1)
    plain, changed = csv_text([row]), csv_text([row, row | {"change": "moved"}])
    assert next(csv.reader(io.StringIO(plain))) == list(COLUMNS)
    assert [line.rpartition(",")[2] for line in changed.splitlines()] == ["change", "", "moved"]


def test_unfinished_question_has_no_score(run):
    path, _ = run
    (first, *_) = RunData(path).states
    assert score_of(first) is not None
    del first.turns[-1:]
    assert first.active
    assert score_of(first) is row_of(first).score is None


def test_judge_marks_replace_the_score(run):
    path, _ = run
    (first, *_) = RunData(path).states
    marks = {first.id: 0.25}
    assert score_of(first, marks=marks) == row_of(first, marks=marks).score == 0.25
