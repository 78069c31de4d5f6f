"""Requests to a small real model are batched within the model's limits."""

from dataclasses import replace

import pytest
import torch
from factories.dialogues import load_transformers_engine
from factories.models import load_random_image, small_model

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import open_model
from render_agent.errors import SetupError

NEW = 4


@pytest.fixture(scope="module")
def loaded():
    return open_model(str(small_model()), device="cpu")


def request(number, words, images=0):
    files = [f"64x64-{number}{k}.png" for k in range(images)]
    text = " ".join(["word"] * words)
    message = chat.message("user", chat.text(f"{number} {text}"), *map(chat.image_piece, files))
    return Request(f"q{number}", 0, [message], load_random_image, max_new_tokens=NEW)


def record_shapes(engine, monkeypatch):
    """Return a list to which the shape of every batch is appended."""
    shapes = []
    generate = engine.model.generate

    def recorded_generate(**tensors):
        shapes.append(tuple(tensors["input_ids"].shape))
        return generate(**tensors)

    monkeypatch.setattr(engine.model, "generate", recorded_generate)
    return shapes


MIXED = [request(number, words) for number, words in enumerate([1, 90, 2, 91, 3, 92, 4, 93])]


def test_samples_of_a_request_count_as_rows(loaded, monkeypatch):
    engine = TransformersEngine(replace(loaded), batch_size=4)
    several = replace(MIXED[0], num_samples=3, temperature=1.0)
    expected = engine.generate([several])[0].samples
    shapes = record_shapes(engine, monkeypatch)
    replies = engine.generate([several, MIXED[2], replace(several, dialogue_id="other")])
    assert max(rows for rows, _ in shapes) <= 4
    assert replies[0].samples == expected
    assert [len(reply.samples) for reply in replies] == [3, 1, 3]


def test_too_long_dialogue_fails_alone_without_a_model_call(loaded, monkeypatch):
    engine = load_transformers_engine(
        str(small_model()), device="cpu", max_model_len=60, batch_size=8
    )
    expected = [engine.generate([single])[0] for single in MIXED[::2]]
    shapes = record_shapes(engine, monkeypatch)
    replies = engine.generate(MIXED)
    assert [reply.samples for reply in replies[::2]] == [reply.samples for reply in expected]
    assert len(shapes) == 1
    for reply in replies[1::2]:
        assert " 60." in reply.error
        assert "--max-model-len" in reply.error
        assert "\n" not in reply.error


def test_reply_ends_at_the_length_limit(loaded):
    longer = replace(MIXED[0], max_new_tokens=20)
    complete = TransformersEngine(replace(loaded)).generate([longer])[0]
    limit = complete.tokens.prompt + 5
    engine = TransformersEngine(replace(loaded, max_len=limit))
    (reply,) = engine.generate([longer])
    assert reply.tokens.reply == 5
    assert reply.finish == "length"
    assert complete.text.startswith(reply.text)
    no_space = TransformersEngine(replace(loaded, max_len=complete.tokens.prompt))
    assert no_space.generate([longer])[0].error


def test_quantization_requires_bitsandbytes():
    with pytest.raises(SetupError, match="bitsandbytes"):
        load_transformers_engine(str(small_model()), device="cpu", options={"quantization": "4bit"})


def test_placement_options_reach_the_model():
    options = {"attn_implementation": "eager", "device_map": "auto"}
    engine = load_transformers_engine(str(small_model()), options=options, batch_size=8)
    assert engine.model.config._attn_implementation == "eager"
    assert engine.model.device == torch.device("cpu")
    assert engine.generate(MIXED[:1])[0].error is None
