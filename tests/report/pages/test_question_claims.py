"""The sentence of a question's page agrees with its table, and with the words of `show`."""

import re

import pytest
from factories.reports import run_rooms
from factories.states import question

from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.diagnosis.sufficiency import first_shown, needed_objects
from render_agent.report.pages.question.question_view import QuestionView
from render_agent.report.sentences.causes import unseen_objects
from render_agent.report.sentences.labels import result_label, with_unit


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claims")
    return run_rooms(folder, scene=("room00", "room03"), max_turns=4)


def test_sentence_names_exactly_the_rows_without_a_mark(run):
    """Regression test: "never seen: chair 3" stood above a row "chair" with a ✓ for another chair."""
    diagnoses, several, size = diagnose_run(run, 1), 0, run.config.image_size
    for state in run.states:
        diagnosis = diagnoses[state.id]
        table = QuestionView(state, run.rows[state.id], diagnosis, None, run.parts).visibility
        rows = [] if table is None else [row for row in table.rows if row[1] is not None]
        clear = {name: any(cell.is_clear for cell in cells) for name, _, cells in rows}
        unseen = unseen_objects(diagnosis, size)
        expected = set()
        for category in diagnosis.named:
            expected_names = {
                n: turns
                for n, turns in clear.items()
                if n == category or n[: len(category) + 1] == f"{category} "
            }
            missing = {name for name, turns in expected_names.items() if not turns}
            expected |= (
                {category} if expected_names and len(missing) == len(expected_names) else missing
            )
        assert set(unseen) == expected, state.id
        if state.question.type == "object_counting" and len(diagnosis.boxes) > 1:
            several += len(rows) == len(diagnosis.boxes)
    assert several >= 2


def test_one_rule_for_several_objects_of_a_name(run):
    counting = next(s.question for s in run.states if s.question.type == "object_counting")
    question = next(s.question for s in run.states if s.question.type == "object_rel_distance")
    categories = ["chair", "lamp", "chair"]
    assert needed_objects(counting, categories) == ((0,), (1,), (2,))
    assert needed_objects(question, categories) == ((0, 2), (1,))
    assert first_shown(counting, categories, {0: 1, 2: 3}) == {"chair": 3, "lamp": None}
    assert first_shown(counting, categories, {0: 1, 1: 0}) == {"chair": None, "lamp": 0}
    assert first_shown(question, categories, {2: 3}) == {"chair": 3, "lamp": None}


@pytest.mark.parametrize(
    ("form", "score", "text"),
    [
        ("letter", 1.0, "right"),
        ("letter", 0.0, "wrong"),
        ("number", 0.4, "1.3 m for 1.8 m: 40 %"),
        ("number", 1.0, "1.3 m for 1.8 m: 100 %"),
        ("text", 0.25, "25 %"),
        ("number", None, "not scored"),
    ],
)
def test_words_of_results(form, score, text):
    text_asked = "What is the distance between the door and the bed (in meters)?"
    asked = question(text=text_asked, answer_form=form, ground_truth="1.8")
    assert result_label(asked, "1.3", score) == text


@pytest.mark.parametrize(
    ("words", "answer", "shown"),
    [
        ("How large is the room (in square meters)?", "12", "12 m²"),
        ("What is its height, measured in centimeters?", "90", "90 cm"),
        ("What is its height, measured in centimeters?", "90 cm", "90 cm"),
        ("How many chairs are in this room?", "3", "3"),
    ],
)
def test_numbers_have_the_unit_of_their_question(words, answer, shown):
    assert with_unit(question(text=words, answer_form="number"), answer) == shown


def test_show_and_the_page_use_the_same_words(run, type_in):
    for state in run.states:
        code, out, err = type_in("show", run.path, state.id, folder=run.path.parent)
        assert code == 0, err
        result_text = re.search(r"^result: (.*)$", out, re.MULTILINE)[1]
        assert result_text == QuestionView(state, run.rows[state.id], None, None, run.parts).result
