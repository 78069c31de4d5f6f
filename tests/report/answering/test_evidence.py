"""Views that could refute an answer, premature answers and their cost, from made sightings."""

from dataclasses import replace

import pytest
from factories.states import question

from render_agent.dialogue.chat import View
from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.report.answering.evidence import (
    commitment_cost,
    evidence_terms,
    is_premature,
    refuting_views,
)
from render_agent.report.diagnosis.model import Cause, Diagnosis, NamedBox, TurnDiagnosis
from render_agent.scans.camera import Camera
from render_agent.score.terms import summarize_terms
from render_agent.visibility.object_visibility import ObjectSighting

SIZE = (100, 100)
AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
BOXES = tuple(
    NamedBox(name, 0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), AXES) for name in ("chair", "table")
)
CHAIR, TABLE = 0, 1
TEXT = "What is the distance between the chair and the table (in meters)?"
EAST, NORTH, NEAR_EAST = (2.0, 0.0, 0.0), (0.0, 2.0, 0.0), (2.0, 1.0, 0.0)


def dialogue(*turns, name="7", scene="s", max_turns=4):
    """Return state and diagnosis of turns (camera position, boxes seen clearly, answer)."""
    asked = question(
        id=name,
        scene=scene,
        type="object_abs_distance",
        text=TEXT,
        answer_form="number",
        ground_truth="2",
    )
    made, seen, first_seen = [], [], {}
    for number, (position, boxes, answer) in enumerate(turns):
        done = number == len(turns) - 1
        view = View(number, "ego", f"{number}.png", Camera(position))
        action = Action(answer=answer, answer_text=answer, done=done)
        made.append(
            Turn(name, number, "batched", (view,), (), "", action, "", view.camera, view.camera)
        )
        sightings = tuple(
            ObjectSighting(number, box, 1000.0 * (box in boxes), 1.0 * (box in boxes), 2.0)
            for box in (CHAIR, TABLE)
        )
        seen.append(TurnDiagnosis(number, sightings))
        for box in boxes:
            first_seen.setdefault(BOXES[box].category, number)
    saw_all = len(first_seen) == len(BOXES)
    state = QuestionState(asked, None, max_turns, turns=made)
    shown = {box.category: first_seen.get(box.category) for box in BOXES}
    return state, Diagnosis(
        name, Cause.RIGHT, ("chair", "table"), BOXES, tuple(seen), shown, saw_all
    )


@pytest.mark.parametrize(
    ("turns", "refuting"),
    [
        ([(EAST, [CHAIR], "2"), (EAST, [CHAIR], "2")], [False]),  # the same side again
        ([(EAST, [CHAIR], "2"), (NEAR_EAST, [CHAIR], "2")], [False]),  # 27° away
        ([(EAST, [CHAIR], "2"), (NORTH, [CHAIR], "2")], [True]),  # 90° away
        ([(EAST, [CHAIR], "2"), (EAST, [CHAIR, TABLE], "2")], [True]),  # another object
        ([(EAST, [], "2"), (EAST, [], "2"), (EAST, [TABLE], "2")], [False, True]),
        ([(EAST, [], None), (EAST, [CHAIR], None), (NORTH, [], "2")], []),  # all before the answer
        ([(EAST, [CHAIR], None), (EAST, [CHAIR], None)], []),  # no answer
    ],
)
def test_views_that_could_refute_the_first_answer(turns, refuting):
    assert [*refuting_views(*dialogue(*turns), SIZE)] == refuting


@pytest.mark.parametrize(
    ("turns", "premature"),
    [
        ([(EAST, [CHAIR], "2")], True),
        ([(EAST, [CHAIR], "2"), (EAST, [TABLE], "2")], True),  # the first answer counts
        ([(EAST, [CHAIR], None), (EAST, [TABLE], "2")], False),
        ([(EAST, [], None)] * 3 + [(EAST, [], "2")], False),  # no turns left
        ([(EAST, [CHAIR, TABLE], None)], None),
    ],
)
def test_first_answer_is_premature_if_an_object_is_missing(turns, premature):
    assert is_premature(*dialogue(*turns), SIZE) is premature


def test_premature_answers_cost_the_difference_on_the_same_questions():
    hasty, patient = (EAST, [CHAIR], "4"), (EAST, [CHAIR, TABLE], "2")
    sides = [[], []]
    for number in range(8):
        for side, turn in zip(
            sides, (hasty, patient) if number < 6 else (patient, patient), strict=True
        ):
            side.append(dialogue(turn, name=str(number), scene=f"room {number}"))
    sides = [([s for s, _ in side], {s.id: d for s, d in side}, SIZE) for side in sides]
    cost = commitment_cost(sides)
    assert (cost["value"], cost["n"]) == (100, 6)  # 4 m for 2 m scores 0
    assert commitment_cost(sides[::-1]) == cost
    assert commitment_cost([sides[1], sides[1]]) is None
    shares = {name: summarize_terms(terms) for name, terms in evidence_terms(*sides[0]).items()}
    assert (shares["premature"]["value"], shares["premature"]["n"]) == (75, 8)
    assert shares["falsified"] is None


def test_questions_without_known_boxes_are_left_out():
    state, diagnosis = dialogue((EAST, [], "2"))
    unknown = replace(diagnosis, boxes=(), turns=(TurnDiagnosis(0),), first_seen={}, saw_all=None)
    terms = evidence_terms([state], {state.id: unknown}, SIZE)
    assert terms == {"falsified": [], "premature": []}
