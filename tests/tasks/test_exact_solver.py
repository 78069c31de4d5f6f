from collections import Counter
from dataclasses import replace

import pytest
from conftest import test_data

from render_agent.score.questions import score_answer
from render_agent.tasks.exact_solver import true_answer
from render_agent.tasks.ground_truth import known_facts
from render_agent.tasks.question_files import load_questions
from render_agent.tasks.rooms import BUNDLED, bundled

RIGHT = {
    "room_size_estimation": 288,
    "object_size_estimation": 951,
    "object_counting": 560,
    "object_rel_direction_easy": 214,
    "object_rel_direction_medium": 372,
    "object_rel_direction_hard": 368,
    "object_rel_distance": 707,
}
"""Questions of each type that the official annotations answer exactly."""


def test_the_official_annotations_answer_what_they_were_made_for():
    folder = test_data("vsibench")
    questions = load_questions(folder / "test.jsonl", "vsibench")
    facts = known_facts(questions, str(folder))
    assert facts.keys() == {question.scene for question in questions}
    answers = {q.id: true_answer(q, facts[q.scene]) for q in questions}
    scores = {q.id: score_answer(q, answers[q.id]) for q in questions if answers[q.id]}
    right = Counter(q.type for q in questions if scores.get(q.id) == 1)
    assert {name: right[name] for name in RIGHT} == RIGHT
    distances = [
        scores[q.id] for q in questions if q.type == "object_abs_distance" and q.id in scores
    ]
    assert len(distances) == 830
    assert sum(distances) / len(distances) > 0.96
    untold = {q.type for q in questions if answers[q.id] is None}
    assert {"route_planning", "obj_appearance_order"} < untold


def test_scenes_that_are_built_from_annotations_name_them():
    folder = test_data("vsibench")
    question = next(
        q for q in load_questions(folder / "test.jsonl", "vsibench") if q.dataset == "scannet"
    )
    scan = folder / "scannet_meta_info_val.json"
    facts = known_facts([replace(question, scan=scan)])
    assert facts.keys() == {question.scene}
    assert known_facts([question]) == {}


@pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are not here")
def test_the_truth_beside_a_bundled_room_answers_its_questions():
    questions = bundled()
    facts = known_facts(questions)
    for question in questions:
        answer = true_answer(question, facts[question.scene])
        if question.type == "route_planning":
            assert answer is None
        else:
            assert score_answer(question, answer) == 1, question.text


def test_a_question_that_is_worded_otherwise_has_no_answer():
    questions = bundled() if BUNDLED.is_dir() else pytest.skip("the bundled rooms are not here")
    facts = known_facts(questions)
    for question in questions:
        if question.type != "room_size_estimation":
            other = replace(question, text="How come?")
            assert true_answer(other, facts[question.scene]) is None
            unknown = replace(question, text=question.text.replace("the ", "the unknown "))
            if question.type not in ("object_counting", "route_planning"):
                assert true_answer(unknown, facts[question.scene]) is None
