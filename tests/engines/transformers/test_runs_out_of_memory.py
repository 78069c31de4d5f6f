"""Running out of memory at any call of the model does not change the transcripts of a run."""

import functools
import json
from dataclasses import replace

import pytest
import torch
from factories.models import small_model
from factories.runs import make_questions, play, transcripts

from render_agent.dialogue.wording import general
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import open_model
from render_agent.runs.read import RunData

pytestmark = pytest.mark.usefixtures("freeze_earlier_objects")

OPTIONS = {
    "max_turns": 2,
    "max_new_tokens": 2,
    "image_size": (64, 48),
    "view_types": ("ego",),
    "max_batched_turns": 1,
    "finish_together": 2,
}
COUNT = 2


@pytest.fixture(scope="module", autouse=True)
def short_instructions():
    """Shorten the instructions, because the small tokenizer needs ten times as many tokens."""
    with pytest.MonkeyPatch.context() as patched:
        short = "Explore. You have {turns}. Reply with JSON."
        patched.setitem(general().templates, "instructions.free", short)
        yield


@pytest.fixture(scope="module")
def loaded(short_instructions):
    return open_model(str(small_model()), device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def questions(folder):
    return make_questions(folder, COUNT)


class FaultyFunction:
    """Wraps a function: counts its calls, and runs out of memory at one of them."""

    def __init__(self, function, failing_call=None):
        self.function = function
        self.failing_call = failing_call
        self.calls = 0
        functools.update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        self.calls += 1
        if self.calls - 1 == self.failing_call:
            torch.empty(2**52)
        return self.function(*args, **kwargs)


# The steps of a batch: prompts, tensors, the call of the model, and every forward pass.
STEPS = {
    "prepare": lambda loaded: (loaded.inputs, "prepare"),
    "encode": lambda loaded: (loaded.inputs, "encode"),
    "generate": lambda loaded: (loaded.model, "generate"),
    "forward": lambda loaded: (loaded.model, "forward"),
}


def run_with(folder, questions, loaded, failing_calls):
    """Run with faults; return the run folder, the results and the number of calls by step.

    failing_calls: for each step, the index of the call that runs out of memory, or None.
    """
    functions = {}
    with pytest.MonkeyPatch.context() as patched:
        for step, failing_call in failing_calls.items():
            owner, name = STEPS[step](loaded)
            functions[step] = FaultyFunction(getattr(owner, name), failing_call)
            patched.setattr(owner, name, functions[step])
        engine = TransformersEngine(replace(loaded))
        path, results = play(folder, questions, engine, **OPTIONS)
    return path, results, {step: function.calls for step, function in functions.items()}


@pytest.fixture(scope="module")
def undisturbed_run(folder, questions, loaded):
    path, results, calls = run_with(folder, questions, loaded, dict.fromkeys(STEPS))
    assert results["counts"]["failed"] == 0
    assert results["totals"]["events"].keys() <= {"restated"}
    turns_by_question = transcripts(path)
    lengths = [len(turns) for turns in turns_by_question.values()]
    assert lengths == [OPTIONS["max_turns"]] * COUNT
    return turns_by_question, calls


@pytest.fixture(scope="module")
def undisturbed(undisturbed_run):
    return undisturbed_run[0]


@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "every"]
)
@pytest.mark.parametrize("step", STEPS)
def test_out_of_memory_at_any_call_does_not_change_the_transcripts(
    folder, questions, loaded, undisturbed_run, step, every
):
    undisturbed, all_calls = undisturbed_run
    calls = all_calls[step]
    assert calls >= 2
    for index in range(calls) if every else (calls // 2,):
        path, results, _ = run_with(folder, questions, loaded, {step: index})
        assert transcripts(path) == undisturbed
        assert results["counts"]["failed"] == 0
        events = results["totals"]["events"]
        assert events.get("out_of_memory", 0) == int(step != "prepare"), f"call {index}: {events}"
        assert events.get("batch_halved", 0) + events.get("retried", 0) <= 1


def test_question_that_does_not_fit_in_memory_fails_alone(
    folder, questions, loaded, undisturbed, monkeypatch, tmp_path
):
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows[1]["question"] += " Really" * 200
    long_questions = tmp_path / "questions.jsonl"
    long_questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    generate = loaded.model.generate
    longest = max(turn["tokens"]["in"] for turns in undisturbed.values() for turn in turns)

    def guarded(**tensors):
        if tensors["input_ids"].shape[1] > longest:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return generate(**tensors)

    monkeypatch.setattr(loaded.model, "generate", guarded)
    engine = TransformersEngine(replace(loaded), batch_size=8)
    (tmp_path / "room.ply").symlink_to(folder / "room.ply")
    path, results = play(tmp_path, long_questions, engine, **OPTIONS)
    statuses = {row["question_id"]: row["status"] for row in results["questions"]}
    assert statuses.pop("1") == "failed"
    assert "failed" not in statuses.values()
    assert transcripts(path)["0"] == undisturbed["0"]
    errors = [line["error"] for line in RunData(path).lines() if line["error"]]
    assert len(errors) == 1
    assert "--image-size" in errors[0]
    assert "--batch-size" in errors[0]
    assert results["totals"]["events"]["out_of_memory"] >= 1
