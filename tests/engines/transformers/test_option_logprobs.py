"""Scores of given answers equal what the model says of prompt and answer read together."""

import random

import pytest
import torch
from conftest import mostly_slow
from factories.memory import FakeMemory
from factories.models import (
    small_gemma3,
    small_internvl,
    small_llava_onevision,
    small_model,
    small_qwen2_5_vl,
    speckled_file,
)

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.transformers.factory import engine_of
from render_agent.engines.transformers.memory.sizing import Sizing
from render_agent.engines.transformers.model.load import open_model
from render_agent.engines.transformers.option_logprobs import choice_tokens, score_choices
from render_agent.errors import EngineError

SIZES = ("32x32", "64x64", "96x64", "50x70")
LETTERS = ("A", "B", "C", "D")
MANY = ("A", "the chair", "yes", "no", "the view in the corner is done", "42.5", "é")


@pytest.fixture(scope="module")
def loaded():
    return open_model(str(small_model()), dtype="float32", device="cpu")


def request(turns, pictures, seed=0):
    """A dialogue of so many turns that shows so many pictures."""
    chance = random.Random(100 * seed + 10 * turns + pictures)
    messages = [chat.message("system", chat.text("Explore the room."))]
    for turn in range(turns):
        if turn:
            messages.append(chat.assistant('{"rotation_angle_degrees": 45}'))
        shown = pictures // turns + (turn < pictures % turns)
        files = [f"{chance.choice(SIZES)}-{chance.randrange(1000)}.png" for _ in range(shown)]
        asked = chat.text("Where is the chair? " * chance.randint(1, 4))
        messages.append(chat.message("user", asked, *map(chat.picture, files)))
    return Request(f"q{seed}-{turns}-{pictures}", turns - 1, messages, speckled_file)


RAGGED = [request(turns, pictures) for turns in (1, 2, 3) for pictures in (0, 1, 3)]


def score(loaded, requests, choices, batch_size=16):
    return score_choices(loaded, requests, choices, Sizing(FakeMemory(2**40), batch_size))


@torch.inference_mode()
def read_together(loaded, asked, choice):
    """The log-probability of one choice: prompt and choice in one row, one call, no cache."""
    tensors = loaded.inputs.encode([loaded.inputs.prepare(asked)])
    written = torch.tensor([loaded.tokenizer.encode(choice)])
    length = tensors["input_ids"].shape[1]
    for name, value in (("input_ids", written), ("attention_mask", torch.ones_like(written))):
        tensors[name] = torch.cat([tensors[name], value], 1)
    if "mm_token_type_ids" in tensors:
        kinds = tensors["mm_token_type_ids"]
        tensors["mm_token_type_ids"] = torch.cat([kinds, torch.zeros_like(written)], 1)
    logs = loaded.model(**tensors, use_cache=False).logits[0].double().log_softmax(-1)
    return sum(float(logs[length - 1 + k, token]) for k, token in enumerate(written[0].tolist()))


def close(found, expected):
    return all(
        a.log_probabilities == pytest.approx(b, abs=1e-4)
        for a, b in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("choices", mostly_slow([LETTERS, ("yes", "no"), MANY], LETTERS))
def test_scores_are_those_of_prompt_and_choice_read_together(loaded, choices):
    found = score(loaded, RAGGED, [choices] * len(RAGGED))
    expected = [[read_together(loaded, asked, choice) for choice in choices] for asked in RAGGED]
    assert close(found, expected)
    assert len({scores.log_probabilities for scores in found}) == len(RAGGED)
    assert all(max(scores.log_probabilities) <= 0 for scores in found)


def test_every_request_may_have_choices_of_its_own(loaded):
    choices = [MANY[: 1 + place % len(MANY)] for place in range(len(RAGGED))]
    found = score(loaded, RAGGED, choices)
    alone = [
        score(loaded, [asked], [given])[0] for asked, given in zip(RAGGED, choices, strict=True)
    ]
    assert [len(scores.log_probabilities) for scores in found] == [len(given) for given in choices]
    assert close(found, [scores.log_probabilities for scores in alone])
    assert [scores.tokens for scores in found] == [scores.tokens for scores in alone]


def test_a_prompt_is_read_once_for_all_its_choices(loaded, monkeypatch):
    lengths = []
    forward = loaded.model.forward

    def counted(*args, **more):
        lengths.append(tuple(more["input_ids"].shape))
        return forward(*args, **more)

    monkeypatch.setattr(loaded.model, "forward", counted)
    (letters,) = score(loaded, RAGGED[:1], [LETTERS])
    assert lengths == [(1, letters.tokens.prompt)]
    lengths.clear()
    (many,) = score(loaded, RAGGED[:1], [MANY])
    longest = max(len(tokens) for tokens in choice_tokens(loaded.tokenizer, MANY))
    longer = sum(len(tokens) > 1 for tokens in choice_tokens(loaded.tokenizer, MANY))
    assert lengths == [(1, many.tokens.prompt), (longer, longest - 1)]
    assert many.tokens.reply == sum(map(len, choice_tokens(loaded.tokenizer, MANY)))


@pytest.mark.parametrize("choices", [(), ("A", "")])
def test_a_request_without_choices_or_with_an_empty_one_is_refused(loaded, choices):
    with pytest.raises(ValueError, match="choice"):
        score(loaded, RAGGED[:2], [LETTERS, choices])


def test_a_request_whose_prompt_fails_says_so_and_the_others_are_scored(loaded):
    def torn(file):
        raise OSError(f"{file} is torn")

    bad = Request("torn", 0, RAGGED[2].messages, torn)
    found = score(loaded, [RAGGED[0], bad, RAGGED[1]], [LETTERS] * 3)
    assert "is torn" in found[1].error
    assert not found[1].log_probabilities
    good = score(loaded, RAGGED[:2], [LETTERS] * 2)
    assert close([found[0], found[2]], [scores.log_probabilities for scores in good])


def test_a_dialogue_that_is_too_long_says_so(loaded, monkeypatch):
    length = score(loaded, RAGGED[:1], [LETTERS])[0].tokens.prompt
    monkeypatch.setattr(loaded, "max_len", length + 1)
    found = score(loaded, [RAGGED[0], RAGGED[0]], [LETTERS, MANY])
    assert found[0].error is None
    assert str(length + 1) in found[1].error


def rows_of(loaded, most, monkeypatch, raised):
    """Make every call with more rows than `most` fail, and give the rows of all calls."""
    # It is tested with what calls it, and takes half a second.
    monkeypatch.setattr("render_agent.engines.memory.faults.free_memory", lambda: None)
    rows = []
    forward = loaded.model.forward

    def limited(*args, **more):
        rows.append(more["input_ids"].shape[0])
        if rows[-1] > most:
            raise raised
        return forward(*args, **more)

    monkeypatch.setattr(loaded.model, "forward", limited)
    return rows


def test_out_of_memory_halves_and_loses_nothing(loaded, monkeypatch):
    expected = score(loaded, RAGGED[:3], [MANY[1:4]] * 3)
    rows = rows_of(loaded, 1, monkeypatch, torch.OutOfMemoryError("too many rows"))
    found = score(loaded, RAGGED[:3], [MANY[1:4]] * 3)
    assert max(rows) > 1
    assert close(found, [scores.log_probabilities for scores in expected])


def test_memory_that_runs_out_at_any_call_changes_nothing(loaded, monkeypatch):
    """Calls read 1, 3 and 1 prompts, and after each the two choices of several tokens."""
    choices = [MANY[:3]] * 5
    calls = rows_of(loaded, 100, monkeypatch, None)
    expected = score(loaded, RAGGED[:5], choices, 3)
    undisturbed = list(calls)
    assert undisturbed == [1, 2, 3, 3, 3, 1, 2]
    forward = loaded.model.forward
    for place in range(len(undisturbed)):
        calls.clear()

        def failing(*args, now=place, **more):
            if len(calls) == now:
                calls.append(0)
                raise torch.OutOfMemoryError("out of memory")
            return forward(*args, **more)

        monkeypatch.setattr(loaded.model, "forward", failing)
        found = score(loaded, RAGGED[:5], choices, 3)
        assert close(found, [scores.log_probabilities for scores in expected])
        assert len(calls) > len(undisturbed)
        told = [event for scores in found for event in scores.events]
        # Choices that come again in smaller calls are no event: their prompts stay together.
        assert told in ([], ["out_of_memory", "retried"], ["out_of_memory", "batch_halved"])


def test_prompts_in_one_call_are_as_many_as_memory_holds(loaded, monkeypatch):
    expected = score(loaded, RAGGED, [LETTERS] * len(RAGGED))
    lengths = [scores.tokens.prompt for scores in expected]
    memory = FakeMemory(5 * max(lengths) * 1000)
    sizing = Sizing(memory, 64, 0.0)
    rows = []
    forward = loaded.model.forward

    def needing(*args, **more):
        count, length = more["input_ids"].shape
        memory.need(count * length * 1000)
        rows.append(count)
        return forward(*args, **more)

    monkeypatch.setattr(loaded.model, "forward", needing)
    found = score_choices(loaded, RAGGED, [LETTERS] * len(RAGGED), sizing)
    assert close(found, [scores.log_probabilities for scores in expected])
    assert rows[0] == 1
    assert 2 <= max(rows) < len(RAGGED) - 1
    assert sum(rows) == len(RAGGED), "none failed"


def test_memory_that_ran_out_while_a_prompt_was_made_is_tried_again(loaded, monkeypatch):
    expected = score(loaded, RAGGED[:3], [LETTERS] * 3)
    monkeypatch.setattr("render_agent.engines.transformers.model.load.free_memory", lambda: None)
    prepare = loaded.inputs.prepare
    asked = []

    def refusing(one):
        asked.append(one.question_id)
        if asked.count(one.question_id) == 1:
            raise MemoryError
        return prepare(one)

    monkeypatch.setattr(loaded.inputs, "prepare", refusing)
    found = score(loaded, RAGGED[:3], [LETTERS] * 3)
    assert close(found, [scores.log_probabilities for scores in expected])


def test_a_request_that_does_not_fit_alone_fails_alone(loaded, monkeypatch):
    rows_of(loaded, 0, monkeypatch, torch.OutOfMemoryError("too many rows"))
    found = score(loaded, RAGGED[:2], [LETTERS] * 2)
    assert all("cpu" in scores.error for scores in found)
    assert all("--image-size" in scores.error for scores in found)


def test_a_lost_device_ends_it(loaded, monkeypatch):
    monkeypatch.setattr("render_agent.engines.memory.faults.device_answers", lambda device: False)
    rows_of(loaded, 0, monkeypatch, RuntimeError("CUDA error: device-side assert triggered"))
    with pytest.raises(EngineError, match="--continue"):
        score(loaded, RAGGED[:1], [MANY])


@pytest.mark.parametrize("kept", ["keys", "none"])
def test_an_engine_scores_whether_it_keeps_keys_or_not(loaded, kept):
    engine = engine_of(loaded, 4, {"reuse": kept}, 1000)
    assert engine.capabilities.score
    found = engine.score(RAGGED, [MANY] * len(RAGGED))
    expected = score(loaded, RAGGED, [MANY] * len(RAGGED))
    assert close(found, [scores.log_probabilities for scores in expected])
    assert max(scores.batch_size for scores in found) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "build", [small_qwen2_5_vl, small_internvl, small_llava_onevision, small_gemma3]
)
def test_scores_of_other_families_are_those_read_together(build):
    other = open_model(str(small_model(build)), dtype="float32", device="cpu")
    found = score(other, RAGGED[:6], [MANY] * 6)
    expected = [[read_together(other, asked, choice) for choice in MANY] for asked in RAGGED[:6]]
    assert close(found, expected)
