"""A vision cache changes nothing but how often the vision tower looks."""

import pytest
import torch
from conftest import mostly_slow
from factories.models import (
    small_gemma3,
    small_internvl,
    small_model,
    small_qwen2_5_vl,
    small_qwen3_vl,
    speckled_file,
)

from render_agent.dialogue import chat
from render_agent.engines.checkpoint.torchvision_compat import cure_torchvision
from render_agent.engines.engine import Request
from render_agent.engines.transformers.model.inputs import PromptBuilder
from render_agent.engines.transformers.model.vision_cache import VisionCache

FAMILIES = {
    "qwen3_vl": small_qwen3_vl,
    "qwen2_5_vl": small_qwen2_5_vl,
    "internvl": small_internvl,
    "gemma3": small_gemma3,
}
SHOWN = {
    "a": ["56x84-0.png", "96x64-1.png", "32x96-2.png"],
    "b": ["56x84-0.png", "64x64-3.png", "100x75-4.png"],
    "c": ["56x84-5.png", None, "50x133-6.png"],
    "d": [None, None, None],
}
"""What each question is shown on its turns; the first picture of a and b is that of their scene."""


class Model:
    """A real model with its inputs, and how many pictures or tiles its vision tower was shown."""

    def __init__(self, name, options=None):
        cure_torchvision()
        from transformers import AutoModelForImageTextToText, AutoProcessor

        directory = small_model(FAMILIES[name])
        self.inputs = PromptBuilder(AutoProcessor.from_pretrained(directory), name, options)
        self.model = AutoModelForImageTextToText.from_pretrained(directory).eval()
        self.model.generation_config.update(
            do_sample=False, temperature=None, top_p=None, top_k=None
        )
        self.seen = 0
        compute = self.model.model.get_image_features

        def counted(pixel_values, image_grid_thw=None, **more):
            self.seen += len(pixel_values if image_grid_thw is None else image_grid_thw)
            told = {} if image_grid_thw is None else {"image_grid_thw": image_grid_thw}
            return compute(pixel_values, **told, **more)

        self.model.model.get_image_features = counted

    def answer(self, requests, cache=None):
        """Return the tokens and the logits of replies to one batch."""
        prompts = [self.inputs.prepare(one) for one in requests]
        tensors = self.inputs.encode(prompts)
        owners = [(o.question_id, p.pixel_rows) for o, p in zip(requests, prompts, strict=True)]
        arguments = {
            "max_new_tokens": 5,
            "return_dict_in_generate": True,
            "output_logits": True,
            "eos_token_id": None,
        }
        with torch.inference_mode():
            if cache is None:
                given = self.model.generate(**tensors, **arguments)
            else:
                with cache.showing(owners):
                    given = self.model.generate(**tensors, **arguments)
        return given.sequences[:, tensors["input_ids"].shape[1] :], torch.stack(given.logits)


def turn_of(question, turn):
    messages = []
    for number, file in enumerate(SHOWN[question][: turn + 1]):
        pieces = [chat.text(f"{question}, turn {number}:")] + [chat.picture(file)] * bool(file)
        messages += [chat.message("user", *pieces), chat.assistant("left")]
    return Request(question, turn, messages[:-1], speckled_file)


@pytest.fixture(scope="module", params=mostly_slow(FAMILIES, "qwen3_vl", "internvl"))
def plain(request):
    """A model without a cache, and what it answers on three turns of all questions."""
    model = Model(request.param)
    answers = [model.answer([turn_of(question, turn) for question in SHOWN]) for turn in range(3)]
    return model, answers


def different(*turns):
    """Return how many different pictures are shown up to each turn, as the model is shown them."""
    return [
        len({file for files in SHOWN.values() for file in files[: turn + 1] if file})
        for turn in turns
    ]


def test_replies_are_the_same_to_the_bit_and_no_picture_is_looked_at_twice(plain):
    name = plain[0].inputs.family.model_types[0]
    model = Model(name)
    cache = VisionCache(model.model)
    for turn in range(3):
        ids, logits = model.answer([turn_of(question, turn) for question in SHOWN], cache)
        assert torch.equal(ids, plain[1][turn][0])
        assert torch.equal(logits, plain[1][turn][1])
        assert [model.seen] == different(turn)
    assert plain[0].seen > model.seen, "the same pictures, again and again"


def test_pictures_go_with_the_last_question_that_is_shown_them(plain):
    model = Model(plain[0].inputs.family.model_types[0])
    cache = VisionCache(model.model)
    model.answer([turn_of(question, 2) for question in SHOWN], cache)
    assert len(cache.kept) == different(2)[0] == 7
    assert cache.kept.bytes > 0
    cache.retire("a")
    assert len(cache.kept) == 5
    cache.retire("c")
    assert len(cache.kept) == 3
    cache.retire("d")
    model.answer([turn_of("b", 2)], cache)
    assert model.seen == 7
    cache.retire("b")
    assert (len(cache.kept), cache.kept.bytes) == (0, 0)


@pytest.mark.parametrize("room", mostly_slow([0, 1, 2.5, 4], 1))
def test_a_bounded_vision_cache_changes_no_reply(plain, room):
    model = Model(plain[0].inputs.family.model_types[0])
    whole = VisionCache(model.model)
    model.answer([turn_of("b", 0)], whole)
    limit = int(room * whole.kept.bytes)
    whole.close()
    cache = VisionCache(model.model, limit)
    for turn in range(3):
        ids, _ = model.answer([turn_of(question, turn) for question in SHOWN], cache)
        assert torch.equal(ids, plain[1][turn][0])
        assert cache.kept.bytes <= limit
    assert (cache.kept.bytes > 0) == (room > 0)


def test_unnamed_pictures_are_given_up_for_others(plain):
    model = Model(plain[0].inputs.family.model_types[0])
    cache = VisionCache(model.model)
    model.answer([turn_of("a", 2)], cache)
    cache.kept.limit = cache.kept.bytes
    for question in "bc":
        tensors = model.inputs.encode([model.inputs.prepare(turn_of(question, 2))])
        with torch.inference_mode():
            model.model.generate(**tensors, max_new_tokens=1)
    assert cache.kept.bytes <= cache.kept.limit
    seen = model.seen
    model.answer([turn_of("a", 2)], cache)
    assert model.seen == seen, "a question is still asking for them"


def test_a_closed_cache_leaves_the_model_as_it_was():
    model = Model("qwen3_vl")
    wrapped = model.model.model.get_image_features
    cache = VisionCache(model.model)
    assert model.model.model.get_image_features != wrapped
    cache.close()
    assert model.model.model.get_image_features == wrapped


def test_tiles_of_several_pictures_are_told_apart():
    model = Model("internvl", {"max_patches": 4})
    other = Model("internvl", {"max_patches": 4})
    cache = VisionCache(model.model)
    for turn in range(3):
        requests = [turn_of(question, turn) for question in SHOWN]
        assert torch.equal(model.answer(requests, cache)[0], other.answer(requests)[0])
    assert model.seen < other.seen
    for question in SHOWN:
        cache.retire(question)
    assert len(cache.kept) == 0
