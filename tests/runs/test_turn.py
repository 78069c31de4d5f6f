"""One turn: how a reply is parsed, carried out and answered."""

import pytest
from factories.replies import read
from factories.scenes import room
from factories.states import question, state
from PIL import Image

from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.dialogue.evidence import Candidate
from render_agent.dialogue.moves import Outcome
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.view import View
from render_agent.runs.turn import respond
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.views.provider import Observation

KINDS = ("ego", "top", "around")
HERE = Camera((2.5, 2.0, 1.6))


@pytest.fixture(scope="module")
def look():
    import numpy as np

    points, colours, faces = room()
    bounds = np.array([points.min(0), points.max(0)], float)
    space = FreeSpace.of(Scene("room", points, colours, faces, 0.0, 2.5, bounds))
    return Observation((View(0, "top", "0.png", HERE), View(1, "ego", "1.png", HERE)), HERE, space)


def told(look, reply, kinds=KINDS, **more):
    context = TurnContext(state(), look, Image.open)
    action = read(reply, "text")
    return Candidate(0, reply, action, *respond(context, action, Prompt(9, 75.0, kinds), **more))


def test_a_reply_that_cannot_be_read_is_told_why_and_moves_nothing(look):
    result = told(look, "I would go left")
    assert result.camera == HERE
    assert result.outcome is None
    assert result.feedback.startswith("Your reply could not be read: it contains no JSON object")


def test_done_ignores_the_moves_beside_it_and_says_so(look):
    result = told(look, '{"answer": "4", "done": true, "forward_meters": 1}')
    assert result.camera == HERE
    assert result.outcome is None
    assert result.feedback == "Done; the requested moves were not made."


def test_done_without_an_answer_is_told_so_and_its_move_is_made(look):
    result = told(look, '{"done": true, "forward_meters": 0.5}')
    assert "You set done without an answer" in result.feedback
    assert result.outcome == Outcome(0.0, (0.5, 0.0, 0.0), (0.5, 0.0, 0.0))
    assert result.camera.position[0] == pytest.approx(3.0)


def test_a_blocked_move_says_how_far_it_came(look):
    result = told(look, '{"forward_meters": 2, "rotation_angle_degrees": 90}')
    moved = result.camera.position[1] - 2
    assert 1.7 < moved <= 1.8
    assert f"Turned 90° left; moved {moved:.2f}".rstrip("0") in result.feedback
    assert result.outcome.moved == pytest.approx((moved, 0, 0))
    assert result.outcome.level_obstacle == "wall"
    assert result.feedback.endswith("of 2 m forward: a wall is ahead.")


def test_limits_are_told_with_the_field_as_it_is_spelled(look):
    result = told(look, '{"forward_meters": 1e300, "rotation_angle_degrees": 720}')
    assert "rotation_angle_degrees 720 was limited to 180° per turn" in result.feedback
    assert "forward_meters 1e+300 was limited to 2 m per turn" in result.feedback
    assert len(result.feedback) < 250


@pytest.mark.parametrize(
    ("view", "said"),
    [("7", "There is no view 7 yet: you have seen views 0 to 1."), ("1", ""), ('"top"', "")],
)
def test_views_that_are_not_to_be_had_are_named(look, view, said):
    assert told(look, f'{{"view": {view}}}').feedback.endswith(said or "did not move.")


def test_kinds_that_were_switched_off_are_named(look):
    feedback = told(look, '{"view": "top"}', kinds=("ego",)).feedback
    assert feedback.endswith('The view "top" is not available: request ego.')


def test_a_reply_cut_off_is_told_so(look):
    feedback = told(look, '{"forward_meters": 1', cut_off=True).feedback
    assert feedback.startswith("Your reply was cut off at the token limit. Write less.")


def test_an_unreadable_answer_beside_a_move_is_told_and_the_move_made(look):
    choice = question(wanted="letter", options=("A. left", "B. right"))
    action = read('{"answer": "AB", "forward_meters": 0.5}', "letter", choice.options)
    context = TurnContext(state(wanted="letter", options=choice.options), look, Image.open)
    feedback, camera, _ = respond(context, action, Prompt(9, 75.0))
    assert camera.position[0] == pytest.approx(3.0)
    assert "AB" in feedback
    assert "A or B" in feedback
