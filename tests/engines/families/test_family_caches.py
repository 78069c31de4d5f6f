"""For every family, batching and reuse of the cache do not change replies."""

from collections import Counter
from functools import cache

import pytest
import torch
from conftest import mostly_slow
from factories.dialogues import Dialogues, UncachedModel
from factories.families import SMALL_FAMILIES, small_family
from factories.models import load_random_image

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.families.model_families import FAMILIES, family_of
from render_agent.engines.transformers.factory import build_engine
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import open_model
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.errors import SetupError

TESTED_ELSEWHERE = ("qwen3_vl", "qwen2_5_vl", "internvl")


def model_type(name):
    return name.removesuffix("_moe") if name.startswith("gemma4") else name


REUSING = [
    name
    for name in SMALL_FAMILIES
    if family_of(model_type(name)).reuse == "keys" and name not in TESTED_ELSEWHERE
]

HYBRIDS = ["qwen3_5", "qwen3_5_moe", "lfm2_vl", "minicpmv4_6"]

RECOMPUTING = ["molmo2", "llava_onevision", "paligemma", "llama4", "qwen4_exp"]


@cache
def loaded(name, dtype="float32"):
    torch.set_num_threads(1)
    return open_model("small", pretrained=small_family(name, dtype=dtype))


def make_dialogues():
    """Return three dialogues of one to four turns with up to three images per turn."""
    dialogues = Dialogues(count=3, turns=3, instructions="Explore the room. " * 6, max_new_tokens=8)
    dialogues.turns = dict(zip(dialogues.ids, (4, 1, 3), strict=True))
    return dialogues


@pytest.mark.parametrize("name", mostly_slow(REUSING, "glm46v", "qwen3_5"))
def test_batching_and_reuse_do_not_change_replies(name):
    model = loaded(name)
    expected = make_dialogues().run(UncachedModel(model))
    batched = make_dialogues().run(TransformersEngine(model, batch_size=3))
    assert batched.texts == expected.texts
    assert len({str(texts) for rows in expected.texts.values() for texts in rows}) > 2
    engine = ContinuousEngine(model, budget=10**8, most_rows=3)
    # Evict one dialogue between two turns.
    unpin, cached_run = engine.cache.unpin, make_dialogues()

    def evicting_unpin(sequence):
        unpin(sequence)
        if sequence.question_id == "q2" and len(cached_run.replies["q2"]) == 1:
            engine.cache.evict(sequence)

    engine.cache.unpin = evicting_unpin
    cached_run.run(engine)
    assert cached_run.texts == expected.texts
    total, new, cached = cached_run.tokens
    recurrent = model.inputs.family.recurrent
    replies = sum(reply.tokens.reply for rows in cached_run.replies.values() for reply in rows)
    evicted = cached_run.replies["q2"][2].tokens.prompt
    assert total - cached <= new + evicted + (replies + 60 if recurrent else 0)
    engine.scheduler.close()


@pytest.mark.parametrize("name", mostly_slow(RECOMPUTING, "llama4"))
def test_batching_does_not_change_replies_without_reuse(name):
    model, options = loaded(name), {"count": 2, "turns": 2, "max_new_tokens": 6}
    single, batched = (
        Dialogues(**options).run(build_engine(model, rows, {}, 1000, image_size=(64, 64)))
        for rows in (1, 3)
    )
    assert batched.texts == single.texts
    # Llama 4 counts padding as tokens, so its prompts are not batched.
    assert TransformersEngine(model, batch_size=3).batch_size == (1 if name == "llama4" else 3)
    errors = {reply.error for replies in single.replies.values() for reply in replies}
    # PaliGemma's processor requires an image in every prompt.
    assert errors == {None} if name != "paligemma" else None in errors


def test_every_family_has_a_small_model_and_explains_missing_reuse():
    small_families = {family_of(model_type(name)).name for name in SMALL_FAMILIES}
    assert small_families == {family.name for family in FAMILIES}
    assert all(bool(family.why) == (family.reuse != "keys") for family in FAMILIES)


@pytest.mark.parametrize("name", ["mistral3", "ovis2"])
def test_special_tokens_in_texts_are_escaped(name):
    inputs = loaded(name).inputs
    special = inputs.tokenizer.get_added_vocab()
    texts = ("x", *special, "".join(special), "[IMG][IMG_BREAK]TILE_GLOBALTILE")
    plain, *others = (
        Counter(inputs._tokens(inputs.prepare(text_request(text)).text, ())) for text in texts
    )
    for counts in others:
        assert {counts[token] - plain[token] for token in special.values()} == {0}


def text_request(text):
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    return Request("q", 0, [message, chat.assistant("y"), message], load_random_image)


def test_common_prefix_of_a_hybrid_is_computed_once():
    model = loaded("qwen3_5")
    engine = ContinuousEngine(model, budget=10**8, most_rows=1)
    dialogues, expected = (Dialogues(count=4, turns=2, max_new_tokens=8) for _ in range(2))
    dialogues.run(engine, max_concurrent=1)
    assert dialogues.texts == expected.run(TransformersEngine(model, batch_size=1)).texts
    shared = len(engine.cache._prefix.ids)
    cached = [dialogues.replies[name][0].tokens.cached for name in dialogues.ids]
    assert cached[2:] == [shared, shared]
    assert shared > 30
    engine.scheduler.close()


@pytest.mark.parametrize("name", ["qwen3_5", "glm46v"])
def test_common_prefix_is_computed_before_the_first_prompt(name):
    model = loaded(name)
    text = "You explore a room and say where to go next. " * 12
    system = chat.message("system", chat.text(text))
    requests = []
    for n in range(3):
        messages = [system, chat.message("user", chat.text(f"{n}: where to?"))]
        requests.append(Request(f"q{n}", 0, messages, load_random_image, max_new_tokens=2))
    engine = ContinuousEngine(model, budget=10**8, most_rows=3)
    engine.submit(requests)
    # Wait until all prompts are built, before the first is placed.
    for sample in engine._queue:
        sample.in_flight.built.result()
    tokens = []
    while len(tokens) < len(requests):
        tokens += [reply.tokens for _, reply in engine.ready()]
    instructions = len(model.tokenizer(text)["input_ids"])
    computed = sum(each.prompt - each.cached for each in tokens)
    assert computed < (1 if name == "qwen3_5" else 2) * instructions
    engine.scheduler.close()


@pytest.mark.parametrize("name", mostly_slow(HYBRIDS, "qwen3_5"))
def test_scoring_choices_does_not_modify_the_state(name):
    model = loaded(name)
    requests = [make_dialogues().request(question) for question in ("q0", "q2")]
    choices = [["left", "the other way", "A"], ["one chair", "B", "up and to the left"]]
    engine = TransformersEngine(model, batch_size=2)
    batched = engine.score(requests, choices)
    for request, texts, scores in zip(requests, choices, batched, strict=True):
        for choice, logprob in zip(texts, scores.log_probabilities, strict=True):
            (single,) = engine.score([request], [[choice]])
            assert single.log_probabilities == pytest.approx([logprob], abs=1e-4)


def test_inexact_reuse_is_rejected():
    from render_agent.engines.transformers.transformers_options import check_options

    with pytest.raises(SetupError, match=r"reuse=keys.*paligemma"):
        check_options({"reuse": "keys"}, "paligemma")


def test_template_kwargs_reach_the_chat_template():
    small = small_family("qwen3_5_moe")
    small.processor.chat_template += "{%- if enable_thinking -%}<think>{%- endif -%}"
    request = make_dialogues().request("q0")
    for thinking in (True, False):
        options = {"chat_template_kwargs": {"enable_thinking": thinking}}
        prompt = open_model("x", pretrained=small, options=options).inputs.prepare(request)
        assert prompt.text.endswith("<think>") == thinking
        assert prompt.stable_tokens < len(prompt.ids)
