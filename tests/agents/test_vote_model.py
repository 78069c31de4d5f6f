"""vote:5 with a small real Qwen3-VL: one call per turn, reproducible, independent of the schedule."""

from dataclasses import replace
from functools import partial

import pytest
from factories.models import small_model, small_qwen3_vl
from factories.runs import NullObserver, evidence_by_turn, make_config, make_questions, transcripts

from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.wording import general
from render_agent.runs.build import make_engine
from render_agent.runs.runner import start_run

# Short replies that a model with random weights can choose among.
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
    monkeypatch.setattr(Prompt, "schema", lambda prompt, question: SHORT)
    short = replace(
        general(),
        templates=general().templates | {"instructions.free": "Explore. You have {turns}."},
    )
    monkeypatch.setattr("render_agent.runs.build.wording_of", lambda config: short)


MODEL = partial(small_qwen3_vl, seed=4)  # some of its random replies can be read, others cannot

# Every model call is a call of `generate` for one request with five samples.
WHOLE = {"engine_option": ("reuse=none",), "batch_size": 5, "max_batched_turns": 0}


def vote(folder, questions, **options):
    """Run the questions; return transcripts, evidence, and the batch size of every model call."""
    calls = []

    def make_counting_engine(config, questions):
        engine = make_engine(config, questions)
        generate = engine.loaded.model.generate

        def counting(*args, **kwargs):
            calls.append(len(kwargs["input_ids"]))
            return generate(*args, **kwargs)

        engine.loaded.model.generate = counting
        return engine

    config = make_config(
        folder, questions, **OPTIONS | {"model": str(small_model(MODEL))} | options
    )
    run = start_run(config.absolute())
    try:
        results = run.go(NullObserver(), make_counting_engine)
    finally:
        run.close()
    assert results["counts"]["failed"] == 0
    return transcripts(run.path), evidence_by_turn(run.path), calls


@pytest.mark.slow
def test_model_votes_depend_on_the_seed_only(tmp_path):
    questions = make_questions(tmp_path, 2)
    transcript, evidence, calls = vote(tmp_path, questions, **WHOLE, finish_together=1)
    assert calls == [5] * len(evidence)
    ballots = [entry["ballot"] for entry in evidence.values()]
    assert any(ballot and 0 < ballot["agreement"] < 1 for ballot in ballots)
    assert any(ballot is None for ballot in ballots)
    for schedule in (
        {"max_batched_turns": 1, "finish_together": 2, "batch_size": 3},
        WHOLE | {"batch_size": 20, "max_batched_turns": 4, "finish_together": 8},
    ):
        assert vote(tmp_path, questions, **schedule)[:2] == (transcript, evidence)
