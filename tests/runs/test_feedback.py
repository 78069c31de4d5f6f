"""`--feedback off` shows the next view only; everything else stays the same."""

import json

import pytest
from factories.runs import make_questions

import render_agent
from render_agent.errors import UsageError
from render_agent.runs.read import RunData

REPLIES = [
    {"forward_meters": 5},
    {"rotation_angle_degrees": 400},
    "not JSON",
    {"view": 17},
    {"answer": "3", "done": True},
]


def engine(request):
    reply = REPLIES[request.turn]
    return reply if isinstance(reply, str) else json.dumps(reply)


def texts(turn):
    return " ".join(p["text"] for m in turn.messages for p in m["content"] if p["type"] == "text")


def test_without_feedback_only_the_outcomes_are_missing(tmp_path):
    questions = make_questions(tmp_path, 1)
    on, off = (
        RunData(
            render_agent.run(
                benchmark=questions,
                engine=engine,
                feedback=feedback,
                image_size=(96, 72),
                output=tmp_path / "runs",
            ).path
        )
        for feedback in ("on", "off")
    )
    assert [turn.outcome for turn in off.turns] == [turn.outcome for turn in on.turns]
    assert [turn.camera for turn in off.turns] == [turn.camera for turn in on.turns]
    assert [turn.views for turn in off.turns] == [turn.views for turn in on.turns]
    assert texts(off.turns[0]) == texts(on.turns[0])
    for with_feedback, silent in zip(on.turns[1:3], off.turns[1:3], strict=True):
        assert "yaw" in texts(with_feedback)
        assert "yaw" not in texts(silent)
        assert "limited" in texts(with_feedback)
        assert "limited" not in texts(silent)
    assert off.turns[2].feedback in texts(off.turns[3])  # an unreadable reply is still reported
    assert off.turns[2].feedback
    assert off.config.feedback == "off"


def test_other_values_are_refused(tmp_path):
    with pytest.raises(UsageError):
        render_agent.run(benchmark="rooms", engine="scripted", feedback="some", output=tmp_path)
