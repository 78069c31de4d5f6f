"""The start check passes a sound engine of every family, and switches off each part that is broken on purpose."""

import json
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from conftest import mostly_slow
from factories.dialogues import Dialogues, UncachedModel, load
from factories.families import SMALL_FAMILIES, small_family
from factories.models import small_model
from factories.runs import finish_run, make_config, make_questions

from render_agent.engines.families.model_families import family_of
from render_agent.engines.memory.faults import Fault
from render_agent.engines.transformers import (
    attention,
    decode,
    factory,
    prefill,
    sampling,
    start_check,
)
from render_agent.engines.transformers.factory import (
    build_checked_engine,
    build_engine,
    plain_engine,
)
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.kv_cache import CachedSequence, KVCache
from render_agent.engines.transformers.make_transformers import TRANSFORMERS
from render_agent.engines.transformers.model.load import open_model
from render_agent.engines.transformers.model.recurrent_state import StateCall, StatePool
from render_agent.engines.transformers.start_check import check_start
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.errors import SetupError
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run

SMALL = {"count": 3, "turns": 2, "max_new_tokens": 6}
IMAGES = {"image_size": (64, 64)}  # of the prompts that measure memory


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A loaded machine must not shorten the check."""
    monkeypatch.setattr(start_check, "MAX_SECONDS", 1e9)


@pytest.fixture
def loaded():
    return load(small_model())


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of results."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr(factory, "user_cache", lambda name: folder)
    return folder


def check(loaded, rows=8, **options):
    """Return the engine that a start check leaves, and its record."""
    engine = build_engine(loaded, rows, options, 500, **IMAGES)
    return check_start(engine, partial(plain_engine, loaded, rows, options))


def caveats_of(loaded, **options):
    return " ".join(check(loaded, **options)[1]["caveats"])


def family(name, dtype="float32"):
    torch.set_num_threads(1)
    return open_model("small", pretrained=small_family(name, dtype=dtype))


@pytest.mark.parametrize("name", mostly_slow(list(SMALL_FAMILIES), "qwen3_vl", "qwen3_5", "molmo2"))
@pytest.mark.parametrize("dtype", mostly_slow(["float32", "bfloat16", "float16"], "float32"))
def test_sound_engine_of_every_family_passes(name, dtype):
    loaded = family(name, dtype)
    engine, record = check(loaded)
    assert record["caveats"] == []
    assert record["difference"] <= record["tolerance"]
    assert record["complete"]
    reuse = family_of(loaded.model.config.model_type).reuse
    assert engine.reuse == reuse.replace("recompute", "none")
    assert engine.calls == 0, "the check leaves no traces"


def test_eager_attention_passes(loaded):
    loaded.model.set_attn_implementation("eager")
    assert caveats_of(loaded) == ""


def test_replies_after_the_check_are_those_of_an_unchecked_engine(loaded):
    expected = Dialogues(**SMALL).run(UncachedModel(loaded)).texts
    engine, _ = check(loaded)
    assert (engine.cache.sequences, engine.cache.needs_prefix) == ([], True)
    assert Dialogues(**SMALL).run(engine).texts == expected


original_positions = prefill.token_positions


def shift_positions(prompt, axes):
    """Return positions that are wrong after the first image."""
    result = original_positions(prompt, axes).copy()
    if prompt.images:
        result[:, prompt.images[0].start + 1 :] += 3
    return result


def reverse_slots(monkeypatch):
    slots = CachedSequence.slots
    monkeypatch.setattr(CachedSequence, "slots", lambda self, *ends: slots(self, *ends)[::-1])


def freeze_page_table(monkeypatch):
    """Let decoding steps use the pages of the first one."""
    index, first = decode.page_index, []

    def stale(pages, device):
        first.append(index(pages, device))
        return first[0]

    monkeypatch.setattr(decode, "page_index", stale)


def refuse_attention(monkeypatch):
    def refuse(*args, **more):
        raise NotImplementedError("attention with caps is not supported")

    # the trial call that lays out the cache is no paged attention
    monkeypatch.setattr(attention.PrefillAttention, "attend", refuse)


BROKEN_PAGES = {
    "positions": lambda patch: patch.setattr(prefill, "token_positions", shift_positions),
    "slots": reverse_slots,
    "page table": freeze_page_table,
    "attention": refuse_attention,
}


@pytest.mark.parametrize("broken", BROKEN_PAGES)
@pytest.mark.parametrize("dtype", mostly_slow(["float32", "bfloat16"], "float32"))
def test_broken_pages_are_switched_off(broken, dtype, monkeypatch):
    loaded = load(small_model(), dtype)
    BROKEN_PAGES[broken](monkeypatch)
    engine, record = check(loaded)
    assert "pages off" in record["caveats"][0]
    assert isinstance(engine, TransformersEngine)
    if (broken, dtype) == ("positions", "float32"):
        expected = Dialogues(**SMALL).run(UncachedModel(loaded)).texts
        assert Dialogues(**SMALL).run(engine).texts == expected


@pytest.mark.parametrize(
    ("name", "part"),
    [("gemma4_moe", "spans"), ("aya_vision", "windows")],
)
def test_wrong_masks_are_detected(name, part, monkeypatch):
    paged = attention._paged

    def without_window(*args, sliding_window=None, **more):
        return paged(*args, **more)

    loaded = family(name)
    if part == "spans":
        monkeypatch.setattr(prefill.UnreadPrompt, "spans", ())
    else:
        monkeypatch.setattr(attention, "_paged", without_window)
    assert "pages off" in caveats_of(loaded)


forward = StateCall._forward


def mix_states(self, layer, plain, hidden_states, **more):
    """Process packed prompts as one, so that states leak from one prompt to the next."""
    correct = forward(self, layer, plain, hidden_states, **more)
    return correct if self.rows is not None else plain(hidden_states=hidden_states, **more)


def decay_states(self, layer, plain, hidden_states, **more):
    """Decay the states before a prompt's new tokens, as padding would."""
    read = self.pool.read

    def decayed_read(layer, slots):
        conv, *recurrent = read(layer, slots)
        return [conv * (1 if recurrent else 0.7), *(part * 0.7 for part in recurrent)]

    self.pool.read = decayed_read
    try:
        return forward(self, layer, plain, hidden_states, **more)
    finally:
        del self.pool.read


@pytest.mark.parametrize("error", [mix_states, decay_states])
@pytest.mark.parametrize("dtype", mostly_slow(["float32", "bfloat16", "float16"], "float32"))
def test_wrong_recurrent_states_are_detected(error, dtype, monkeypatch):
    loaded = family("qwen3_5", dtype)
    monkeypatch.setattr(StateCall, "_forward", error)
    assert "pages off" in caveats_of(loaded)


def test_decayed_snapshot_switches_off_only_the_reuse(monkeypatch):
    loaded = family("qwen3_5")
    trim = StatePool.trim

    def decaying_trim(self, states, keeps_reply):
        trim(self, states, keeps_reply)
        with torch.inference_mode():
            for part in (part for parts in self.layers.values() for part in parts):
                part[states.slots] *= 0.7

    monkeypatch.setattr(StatePool, "trim", decaying_trim)
    engine, record = check(loaded)
    assert "prefix reuse off" in record["caveats"][0]
    assert isinstance(engine, ContinuousEngine)
    dialogues = Dialogues(**SMALL).run(engine)
    assert dialogues.texts == Dialogues(**SMALL).run(UncachedModel(loaded)).texts
    assert dialogues.tokens[2] == 0


def test_overwritten_pages_switch_off_only_the_reuse(loaded, monkeypatch):
    unpin = KVCache.unpin

    def overwriting_unpin(self, sequence):
        unpin(self, sequence)
        with torch.inference_mode():
            for layer in self.layers.values():
                layer.keys[sequence.pages] += 1

    monkeypatch.setattr(KVCache, "unpin", overwriting_unpin)
    engine, record = check(loaded)
    assert "prefix reuse off" in record["caveats"][0]
    assert isinstance(engine, ContinuousEngine)
    expected = Dialogues(**SMALL).run(UncachedModel(loaded)).texts
    assert Dialogues(**SMALL).run(engine).texts == expected


def disturb_batches(loaded):
    def disturb(module, inputs, scores):
        return scores.roll(1, -1) if scores.shape[0] > 1 else scores

    loaded.model.lm_head.register_forward_hook(disturb)


def test_wrong_batches_are_detected(loaded):
    disturb_batches(loaded)
    engine, record = check(loaded, reuse="none")
    assert "batches" in record["caveats"][0]
    assert engine.batch_size == 1


def test_wrong_greedy_choice_is_detected(loaded, monkeypatch):
    choose = sampling.choose_tokens

    def next_best(logits, *more):
        return choose(logits, logits.topk(2).indices[:, 1], *more[1:])

    monkeypatch.setattr("render_agent.engines.transformers.scheduler.choose_tokens", next_best)
    assert "pages off: a token of a greedy reply" in caveats_of(loaded)


def test_constraints_without_effect_are_reported(loaded, monkeypatch):
    monkeypatch.setattr(sampling.PartialReply, "is_unconstrained", True)
    monkeypatch.setattr(sampling.PartialReply, "accepts", lambda self, token: True)
    caveats = caveats_of(loaded)
    assert "guided reply" in caveats
    assert "the engine is not exact" in caveats


@contextmanager
def nan_weight(loaded):
    weight = loaded.model.get_output_embeddings().weight
    before = weight.clone()
    with torch.no_grad():
        weight[5, 5] = torch.nan
        yield
        weight.copy_(before)


@pytest.mark.parametrize("reuse", ["keys", "none"])
@pytest.mark.parametrize(
    ("dtype", "remedy"), [("float16", "--dtype bfloat16"), ("float32", "download them again")]
)
def test_nan_weight_refuses_the_run(dtype, remedy, reuse):
    loaded = load(small_model(), dtype)
    with nan_weight(loaded), pytest.raises(SetupError, match=remedy):
        check(loaded, reuse=reuse)


def test_forward_pass_that_fails_is_reported(loaded, monkeypatch):
    def fail(*args):
        raise TypeError("forward() got an unexpected keyword argument 'logits_to_keep'")

    monkeypatch.setattr(start_check, "plain_logits", fail)
    engine, record = check(loaded)
    assert "TypeError" in record["caveats"][0]
    assert isinstance(engine, ContinuousEngine)


def pass_time(monkeypatch, *seconds):
    """Let forward passes take these seconds of a clock in the check, the last one repeatedly."""
    plain_logits, clock, durations = start_check.plain_logits, [0.0], [*seconds]

    def slow_logits(*args):
        clock[0] += durations.pop(0) if len(durations) > 1 else durations[0]
        return plain_logits(*args)

    monkeypatch.setattr(start_check, "plain_logits", slow_logits)
    monkeypatch.setattr(start_check, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(start_check, "MAX_SECONDS", 15.0)


def test_slow_first_pass_does_not_shorten_the_check(loaded, monkeypatch):
    pass_time(monkeypatch, 4.0, 0.1)
    monkeypatch.setattr(prefill, "token_positions", shift_positions)
    _, record = check(loaded)
    assert record["complete"]
    assert "pages off" in record["caveats"][0]


@pytest.mark.parametrize("seconds", [2.0, 20.0])
def test_slow_device_compares_one_token(loaded, cache, monkeypatch, seconds):
    pass_time(monkeypatch, seconds)
    answered = []
    answer = start_check.answer

    def recorded(engine, requests):
        answered.extend(requests)
        return answer(engine, requests)

    monkeypatch.setattr(start_check, "answer", recorded)
    _, record = check(loaded)
    assert [request.max_new_tokens for request in answered] == [1]
    assert (record["complete"], record["caveats"]) == (False, [])
    assert not build_checked_engine({}, loaded, 8, {}, 500, **IMAGES).start_check["complete"]
    assert not [*cache.iterdir()], "only complete checks are cached"
    monkeypatch.setattr(prefill, "token_positions", shift_positions)
    assert "pages off" in caveats_of(loaded)
    assert {request.max_new_tokens for request in answered} == {1}, "also after a failure"


def test_passed_check_is_cached_by_its_conditions(loaded, cache, monkeypatch):
    checked = []
    monkeypatch.setattr(
        factory, "check_start", lambda *args: checked.append(1) or check_start(*args)
    )

    def build(**conditions):
        return build_checked_engine(conditions, replace(loaded), 8, {}, 500, **IMAGES)

    first, second = build(model="a"), build(model="a")
    assert len(checked) == len([*cache.iterdir()]) == 1
    assert second.start_check == first.start_check
    build(model="b")
    assert len(checked) == 2
    monkeypatch.setattr(prefill, "token_positions", shift_positions)
    for _ in range(2):
        assert build(model="c").start_check["caveats"]
    assert len(checked) == 4, "a failure is not cached"


def test_damaged_cache_is_written_again(loaded, cache):
    first = build_checked_engine({}, replace(loaded), 8, {}, 500, **IMAGES)
    (file,) = cache.iterdir()
    saved = file.read_bytes()
    file.write_bytes(b"")  # power failed before the disk had its content
    again = build_checked_engine({}, replace(loaded), 8, {}, 500, **IMAGES)
    assert again.start_check == first.start_check
    assert file.read_bytes() == saved


def test_fault_after_a_failure_keeps_its_reason(loaded, monkeypatch):
    results = iter([start_check.Difference(error="wrong logits"), Fault("no memory", True)])
    monkeypatch.setattr(start_check.Probe, "compare", lambda self, engine: next(results))
    caveats = caveats_of(loaded)
    assert "prefix reuse off: wrong logits" in caveats
    assert "no memory" in caveats


def test_conditions_name_model_device_and_options(tmp_path):
    def conditions(**options):
        options = {"model": str(small_model()), "device": "cpu", **options}
        return TRANSFORMERS.conditions(make_config(tmp_path, None, **options))

    first = conditions()
    assert first["model"].startswith("sha256:")
    assert {"device", "threads", "torch", "transformers"} <= first["device"].keys()
    assert "llguidance" in first["device"]["libraries"]
    assert conditions(dtype="bfloat16") != first
    assert conditions(engine_option=("reuse=none",)) != first
    assert conditions(max_failures="3") == first
    assert json.dumps(first)


def test_conditions_omit_libraries_that_are_installed_under_another_name(tmp_path, monkeypatch):
    (tmp_path / "triton.py").touch()  # as in the package pytorch-triton-rocm
    monkeypatch.syspath_prepend(tmp_path)
    config = make_config(tmp_path, None, model=str(small_model()), device="cpu")
    assert "triton" not in TRANSFORMERS.conditions(config)["device"]["libraries"]


def test_reproducible_engine_without_pages_is_refused(loaded, cache, monkeypatch):
    monkeypatch.setattr(prefill, "token_positions", shift_positions)
    with pytest.raises(SetupError, match="--reproducible on does not hold"):
        build_checked_engine({}, loaded, 8, {}, 500, reproducible=True, **IMAGES)


OPTIONS = {
    "engine": "transformers",
    "model": str(small_model()),
    "device": "cpu",
    "max_turns": 1,
    "max_new_tokens": 4,
    "image_size": (64, 48),
}


def run(tmp_path, **options):
    """Return a finished run of one question, and its results."""
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 1), **OPTIONS | options))
    results = finish_run(run)
    return RunData(run.path), results


def test_finding_is_a_caveat_of_the_run(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(prefill, "token_positions", shift_positions)
    data, results = run(tmp_path)
    (check,) = data.record["start_checks"]
    (caveat,) = check["caveats"]
    assert "pages off" in caveat
    assert caveat in results["notes"]
    assert caveat in data.notes
    assert results["reuse"] != "keys"


def test_no_self_check_skips_the_check(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(prefill, "token_positions", shift_positions)
    data, results = run(tmp_path, no_self_check=True)
    assert "start_checks" not in data.record
    assert not [note for note in results["notes"] if "start check" in note]
    assert results["reuse"] == "keys"


def test_passed_check_is_recorded_without_a_caveat(tmp_path, cache):
    data, results = run(tmp_path)
    (check,) = data.start_checks
    assert check["caveats"] == []
    assert check["difference"] <= check["tolerance"]
    assert not [note for note in results["notes"] if "start check" in note]
