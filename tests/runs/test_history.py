"""`--history K` keeps the images of the last K turns in the prompt, and engines reuse the unchanged part."""

import json

import pytest
from conftest import mostly_slow
from factories.models import small_model, small_qwen3_5, small_qwen3_vl
from factories.runs import make_questions

import render_agent
from render_agent.dialogue.chat import image_files
from render_agent.runs.read import RunData

# A family whose keys and values are reused, and one with recurrent states.
BUILDS = {"qwen3_vl": small_qwen3_vl, "qwen3_5": small_qwen3_5}


def play(tmp_path, **options):
    run = render_agent.run(
        benchmark=make_questions(tmp_path, 2),
        image_size=(64, 64),
        output=tmp_path / "runs",
        **options,
    )
    return RunData(run.path)


@pytest.mark.parametrize(("history", "turns"), [("1", 1), ("2", 2), ("all", 9)])
def test_images_of_earlier_turns_are_replaced(tmp_path, history, turns):
    requests = []

    def engine(request):
        requests.append(request)
        return json.dumps({"rotation_angle_degrees": 40})

    run = play(tmp_path, engine=engine, history=history, max_turns=4, no_restate=True)
    for request in requests:
        turns_of_question = [turn for turn in run.turns if turn.question_id == request.question_id]
        recent_turns = turns_of_question[max(0, request.turn + 1 - turns) : request.turn + 1]
        expected = [file for turn in recent_turns for file in image_files(list(turn.messages))]
        assert image_files(request.messages) == expected
        roles = [message["role"] for message in request.messages]
        assert roles == ["system", *["user", "assistant"] * request.turn, "user"]
    assert run.config.history == history


@pytest.mark.parametrize("family", mostly_slow(["qwen3_vl", "qwen3_5"], "qwen3_vl"))
def test_reuse_does_not_change_replies(tmp_path, family):
    directory = small_model(BUILDS[family])
    options = {
        "model": directory,
        "dtype": "float32",
        "history": "1",
        "max_turns": 4,
        "max_new_tokens": 8,
    }
    reused = play(tmp_path, **options)
    fresh = play(tmp_path, engine_option=("reuse=none",), **options)
    assert reused.record["engine"]["reuse"] == "keys"
    key = lambda turn: (turn.question_id, turn.number)  # noqa: E731
    assert [turn.reply for turn in sorted(reused.turns, key=key)] == [
        turn.reply for turn in sorted(fresh.turns, key=key)
    ]
