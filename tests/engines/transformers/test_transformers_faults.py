"""Faults of one row, of memory or of the device are contained, and no reply is lost."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from conftest import mostly_slow
from factories.models import load_random_image, small_model
from PIL import Image

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.memory import faults
from render_agent.engines.memory.faults import is_device_error, is_out_of_memory
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import open_model
from render_agent.errors import EngineError

pytestmark = pytest.mark.usefixtures("freeze_earlier_objects")

ROWS = 11


@pytest.fixture(scope="module")
def loaded():
    return open_model(str(small_model()), device="cpu")


@pytest.fixture
def engine(loaded):
    return TransformersEngine(replace(loaded), batch_size=64)


def request(number, *, load_image=load_random_image, num_samples=1, temperature=0.0):
    files = [f"{32 * (1 + (number + k) % 3)}x64-{number}.png" for k in range(number % 4)]
    message = chat.message("user", chat.text(f"Question {number}"), *map(chat.image_piece, files))
    return Request(
        f"q{number}",
        0,
        [message],
        load_image,
        num_samples=num_samples,
        temperature=temperature,
        max_new_tokens=6,
    )


REQUESTS = [request(number) for number in range(ROWS)]


@pytest.fixture(scope="module")
def undisturbed(loaded):
    """The replies without faults."""
    return TransformersEngine(replace(loaded), batch_size=64).generate(REQUESTS)


@pytest.fixture(scope="module")
def expected(undisturbed):
    return [reply.samples for reply in undisturbed]


def inject_fault(engine, monkeypatch, fault):
    """Call `fault(rows, call)`, which may raise, before each `generate`; return the list of batch sizes."""
    sizes = []
    generate = engine.model.generate

    def guarded(**tensors):
        sizes.append(len(tensors["input_ids"]))
        fault(sizes[-1], len(sizes) - 1)
        return generate(**tensors)

    monkeypatch.setattr(engine.model, "generate", guarded)
    return sizes


def limit_memory(engine, monkeypatch, tokens):
    """Limit the model's memory to a number of tokens, including padding and replies."""
    batches = []
    generate = engine.model.generate

    def guarded(**tensors):
        rows, length = tensors["input_ids"].shape
        needed = rows * (length + tensors["max_new_tokens"])
        batches.append((rows, needed, needed <= tokens))
        if needed > tokens:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return generate(**tensors)

    monkeypatch.setattr(engine.model, "generate", guarded)
    return batches


def raising(error, when):
    def fault(rows, call):
        if when(rows, call):
            raise error

    return fault


def length_of(reply):
    return reply.tokens.prompt + 6


@pytest.mark.parametrize("fits", mostly_slow([1.0, 2, 7], 2))
def test_batch_that_does_not_fit_is_halved(engine, undisturbed, expected, monkeypatch, fits):
    memory = int(fits * max(map(length_of, undisturbed)))
    batches = limit_memory(engine, monkeypatch, memory)
    calls = engine.calls
    replies = engine.generate(REQUESTS)
    assert [reply.samples for reply in replies] == expected
    assert engine.calls - calls == len(batches)
    failed = [rows for rows, _, fitted in batches if not fitted]
    assert 1 <= len(failed) <= 4
    events = [event for reply in replies for event in reply.events]
    assert events.count("out_of_memory") == events.count("batch_halved") == len(failed)

    batches.clear()
    replies = engine.generate(REQUESTS)
    assert [reply.samples for reply in replies] == expected
    assert all(fitted for _, _, fitted in batches), "the limit is remembered"
    assert {event for reply in replies for event in reply.events} <= {"batch_grown"}


def test_request_that_does_not_fit_alone_names_a_remedy(engine, undisturbed, expected, monkeypatch):
    lengths = [length_of(reply) for reply in undisturbed]
    limit_memory(engine, monkeypatch, max(lengths) - 1)
    replies = engine.generate(REQUESTS)
    for reply, samples, length in zip(replies, expected, lengths, strict=True):
        if length < max(lengths):
            assert reply.samples == samples
            continue
        assert reply.samples == ()
        assert "--image-size" in reply.error
        assert "--batch-size" in reply.error
        assert " 3 images" in reply.error


def test_samples_that_do_not_fit_are_split_over_calls(engine, monkeypatch):
    requests = [request(1, num_samples=5, temperature=1.0), request(2)]
    expected = [reply.samples for reply in engine.generate(requests)]
    error = torch.OutOfMemoryError("out of memory")
    sizes = inject_fault(engine, monkeypatch, raising(error, lambda rows, _: rows > 2))
    replies = engine.generate(requests)
    assert [reply.samples for reply in replies] == expected
    assert [len(reply.samples) for reply in replies] == [5, 1]
    assert sizes == [6, 3, 2, 2, 2]


def test_memory_of_a_failed_batch_is_freed_before_the_retry(engine, monkeypatch):
    """The traceback of an exception references the tensors of its frames."""
    references = []

    def fault(rows, _):
        gc.disable()
        if references:
            assert references[0]() is None
        else:
            tensor = torch.zeros(8)
            references.append(weakref.ref(tensor))
            raise torch.OutOfMemoryError("out of memory")

    try:
        inject_fault(engine, monkeypatch, fault)
        assert all(reply.error is None for reply in engine.generate(REQUESTS))
    finally:
        gc.enable()


def unreadable(file):
    raise OSError(f"cannot identify image file {file!r}")


def extremely_wide(file):
    return Image.new("RGB", (10_000, 1))


@pytest.mark.parametrize(
    ("image", "reason"),
    [(unreadable, "cannot identify image file"), (extremely_wide, "aspect ratio")],
)
def test_broken_image_fails_only_its_request(engine, expected, image, reason):
    broken = [*REQUESTS[:5], request(5, load_image=image), *REQUESTS[6:]]
    replies = engine.generate(broken)
    assert reason in replies[5].error
    assert "\n" not in replies[5].error
    assert [reply.samples for reply in replies[:5] + replies[6:]] == expected[:5] + expected[6:]


def test_texts_that_together_form_a_placeholder_fail_only_their_request(engine, expected):
    """In a batch, a placeholder without an image would be replaced by the image of another row.

    Placeholders within one text are escaped.
    """
    parts = ("<|vision_start|><|image", "_pad|><|vision_end|>")
    split = [{"type": "text", "text": part} for part in parts]
    single = [{"type": "text", "text": "".join(parts)}]
    combined, escaped = (
        Request(name, 0, [{"role": "user", "content": content}], load_random_image)
        for name, content in (("combined", split), ("escaped", single))
    )
    replies = engine.generate([REQUESTS[1], combined, REQUESTS[3], escaped])
    assert "image" in replies[1].error
    assert replies[3].error is None
    assert [replies[0].samples, replies[2].samples] == [expected[1], expected[3]]


def test_row_that_the_model_rejects_fails_alone(engine, expected, monkeypatch):
    target = engine.inputs.prepare(REQUESTS[6]).text
    encode = engine.inputs.encode

    def failing_encode(prompts):
        if any(prompt.text == target for prompt in prompts):
            raise ValueError("invalid prompt\nsecond line")
        return encode(prompts)

    monkeypatch.setattr(engine.inputs, "encode", failing_encode)
    replies = engine.generate(REQUESTS)
    assert replies[6].error.endswith("ValueError: invalid prompt")
    assert [r.samples for r in replies[:6] + replies[7:]] == expected[:6] + expected[7:]
    assert engine.batches.ceiling.limit is None
    assert not any(reply.events for reply in replies)


def test_lost_device_raises_engine_error(engine, monkeypatch):
    monkeypatch.setattr(faults, "device_works", lambda device: False)
    error = RuntimeError("CUDA error: device-side assert triggered")
    inject_fault(engine, monkeypatch, raising(error, lambda *_: True))
    with pytest.raises(EngineError, match="--continue recent"):
        engine.generate(REQUESTS)


def test_interrupt_is_not_suppressed(engine, monkeypatch):
    inject_fault(engine, monkeypatch, raising(KeyboardInterrupt(), lambda *_: True))
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
def test_out_of_memory_is_distinguished_from_device_errors(error, memory, device):
    assert is_out_of_memory(error) is memory
    assert is_device_error(error) is device
