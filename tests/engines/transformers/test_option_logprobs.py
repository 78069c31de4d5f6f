"""Scores of choices equal those of prompt and choice computed together without a cache."""

import random

import pytest
import torch
from conftest import mostly_slow
from factories.models import (
    load_random_image,
    small_gemma3,
    small_internvl,
    small_llava_onevision,
    small_model,
    small_qwen2_5_vl,
)

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.memory.batches import Batches
from render_agent.engines.transformers.factory import build_engine
from render_agent.engines.transformers.model.load import open_model
from render_agent.engines.transformers.option_logprobs import score_choices, tokenize_choices
from render_agent.errors import EngineError

SIZES = ("32x32", "64x64", "96x64", "50x70")
LETTERS = ("A", "B", "C", "D")
MANY = ("A", "the chair", "yes", "no", "the view in the corner is done", "42.5", "é")


@pytest.fixture(scope="module")
def loaded():
    return open_model(str(small_model()), dtype="float32", device="cpu")


def request(turns, images, seed=0):
    """Return a request of a dialogue with images distributed over its turns."""
    chance = random.Random(100 * seed + 10 * turns + images)
    messages = [chat.message("system", chat.text("Explore the room."))]
    for turn in range(turns):
        if turn:
            messages.append(chat.assistant('{"rotation_angle_degrees": 45}'))
        count = images // turns + (turn < images % turns)
        files = [f"{chance.choice(SIZES)}-{chance.randrange(1000)}.png" for _ in range(count)]
        question = chat.text("Where is the chair? " * chance.randint(1, 4))
        messages.append(chat.message("user", question, *map(chat.image_piece, files)))
    return Request(f"q{seed}-{turns}-{images}", turns - 1, messages, load_random_image)


REQUESTS = [request(turns, images) for turns in (1, 2, 3) for images in (0, 1, 3)]


def score(loaded, requests, choices, batch_size=16):
    return score_choices(loaded, requests, choices, Batches(batch_size))


@torch.inference_mode()
def score_together(loaded, request, choice):
    """Return the log-probability of one choice, with prompt and choice in one call and no cache."""
    tensors = loaded.inputs.encode([loaded.inputs.prepare(request)])
    ids = torch.tensor([loaded.tokenizer.encode(choice)])
    length = tensors["input_ids"].shape[1]
    for name, value in (("input_ids", ids), ("attention_mask", torch.ones_like(ids))):
        tensors[name] = torch.cat([tensors[name], value], 1)
    if "mm_token_type_ids" in tensors:
        types = tensors["mm_token_type_ids"]
        tensors["mm_token_type_ids"] = torch.cat([types, torch.zeros_like(ids)], 1)
    logprobs = loaded.model(**tensors, use_cache=False).logits[0].double().log_softmax(-1)
    return sum(float(logprobs[length - 1 + k, token]) for k, token in enumerate(ids[0].tolist()))


def close(results, expected):
    return all(
        a.log_probabilities == pytest.approx(b, abs=1e-4)
        for a, b in zip(results, expected, strict=True)
    )


@pytest.mark.parametrize("choices", mostly_slow([LETTERS, ("yes", "no"), MANY], LETTERS))
def test_scores_equal_those_of_prompt_and_choice_together(loaded, choices):
    results = score(loaded, REQUESTS, [choices] * len(REQUESTS))
    expected = [
        [score_together(loaded, request, choice) for choice in choices] for request in REQUESTS
    ]
    assert close(results, expected)
    assert len({scores.log_probabilities for scores in results}) == len(REQUESTS)
    assert all(max(scores.log_probabilities) <= 0 for scores in results)


def test_every_request_can_have_its_own_choices(loaded):
    all_choices = [MANY[: 1 + index % len(MANY)] for index in range(len(REQUESTS))]
    results = score(loaded, REQUESTS, all_choices)
    single = [
        score(loaded, [request], [choices])[0]
        for request, choices in zip(REQUESTS, all_choices, strict=True)
    ]
    assert [len(scores.log_probabilities) for scores in results] == list(map(len, all_choices))
    assert close(results, [scores.log_probabilities for scores in single])
    assert [scores.tokens for scores in results] == [scores.tokens for scores in single]


def test_choices_share_a_row_if_only_their_last_tokens_differ(loaded, monkeypatch):
    lengths = []
    forward = loaded.model.forward

    def recorded(*args, **kwargs):
        lengths.append(tuple(kwargs["input_ids"].shape))
        return forward(*args, **kwargs)

    monkeypatch.setattr(loaded.model, "forward", recorded)
    (letters,) = score(loaded, REQUESTS[:1], [LETTERS])
    assert lengths == [(1, letters.tokens.prompt)]
    lengths.clear()
    (many,) = score(loaded, REQUESTS[:1], [MANY])
    choices = tokenize_choices(loaded.tokenizer, MANY)
    beginnings = dict.fromkeys(tokens[:-1] for tokens in choices)
    assert lengths == [(1, many.tokens.prompt + len(beginning)) for beginning in beginnings]
    assert many.tokens.reply == sum(map(len, tokenize_choices(loaded.tokenizer, MANY)))


@pytest.mark.parametrize("choices", [(), ("A", "")])
def test_missing_and_empty_choices_are_rejected(loaded, choices):
    with pytest.raises(ValueError, match="choice"):
        score(loaded, REQUESTS[:2], [LETTERS, choices])


def test_failing_prompt_does_not_affect_other_requests(loaded):
    def unreadable(file):
        raise OSError(f"{file} is unreadable")

    bad = Request("bad", 0, REQUESTS[2].messages, unreadable)
    results = score(loaded, [REQUESTS[0], bad, REQUESTS[1]], [LETTERS] * 3)
    assert "is unreadable" in results[1].error
    assert not results[1].log_probabilities
    good = score(loaded, REQUESTS[:2], [LETTERS] * 2)
    assert close([results[0], results[2]], [scores.log_probabilities for scores in good])


def test_too_long_dialogue_is_reported(loaded, monkeypatch):
    length = score(loaded, REQUESTS[:1], [LETTERS])[0].tokens.prompt
    monkeypatch.setattr(loaded, "max_len", length + 1)
    results = score(loaded, [REQUESTS[0], REQUESTS[0]], [LETTERS, MANY])
    assert results[0].error is None
    assert str(length + 1) in results[1].error


def limit_rows(loaded, max_rows, monkeypatch, error):
    """Raise an error in calls with more rows; return a list to which the rows of every call are appended."""
    # The real function takes half a second and is tested elsewhere.
    monkeypatch.setattr("render_agent.engines.memory.faults.free_memory", lambda: None)
    rows = []
    forward = loaded.model.forward

    def limited_forward(*args, **kwargs):
        rows.append(kwargs["input_ids"].shape[0])
        if rows[-1] > max_rows:
            raise error
        return forward(*args, **kwargs)

    monkeypatch.setattr(loaded.model, "forward", limited_forward)
    return rows


def test_out_of_memory_halves_the_batch(loaded, monkeypatch):
    expected = score(loaded, REQUESTS[:3], [MANY[1:4]] * 3)
    rows = limit_rows(loaded, 1, monkeypatch, torch.OutOfMemoryError("too many rows"))
    results = score(loaded, REQUESTS[:3], [MANY[1:4]] * 3)
    assert max(rows) > 1
    assert close(results, [scores.log_probabilities for scores in expected])


def test_out_of_memory_at_any_call_does_not_change_scores(loaded, monkeypatch):
    """The calls have 3 and 2 prompts, each followed by calls for the choices with several tokens."""
    choices = [MANY[:3]] * 5
    calls = limit_rows(loaded, 100, monkeypatch, None)
    expected = score(loaded, REQUESTS[:5], choices, 3)
    undisturbed = list(calls)
    assert undisturbed == [3, 3, 3, 2, 2, 2]
    forward = loaded.model.forward
    for index in range(len(undisturbed)):
        calls.clear()

        def failing_forward(*args, index=index, **kwargs):
            if len(calls) == index:
                calls.append(0)
                raise torch.OutOfMemoryError("out of memory")
            return forward(*args, **kwargs)

        monkeypatch.setattr(loaded.model, "forward", failing_forward)
        results = score(loaded, REQUESTS[:5], choices, 3)
        assert close(results, [scores.log_probabilities for scores in expected])
        assert len(calls) > len(undisturbed)
        events = [event for scores in results for event in scores.events]
        # Splitting the choices of a batch is not an event, because its prompts stay together.
        assert events in ([], ["out_of_memory", "retried"], ["out_of_memory", "batch_halved"])


def test_out_of_memory_while_building_a_prompt_is_retried(loaded, monkeypatch):
    expected = score(loaded, REQUESTS[:3], [LETTERS] * 3)
    monkeypatch.setattr("render_agent.engines.transformers.model.load.free_memory", lambda: None)
    prepare = loaded.inputs.prepare
    prepared = []

    def failing_once(request):
        prepared.append(request.dialogue_id)
        if prepared.count(request.dialogue_id) == 1:
            raise MemoryError
        return prepare(request)

    monkeypatch.setattr(loaded.inputs, "prepare", failing_once)
    results = score(loaded, REQUESTS[:3], [LETTERS] * 3)
    assert close(results, [scores.log_probabilities for scores in expected])


def test_request_that_does_not_fit_alone_fails_alone(loaded, monkeypatch):
    limit_rows(loaded, 0, monkeypatch, torch.OutOfMemoryError("too many rows"))
    results = score(loaded, REQUESTS[:2], [LETTERS] * 2)
    assert all("cpu" in scores.error for scores in results)
    assert all("--image-size" in scores.error for scores in results)


def test_lost_device_raises_engine_error(loaded, monkeypatch):
    monkeypatch.setattr("render_agent.engines.memory.faults.device_works", lambda device: False)
    limit_rows(loaded, 0, monkeypatch, RuntimeError("CUDA error: device-side assert triggered"))
    with pytest.raises(EngineError, match="--continue"):
        score(loaded, REQUESTS[:1], [MANY])


@pytest.mark.parametrize("reuse", ["keys", "none"])
def test_both_engines_give_the_same_scores(loaded, reuse):
    engine = build_engine(loaded, 4, {"reuse": reuse}, 1000, image_size=(64, 64))
    assert engine.capabilities.scoring
    results = engine.score(REQUESTS, [MANY] * len(REQUESTS))
    expected = score(loaded, REQUESTS, [MANY] * len(REQUESTS))
    assert close(results, [scores.log_probabilities for scores in expected])
    assert max(scores.batch_size for scores in results) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "build", [small_qwen2_5_vl, small_internvl, small_llava_onevision, small_gemma3]
)
def test_scores_of_other_families_equal_those_of_prompt_and_choice_together(build):
    other = open_model(str(small_model(build)), dtype="float32", device="cpu")
    results = score(other, REQUESTS[:6], [MANY] * 6)
    expected = [
        [score_together(other, request, choice) for choice in MANY] for request in REQUESTS[:6]
    ]
    assert close(results, expected)
