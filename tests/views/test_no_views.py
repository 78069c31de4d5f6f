"""`--views none`: the same dialogue without anything to see."""

import json

import jsonschema
import pytest
from factories.models import bundled_model
from factories.replies import reply_schema
from factories.runs import (
    finish_run,
    make_config,
    make_questions,
    resume,
    transcripts,
    truncate_log,
)
from factories.scenes import room, write_ply
from PIL import Image

from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.dialogue.chat import image_files
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import FIELDS, Action, Malformed
from render_agent.dialogue.state import QuestionState, Status
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.runs.turn import respond
from render_agent.scans.camera import Camera
from render_agent.views.provider import NoViews


def question(scan=None):
    options = ("A. left", "B. right")
    return Question("7", "b", "d", "s", "t", "Left or right?", "letter", options, "A", scan)


def test_prompt_of_blind_run_offers_no_moves():
    prompt = Prompt(9, 75.0, ())
    look = NoViews().observe(QuestionState(question(), None, 9, blind=True))
    system, user = prompt.opening(question(), look.views, look.camera)
    instructions = system["content"][0]["text"]
    assert "without seeing it" in instructions
    assert not [
        word
        for word in ("camera", "view", "map", "forward", "{", "}}")
        if word in instructions.replace('{"', "")
    ]
    assert user["content"][0]["text"].endswith("the letter of your choice, A or B.\n\nTurn 1 of 9.")
    assert image_files([system, user]) == []
    (later,) = prompt.following(8, "Done.", (), look.camera)
    assert [piece["text"] for piece in later["content"]] == [
        "Done.\n\nTurn 9 of 9.",
        "This is your last turn: give your best answer now and set done to true.",
    ]
    example = instructions[instructions.index("{") : instructions.index("}") + 1]
    jsonschema.validate(json.loads(example), reply_schema(()))


def test_schema_of_blind_run_has_no_moves():
    schema = reply_schema(())
    assert [*schema["properties"]] == [field.name for field in FIELDS if field.used == "always"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"reasoning": "", "answer": "A", "done": True, "view": "top"}, schema)


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (Action(forward=1.0), "There is nothing to see, and the camera cannot move: answer from the question alone."),
        (Action(view="top"), "There is nothing to see, and the camera cannot move: answer from the question alone."),
        (Action(answer="A", done=True), "Done."),
        (Malformed("it is empty"), "Your reply could not be read: it is empty. The camera did not move."),
    ],
)  # fmt: skip
def test_feedback_of_blind_run(action, sentence):
    state = QuestionState(question(), None, 9, blind=True)
    look = NoViews().observe(state)
    feedback, camera, comparable_results = respond(
        TurnContext(state, look, Image.open), action, Prompt(9, 75.0, ())
    )
    assert feedback == sentence
    assert comparable_results is None
    assert camera == look.camera == Camera((0.0, 0.0, 0.0))


def test_questions_without_a_scan_can_run_blind():
    assert QuestionState(question(), None, 9).status is Status.MISSING
    assert QuestionState(question(), None, 9, blind=True).status is Status.ACTIVE


@pytest.mark.slow
def test_model_answers_blind_and_resumes(tmp_path):
    options = {
        "engine": "transformers", "model": str(bundled_model()), "dtype": "float32", "device": "cpu",
        "max_turns": 2, "max_new_tokens": 8, "views": "none",
    }  # fmt: skip
    questions = make_questions(tmp_path, 3)
    write_ply(tmp_path / "room.ply", *room())
    run = start_run(make_config(tmp_path, questions, **options).absolute())
    result = finish_run(run)
    assert (result["counts"]["failed"], result["totals"]["renders"]) == (0, 0)
    expected = transcripts(run.path)
    assert {len(turns) for turns in expected.values()} <= {1, 2}
    truncate_log(run.path, 2)
    resume(run.path)
    assert transcripts(run.path) == expected
    assert RunData(run.path).saved_results["notes"][-1].startswith("blind: ")
