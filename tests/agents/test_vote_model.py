"""vote:5 through a real (small) Qwen3-VL: one call, reproducible from the seed, the same under every schedule."""

from dataclasses import replace

import pytest
from factories.models import small_model
from factories.runs import Silent, choices, make_config, make_questions, transcripts

from render_agent.dialogue.wording import general
from render_agent.runs import turn
from render_agent.runs.build import make_engine
from render_agent.runs.runner import start_run

SHORT = {
    "type": "object",
    "properties": {
        "rotation_angle_degrees": {"enum": [-90, 9]},
        "answer": {"enum": ["A", "B", "2", "9"]},
        "done": {"type": "boolean"},
    },
    "required": ["rotation_angle_degrees", "answer", "done"],
    "additionalProperties": False,
}
"""Replies that a model of random weights can be held to in few tokens, and among which it chooses freely."""

OPTIONS = {
    "engine": "transformers",
    "dtype": "float32",
    "device": "cpu",
    "max_turns": 2,
    "max_new_tokens": 64,
    "image_size": (64, 64),
    "agent": "vote:5",
    "temperature": 2.0,
    "seed": 4,
    "batch_size": 20,
}


@pytest.fixture(autouse=True)
def short_dialogues(monkeypatch):
    monkeypatch.setattr(turn, "reply_schema", lambda kinds, **more: SHORT)
    short = replace(
        general(),
        templates=general().templates | {"instructions.free": "Explore. You have {turns}."},
    )
    monkeypatch.setattr("render_agent.runs.build.wording_of", lambda config: short)


WHOLE = {"engine_option": ("reuse=none",), "batch_size": 5, "max_batched_turns": 0}
"""Every call of the model is one of `generate`, which a request of five samples fills."""


def vote(folder, questions, **options):
    """Run the questions; return what was said and voted, and of every call the rows that it wrote."""
    calls = []

    def watched(config, asked):
        engine = make_engine(config, asked)
        generate = engine.loaded.model.generate

        def counting(*given, **more):
            calls.append(len(more["input_ids"]))
            return generate(*given, **more)

        engine.loaded.model.generate = counting
        return engine

    config = make_config(folder, questions, **OPTIONS | {"model": str(small_model())} | options)
    run = start_run(config.absolute())
    try:
        results = run.go(Silent(), watched)
    finally:
        run.close()
    assert results["counts"]["failed"] == 0
    return transcripts(run.path), choices(run.path), calls


@pytest.mark.slow
def test_votes_of_a_model_depend_on_the_seed_alone(tmp_path):
    questions = make_questions(tmp_path, 2)
    said, why, calls = vote(tmp_path, questions, **WHOLE, finish_together=1)
    assert calls == [5] * len(why)
    assert any(found["ballot"] and 0 < found["ballot"]["agreement"] < 1 for found in why.values())
    assert any(found["ballot"] is None for found in why.values())
    for schedule in (
        {"max_batched_turns": 1, "finish_together": 2, "batch_size": 3},
        WHOLE | {"batch_size": 20, "max_batched_turns": 4, "finish_together": 8},
    ):
        assert vote(tmp_path, questions, **schedule)[:2] == (said, why)
