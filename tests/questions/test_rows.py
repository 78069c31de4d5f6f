"""Rows in VSI-Bench's format: read as they are, refused with the row's number."""

import json
from collections import Counter

import pytest
from conftest import test_data

from render_agent.errors import QuestionsError
from render_agent.questions.rows import load_rows, question_from_row, read_rows

NUMBER = {
    "id": 7,
    "dataset": "scannet",
    "scene_name": 3864514494,
    "question_type": "object_counting",
    "question": "How many chair(s) are in this room?",
    "ground_truth": "2.0",
    "options": None,
}
CHOICE = NUMBER | {
    "id": 8,
    "question_type": "object_rel_direction_easy",
    "ground_truth": "B",
    "options": ["A. left", "B. right"],
}


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_a_row_becomes_a_question_word_for_word():
    question = question_from_row(NUMBER, "vsibench", None)
    assert (question.id, question.scene, question.truth) == ("7", "3864514494", "2.0")
    assert (question.wanted, question.options) == ("number", ())
    assert question.text == NUMBER["question"]
    choice = question_from_row(CHOICE, "vsibench", None)
    assert (choice.wanted, choice.options, choice.truth) == ("letter", ("A. left", "B. right"), "B")


def test_all_of_vsibench_is_read():
    questions = load_rows(test_data("vsibench", "test.jsonl"), "vsibench")
    assert len(questions) == 5130
    assert len({question.scene for question in questions}) == 288
    assert all(isinstance(question.id, str) for question in questions)
    assert Counter(question.type for question in questions)["object_size_estimation"] == 953


def test_json_and_jsonl_hold_the_same(tmp_path):
    lines = written(tmp_path / "rows.jsonl", [NUMBER, CHOICE])
    whole = tmp_path / "rows.json"
    whole.write_text(json.dumps([NUMBER, CHOICE]), "utf-8")
    assert read_rows(lines) == read_rows(whole) == [NUMBER, CHOICE]
    assert load_rows(lines, "x") == load_rows(whole, "x")


def test_line_separators_inside_a_text_end_no_row(tmp_path):
    odd = NUMBER | {"question": "one\u2028two\u0085three"}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(odd, ensure_ascii=False) + "\n", "utf-8")
    assert load_rows(path, "x")[0].text == odd["question"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"question": None}, "column 'question' is missing"),
        ({"question": " "}, "column 'question' is empty"),
        ({"question_type": "object_colour"}, "type 'object_colour' is unknown"),
        ({"options": ["A. left", "B. right"]}, "wants a number and has no options"),
        ({"ground_truth": "two"}, "'two' is no number"),
        ({"question_type": "route_planning"}, "must have options"),
        ({"question_type": "route_planning", "options": ["left"]}, "must be a list such as"),
        ({"question_type": "route_planning", "options": "A. left"}, "must be a list such as"),
        (
            {"question_type": "route_planning", "options": ["A. x", "B. y"], "ground_truth": "C"},
            "the letter of none of the options",
        ),
    ],
)
def test_wrong_rows_are_named(tmp_path, change, reason):
    path = written(tmp_path / "rows.jsonl", [CHOICE, NUMBER | change])
    with pytest.raises(QuestionsError, match=rf"rows\.jsonl, row 2: .*{reason}"):
        load_rows(path, "x")


def test_an_id_may_come_once(tmp_path):
    path = written(tmp_path / "rows.jsonl", [NUMBER, CHOICE, CHOICE | {"id": "7"}])
    with pytest.raises(QuestionsError, match="row 3: the id 7 was there before"):
        load_rows(path, "x")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.jsonl", "", "holds no questions"),
        ("a.jsonl", "{}\n{", "line 2 is no JSON"),
        ("a.jsonl", "[1]", "row 1: a row must be an object"),
        ("a.json", "{}", "must hold a list"),
        ("a.json", "[", "is no JSON"),
    ],
)
def test_other_files_are_refused(tmp_path, name, text, reason):
    (tmp_path / name).write_text(text)
    with pytest.raises(QuestionsError, match=reason):
        load_rows(tmp_path / name, "x")


def test_a_file_that_is_no_text_or_not_there(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe\x00")
    for name in ("a.jsonl", "none.jsonl"):
        with pytest.raises(QuestionsError, match="cannot read the questions"):
            read_rows(tmp_path / name)
