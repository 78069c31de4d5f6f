from collections import Counter
from dataclasses import replace

import pytest
from conftest import test_data

from render_agent.options import RunConfig
from render_agent.score.questions import score_answer
from render_agent.tasks.ground_truth import load_facts
from render_agent.tasks.question_types import true_answer
from render_agent.tasks.rooms import BUNDLED, load_bundled_rooms
from render_agent.tasks.row_files import load_questions

# Questions per type that the official annotations answer exactly.
EXACT = {
    "room_size_estimation": 288,
    "object_size_estimation": 951,
    "object_counting": 560,
    "object_rel_direction_easy": 214,
    "object_rel_direction_medium": 372,
    "object_rel_direction_hard": 368,
    "object_rel_distance": 707,
}


def test_official_annotations_reproduce_ground_truth():
    folder = test_data("vsibench")
    questions = load_questions(folder / "test.jsonl", "vsibench")
    facts = load_facts(questions, RunConfig(annotations=str(folder)))
    assert facts.keys() == {question.scene for question in questions}
    answers = {q.id: true_answer(q, facts[q.scene]) for q in questions}
    scores = {q.id: score_answer(q, answers[q.id]) for q in questions if answers[q.id]}
    exact = Counter(q.type for q in questions if scores.get(q.id) == 1)
    assert {name: exact[name] for name in EXACT} == EXACT
    distances = [
        scores[q.id] for q in questions if q.type == "object_abs_distance" and q.id in scores
    ]
    assert len(distances) == 830
    assert sum(distances) / len(distances) > 0.96
    unsolved = {q.type for q in questions if answers[q.id] is None}
    assert {"route_planning", "obj_appearance_order"} < unsolved


def test_stand_in_scenes_use_their_annotation_file():
    folder = test_data("vsibench")
    question = next(
        q for q in load_questions(folder / "test.jsonl", "vsibench") if q.dataset == "scannet"
    )
    scan = folder / "scannet_meta_info_val.json"
    facts = load_facts([replace(question, scan=scan)])
    assert facts.keys() == {question.scene}
    assert load_facts([question]) == {}


@pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are missing")
def test_bundled_rooms_reproduce_ground_truth():
    questions = load_bundled_rooms()
    facts = load_facts(questions)
    for question in questions:
        answer = true_answer(question, facts[question.scene])
        if question.type == "route_planning":
            assert answer is None
        else:
            assert score_answer(question, answer) == 1, question.text


def test_reworded_question_has_no_computed_answer():
    questions = (
        load_bundled_rooms() if BUNDLED.is_dir() else pytest.skip("the bundled rooms are missing")
    )
    facts = load_facts(questions)
    for question in questions:
        if question.type != "room_size_estimation":
            reworded = replace(question, text="How come?")
            assert true_answer(reworded, facts[question.scene]) is None
            unknown = replace(question, text=question.text.replace("the ", "the unknown "))
            if question.type not in ("object_counting", "route_planning"):
                assert true_answer(unknown, facts[question.scene]) is None
