"""Requests to a small real model are batched by length, by memory, and within the model's limits."""

from dataclasses import replace

import pytest
import torch
from factories.dialogues import load_transformers_engine
from factories.memory import FakeMemory
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


def test_requests_of_similar_length_are_batched(loaded, monkeypatch):
    engine = TransformersEngine(replace(loaded), batch_size=4)
    expected = [engine.generate([single])[0].samples for single in MIXED]
    shapes = record_shapes(engine, monkeypatch)
    assert [reply.samples for reply in engine.generate(MIXED)] == expected
    (long, short) = shapes
    assert long[0] == short[0] == 4
    assert long[1] > 3 * short[1]


def test_samples_of_a_request_count_as_rows(loaded, monkeypatch):
    engine = TransformersEngine(replace(loaded), batch_size=4)
    several = replace(MIXED[0], num_samples=3, temperature=1.0)
    expected = engine.generate([several])[0].samples
    shapes = record_shapes(engine, monkeypatch)
    replies = engine.generate([several, MIXED[2], replace(several, dialogue_id="other")])
    assert max(rows for rows, _ in shapes) <= 4
    assert replies[0].samples == expected
    assert [len(reply.samples) for reply in replies] == [3, 1, 3]


def test_first_batch_is_preceded_by_a_probe(loaded, monkeypatch):
    engine = TransformersEngine(replace(loaded), options={"most_rows": 8})
    shapes = record_shapes(engine, monkeypatch)
    assert engine.batch_size == 8
    engine.generate(MIXED)
    assert [rows for rows, _ in shapes] == [4, 8]
    assert engine.sizing.needed > 1
    assert engine.calls == 2
    engine.generate(MIXED)
    assert [rows for rows, _ in shapes] == [4, 8, 8]


def test_probe_that_does_not_fit_is_reported(loaded, monkeypatch):
    # The real function takes half a second for every failed batch.
    monkeypatch.setattr("render_agent.engines.memory.faults.free_memory", lambda: None)
    memory = ModelMemory(1_000_000)
    engine = TransformersEngine(replace(loaded), memory=memory)
    failed = memory.meter(engine, monkeypatch, fixed=950_000, per_token=1000)
    replies = engine.generate(MIXED[:4])
    events = [event for reply in replies for event in reply.events]
    assert events.count("out_of_memory") == len(failed) > 0
    assert failed[0] == 4, "the probe"
    assert [reply.error is None for reply in replies] == [True, False, True, False]


class ModelMemory(FakeMemory):
    """Memory of which every batch needs a number of bytes per token, including padding."""

    def meter(self, engine, monkeypatch, fixed, per_token):
        """Meter an engine; return a list to which the number of rows of every failed batch is appended."""
        generate, failed = engine.model.generate, []

        def metered_generate(**tensors):
            rows, length = tensors["input_ids"].shape
            try:
                self.allocate(fixed + per_token * rows * (length + tensors["max_new_tokens"]))
            except MemoryError:
                failed.append(rows)
                raise
            return generate(**tensors)

        monkeypatch.setattr(engine.model, "generate", metered_generate)
        return failed


def test_batches_fit_in_memory(loaded, monkeypatch):
    memory = ModelMemory(1_000_000, taken=300_000)
    engine = TransformersEngine(replace(loaded), memory=memory)
    memory.meter(engine, monkeypatch, fixed=1000, per_token=1000)
    shapes = record_shapes(engine, monkeypatch)
    requests = [request(number, words) for number in range(12) for words in (5, 20)]
    replies = engine.generate(requests)
    for _ in range(3):
        replies += engine.generate(requests)
    assert {(reply.error, reply.events) for reply in replies} == {(None, ())}
    tokens = [rows * (length + NEW) for rows, length in shapes[2:]]
    assert max(tokens) <= 599, "60 % of the memory: 70 % are free, and 10 % stay free"
    assert max(tokens) > 400
    sizes = [rows for rows, _ in shapes[2:]]
    assert len(set(sizes)) > 1, "batches of long requests are smaller"

    long = max(length for _, length in shapes) + NEW
    engine.generate([max(requests, key=lambda request: len(str(request.messages)))])
    assert engine.batch_size == 599 // long
    memory.taken = 800_000
    engine.generate(requests[:1])
    assert engine.batch_size < 10


def test_memory_taken_by_others_lowers_even_a_fixed_batch_size(loaded, monkeypatch):
    memory = ModelMemory(10_000_000)
    engine = TransformersEngine(replace(loaded), batch_size=8, memory=memory)
    memory.meter(engine, monkeypatch, fixed=0, per_token=1000)
    shapes = record_shapes(engine, monkeypatch)
    engine.generate(MIXED[1::2] * 2)
    engine.generate(MIXED[::2] * 2)
    assert [rows for rows, _ in shapes] == [8, 8]
    memory.taken = 8_800_000
    replies = engine.generate(MIXED[1::2] * 2)
    assert max(rows for rows, _ in shapes[2:]) < 8
    assert not any(reply.events for reply in replies)


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
    options = {"attn_implementation": "eager", "device_map": "auto", "memory_fraction": 0.5}
    engine = load_transformers_engine(str(small_model()), options=options, batch_size=8)
    assert engine.model.config._attn_implementation == "eager"
    assert engine.model.device == torch.device("cpu")
    assert engine.sizing.fraction == 0.5
    assert engine.generate(MIXED[:1])[0].error is None
