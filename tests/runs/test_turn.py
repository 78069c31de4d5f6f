"""One turn: a reply is parsed and applied, and gets feedback."""

import pytest
from factories.replies import parse_reply
from factories.runs import finish_run, make_config
from factories.scenes import room
from factories.states import question, state
from PIL import Image

from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.dialogue.chat import View
from render_agent.dialogue.moves import Outcome
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.turn import Candidate
from render_agent.engines.engine import Reply
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.runs.turn import read_candidates, respond
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.views.provider import NextViews

VIEW_TYPES = ("ego", "top", "around")
HERE = Camera((2.5, 2.0, 1.6))


@pytest.fixture(scope="module")
def context():
    import numpy as np

    points, colours, faces = room()
    bounds = np.array([points.min(0), points.max(0)], float)
    space = FreeSpace.of(Scene("room", points, colours, faces, 0.0, 2.5, bounds))
    return NextViews((View(0, "top", "0.png", HERE), View(1, "ego", "1.png", HERE)), HERE, space)


def respond_to(context, reply, kinds=VIEW_TYPES, **options):
    context = TurnContext(state(), context, Image.open)
    action = parse_reply(reply, "text")
    return Candidate(0, reply, action, *respond(context, action, Prompt(9, 75.0, kinds), **options))


def test_unreadable_reply_gets_a_reason_and_no_move(context):
    result = respond_to(context, "I would go left")
    assert result.camera == HERE
    assert result.outcome is None
    assert result.feedback.startswith("Your reply could not be read: it contains no JSON object")


def test_done_ignores_moves(context):
    result = respond_to(context, '{"answer": "4", "done": true, "forward_meters": 1}')
    assert result.camera == HERE
    assert result.outcome is None
    assert result.feedback == "Done; the requested moves were not made."


def test_done_without_answer_still_moves(context):
    result = respond_to(context, '{"done": true, "forward_meters": 0.5}')
    assert "You set done without an answer" in result.feedback
    assert result.outcome == Outcome(0.0, (0.5, 0.0, 0.0), (0.5, 0.0, 0.0))
    assert result.camera.position[0] == pytest.approx(3.0)


def test_blocked_move_reports_the_distance(context):
    result = respond_to(context, '{"forward_meters": 2, "rotation_angle_degrees": 90}')
    moved = result.camera.position[1] - 2
    assert 1.7 < moved <= 1.8
    assert f"Turned 90° left; moved {moved:.2f}".rstrip("0") in result.feedback
    assert result.outcome.moved == pytest.approx((moved, 0, 0))
    assert result.outcome.level_obstacle == "wall"
    assert result.feedback.endswith("of 2 m forward: a wall is ahead.")


def test_limits_are_reported_by_field_name(context):
    result = respond_to(context, '{"forward_meters": 1e300, "rotation_angle_degrees": 720}')
    assert "rotation_angle_degrees 720 was limited to 180° per turn" in result.feedback
    assert "forward_meters 1e+300 was limited to 2 m per turn" in result.feedback
    assert len(result.feedback) < 250


@pytest.mark.parametrize(
    ("view", "feedback"),
    [("7", "There is no view 7 yet: you have seen views 0 to 1."), ("1", ""), ('"top"', "")],
)
def test_unknown_views_are_named(context, view, feedback):
    assert respond_to(context, f'{{"view": {view}}}').feedback.endswith(feedback or "did not move.")


def test_disabled_view_types_are_named(context):
    feedback = respond_to(context, '{"view": "top"}', kinds=("ego",)).feedback
    assert feedback.endswith('The view "top" is not available: request ego.')


def test_truncated_reply_is_reported(context):
    feedback = respond_to(context, '{"forward_meters": 1', cut_off=True).feedback
    assert feedback.startswith("Your reply was cut off at the token limit. Write less.")


def test_unreadable_answer_does_not_prevent_the_move(context):
    choice = question(answer_form="letter", options=("A. left", "B. right"))
    action = parse_reply('{"answer": "AB", "forward_meters": 0.5}', "letter", choice.options)
    context = TurnContext(state(answer_form="letter", options=choice.options), context, Image.open)
    feedback, camera, _ = respond(context, action, Prompt(9, 75.0))
    assert camera.position[0] == pytest.approx(3.0)
    assert "AB" in feedback
    assert "A or B" in feedback


def test_several_steps_move_once_and_are_reported(context):
    steps = '{"forward_meters": 0.5}\n{"rotation_angle_degrees": 90}\n{"forward_meters": 0.5}'
    result = respond_to(context, steps)
    assert result.outcome == Outcome(0.0, (0.5, 0.0, 0.0), (0.5, 0.0, 0.0))
    assert result.feedback.startswith(
        "Only the first of the 3 steps in your reply was carried out."
    )


def test_unknown_fields_are_reported(context):
    result = respond_to(context, '{"forward_meters": 0.5, "speed": 3}')
    assert result.feedback.startswith('Unknown fields were ignored: "speed".')
    assert result.camera.position[0] == pytest.approx(3.0)
    result = respond_to(context, '{"final_answer": "4", "done": true}')
    assert "final_answer" in result.feedback
    assert result.feedback != "Done."


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_truncated_object_is_not_completed(context, finish):
    context = TurnContext(state(), context, Image.open)
    replies = [Reply(('{"answer": "4", "done": true',), finish=finish)]
    [candidate] = read_candidates(context, replies, Prompt(9, 75.0))
    assert candidate.action.answer is None
    assert candidate.action.answer_text is None


def test_log_records_repaired_replies(tmp_path):
    replies = ['{"view": "top",}', '{"answer": "1", "done": true}']
    run = start_run(make_config(tmp_path, "rooms", limit=1))
    finish_run(run, lambda config, questions: ScriptedEngine(ReplayPolicy({"*": replies})))
    first, second, *_ = RunData(run.path).lines()
    assert first["action"] == {"view": "top", "repaired": True}
    assert "repaired" not in second["action"]
