"""Every family that is known: batch = single = kept over the turns = read anew, in float32, and wrong reuse is found."""

from collections import Counter
from functools import cache

import pytest
import torch
from conftest import mostly_slow
from factories.dialogues import Dialogues, UncachedModel
from factories.families import SMALL_FAMILIES, small_family
from factories.models import speckled_file

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.families.model_families import FAMILIES, family_of
from render_agent.engines.transformers.cache_check import cache_mismatch
from render_agent.engines.transformers.factory import engine_of
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import open_model
from render_agent.engines.transformers.model.recurrent_state import StateCall
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.errors import SetupError

ELSEWHERE = ("qwen3_vl", "qwen2_5_vl", "internvl")
"""Those that other files try, and more so."""


def model_type(name):
    return name.removesuffix("_moe") if name.startswith("gemma4") else name


KEPT = [
    name
    for name in SMALL_FAMILIES
    if family_of(model_type(name)).reuse == "keys" and name not in ELSEWHERE
]

HYBRIDS = ["qwen3_5", "qwen3_5_moe", "lfm2_vl", "minicpmv4_6"]

READ_ANEW = ["molmo2", "llava_onevision", "paligemma", "llama4"]


@cache
def loaded(name, dtype="float32"):
    torch.set_num_threads(1)
    return open_model("a small one", pretrained=small_family(name, dtype=dtype))


def dialogues():
    """Return three dialogues of one to four turns with none to three pictures in each."""
    led = Dialogues(count=3, turns=3, instructions="Explore the room. " * 6, max_new_tokens=8)
    led.turns = dict(zip(led.ids, (4, 1, 3), strict=True))
    return led


@pytest.mark.parametrize("name", mostly_slow(KEPT, "glm46v", "qwen3_5"))
def test_batch_is_single_is_kept_is_read_anew(name):
    model = loaded(name)
    expected = dialogues().lead(UncachedModel(model))
    together = dialogues().lead(TransformersEngine(model, batch_size=3))
    assert together.said == expected.said
    assert len({str(said) for rows in expected.said.values() for said in rows}) > 2
    engine = ContinuousEngine(model, budget=10**8, most_rows=3)
    # A dialogue is given up for lack of room, and taken up again in its next turn.
    rests, kept = engine.cache.rest, dialogues()

    def rest(sequence):
        rests(sequence)
        if sequence.question_id == "q2" and len(kept.replies["q2"]) == 1:
            engine.cache.evict(sequence)

    engine.cache.rest = rest
    kept.lead(engine)
    assert kept.said == expected.said
    read, seen, cached = kept.tokens
    recurrent = model.inputs.family.recurrent
    replies = sum(reply.tokens.reply for rows in kept.replies.values() for reply in rows)
    given_up = kept.replies["q2"][2].tokens.prompt
    assert read - cached <= seen + given_up + (replies + 60 if recurrent else 0)
    engine.scheduler.close()


@pytest.mark.parametrize("name", mostly_slow(READ_ANEW, "llama4"))
def test_batch_is_single_where_everything_is_read_anew(name):
    model, rows, asked = loaded(name), (1, 3), {"count": 2, "turns": 2, "max_new_tokens": 6}
    alone, together = (Dialogues(**asked).lead(engine_of(model, most, {}, 1000)) for most in rows)
    assert together.said == alone.said
    # What pads a prompt is counted by Llama 4, so that it takes one at a time.
    assert TransformersEngine(model, batch_size=3).batch_size == (1 if name == "llama4" else 3)
    errors = {reply.error for replies in alone.replies.values() for reply in replies}
    # PaliGemma's processor takes no prompt without a picture.
    assert errors == {None} if name != "paligemma" else None in errors


def test_every_family_of_the_table_has_a_small_model_and_says_why_it_keeps_no_more():
    assert {family_of(model_type(name)).name for name in SMALL_FAMILIES} == {
        family.name for family in FAMILIES
    }
    assert all(bool(family.why) == (family.reuse != "keys") for family in FAMILIES)


@pytest.mark.parametrize("name", ["mistral3", "ovis2"])
def test_no_special_token_of_a_family_comes_from_outside(name):
    inputs = loaded(name).inputs
    special = inputs.tokenizer.get_added_vocab()
    words = ("x", *special, "".join(special), "[IMG][IMG_BREAK]TILE_GLOBALTILE")
    plain, *others = (
        Counter(inputs._tokens(inputs.prepare(asked(text)).text, ())) for text in words
    )
    for found in others:
        assert {found[token] - plain[token] for token in special.values()} == {0}


def asked(words):
    message = {"role": "user", "content": [{"type": "text", "text": words}]}
    return Request("q", 0, [message, chat.assistant("y"), message], speckled_file)


@pytest.mark.slow
def test_pictures_alone_are_kept_where_an_index_chooses_the_keys():
    model = loaded("qwen4_exp")
    expected = dialogues().lead(TransformersEngine(model, batch_size=1))
    engine = engine_of(model, 3, {}, 1000)
    assert engine.describe()["reuse"] == "vision"
    assert dialogues().lead(engine).said == expected.said
    engine.vision.close()


def test_what_dialogues_of_a_hybrid_begin_with_is_read_once():
    model = loaded("qwen3_5")
    led = [Dialogues(count=4, turns=2, max_new_tokens=8) for _ in range(2)]
    engine = ContinuousEngine(model, budget=10**8, most_rows=1)
    led[0].lead(engine, together=1)
    assert led[0].said == led[1].lead(TransformersEngine(model, batch_size=1)).said
    alike = len(engine.cache._prefix.ids)
    assert [led[0].replies[name][0].tokens.cached for name in led[0].ids][2:] == [alike, alike]
    assert alike > 30
    engine.scheduler.close()


@pytest.mark.parametrize("name", ["qwen3_5", "glm46v"])
def test_what_prompts_begin_with_is_read_before_the_first_of_them(name):
    model = loaded(name)
    words = "You explore a room and say where to go next. " * 12
    said = chat.message("system", chat.text(words))
    requests = []
    for n in range(3):
        messages = [said, chat.message("user", chat.text(f"{n}: where to?"))]
        requests.append(Request(f"q{n}", 0, messages, speckled_file, max_new_tokens=2))
    engine = ContinuousEngine(model, budget=10**8, most_rows=3)
    engine.submit(requests)
    # All are ready before the first is placed.
    for sample in engine._queue:
        sample.in_flight.built.result()
    tokens = []
    while len(tokens) < len(requests):
        tokens += [reply.tokens for _, reply in engine.ready()]
    instructions = len(model.tokenizer(words)["input_ids"])
    read = sum(each.prompt - each.cached for each in tokens)
    assert read < (1 if name == "qwen3_5" else 2) * instructions
    engine.scheduler.close()


@pytest.mark.parametrize("name", mostly_slow(HYBRIDS, "qwen3_5"))
def test_choices_are_scored_from_a_state_that_stays_as_it_was(name):
    model = loaded(name)
    requests = [dialogues().request(question) for question in ("q0", "q2")]
    choices = [["left", "the other way", "A"], ["one chair", "B", "up and to the left"]]
    engine = TransformersEngine(model, batch_size=2)
    together = engine.score(requests, choices)
    for request, own, scores in zip(requests, choices, together, strict=True):
        for choice, likely in zip(own, scores.log_probabilities, strict=True):
            (alone,) = engine.score([request], [[choice]])
            assert alone.log_probabilities == pytest.approx([likely], abs=1e-4)


def mixed(self, layer, plain, hidden_states, **more):
    """Read packed prompts as if they were one: states go from one to the next."""
    right = forward(self, layer, plain, hidden_states, **more)
    return right if self.rows is not None else plain(hidden_states=hidden_states, **more)


def faded(self, layer, plain, hidden_states, **more):
    """Let padding before a prompt's new tokens fade the state that they go on from."""
    read = self.pool.read

    def less(layer, slots):
        conv, *recurrent = read(layer, slots)
        return [conv * (1 if recurrent else 0.7), *(part * 0.7 for part in recurrent)]

    self.pool.read = less
    try:
        return forward(self, layer, plain, hidden_states, **more)
    finally:
        del self.pool.read


forward = StateCall._forward


@pytest.mark.parametrize("dtype", mostly_slow(["float32", "bfloat16"], "float32"))
def test_states_that_are_wrong_are_found(dtype, monkeypatch):
    assert cache_mismatch(loaded("qwen3_5", dtype)) is None
    for wrong in (mixed, faded):
        monkeypatch.setattr(StateCall, "_forward", wrong)
        assert "differ" in cache_mismatch(loaded("qwen3_5", dtype)), wrong


@pytest.mark.parametrize("name", mostly_slow(["gemma4_moe", "gemma3"], "gemma4_moe"))
def test_pictures_that_do_not_see_each_other_are_found(name, monkeypatch):
    from render_agent.engines.transformers import prefill

    monkeypatch.setattr(prefill.Unread, "spans", ())
    assert "differ" in cache_mismatch(loaded(name))


def test_layers_that_forget_nothing_are_found(monkeypatch):
    from render_agent.engines.transformers import attention

    plain = attention._paged

    def blind(*args, sliding_window=None, **more):
        return plain(*args, **more)

    monkeypatch.setattr(attention, "_paged", blind)
    assert "differ" in cache_mismatch(loaded("aya_vision"))


@pytest.mark.parametrize("name", ["sinks", "caps"])
def test_attention_that_is_not_ours_is_refused(name, monkeypatch):
    from render_agent.engines.transformers import attention

    plain = attention._paged
    strange = {"sinks": {"s_aux": torch.zeros(4)}, "caps": {"softcap": 30.0}}[name]
    monkeypatch.setattr(attention, "_paged", lambda *args, **more: plain(*args, **more, **strange))
    assert "is not known" in cache_mismatch(loaded("glm46v"))


@pytest.mark.parametrize(("family", "reuse"), [("paligemma", "keys"), ("mistral3", "vision")])
def test_a_reuse_that_is_not_exact_is_refused(family, reuse):
    from render_agent.engines.transformers.transformers_options import check_options

    with pytest.raises(SetupError, match=f"reuse={reuse}.*{family}"):
        check_options({"reuse": reuse}, family)


def test_the_template_is_given_what_it_takes():
    small = small_family("qwen3_5_moe")
    small.processor.chat_template += "{%- if enable_thinking -%}<think>{%- endif -%}"
    request = dialogues().request("q0")
    for thinking in (True, False):
        options = {"chat_template_kwargs": {"enable_thinking": thinking}}
        made = open_model("x", pretrained=small, options=options).inputs.prepare(request)
        assert made.text.endswith("<think>") == thinking
        assert made.kept < len(made.ids)
