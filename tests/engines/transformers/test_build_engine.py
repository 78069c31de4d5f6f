"""The engine is chosen by family, and its cache and its calls fit in memory."""

import pytest
from conftest import mostly_slow
from factories.dialogues import Dialogues, UncachedModel, load
from factories.memory import FakeMemory
from factories.models import (
    small_internvl,
    small_llava_onevision,
    small_model,
    small_qwen2_5_vl,
    small_qwen3_vl,
)
from hypothesis import given
from hypothesis import strategies as st

from render_agent.engines.transformers.factory import (
    MEAN_SHARE,
    build_engine,
    divide_memory,
    fit_cost,
)
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.transformers_engine import ContinuousEngine


@pytest.fixture
def loaded():
    return load(small_model())


@pytest.mark.parametrize(
    "build", mostly_slow([small_qwen3_vl, small_qwen2_5_vl, small_internvl], small_qwen2_5_vl)
)
def test_three_families_reuse_the_kv_cache(build, tmp_path):
    loaded = load(build(tmp_path))
    engine = build_engine(loaded, 8, {}, 0)
    assert isinstance(engine, ContinuousEngine)
    assert engine.reuse == "keys"


def test_other_families_reuse_nothing(tmp_path):
    engine = build_engine(load(small_llava_onevision(tmp_path)), 8, {}, 0)
    assert isinstance(engine, TransformersEngine)
    assert engine.reuse == "none"


@pytest.mark.parametrize("reuse", ["keys", "none"])
def test_every_kind_of_reuse_gives_the_same_replies(reuse, loaded):
    expected = Dialogues(count=4, turns=3).run(UncachedModel(loaded)).texts
    engine = build_engine(loaded, 8, {"reuse": reuse}, 0)
    assert engine.reuse == reuse
    assert Dialogues(count=4, turns=3).run(engine).texts == expected


@given(st.tuples(*[st.integers(1, 10**5)] * 2), st.tuples(*[st.integers(0, 10**10)] * 2))
def test_fitted_cost_is_an_upper_bound(tokens, bytes_taken):
    points = sorted(zip(tokens, bytes_taken, strict=True))
    for observed in (points, points[:1]):
        fixed, per_token = fit_cost(observed)
        assert fixed >= 0
        assert per_token >= 1
        for count, needed in observed:
            assert fixed + per_token * count >= needed * (1 - 1e-9) - 1


def test_batch_size_is_what_fits_in_memory(loaded):
    tokens = 1000
    engine = build_engine(loaded, None, {}, tokens, FakeMemory(1 << 40))
    dialogue_bytes = round(MEAN_SHARE * tokens) * engine.cache.bytes_per_token
    memory = FakeMemory(round(5.5 * dialogue_bytes / 0.9))
    assert build_engine(loaded, None, {}, tokens, memory).batch_size == 5
    assert build_engine(loaded, 3, {}, tokens, FakeMemory(1 << 10)).batch_size == 1


def test_batch_size_is_learned_from_completed_turns(loaded, monkeypatch):
    monkeypatch.setattr("render_agent.engines.transformers.transformers_engine.LEARNED_TURNS", 6)
    engine = build_engine(loaded, None, {}, 100_000, FakeMemory(1 << 30))
    initial = engine.batch_size
    dialogues = Dialogues(count=4, turns=2).run(engine)
    lengths = [
        reply.tokens.prompt + reply.tokens.reply
        for replies in dialogues.replies.values()
        for reply in replies
    ]
    mean_bytes = sum(lengths) // len(lengths) * engine.cache.bytes_per_token
    assert initial < engine.batch_size == min(engine.most_rows, engine.cache.budget // mean_bytes)


class MeteredMemory(FakeMemory):
    """Memory of which every call of a model needs a number of bytes per token."""

    def __init__(self, size, model, per_token, monkeypatch):
        super().__init__(size)
        forward = model.forward

        def metered(*args, **kwargs):
            self.allocate(kwargs["input_ids"].numel() * per_token)
            return forward(*args, **kwargs)

        monkeypatch.setattr(model, "forward", metered)


def test_prompts_are_prefilled_one_at_a_time_if_probes_do_not_fit(loaded, monkeypatch):
    memory = MeteredMemory(1000, loaded.model, 50_000, monkeypatch)
    assert divide_memory(loaded, memory, 0.1, (64, 64))[1] == 1


def test_prefill_stays_within_its_share_of_memory(loaded, monkeypatch):
    """Prefill, including padding, stays within the share that the probes have determined."""
    per_token, size = 100_000, 400_000_000
    memory = MeteredMemory(size, loaded.model, per_token, monkeypatch)
    engine = build_engine(loaded, None, {}, 0, memory, (64, 64))
    memory.reset_peak()
    Dialogues(count=8, turns=2).run(engine)
    assert memory.peak() <= 0.25 * 0.9 * size
    assert memory.peak() > 0.05 * size
