"""What goes wrong with one row or with memory stays there, and nothing is lost."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from conftest import mostly_slow
from factories.models import small_model, speckled_file
from PIL import Image

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.memory import faults
from render_agent.engines.memory.faults import is_device_error, is_out_of_memory
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import open_model
from render_agent.errors import EngineError

ROWS = 11


@pytest.fixture(scope="module")
def loaded():
    return open_model(str(small_model()), device="cpu")


@pytest.fixture
def engine(loaded):
    return TransformersEngine(replace(loaded), batch_size=64)


def request(number, *, picture=speckled_file, samples=1, temperature=0.0):
    files = [f"{32 * (1 + (number + k) % 3)}x64-{number}.png" for k in range(number % 4)]
    message = chat.message("user", chat.text(f"Question {number}"), *map(chat.picture, files))
    return Request(
        f"q{number}",
        0,
        [message],
        picture,
        samples=samples,
        temperature=temperature,
        max_new_tokens=6,
    )


REQUESTS = [request(number) for number in range(ROWS)]


@pytest.fixture(scope="module")
def undisturbed(loaded):
    """The replies where nothing goes wrong."""
    return TransformersEngine(replace(loaded), batch_size=64).generate(REQUESTS)


@pytest.fixture(scope="module")
def expected(undisturbed):
    return [reply.samples for reply in undisturbed]


def failing(engine, monkeypatch, fault):
    """Let `fault(rows, call)` raise before each `generate` of the model; return the sizes tried."""
    sizes = []
    generate = engine.model.generate

    def guarded(**tensors):
        sizes.append(len(tensors["input_ids"]))
        fault(sizes[-1], len(sizes) - 1)
        return generate(**tensors)

    monkeypatch.setattr(engine.model, "generate", guarded)
    return sizes


def holding(engine, monkeypatch, tokens):
    """Let the model's memory hold so many tokens, padding and reply included; return the batches tried.

    A batch is its rows, its tokens and whether it fitted.
    """
    tried = []
    generate = engine.model.generate

    def guarded(**tensors):
        rows, length = tensors["input_ids"].shape
        needed = rows * (length + tensors["max_new_tokens"])
        tried.append((rows, needed, needed <= tokens))
        if needed > tokens:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return generate(**tensors)

    monkeypatch.setattr(engine.model, "generate", guarded)
    return tried


def raising(error, when):
    def fault(rows, call):
        if when(rows, call):
            raise error

    return fault


def length_of(reply):
    return reply.tokens.prompt + 6


@pytest.mark.parametrize("fits", mostly_slow([1.0, 2, 7], 2))
def test_a_batch_that_does_not_fit_is_halved_until_it_does(
    engine, undisturbed, expected, monkeypatch, fits
):
    memory = int(fits * max(map(length_of, undisturbed)))
    tried = holding(engine, monkeypatch, memory)
    before = engine.calls
    replies = engine.generate(REQUESTS)
    assert [reply.samples for reply in replies] == expected
    assert engine.calls - before == len(tried)
    failed = [rows for rows, _, fitted in tried if not fitted]
    assert 1 <= len(failed) <= 4
    told = [event for reply in replies for event in reply.events]
    assert told.count("out_of_memory") == told.count("batch_halved") == len(failed)

    tried.clear()
    replies = engine.generate(REQUESTS)
    assert [reply.samples for reply in replies] == expected
    assert all(fitted for _, _, fitted in tried), "what did not fit is remembered"
    assert {event for reply in replies for event in reply.events} <= {"batch_grown"}


def test_a_request_that_cannot_fit_alone_says_what_to_change(
    engine, undisturbed, expected, monkeypatch
):
    lengths = [length_of(reply) for reply in undisturbed]
    holding(engine, monkeypatch, max(lengths) - 1)
    replies = engine.generate(REQUESTS)
    for reply, samples, length in zip(replies, expected, lengths, strict=True):
        if length < max(lengths):
            assert reply.samples == samples
            continue
        assert reply.samples == ()
        assert "--image-size" in reply.error
        assert "--batch-size" in reply.error
        assert " 3 pictures" in reply.error


def test_samples_are_split_over_calls_where_they_do_not_fit(engine, monkeypatch):
    asked = [request(1, samples=5, temperature=1.0), request(2)]
    expected = [reply.samples for reply in engine.generate(asked)]
    error = torch.OutOfMemoryError("out of memory")
    sizes = failing(engine, monkeypatch, raising(error, lambda rows, _: rows > 2))
    replies = engine.generate(asked)
    assert [reply.samples for reply in replies] == expected
    assert [len(reply.samples) for reply in replies] == [5, 1]
    assert sizes == [6, 3, 2, 1, 2, 1]


def test_the_failed_batch_is_freed_before_the_next_try(engine, monkeypatch):
    """The exception's traceback holds the tensors of the frames that it passed."""
    kept = []

    def fault(rows, _):
        gc.disable()
        if kept:
            assert kept[0]() is None
        else:
            held = torch.zeros(8)
            kept.append(weakref.ref(held))
            raise torch.OutOfMemoryError("out of memory")

    try:
        failing(engine, monkeypatch, fault)
        assert all(reply.error is None for reply in engine.generate(REQUESTS))
    finally:
        gc.enable()


def unreadable(file):
    raise OSError(f"cannot identify image file {file!r}")


def thread_of_a_picture(file):
    return Image.new("RGB", (10_000, 1))


@pytest.mark.parametrize(
    ("picture", "reason"),
    [(unreadable, "cannot identify image file"), (thread_of_a_picture, "aspect ratio")],
)
def test_a_broken_picture_fails_its_request_alone(engine, expected, picture, reason):
    broken = [*REQUESTS[:5], request(5, picture=picture), *REQUESTS[6:]]
    replies = engine.generate(broken)
    assert reason in replies[5].error
    assert "\n" not in replies[5].error
    assert [reply.samples for reply in replies[:5] + replies[6:]] == expected[:5] + expected[6:]


def test_a_request_whose_texts_read_as_a_picture_fails_alone(engine, expected):
    """Placeholders without pictures cannot be told from one row to the next in a batch.

    In one text they are parted; two texts may make one together.
    """
    parts = ("<|vision_start|><|image", "_pad|><|vision_end|>")
    trick = [{"type": "text", "text": part} for part in parts]
    whole = [{"type": "text", "text": "".join(parts)}]
    odd, parted = (
        Request(name, 0, [{"role": "user", "content": content}], speckled_file)
        for name, content in (("odd", trick), ("parted", whole))
    )
    replies = engine.generate([REQUESTS[1], odd, REQUESTS[3], parted])
    assert "picture" in replies[1].error
    assert replies[3].error is None
    assert [replies[0].samples, replies[2].samples] == [expected[1], expected[3]]


def test_a_row_that_the_model_refuses_fails_alone(engine, expected, monkeypatch):
    target = engine.inputs.prepare(REQUESTS[6]).text
    encode = engine.inputs.encode

    def refusing(prompts, device):
        if any(prompt.text == target for prompt in prompts):
            raise ValueError("this one I cannot read\nsecond line")
        return encode(prompts, device)

    monkeypatch.setattr(engine.inputs, "encode", refusing)
    replies = engine.generate(REQUESTS)
    assert replies[6].error.endswith("ValueError: this one I cannot read")
    assert [r.samples for r in replies[:6] + replies[7:]] == expected[:6] + expected[7:]
    assert engine.sizing.ceiling.most is None
    assert not any(reply.events for reply in replies)


def test_a_lost_device_ends_the_engine(engine, monkeypatch):
    monkeypatch.setattr(faults, "device_answers", lambda device: False)
    error = RuntimeError("CUDA error: device-side assert triggered")
    failing(engine, monkeypatch, raising(error, lambda *_: True))
    with pytest.raises(EngineError, match="--continue recent"):
        engine.generate(REQUESTS)


def test_an_interrupt_is_not_held_back(engine, monkeypatch):
    failing(engine, monkeypatch, raising(KeyboardInterrupt(), lambda *_: True))
    with pytest.raises(KeyboardInterrupt):
        engine.generate(REQUESTS)


@pytest.mark.parametrize(
    ("error", "memory", "device"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True, False),
        (MemoryError(), True, False),
        (RuntimeError("CUDA error: out of memory"), True, False),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
            True,
            False,
        ),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried"), True, False),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False, True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling"), True, False),
        (RuntimeError("CUDA error: unknown error"), False, True),
        (RuntimeError("Expected mha_graph.execute(handle).is_good() to be true"), True, False),
        (RuntimeError("CUDA driver error: CUDA_ERROR_OUT_OF_MEMORY"), True, False),
        (RuntimeError("cuDNN Frontend error: Error: No valid execution plans built."), True, False),
        (RuntimeError("shape '[2]' is invalid for input of size 3"), False, False),
        (ValueError("out of memory"), False, False),
    ],
)
def test_out_of_memory_is_told_from_a_device_error(error, memory, device):
    assert is_out_of_memory(error) is memory
    assert is_device_error(error) is device
