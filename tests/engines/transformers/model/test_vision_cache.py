"""A vision cache changes only how often the vision tower is called."""

import pytest
import torch
from conftest import mostly_slow
from factories.models import (
    load_random_image,
    small_gemma3,
    small_internvl,
    small_model,
    small_qwen2_5_vl,
    small_qwen3_vl,
)

from render_agent.dialogue import chat
from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision
from render_agent.engines.engine import Request
from render_agent.engines.transformers.model.inputs import PromptBuilder
from render_agent.engines.transformers.model.vision_cache import VisionCache

FAMILIES = {
    "qwen3_vl": small_qwen3_vl,
    "qwen2_5_vl": small_qwen2_5_vl,
    "internvl": small_internvl,
    "gemma3": small_gemma3,
}
# Image of each turn by question; the first image of a and b is the same.
IMAGES = {
    "a": ["56x84-0.png", "96x64-1.png", "32x96-2.png"],
    "b": ["56x84-0.png", "64x64-3.png", "100x75-4.png"],
    "c": ["56x84-5.png", None, "50x133-6.png"],
    "d": [None, None, None],
}


class Model:
    """A real model with its inputs, which counts the images or tiles that its vision tower computes."""

    def __init__(self, name, options=None):
        patch_torchvision()
        from transformers import AutoModelForImageTextToText, AutoProcessor

        directory = small_model(FAMILIES[name])
        self.inputs = PromptBuilder(AutoProcessor.from_pretrained(directory), name, options)
        self.model = AutoModelForImageTextToText.from_pretrained(directory).eval()
        self.model.generation_config.update(
            do_sample=False, temperature=None, top_p=None, top_k=None
        )
        self.num_computed = 0
        compute = self.model.model.get_image_features

        def counted_features(pixel_values, image_grid_thw=None, **more):
            self.num_computed += len(pixel_values if image_grid_thw is None else image_grid_thw)
            grid = {} if image_grid_thw is None else {"image_grid_thw": image_grid_thw}
            return compute(pixel_values, **grid, **more)

        self.model.model.get_image_features = counted_features

    def answer(self, requests, cache=None):
        """Return the tokens and the logits of the replies to one batch."""
        prompts = [self.inputs.prepare(one) for one in requests]
        tensors = self.inputs.encode(prompts)
        owners = [(o.dialogue_id, p.pixel_rows) for o, p in zip(requests, prompts, strict=True)]
        arguments = {
            "max_new_tokens": 5,
            "return_dict_in_generate": True,
            "output_logits": True,
            "eos_token_id": None,
        }
        with torch.inference_mode():
            if cache is None:
                output = self.model.generate(**tensors, **arguments)
            else:
                with cache.owned_by(owners):
                    output = self.model.generate(**tensors, **arguments)
        return output.sequences[:, tensors["input_ids"].shape[1] :], torch.stack(output.logits)


def turn_of(question, turn):
    messages = []
    for number, file in enumerate(IMAGES[question][: turn + 1]):
        pieces = [chat.text(f"{question}, turn {number}:")] + [chat.image_piece(file)] * bool(file)
        messages += [chat.message("user", *pieces), chat.assistant("left")]
    return Request(question, turn, messages[:-1], load_random_image)


@pytest.fixture(scope="module", params=mostly_slow(FAMILIES, "qwen3_vl", "internvl"))
def plain(request):
    """A model without a cache, and its replies in three turns of all questions."""
    model = Model(request.param)
    answers = [model.answer([turn_of(question, turn) for question in IMAGES]) for turn in range(3)]
    return model, answers


def count_distinct(*turns):
    """Return the number of distinct images up to each turn."""
    return [
        len({file for files in IMAGES.values() for file in files[: turn + 1] if file})
        for turn in turns
    ]


def test_replies_are_bit_identical_and_no_image_is_computed_twice(plain):
    name = plain[0].inputs.family.model_types[0]
    model = Model(name)
    cache = VisionCache(model.model)
    for turn in range(3):
        ids, logits = model.answer([turn_of(question, turn) for question in IMAGES], cache)
        assert torch.equal(ids, plain[1][turn][0])
        assert torch.equal(logits, plain[1][turn][1])
        assert [model.num_computed] == count_distinct(turn)
    assert plain[0].num_computed > model.num_computed, (
        "without a cache, images are computed repeatedly"
    )


def test_features_are_dropped_with_their_last_question(plain):
    model = Model(plain[0].inputs.family.model_types[0])
    cache = VisionCache(model.model)
    model.answer([turn_of(question, 2) for question in IMAGES], cache)
    assert len(cache.entries) == count_distinct(2)[0] == 7
    assert cache.entries.bytes > 0
    cache.retire("a")
    assert len(cache.entries) == 5
    cache.retire("c")
    assert len(cache.entries) == 3
    cache.retire("d")
    model.answer([turn_of("b", 2)], cache)
    assert model.num_computed == 7
    cache.retire("b")
    assert (len(cache.entries), cache.entries.bytes) == (0, 0)


@pytest.mark.parametrize("share", mostly_slow([0, 1, 2.5, 4], 1))
def test_limited_cache_does_not_change_replies(plain, share):
    model = Model(plain[0].inputs.family.model_types[0])
    unlimited = VisionCache(model.model)
    model.answer([turn_of("b", 0)], unlimited)
    limit = int(share * unlimited.entries.bytes)
    unlimited.close()
    cache = VisionCache(model.model, limit)
    for turn in range(3):
        ids, _ = model.answer([turn_of(question, turn) for question in IMAGES], cache)
        assert torch.equal(ids, plain[1][turn][0])
        assert cache.entries.bytes <= limit
    assert (cache.entries.bytes > 0) == (share > 0)


def test_images_without_an_owner_are_evicted(plain):
    model = Model(plain[0].inputs.family.model_types[0])
    cache = VisionCache(model.model)
    model.answer([turn_of("a", 2)], cache)
    cache.entries.limit = cache.entries.bytes
    for question in "bc":
        tensors = model.inputs.encode([model.inputs.prepare(turn_of(question, 2))])
        with torch.inference_mode():
            model.model.generate(**tensors, max_new_tokens=1)
    assert cache.entries.bytes <= cache.entries.limit
    num_computed = model.num_computed
    model.answer([turn_of("a", 2)], cache)
    assert model.num_computed == num_computed, "images with an owner are kept"


def test_closing_restores_the_model():
    model = Model("qwen3_vl")
    wrapped = model.model.model.get_image_features
    cache = VisionCache(model.model)
    assert model.model.model.get_image_features != wrapped
    cache.close()
    assert model.model.model.get_image_features == wrapped


def test_cache_distinguishes_the_tiles_of_several_images():
    model = Model("internvl", {"max_patches": 4})
    other = Model("internvl", {"max_patches": 4})
    cache = VisionCache(model.model)
    for turn in range(3):
        requests = [turn_of(question, turn) for question in IMAGES]
        assert torch.equal(model.answer(requests, cache)[0], other.answer(requests)[0])
    assert model.num_computed < other.num_computed
    for question in IMAGES:
        cache.retire(question)
    assert len(cache.entries) == 0
