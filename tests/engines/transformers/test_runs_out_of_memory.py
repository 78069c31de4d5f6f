"""Memory runs out at every call of the model in turn, in whole runs: nothing that is said changes."""

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

OPTIONS = {
    "max_turns": 2,
    "max_new_tokens": 2,
    "image_size": (64, 48),
    "kinds": ("ego",),
    "max_batched_turns": 1,
    "finish_together": 2,
}
COUNT = 2


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Keep instructions short, of which a small tokenizer makes ten times the tokens."""
    with pytest.MonkeyPatch.context() as patched:
        short = "Explore. You have {turns}. Reply with JSON."
        patched.setitem(general().templates, "instructions.free", short)
        yield


@pytest.fixture(scope="module")
def loaded(quick):
    return open_model(str(small_model()), device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def questions(folder):
    return make_questions(folder, COUNT)


class Counted:
    """Stands before a function: counts its calls, and raises at one of them."""

    def __init__(self, function, place=None):
        self.function = function
        self.place = place
        self.calls = 0
        functools.update_wrapper(self, function)

    def __call__(self, *args, **more):
        self.calls += 1
        if self.calls - 1 == self.place:
            torch.empty(2**52)
        return self.function(*args, **more)


STEPS = {
    "prepare": lambda loaded: (loaded.inputs, "prepare"),
    "encode": lambda loaded: (loaded.inputs, "encode"),
    "generate": lambda loaded: (loaded.model, "generate"),
    "forward": lambda loaded: (loaded.model, "forward"),
}
"""What is done for a batch: prompts, their tensors, the call, and its every step."""


def run_with(folder, questions, loaded, places):
    """Play a run in which some calls run out of memory; return its folder, results and calls by step.

    places: the call of a step that does, None for none.
    """
    counted = {}
    with pytest.MonkeyPatch.context() as patched:
        for step, place in places.items():
            where, name = STEPS[step](loaded)
            counted[step] = Counted(getattr(where, name), place)
            patched.setattr(where, name, counted[step])
        engine = TransformersEngine(replace(loaded))
        path, results = play(folder, questions, engine, **OPTIONS)
    return path, results, {step: function.calls for step, function in counted.items()}


@pytest.fixture(scope="module")
def undisturbed_run(folder, questions, loaded):
    path, results, calls = run_with(folder, questions, loaded, dict.fromkeys(STEPS))
    assert results["counts"]["failed"] == 0
    assert results["totals"]["events"] == {}
    said = transcripts(path)
    assert [len(turns) for turns in said.values()] == [OPTIONS["max_turns"]] * COUNT
    return said, calls


@pytest.fixture(scope="module")
def undisturbed(undisturbed_run):
    return undisturbed_run[0]


@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "every"]
)
@pytest.mark.parametrize("step", STEPS)
def test_running_out_of_memory_at_any_call_changes_nothing(
    folder, questions, loaded, undisturbed_run, step, every
):
    undisturbed, all_calls = undisturbed_run
    calls = all_calls[step]
    assert calls >= 2
    for place in range(calls) if every else (calls // 2,):
        path, results, _ = run_with(folder, questions, loaded, {step: place})
        assert transcripts(path) == undisturbed
        assert results["counts"]["failed"] == 0
        events = results["totals"]["events"]
        assert events.get("out_of_memory", 0) == int(step != "prepare"), f"call {place}: {events}"
        mended = events.get("batch_halved", 0) + events.get("retried", 0)
        assert mended <= 1


def test_a_question_too_large_for_memory_fails_alone(
    folder, questions, loaded, undisturbed, monkeypatch, tmp_path
):
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows[1]["question"] += " Really" * 200
    crowded = tmp_path / "questions.jsonl"
    crowded.write_text("".join(json.dumps(row) + "\n" for row in rows))
    generate = loaded.model.generate
    longest = max(turn["tokens"]["in"] for turns in undisturbed.values() for turn in turns)

    def guarded(**tensors):
        if tensors["input_ids"].shape[1] > longest:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return generate(**tensors)

    monkeypatch.setattr(loaded.model, "generate", guarded)
    engine = TransformersEngine(replace(loaded), batch_size=8)
    (tmp_path / "room.ply").symlink_to(folder / "room.ply")
    path, results = play(tmp_path, crowded, engine, **OPTIONS)
    statuses = {row["question_id"]: row["status"] for row in results["questions"]}
    assert statuses.pop("1") == "failed"
    assert "failed" not in statuses.values()
    said = transcripts(path)
    assert {name: said[name] for name in ("0",)} == {"0": undisturbed["0"]}
    errors = [line["error"] for line in RunData(path).lines() if line["error"]]
    assert len(errors) == 1
    assert "--image-size" in errors[0]
    assert "--batch-size" in errors[0]
    assert results["totals"]["events"]["out_of_memory"] >= 1
