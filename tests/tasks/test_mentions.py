import pytest
from conftest import test_data

from render_agent.dialogue.question import Question
from render_agent.options import RunConfig
from render_agent.tasks.ground_truth import load_facts
from render_agent.tasks.question_types import named_categories, subjects
from render_agent.tasks.rooms import BUNDLED, load_bundled_rooms
from render_agent.tasks.row_files import load_questions

ALWAYS = ("object_rel_direction", "object_abs_distance", "object_counting", "obj_appearance_order")


def question(kind, text, options=()):
    return Question("q", "rooms", "rooms", "s", kind, text, "letter", options)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("object_counting", "How many trash can(s) are in this room?", ("trash can",)),
        (
            "object_rel_distance",
            "Measuring from the closest point of each object, which of these objects (chair, stove,"
            " sofa) is the closest to the tv?",
            ("tv", "chair", "stove", "sofa"),
        ),
        (
            "obj_appearance_order",
            "What will be the first-time appearance order of the following categories in the video:"
            " cup, heater, door?",
            ("cup", "heater", "door"),
        ),
        (
            "route_planning",
            "You are a robot beginning at the bed and facing the TV. You want to navigate to the trash"
            " bin. You will perform the following actions: 1. Go forward until the TV 2. [please fill"
            " in] 3. Go forward until the shower is on your right. You have reached the final"
            " destination.",
            ("bed", "tv", "trash bin", "shower"),
        ),
        ("room_size_estimation", "What is the size of this room (in square meters)?", ()),
        ("other", "How many chairs are there?", ()),
    ],
)
def test_named_categories(kind, text, expected):
    assert named_categories(question(kind, text)) == expected


def test_all_vsibench_questions_name_their_objects():
    questions = load_questions(test_data("vsibench", "test.jsonl"), "vsibench")
    facts = load_facts(questions, RunConfig(annotations=str(test_data("vsibench"))))
    num_with_box = num_without_box = 0
    for vsi_question in questions:
        names = named_categories(vsi_question)
        assert (names == ()) == (vsi_question.type == "room_size_estimation")
        if vsi_question.type != "route_planning":  # routes name objects in free text
            boxes = facts[vsi_question.scene].boxes
            num_with_box += sum(name in boxes for name in names)
            num_without_box += sum(name not in boxes for name in names)
    assert (num_with_box, num_without_box) == (12_074, 38)  # coat racks have no box


@pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are missing")
def test_every_object_named_in_the_bundled_rooms_has_a_box():
    questions = load_bundled_rooms()
    facts = load_facts(questions)
    assert all(
        name in facts[room_question.scene].boxes
        for room_question in questions
        for name in named_categories(room_question)
    )


def test_empty_question_names_nothing():
    empty = Question("q", "b", "d", "s", "other", "", "text")
    assert subjects(empty) == [""]
    assert named_categories(empty) == ()
