"""Captured and replayed decoding steps equal ordinary ones, tested on a CPU with a fake CUDA graph."""

import dataclasses
import importlib
import os
import sys
from contextlib import contextmanager, nullcontext
from functools import partial
from types import ModuleType, SimpleNamespace

import pytest
import torch
from factories.dialogues import Dialogues, UncachedModel, load
from factories.models import small_model
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from render_agent.engines.transformers import decode, prefill, scheduler, start_check
from render_agent.engines.transformers.decode import Decoder
from render_agent.engines.transformers.kv_cache import PAGE_TOKENS, SCRATCH_PAGE, KVCache
from render_agent.engines.transformers.start_check import check_start
from render_agent.engines.transformers.transformers_engine import ContinuousEngine

KERNELS = "render_agent.engines.transformers.gpu.kernels"
ROWS = 5
SMALL = {"count": 5, "turns": 1, "max_new_tokens": 6}


class FakeGraph:
    """A CUDA graph in Python: a list of operations on fixed memory, which `replay` repeats."""

    captures = False

    def __init__(self):
        self.operations, self.replays = [], 0

    def pool(self):
        return "pool"

    def replay(self):
        self.replays += 1
        for call, args, kwargs, captured in self.operations:
            repeated = call(*args, **kwargs)
            for old, new in zip(tree_leaves(captured), tree_leaves(repeated), strict=True):
                if torch.is_tensor(old) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class Capture(TorchDispatchMode):
    """Records every operation."""

    def __init__(self, graph):
        super().__init__()
        self.graph = graph

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        out = call(*args, **(kwargs or {}))
        self.graph.operations.append((call, args, kwargs or {}, out))
        return out


@contextmanager
def capture(graph, pool=None, capture_error_mode="global"):
    assert capture_error_mode == "thread_local", "other threads use the GPU at the same time"
    with Capture(graph):
        FakeGraph.captures = True
        try:
            yield
        finally:
            FakeGraph.captures = False


def paged_decode(query, keys, values, tables, lengths, scale):
    """Reference implementation of the kernel."""
    heads = query.shape[1]
    keys, values = (part[tables.long()].flatten(1, 2) for part in (keys, values))
    keys, values = (part.repeat_interleave(heads // part.shape[2], 2) for part in (keys, values))
    scores = torch.einsum("rhw,rthw->rht", query, keys) * scale
    valid = torch.arange(keys.shape[1]) < lengths[:, None]
    weights = scores.masked_fill(~valid[:, None], -torch.inf).softmax(-1)
    return torch.einsum("rht,rthw->rhw", weights, values.masked_fill(~valid[..., None, None], 0))


@pytest.fixture(scope="module")
def loaded():
    return load(small_model())


@pytest.fixture(scope="module")
def gpu(loaded):
    """Present the CPU as a GPU with Triton. PyTorch inspects these modules on import, so it is imported before."""
    monkeypatch = pytest.MonkeyPatch()
    kernels = ModuleType(KERNELS)
    for name in ("rms_norm", "rotate_heads", "silu_mul"):
        setattr(kernels, name, None)
    kernels.paged_decode = paged_decode
    monkeypatch.setitem(sys.modules, KERNELS, kernels)
    stream = SimpleNamespace(wait_stream=lambda other: None)
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *n, pin_memory=False, **kwargs: zeros(*n, **kwargs))
    for name, fake in (
        ("Stream", lambda device: stream),
        ("current_stream", lambda *_: stream),
        ("stream", lambda *_: nullcontext()),
        ("synchronize", lambda device=None: None),
        ("CUDAGraph", FakeGraph),
        ("graph", capture),
    ):
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(scheduler, "can_use_triton", lambda model, cache: True)
    monkeypatch.setattr(prefill, "KVCache", lambda budget, grows: KVCache(budget, budget > 1 << 40))
    yield
    monkeypatch.undo()
    sys.modules.pop("render_agent.engines.transformers.gpu.cuda_graphs", None)
    sys.modules.pop("render_agent.engines.transformers.gpu.fused_layers", None)


@pytest.fixture(scope="module")
def expected(loaded):
    return Dialogues(**SMALL).run(UncachedModel(loaded)).texts


def make_engine(loaded, most_rows):
    """Return an engine that captures its steps, which takes about a second per number of rows."""
    page = prefill.new_cache(loaded).page_bytes
    return ContinuousEngine(
        dataclasses.replace(loaded), budget=40 * page, most_rows=most_rows, dialogue_tokens=300
    )


def test_each_size_that_occurs_is_captured_once(gpu, loaded, expected, monkeypatch):
    captured = []
    engine = make_engine(loaded, 3)
    decoder = engine.scheduler.decoder
    capture_one = decoder._capture

    def recorded(rows):
        captured.append(rows)
        return capture_one(rows)

    monkeypatch.setattr(decoder, "_capture", recorded)
    monkeypatch.setattr(Decoder, "step", lambda *_: pytest.fail("a step was not replayed"))
    assert captured == []
    assert Dialogues(**SMALL).run(engine, max_concurrent=1).texts == expected
    assert captured == [1]
    assert Dialogues(**SMALL).run(engine).texts == expected
    assert sorted(captured) == sorted(decoder._graphs), "each is captured once"
    assert {1, 3} <= decoder._graphs.keys() <= set(decoder.buckets)
    assert all(graph.replays for graph in decoder._graphs.values())


def test_graphs_share_their_memory(gpu, loaded, monkeypatch):
    pools = []
    original = torch.cuda.graph

    def recorded(graph, pool=None, **kwargs):
        pools.append(pool)
        return original(graph, pool, **kwargs)

    monkeypatch.setattr(torch.cuda, "graph", recorded)
    Dialogues(**SMALL).run(make_engine(loaded, 3))
    assert pools[0] is None
    assert set(pools[1:]) == {"pool"}


def test_running_out_of_memory_while_capturing_changes_no_reply(gpu, loaded, expected, monkeypatch):
    engine = make_engine(loaded, 3)
    decoder = engine.scheduler.decoder
    module = sys.modules[type(decoder).__module__]
    monkeypatch.setattr(module, "STEPS_WITHOUT_GRAPHS", 3)
    capture_one, failures = decoder._capture, iter([False, True, True])

    def failing(rows):
        if next(failures, False):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return capture_one(rows)

    monkeypatch.setattr(decoder, "_capture", failing)
    for _ in range(3):
        assert Dialogues(**SMALL).run(engine).texts == expected
    assert not next(failures, False), "capturing was tried again"
    assert decoder._graphs


@pytest.fixture(scope="module")
def engine(gpu, loaded):
    """An engine with active rows; calling the decoder directly does not advance them."""
    engine = make_engine(loaded, ROWS)
    dialogues = Dialogues(max_new_tokens=60)
    engine.submit([dialogues.request(f"q{number}") for number in range(ROWS)])
    while len(engine.scheduler.active) < ROWS:
        assert list(engine.ready(0)) == []
    return engine


def test_smallest_sufficient_graph_is_used(engine):
    rows, decoder = engine.scheduler.active, engine.scheduler.decoder
    assert decoder.buckets == [1, 2, 4, ROWS]
    for count, bucket in ((1, 1), (2, 2), (3, 4), (4, 4), (5, 5)):
        decoder.step(rows[:count])
        before = {size: graph.replays for size, graph in decoder._graphs.items()}
        decoder.step(rows[:count])
        replayed = {size for size, graph in decoder._graphs.items() if graph.replays > before[size]}
        assert replayed == {bucket}


def test_step_writes_only_to_its_rows_and_the_scratch_page(engine):
    """With three rows in the graph for four."""
    rows = engine.scheduler.active[:3]
    layers = [engine.cache.layers[number] for number in range(len(engine.cache.layers))]
    pages = {page for row in rows for page in row.sequence.pages}
    others = [page for page in range(engine.cache.page_limit) if page not in pages | {SCRATCH_PAGE}]
    # Compare bits, because NaN differs from NaN.
    before = [layer.keys[others].view(torch.int32).clone() for layer in layers]
    engine.scheduler.decoder.step(rows)
    for layer, bits in zip(layers, before, strict=True):
        assert layer.keys[others].view(torch.int32).equal(bits)
    for row in rows:
        new_slot = row.sequence.slots(len(row.sequence.ids), len(row.sequence.ids) + 1)
        assert layers[0].flat[0][new_slot].abs().sum() > 0


def test_replayed_step_equals_an_ordinary_step(engine):
    rows, decoder = engine.scheduler.active[:3], engine.scheduler.decoder
    logits, tokens = (result.clone() for result in decoder.step(rows))
    expected_logits, expected_tokens = super(type(decoder), decoder).step(rows)
    torch.testing.assert_close(logits, expected_logits, atol=2e-4, rtol=1e-4)
    assert tokens.tolist() == expected_tokens.tolist()


def test_too_long_rows_are_decoded_without_graphs(gpu, loaded):
    engine = make_engine(loaded, 2)
    decoder = engine.scheduler.decoder
    decoder.most_pages = 1
    few = {"count": 2, "turns": 1, "instructions": "Explore. " * PAGE_TOKENS}
    assert Dialogues(**few).run(engine).texts == Dialogues(**few).run(UncachedModel(loaded)).texts
    assert not decoder._graphs


def test_dropped_graphs_are_captured_again(gpu, loaded, expected, monkeypatch):
    engine = make_engine(loaded, 2)
    module = sys.modules[type(engine.scheduler.decoder).__module__]
    monkeypatch.setattr(module, "STEPS_WITHOUT_GRAPHS", 4)
    decoder = engine.scheduler.decoder
    assert not decoder.drop()
    assert Dialogues(**SMALL).run(engine).texts == expected
    assert decoder.drop()
    assert not decoder._graphs
    assert Dialogues(**SMALL).run(engine).texts == expected
    assert any(graph.replays for graph in decoder._graphs.values())


def test_steps_that_cannot_be_captured_run_without_graphs(
    gpu, loaded, expected, monkeypatch, caplog
):
    def uncapturable(query, keys, values, tables, lengths, scale):
        if FakeGraph.captures:
            raise RuntimeError("operation not permitted when stream is capturing")
        return paged_decode(query, keys, values, tables, lengths, scale)

    monkeypatch.setattr(sys.modules[KERNELS], "paged_decode", uncapturable)
    engine = make_engine(loaded, 2)
    assert Dialogues(**SMALL).run(engine).texts == expected
    assert "CUDA graphs" in caplog.text


@pytest.fixture
def check(gpu, loaded, monkeypatch):
    """Return a function that checks an engine on the stand-in, and returns what is left and the caveats."""

    def has_kernels(model, cache):
        return cache.uses_kernels

    monkeypatch.setattr(scheduler, "can_use_triton", has_kernels)
    monkeypatch.setattr(decode, "can_use_triton", has_kernels)
    monkeypatch.setattr(start_check, "MAX_SECONDS", 1e9)  # the machine may be busy

    def run(damage=lambda engine: None, half=None):
        engine = make_engine(half or loaded, 3)
        damage(engine)
        engine, record = check_start(engine, lambda **single: pytest.fail("pages are sound"))
        return engine, " ".join(record["caveats"])

    return run


def test_sound_graphs_of_two_sizes_pass_the_start_check(check):
    engine, caveats = check()
    assert caveats == ""
    assert engine.scheduler.decoder._graphs.keys() == {1, 2}
    assert all(graph.replays > 1 for graph in engine.scheduler.decoder._graphs.values())


def freeze_inputs(engine):
    """Replay graphs with old inputs: the table that is copied to the GPU is not the one that steps fill."""
    decoder = engine.scheduler.decoder
    decoder._host = decoder._host.clone()


def freeze_tokens(engine):
    """Return the most likely tokens of an earlier replay."""
    decoder = engine.scheduler.decoder
    compute = decoder._compute

    def frozen_compute(rows):
        tokens = decoder._tokens.clone()
        compute(rows)
        decoder._tokens.copy_(tokens)

    decoder._compute = frozen_compute


def confuse_pages(engine):
    """Give graphs the page of another row."""
    step, decoder = engine.scheduler.decoder.step, engine.scheduler.decoder

    def confused(rows):
        pages = [row.sequence.pages for row in rows]
        for row, other in zip(rows, pages[1:] + pages[:1], strict=True):
            row.sequence.pages = other
        result = step(rows)
        for row, own in zip(rows, pages, strict=True):
            row.sequence.pages = own
        return result

    decoder.step = confused


@pytest.mark.parametrize("damage", [freeze_inputs, freeze_tokens, confuse_pages])
def test_wrong_graphs_are_switched_off(check, expected, damage):
    engine, caveats = check(damage)
    assert "CUDA graphs off: " in caveats
    assert type(engine.scheduler.decoder) is Decoder
    assert engine.cache.uses_kernels
    assert Dialogues(**SMALL).run(engine).texts == expected


def wrong_scale(function):
    """Return an attention kernel with a slightly wrong scale."""
    return lambda *args: function(*args[:-1], args[-1] * 1.1)


def missing_token(function):
    """Return an attention kernel that ignores the newest token."""
    return lambda *args: function(*args[:-2], (args[-2] - 1).clamp(min=1), args[-1])


@pytest.mark.parametrize("error", [wrong_scale, missing_token])
def test_wrong_kernels_are_switched_off(check, expected, error, monkeypatch):
    monkeypatch.setattr(sys.modules[KERNELS], "paged_decode", error(paged_decode))
    engine, caveats = check()
    assert "CUDA graphs and fused kernels off: " in caveats
    assert not engine.cache.uses_kernels
    assert Dialogues(**SMALL).run(engine).texts == expected


def rms_norm(states, weight, epsilon, added=None):
    """Reference implementation of the kernel."""
    if added is not None:
        states += added
    exact = states.float()
    normal = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + epsilon)
    return normal.to(states.dtype) * weight


def rotate_heads(states, norms, epsilon, turns, pages, slots):
    """Reference implementation of the kernel."""
    shared, width = pages.keys.shape[2:]
    parts = states.view(len(states), -1, width)
    heads = [parts.shape[1] - 2 * shared, shared, shared]
    query, key, value = parts.split(heads, 1)
    query, key = (
        rms_norm(part, norm, epsilon) for part, norm in zip((query, key), norms, strict=True)
    )
    cosine, sine = (part[:, None] for part in turns)
    query, key = (
        part * cosine + torch.cat([-part.chunk(2, -1)[1], part.chunk(2, -1)[0]], -1) * sine
        for part in (query, key)
    )
    for stored, part in zip(pages.flat, (key, value), strict=True):
        stored.index_copy_(0, slots, part)
    return query


def silu_mul(states):
    """Reference implementation of the kernel."""
    gate, up = states.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


FUSED = {"rms_norm": rms_norm, "rotate_heads": rotate_heads, "silu_mul": silu_mul}


@pytest.mark.parametrize("broken", [None, *FUSED])
def test_wrong_fused_layers_are_switched_off(check, monkeypatch, broken):
    from render_agent.engines.transformers.gpu import fused_layers

    monkeypatch.setattr(fused_layers, "_is_plain", lambda layer: True)
    monkeypatch.setattr(start_check, "TEXTS", start_check.TEXTS[:1])  # others are for experts
    for name, function in FUSED.items():
        wrong = partial(lambda function, *args: function(*args) * 1.1, function)
        monkeypatch.setattr(fused_layers, name, wrong if name == broken else function)
    half = load(small_model(), "bfloat16")
    engine, caveats = check(half=half)
    assert ("fused kernels off" in caveats) == (broken is not None), caveats
    assert engine.cache.uses_kernels == (broken is None)
    layers = [layer for layer in half.model.modules() if "forward" in vars(layer)]
    assert {type(layer.forward).__name__ for layer in layers} == {"FusedTextLayer"}


@pytest.mark.parametrize("error", [lambda function: function, wrong_scale, missing_token])
def test_kernels_in_the_interpreter_of_triton_are_checked(check, error, monkeypatch):
    """Interpreted kernels cannot be recorded by the stand-in, so steps run without graphs."""
    os.environ.setdefault("TRITON_INTERPRET", "1")
    pytest.importorskip("triton", minversion="3.9")
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, KERNELS)
        interpreted = importlib.import_module(KERNELS).paged_decode
    monkeypatch.setattr(sys.modules[KERNELS], "paged_decode", error(interpreted))

    def skip_graphs(engine):
        engine.scheduler.decoder._is_captured = lambda rows: False

    engine, caveats = check(skip_graphs)
    assert engine.cache.uses_kernels == (caveats == "")
    assert ("fused kernels off" in caveats) == (error in (wrong_scale, missing_token))
