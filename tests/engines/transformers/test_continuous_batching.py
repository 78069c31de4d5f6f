"""Concurrent replies with reuse of the KV cache equal those of each dialogue alone without a cache."""

import dataclasses
import random
from collections import Counter
from itertools import count, pairwise

import pytest
import torch
from conftest import mostly_slow
from factories.dialogues import Dialogues, UncachedModel, load, load_transformers_engine
from factories.models import load_random_image, small_internvl, small_model, small_qwen2_5_vl

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.memory import faults
from render_agent.engines.transformers import prefill
from render_agent.engines.transformers.scheduler import Scheduler
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.errors import EngineError

pytestmark = pytest.mark.usefixtures("freeze_earlier_objects")

LARGE_BUDGET = 1 << 30


@pytest.fixture(scope="module")
def loaded():
    return load(small_model())


@pytest.fixture(scope="module")
def plain(loaded):
    return UncachedModel(loaded)


@pytest.fixture(scope="module")
def expected(plain):
    return Dialogues().run(plain).texts


@pytest.fixture
def make(loaded):
    def make(budget=LARGE_BUDGET, most_rows=64, **options):
        # A copy, because closing an engine clears its model.
        copy = dataclasses.replace(loaded)
        return ContinuousEngine(copy, budget=budget, most_rows=most_rows, **options)

    return make


def test_concurrent_dialogues_equal_those_without_a_cache(make, expected):
    dialogues = Dialogues().run(make())
    assert dialogues.texts == expected
    assert len({samples for turns in expected.values() for samples in turns}) > 8


@pytest.mark.slow
@pytest.mark.parametrize("build", [small_qwen2_5_vl, small_internvl])
def test_other_families_reuse_the_cache(build, tmp_path):
    loaded = load(build(tmp_path))
    engine = ContinuousEngine(loaded, budget=LARGE_BUDGET, most_rows=64)
    dialogues = Dialogues(count=4, turns=3).run(engine)
    total, new, cached = dialogues.tokens
    assert dialogues.texts == Dialogues(count=4, turns=3).run(UncachedModel(loaded)).texts
    assert total - cached <= 1.1 * new
    engine.close()
    assert (engine.cache.bytes, loaded.model) == (0, None)


def test_number_of_concurrent_dialogues_does_not_change_replies(make, expected):
    assert Dialogues().run(make(), max_concurrent=4).texts == expected


def test_tokens_of_earlier_turns_come_from_the_cache(make):
    dialogues = Dialogues(turns=6).run(make())
    total, new, cached = dialogues.tokens
    assert total - cached <= 1.1 * new
    for replies in dialogues.replies.values():
        for before, after in pairwise(replies):
            assert after.tokens.cached >= before.tokens.prompt


def test_questions_share_the_common_prefix(make):
    dialogues = Dialogues(count=8, turns=1, instructions="Explore. " * 200).run(
        make(), max_concurrent=1
    )
    first, *others = [replies[0].tokens for replies in dialogues.replies.values() if replies]
    assert first.cached == 0
    assert min(tokens.cached for tokens in others) > 500


@pytest.mark.parametrize("rows", mostly_slow([1, 2], 2))
def test_number_of_concurrent_replies_is_limited(make, expected, rows):
    dialogues = Dialogues().run(make(most_rows=rows))
    assert dialogues.texts == expected
    assert (
        max(reply.batch_size for replies in dialogues.replies.values() for reply in replies) <= rows
    )


@pytest.mark.parametrize("pages", mostly_slow([4, 9], 4))
def test_evicted_dialogues_are_computed_again_correctly(make, expected, pages):
    page = make().cache.page_bytes
    engine = make(budget=pages * page)
    grow_to, sizes = engine.cache._grow_to, []

    def recorded_grow_to(count):
        grow_to(count)
        sizes.append((count, len(engine.cache.sequences)))

    engine.cache._grow_to = recorded_grow_to
    assert Dialogues().run(engine).texts == expected
    assert all(count <= pages or sequences == 1 for count, sequences in sizes)
    assert engine.cache.evicted > 0


def test_small_prefill_calls_do_not_change_replies(make, expected):
    assert Dialogues().run(make(read_tokens=100)).texts == expected


def test_long_prompt_is_prefilled_in_chunks_between_decoding_steps(make, plain, monkeypatch):
    engine = make(read_tokens=300)
    forward, calls = engine.loaded.model.forward, []

    def recorded_forward(*args, **kwargs):
        calls.append((kwargs["input_ids"].shape[1], rows_of(engine, kwargs)))
        return forward(*args, **kwargs)

    files = [f"160x96-{number}.png" for number in range(9)]
    long = image_request(*files, words="Where is the chair? " * 300, name="long")
    short = dataclasses.replace(image_request("64x64-1.png", name="short"), max_new_tokens=60)
    expected = [reply.text for reply in plain.generate([short, long])]
    with monkeypatch.context() as patch:
        patch.setattr(engine.loaded.model, "forward", recorded_forward)
        engine.submit([short])
        while not engine.scheduler.active:
            list(engine.ready(0))
        engine.submit([long])
        replies = {}
        while len(replies) < 2:
            replies |= {request.dialogue_id: reply.text for request, reply in engine.ready()}
    assert [replies["short"], replies["long"]] == expected
    prefills = [index for index, (tokens, rows) in enumerate(calls) if tokens > rows]
    assert max(tokens for tokens, _ in calls) <= 300
    assert len(prefills) > 5
    assert all(after > before + 1 for before, after in pairwise(prefills))


def test_retired_questions_release_their_pages(make):
    engine = make()
    Dialogues().run(engine)
    assert engine.cache.sequences == []
    prefix = engine.cache._prefix
    assert sum(map(bool, engine.cache._references[1:])) == len(prefix.pages)


def image_request(*files, words="What is this?", name="q"):
    message = chat.message("user", chat.text(words), *map(chat.image_piece, files))
    return Request(name, 0, [message], load_random_image, max_new_tokens=12)


def test_changed_image_is_computed_again(make, plain):
    engine = make()
    for request in (
        image_request("64x64-1.png", "64x64-2.png"),
        image_request("64x64-1.png", "64x64-3.png"),
    ):
        assert engine.generate([request])[0].text == plain.generate([request])[0].text
    again = engine.generate([image_request("64x64-1.png", "64x64-3.png")])[0]
    assert again.text == plain.generate([request])[0].text


def test_changed_dialogue_is_computed_from_the_change_on(make, plain):
    engine = make()
    engine.generate([image_request(words="Where is the chair? " * 20)])
    changed = image_request(words="Where is the chair? " * 10 + "Where is the table? " * 10)
    reply = engine.generate([changed])[0]
    assert reply.text == plain.generate([changed])[0].text
    assert 0 < reply.tokens.cached < reply.tokens.prompt - 20


def test_repeated_request_gets_the_same_reply(make):
    engine = make()
    first, second = (engine.generate([image_request("64x64-1.png")])[0] for _ in range(2))
    assert first.samples == second.samples
    assert second.tokens.cached == second.tokens.prompt - 1


def test_samples_equal_those_of_the_other_engine(make):
    options = {"count": 3, "temperature": 1.0, "num_samples": 3}
    plain = load_transformers_engine(
        str(small_model()), dtype="float32", device="cpu", batch_size=64
    )
    dialogues = Dialogues(**options).run(make())
    assert dialogues.texts == Dialogues(**options).run(plain).texts
    assert min(len(set(samples)) for turns in dialogues.texts.values() for samples in turns) > 1
    for replies in dialogues.replies.values():
        for reply in replies:
            assert reply.tokens.cached >= 2 * (reply.tokens.prompt // 3 - 1), "prefilled once"


def test_unreadable_image_fails_only_its_request(make, plain):
    def broken(file):
        raise OSError("missing file")

    good = image_request("64x64-1.png", name="good")
    bad = dataclasses.replace(image_request("64x64-2.png", name="bad"), load_image=broken)
    replies = make().generate([bad, good])
    assert "missing file" in replies[0].error
    assert replies[1].text == plain.generate([good])[0].text


def test_too_long_dialogue_fails_alone_and_names_a_remedy(make, plain):
    engine = make()
    long, short = image_request(words="word " * 400, name="long"), image_request(name="short")
    engine.loaded.max_len = 120
    replies = engine.generate([long, short])
    assert "120" in replies[0].error
    assert "--max-model-len" in replies[0].error
    assert replies[1].text == plain.generate([short])[0].text


def test_ready_respects_its_timeout(make):
    engine = make()
    engine.submit([dataclasses.replace(image_request("64x64-1.png"), max_new_tokens=200)])
    rounds = 0
    while not (answered := list(engine.ready(0.0))):
        rounds += 1
    assert rounds > 20
    assert answered[0][1].tokens.reply == 200
    assert list(engine.ready()) == []


def test_wake_interrupts_waiting_and_loses_nothing(make):
    engine = make()
    engine.submit([dataclasses.replace(image_request("64x64-1.png"), max_new_tokens=200)])
    engine.wake()
    assert list(engine.ready()) == []
    ((_, reply),) = engine.ready()
    assert reply.tokens.reply == 200


def rows_of(engine, arguments):
    """Return the number of prompts or replies in a call of the model."""
    kept = arguments["logits_to_keep"]
    return len(kept) if torch.is_tensor(kept) else arguments["input_ids"].shape[1]


class FaultInjector:
    """Counts the calls of a model, and makes those for which `fails(call, rows)` is true run out of memory."""

    def __init__(self, engine, monkeypatch, fails):
        self.calls = 0
        forward = engine.loaded.model.forward

        def guarded(*args, **kwargs):
            self.calls += 1
            if fails(self.calls - 1, rows_of(engine, kwargs)):
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return forward(*args, **kwargs)

        monkeypatch.setattr(engine.loaded.model, "forward", guarded)


@pytest.mark.slow
def test_out_of_memory_at_any_call_does_not_change_replies(make, plain, monkeypatch):
    few = {"count": 3, "turns": 1, "max_new_tokens": 12}
    expected = Dialogues(**few).run(plain).texts
    failed = 0
    for index in count():
        with monkeypatch.context() as patch:
            engine = make()
            injector = FaultInjector(
                engine, patch, lambda call, rows, index=index: call == index and rows > 1
            )
            dialogues = Dialogues(**few).run(engine)
        assert dialogues.texts == expected, f"call {index}"
        failed += "out_of_memory" in dialogues.events
        if injector.calls <= index:
            break
    assert failed > 5


@pytest.mark.parametrize("fits", mostly_slow([1, 3], 1))
def test_number_of_rows_adapts_to_memory(make, expected, monkeypatch, fits):
    engine = make()
    FaultInjector(engine, monkeypatch, lambda call, rows: rows > fits)
    dialogues = Dialogues().run(engine)
    assert dialogues.texts == expected
    assert "out_of_memory" in dialogues.events
    assert "batch_halved" in dialogues.events
    assert engine.scheduler.row_ceiling.limit <= 2 * fits


def test_request_that_never_fits_fails_alone(make, plain, monkeypatch):
    engine = make()
    forward = engine.loaded.model.forward

    def guarded(*args, **kwargs):
        if kwargs["position_ids"].max() > 300:
            raise torch.OutOfMemoryError("out of memory")
        return forward(*args, **kwargs)

    monkeypatch.setattr(engine.loaded.model, "forward", guarded)
    good = [image_request("64x64-1.png", name=f"good{number}") for number in range(3)]
    replies = engine.generate([*good, image_request(words="word " * 400, name="long")])
    assert "--image-size" in replies[-1].error
    assert "--batch-size" in replies[-1].error
    monkeypatch.undo()
    assert [reply.text for reply in replies[:3]] == [plain.generate(good)[0].text] * 3


def test_dialogues_wait_if_the_cache_cannot_grow(make, plain):
    few = {"count": 4, "turns": 2, "max_new_tokens": 7}
    expected = Dialogues(**few).run(plain).texts
    failed = 0
    for index in range(4):
        engine = make()
        grow_to, calls = engine.cache._grow_to, []

        def failing_grow_to(pages, engine=engine, grow_to=grow_to, calls=calls, index=index):
            calls.append(len(engine.cache.sequences) > 1)
            if calls[-1] and sum(calls) - 1 == index:
                raise torch.OutOfMemoryError("out of memory")
            return grow_to(pages)

        engine.cache._grow_to = failing_grow_to
        dialogues = Dialogues(**few).run(engine)
        assert dialogues.texts == expected, f"growth {index}"
        failed += "out_of_memory" in dialogues.events
    assert failed > 1


OUT_OF_MEMORY_ERRORS = (
    torch.OutOfMemoryError("CUDA out of memory."),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("CUDA error: unknown error"),
    RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    RuntimeError("Expected mha_graph.execute(handle).is_good() to be true"),
    RuntimeError("cuDNN Frontend error: Error: No valid execution plans built."),
    MemoryError(),
)


@pytest.mark.parametrize("seed", mostly_slow(range(2), 0))
def test_random_out_of_memory_errors_do_not_change_replies(make, expected, monkeypatch, seed):
    chance, calls, failed = random.Random(seed), Counter(), []
    for name in ("_reserve_pages", "_first_tokens", "_next_tokens"):
        method = getattr(Scheduler, name)

        def failing_method(*args, method=method):
            calls[method] += 1
            if calls[method] == 2 or chance.randrange(8) == 0:
                failed.append(method)
                raise chance.choice(OUT_OF_MEMORY_ERRORS)
            return method(*args)

        monkeypatch.setattr(Scheduler, name, failing_method)
    dialogues = Dialogues().run(make())
    assert dialogues.texts == expected
    assert len(set(failed)) == 3
    assert dialogues.events.count("out_of_memory") <= len(failed)


def break_device(engine, monkeypatch, works):
    """Make every model call fail with an error of a GPU; `works` says whether the GPU still works afterwards."""

    def failing_forward(*args, **kwargs):
        raise RuntimeError("CUDA error: unknown error")

    monkeypatch.setattr(engine.loaded.model, "forward", failing_forward)
    monkeypatch.setattr(faults, "device_works", lambda device: works)


def test_lost_device_raises_engine_error(make, monkeypatch):
    engine = make()
    break_device(engine, monkeypatch, works=False)
    with pytest.raises(EngineError, match="--continue"):
        engine.generate([image_request("64x64-1.png")])


def test_device_error_of_a_working_device_counts_as_out_of_memory(make, plain, monkeypatch):
    engine = make()
    expected = plain.generate([image_request("64x64-1.png")])[0].text
    calls = []
    forward = engine.loaded.model.forward

    def sometimes_failing_forward(*args, **kwargs):
        calls.append(None)
        if len(calls) in (2, 4):
            raise RuntimeError("CUDA error: unknown error")
        return forward(*args, **kwargs)

    monkeypatch.setattr(engine.loaded.model, "forward", sometimes_failing_forward)
    requests = [image_request("64x64-1.png", name=f"q{number}") for number in range(3)]
    replies = engine.generate(requests)
    assert [reply.text for reply in replies] == [expected] * 3
    assert "out_of_memory" in [event for reply in replies for event in reply.events]


def test_failing_questions_do_not_stop_others(make, plain, monkeypatch):
    engine = make(read_tokens=1)
    forward = engine.loaded.model.forward

    def text_only_forward(*args, **kwargs):
        if kwargs.get("pixel_values") is not None:
            raise ValueError("images are not supported")
        return forward(*args, **kwargs)

    monkeypatch.setattr(engine.loaded.model, "forward", text_only_forward)
    bad = [image_request("64x64-1.png", name=f"bad{number}") for number in range(11)]
    replies = engine.generate([*bad, image_request(name="good")])
    monkeypatch.undo()
    assert all(reply.error.endswith("images are not supported") for reply in replies[:-1])
    assert replies[-1].text == plain.generate([image_request()])[0].text


def test_running_out_of_memory_while_images_are_moved_loses_nothing(make, expected, monkeypatch):
    move, failures = prefill._image_inputs, iter([True, False] * 3)

    def failing(*args):
        if next(failures, False):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB")
        return move(*args)

    engine = make()
    monkeypatch.setattr(prefill, "_image_inputs", failing)
    dialogues = Dialogues().run(engine)
    assert dialogues.texts == expected
    assert dialogues.events.count("out_of_memory") == 3
