"""Reuse is chosen by family, and `cache_mismatch` finds a model for which it is wrong."""

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

from render_agent.engines.transformers import prefill
from render_agent.engines.transformers.cache_check import cache_mismatch
from render_agent.engines.transformers.factory import MEAN_SHARE, engine_of
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.kv_cache import Sequence
from render_agent.engines.transformers.memory.budget import divide
from render_agent.engines.transformers.transformers_engine import ContinuousEngine


@pytest.fixture
def loaded():
    return load(small_model())


@pytest.mark.parametrize(
    "build", mostly_slow([small_qwen3_vl, small_qwen2_5_vl, small_internvl], small_qwen2_5_vl)
)
def test_three_families_keep_keys_and_values(build, tmp_path):
    loaded = load(build(tmp_path))
    engine = engine_of(loaded, 8, {}, 0)
    assert isinstance(engine, ContinuousEngine)
    assert engine.describe()["reuse"] == "keys"


def test_other_families_read_everything_anew(tmp_path):
    engine = engine_of(load(small_llava_onevision(tmp_path)), 8, {}, 0)
    assert isinstance(engine, TransformersEngine)
    assert engine.describe()["reuse"] == "none"


@pytest.mark.parametrize("reuse", mostly_slow(["keys", "vision", "none"], "vision"))
def test_every_way_gives_the_same_replies(reuse, loaded):
    expected = Dialogues(count=4, turns=3).lead(UncachedModel(loaded)).said
    engine = engine_of(loaded, 8, {"reuse": reuse}, 0)
    assert engine.describe()["reuse"] == reuse
    assert Dialogues(count=4, turns=3).lead(engine).said == expected


def test_bfloat16_passes_the_probe():
    assert cache_mismatch(load(small_model(), "bfloat16")) is None


def shifted(prompt, axes):
    """Positions that are wrong behind the first picture."""
    found = counted(prompt, axes).copy()
    if prompt.shown:
        found[:, prompt.shown[0].start + 1 :] += 3
    return found


counted = prefill.positions


@pytest.mark.parametrize("dtype", mostly_slow(["float32", "bfloat16"], "bfloat16"))
def test_a_model_that_counts_positions_otherwise_is_found_out(dtype, monkeypatch):
    loaded = load(small_model(), dtype)
    monkeypatch.setattr(prefill, "positions", shifted)
    assert "differ" in cache_mismatch(loaded)


def test_a_cache_with_wrong_slots_is_found_out(loaded, monkeypatch):
    slots = Sequence.slots
    monkeypatch.setattr(Sequence, "slots", lambda self, start, end: slots(self, start, end)[::-1])
    assert "differ" in cache_mismatch(loaded)


def test_eager_attention_keeps_keys_too():
    loaded = load(small_model())
    loaded.model.set_attn_implementation("eager")
    assert cache_mismatch(loaded) is None


def test_a_model_of_another_form_is_told(loaded, monkeypatch):
    def strange(*args, **more):
        raise TypeError("forward() got an unexpected keyword argument 'logits_to_keep'")

    monkeypatch.setattr(loaded.model, "forward", strange)
    assert "TypeError" in cache_mismatch(loaded)


def test_so_many_are_led_side_by_side_as_have_room(loaded):
    tokens = 1000
    engine = engine_of(loaded, None, {}, tokens, FakeMemory(1 << 40))
    each = round(MEAN_SHARE * tokens) * engine.cache.bytes_per_token
    memory = FakeMemory(round(5.5 * each / 0.9))
    assert engine_of(loaded, None, {}, tokens, memory).batch_size == 5
    assert engine_of(loaded, 3, {}, tokens, FakeMemory(1 << 10)).batch_size == 1


def test_how_many_are_led_side_by_side_is_learned_from_their_turns(loaded, monkeypatch):
    monkeypatch.setattr("render_agent.engines.transformers.transformers_engine.LEARNED_TURNS", 6)
    engine = engine_of(loaded, None, {}, 100_000, FakeMemory(1 << 30))
    few = engine.batch_size
    led = Dialogues(count=4, turns=2).lead(engine)
    taken = [
        reply.tokens.prompt + reply.tokens.reply
        for replies in led.replies.values()
        for reply in replies
    ]
    each = sum(taken) // len(taken) * engine.cache.bytes_per_token
    assert few < engine.batch_size == min(engine.most_rows, engine.cache.budget // each)


class Costly(FakeMemory):
    """Memory of which every call of a model takes so many bytes a token."""

    def __init__(self, size, model, per_token, monkeypatch):
        super().__init__(size)
        forward = model.forward

        def counted(*args, **more):
            self.need(more["input_ids"].numel() * per_token)
            return forward(*args, **more)

        monkeypatch.setattr(model, "forward", counted)


def test_where_not_even_the_probes_fit_prompts_are_read_one_by_one(loaded, monkeypatch):
    memory = Costly(1000, loaded.model, 50_000, monkeypatch)
    assert divide(loaded, memory, 0.1, (64, 64))[1] == 1


def test_a_run_keeps_to_its_share_while_reading(loaded, monkeypatch):
    """Whatever is read, with its padding, stays within what the probes left for it."""
    per_token, size = 100_000, 400_000_000
    memory = Costly(size, loaded.model, per_token, monkeypatch)
    engine = engine_of(loaded, None, {}, 0, memory, (64, 64))
    memory.reset_peak()
    Dialogues(count=8, turns=2).lead(engine)
    assert memory.peak() <= 0.25 * 0.9 * size
    assert memory.peak() > 0.05 * size
