"""Scores that are NaN or infinite fail the requests concerned, in every path of the engine, and no others."""

from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import torch
from factories.models import load_random_image, small_model
from factories.replies import reply_schema
from factories.runs import finish_run, make_config, make_questions

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.transformers.factory import build_engine
from render_agent.engines.transformers.model.load import LoadedModel, open_model
from render_agent.errors import SetupError
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run

REUSE = ("keys", "none")
WAYS = {
    "greedy": {},
    "sampled": {"temperature": 1.0, "num_samples": 3},
    "guided": {"schema": reply_schema(("ego", "top"))},
}


@pytest.fixture(scope="module")
def loaded():
    return open_model(str(small_model()), dtype="float32", device="cpu")


def engine_of(loaded, reuse, **options):
    return build_engine(replace(loaded), 8, {"reuse": reuse}, 500, image_size=(64, 64), **options)


@pytest.fixture(scope="module")
def sound_engine(loaded):
    """A function that returns an engine, by kind of reuse, for requests without invalid scores."""
    return cache(lambda reuse: engine_of(loaded, reuse))


def request(number, words="Where is the chair? ", **options):
    image = chat.image_piece(f"64x64-{number}.png")
    messages = [chat.message("user", chat.text(words), image)]
    return Request(
        f"q{number}", 0, messages, load_random_image, **{"max_new_tokens": 12, **options}
    )


@contextmanager
def damaged(loaded, token, value=torch.nan):
    """Make the embedding of a token NaN or infinite, so that only texts that contain it are affected."""
    with torch.no_grad():
        row = loaded.model.get_input_embeddings().weight[token]
        before = row.clone()
        row[3] = value
        yield
        row.copy_(before)


@pytest.mark.parametrize(
    ("value", "reuse", "way"),
    [
        *product([torch.nan], REUSE, WAYS),
        *((torch.inf, *both) for both in zip(("keys", "none", "none"), WAYS, strict=True)),
    ],
)
def test_only_the_dialogue_with_invalid_scores_fails(loaded, sound_engine, reuse, way, value):
    sound = [request(number, **WAYS[way]) for number in range(4)]
    expected = [reply.samples for reply in sound_engine(reuse).generate(sound)]
    letter = next(letter for letter in "QXYZVW" if letter not in str(expected))
    with damaged(loaded, *loaded.tokenizer.encode(letter), value):
        engine = engine_of(loaded, reuse)
        bad = request(9, f"Where is {letter}? ", **WAYS[way])
        *first, failed, last = engine.generate([*sound[:3], bad, sound[3]])
        again = engine.generate(sound)
    assert [reply.samples for reply in (*first, last)] == expected
    assert [reply.samples for reply in again] == expected
    assert not failed.samples
    assert "--dtype" in failed.error


@pytest.mark.parametrize("reuse", REUSE)
def test_scores_that_become_invalid_within_a_reply(loaded, sound_engine, reuse, monkeypatch):
    """The model writes the token whose embedding is damaged, so the next scores are invalid."""
    plain, written = request(0), []
    with monkeypatch.context() as patch:
        patch.setattr(LoadedModel, "text", lambda _, ids, prompt: written.extend(ids) or "")
        sound_engine(reuse).generate([plain])
    prompt = loaded.inputs.prepare(plain).ids
    token = next(token for token in written[:-1] if token not in prompt)
    with damaged(loaded, token):
        (reply,) = engine_of(loaded, reuse).generate([plain])
    assert (reply.samples, reply.tokens.reply) == ((), 0)
    assert "--dtype" in reply.error


@pytest.mark.parametrize("reuse", REUSE)
def test_invalid_scores_of_choices(loaded, sound_engine, reuse):
    requests = [request(number, f"{'Z' * (number == 1)} ") for number in range(3)]
    choices = [("A", "the chair")] * 3
    expected = sound_engine(reuse).score(requests, choices)
    with damaged(loaded, *loaded.tokenizer.encode("Z")):
        scores = engine_of(loaded, reuse).score(requests, choices)
    for index in (0, 2):
        assert scores[index].log_probabilities == pytest.approx(expected[index].log_probabilities)
    assert scores[1].log_probabilities == ()
    assert "--dtype" in scores[1].error


@pytest.mark.parametrize(
    ("dtype", "remedy"),
    [("float16", "--dtype bfloat16"), ("bfloat16", "--dtype float32"), ("float32", "--dtype")],
)
@pytest.mark.parametrize("reuse", ["keys", "none"])
def test_message_names_the_dtype_to_try(dtype, remedy, reuse):
    loaded = open_model(str(small_model()), dtype=dtype, device="cpu")
    with torch.no_grad():
        loaded.model.lm_head.weight.fill_(torch.finfo(getattr(torch, dtype)).max)
    (reply,) = engine_of(loaded, reuse).generate([request(0)])
    assert remedy in reply.error
    assert f" in {dtype}" in reply.error


def test_check_of_reproducible_runs_names_invalid_scores(loaded):
    with damaged(loaded, *loaded.tokenizer.encode("?")), pytest.raises(SetupError, match="--dtype"):
        engine_of(loaded, "keys", reproducible=True)


def test_questions_with_invalid_scores_are_not_wrong_answers(tmp_path, loaded):
    model = tmp_path / "model"
    with damaged(loaded, *loaded.tokenizer.encode("?")):
        loaded.model.save_pretrained(model)
        loaded.inputs.processor.save_pretrained(model)
    options = {"engine": "transformers", "model": str(model), "device": "cpu", "max_turns": 2}
    options["no_self_check"] = True  # it would refuse the model
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), **options))
    results = finish_run(run)
    lines = RunData(run.path).lines()
    assert {line["question_id"] for line in lines} == {"0", "1"}
    assert all("--dtype" in line["error"] for line in lines)
    assert (results["counts"]["failed"], results["n"]) == (2, 0)
