"""The expert's reasoning: exact wording, and derivations that lead to the ground truth."""

import json
from itertools import product
from pathlib import Path

import pytest
from factories.derivations import answer_of, direction_name, turn_text
from factories.replies import parse_reply

from render_agent.dialogue.answer import canonical_answer, options_by_letter
from render_agent.dialogue.question import Question
from render_agent.scans.boxes import upright_box
from render_agent.tasks.box_answers import DIRECTION_NAMES
from render_agent.tasks.rooms import BUNDLED, load_bundled_rooms
from render_agent_lab.expert.derive import (
    Knowledge,
    PlanPoint,
    bearing_of,
    derive_answer,
    final_reply,
    format_positions,
    format_rooms,
    format_turn,
    omniscient_reply,
    question_categories,
    turn_between,
)
from render_agent_lab.expert.homes import load_knowledge

HOME = Knowledge(
    {
        "lamp": [upright_box((4, 0.3, 0), (4.6, 0.9, 0.8))],
        "plant": [upright_box((0.3, 3, 0), (0.9, 3.8, 1.2))],
        "sofa": [upright_box((3.9, 3.1, 0), (4.7, 3.9, 0.5))],
        "chair": [upright_box((0, -0.08, 0), (0.4, 0, 1)), upright_box((2, 3, 0), (2.4, 3.4, 1))],
    },
    ((4.24, 4.0), (3.06, 2.2)),
)


def question(kind, text, options=(), truth="A"):
    wanted = "letter" if options else "number"
    return Question("0", "b", "d", "home", kind, text, wanted, options, truth, Path("home.ply"))


SIDES = question(
    "object_rel_direction_easy",
    "If I am standing by the lamp and facing the plant, is the sofa to the left or the right of the"
    " plant?",
    ("A. left", "B. right"),
    "B",
)
# From the lamp to the other two, and the turn between them.
WAYS = "plant 4.3 0.6 -3.7 0.6 3.4 2.8 4.0, sofa 4.3 4.3 0.0 0.6 3.5 2.9 2.5, turn 4.0 2.5 -1.5"
OTHER_WAY = "sofa 4.3 4.3 0.0 0.6 3.5 2.9 2.5, plant 4.3 0.6 -3.7 0.6 3.4 2.8 4.0, turn 2.5 4.0 1.5"
BEHIND = question(
    "object_rel_direction_medium",
    "If I am standing by the lamp and facing the sofa, is the plant to my left, right, or back?\n"
    "An object is to my back if I would have to turn at least 135 degrees in order to face it.",
    ("A. back", "B. left", "C. right"),
    "B",
)
QUARTER = question(
    "object_rel_direction_hard",
    "If I am standing by the lamp and facing the sofa, is the plant to my front-left, front-right,"
    " back-left, or back-right?\nThe directions refer to the quadrants of a Cartesian plane (if I am"
    " standing at the origin and facing along the positive y-axis).",
    ("A. back-left", "B. front-left", "C. front-right", "D. back-right"),
    "B",
)
APART = question(
    "object_abs_distance",
    "Measuring from the closest point of each object, what is the distance between the lamp and the"
    " plant (in meters)?",
    truth="3.5",
)
NEAREST = question(
    "object_rel_distance",
    "Measuring from the closest point of each object, which of these objects (lamp, chair) is the"
    " closest to the plant?",
    ("A. lamp", "B. chair"),
    "B",
)
COUNT = question("object_counting", "How many chair(s) are in this room?", truth="2")
SIZE = question(
    "object_size_estimation",
    "What is the length of the longest dimension (length, width, or height) of the plant, measured in"
    " centimeters?",
    truth="120",
)
AREA = question(
    "room_size_estimation",
    "What is the size of this room (in square meters)? \nIf",
    truth="23.7",
)
ROUTE = question(
    "route_planning",
    "You are a robot beginning at the lamp and facing the sofa. You want to navigate to the lamp. You"
    " will perform the following actions (Note: for each [please fill in], choose either 'turn back,'"
    " 'turn left,' or 'turn right.'): 1. Go forward until the sofa 2. [please fill in] 3. Go forward"
    " until the plant 4. [please fill in] 5. Go forward until the sofa 6. [please fill in] 7. Go forward"
    " until the lamp. You have reached the final destination.",
    ("A. Turn Left, Turn Back, Turn Right", "B. Turn Back, Turn Back, Turn Back"),
)


@pytest.mark.parametrize(
    ("question", "reasoning"),
    [
        (SIDES, f"lamp 4.3 0.6; plant 0.6 3.4; sofa 4.3 3.5. {WAYS}: right"),
        (BEHIND, f"lamp 4.3 0.6; sofa 4.3 3.5; plant 0.6 3.4. {OTHER_WAY}: left"),
        (QUARTER, f"lamp 4.3 0.6; sofa 4.3 3.5; plant 0.6 3.4. {OTHER_WAY}: front-left"),
        (APART, "lamp 4.3 0.6; plant 0.6 3.4. apart 4.3 0.6 -3.7 0.6 3.4 2.8 4.6"),
        (
            NEAREST,
            "lamp 4.3 0.6; chair 0.2 0.0, 2.2 3.2; plant 0.6 3.4. lamp 0.6 4.3 3.7 3.4 0.6 -2.8 3.7,"
            " chair 0.6 2.2 1.6 3.4 3.2 -0.2 1.1: chair",
        ),
        (COUNT, "chair 0.2 0.0, 2.2 3.2. 2 seen"),
        (SIZE, "plant 0.6 3.4. size"),
        (AREA, "room 4.2 x 4.0, 3.1 x 2.2"),
        (
            ROUTE,
            "lamp 4.3 0.6; sofa 4.3 3.5; plant 0.6 3.4. facing 4.3 4.3 0.0 0.6 3.5 2.9 2.5,"
            " plant 4.3 0.6 -3.7 3.5 3.4 -0.1 5.0, turn 2.5 5.0 2.5: left;"
            " facing 4.3 0.6 -3.7 3.5 3.4 -0.1 5.0, sofa 0.6 4.3 3.7 3.4 3.5 0.1 0.0,"
            " turn 5.0 0.0 -5.0: back; facing 0.6 4.3 3.7 3.4 3.5 0.1 0.0,"
            " lamp 4.3 4.3 0.0 3.5 0.6 -2.9 7.5, turn 0.0 7.5 7.5: right. Turn Left, Turn Back, Turn Right",
        ),
    ],
    ids=lambda value: value.type if isinstance(value, Question) else "",
)
def test_every_question_type_has_fixed_wording(question, reasoning):
    places, rest = omniscient_reply(question, HOME)
    assert json.loads(places + rest) == {
        "reasoning": reasoning,
        "answer": options_by_letter(question.options).get(
            question.ground_truth, question.ground_truth
        ),
        "done": True,
    }
    assert places + rest == json.dumps(json.loads(places + rest))
    cut = reasoning if question is AREA else reasoning[: reasoning.index(". ")]
    assert places == '{"reasoning": "' + cut


def test_unknown_positions_are_question_marks_and_allow_no_derivation():
    without_plant = Knowledge({name: HOME.boxes[name] for name in ("lamp", "sofa")})
    positions, rest = final_reply(SIDES, without_plant, "A")
    reasoning = "lamp 4.3 0.6; plant ?; sofa 4.3 3.5"
    assert json.loads(positions + rest) == {"reasoning": reasoning, "answer": "left", "done": True}
    for question in (SIDES, APART, NEAREST, COUNT, SIZE, ROUTE):
        assert derive_answer(question, Knowledge()) == ""
        unknown = "; ".join(f"{name} ?" for name in question_categories(question))
        assert format_positions(question, {}) == unknown
    assert format_rooms(()) == "room ?"


def test_ambiguous_objects_have_no_direction():
    three_sofas = {**HOME.boxes, "sofa": [*HOME.boxes["sofa"], *HOME.boxes["chair"]]}
    assert derive_answer(SIDES, Knowledge(three_sofas)) == ""


def test_bearings_are_counter_clockwise_and_left_is_positive():
    ends = (PlanPoint(2, 1), PlanPoint(1, 2), PlanPoint(0, 1), PlanPoint(1, 0))
    assert [bearing_of(PlanPoint(1, 1), end) for end in ends] == [0.0, 2.5, 5.0, 7.5]
    assert bearing_of(PlanPoint(0, 0), PlanPoint(10, -0.1)) == 0.0  # not 10.0
    assert turn_between(9.7, 0.3) == pytest.approx(21.6)
    assert turn_between(0.3, 9.7) == pytest.approx(-21.6)
    assert turn_between(0.0, 5.0) == -180


def test_turns_are_differences_named_as_in_the_question():
    for ahead, there in product(range(100), repeat=2):
        for kind, word in DIRECTION_NAMES.items():
            text = format_turn(ahead / 10, there / 10, word)
            numbers = turn_text(str(ahead / 10), str(there / 10))
            assert text == f"turn {numbers}: {direction_name(kind, ahead / 10, there / 10)}"


@pytest.mark.skipif(not BUNDLED.is_dir(), reason="bundled rooms not found")
def test_derivations_lead_to_the_ground_truth_of_bundled_questions():
    questions = load_bundled_rooms()
    knowledge = load_knowledge(questions)
    num_derived = 0
    for question in questions:
        places, rest = omniscient_reply(question, knowledge[question.scene])
        action = parse_reply(places + rest, question.answer_form, question.options)
        truth = canonical_answer(question.ground_truth, question.answer_form, question.options)
        assert (action.answer, action.done, action.notes) == (truth, True, ())
        assert "?" not in action.reasoning
        derived = answer_of(question, derive_answer(question, knowledge[question.scene]))
        if derived is not None:
            assert derived == options_by_letter(question.options).get(
                question.ground_truth, question.ground_truth
            )
            num_derived += 1
    types = ("object_rel", "route", "object_counting")
    assert num_derived == sum(question.type.startswith(types) for question in questions) > 100
