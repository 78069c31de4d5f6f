"""Prompts are in the published ChatML format, and pixels equal those of the library's processor."""

import pytest
import torch
from conftest import test_data
from factories.dialogues import load_transformers_engine
from factories.models import (
    load_random_image,
    published_tokenizer,
    random_image,
    small_model,
    small_qwen3_vl,
)

from render_agent.dialogue import chat
from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision
from render_agent.engines.engine import Request
from render_agent.engines.transformers.model.inputs import PromptBuilder

CHATML = """\
<|im_start|>system
Explore.<|im_end|>
<|im_start|>user
How many?View 0 (top):<|vision_start|><|image_pad|><|vision_end|>View 1 (ego):\
<|vision_start|><|image_pad|><|vision_end|><|im_end|>
<|im_start|>assistant
{"rotation_angle_degrees": 45}<|im_end|>
<|im_start|>user
You turned.<|vision_start|><|image_pad|><|vision_end|><|im_end|>
<|im_start|>assistant
"""


@pytest.fixture(scope="module")
def processor():
    directory = small_model()
    patch_torchvision()
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(directory)


@pytest.fixture(scope="module")
def inputs(processor):
    return PromptBuilder(processor, "qwen3_vl")


def request(files=("64x64-0.png", "96x64-1.png", "32x96-2.png"), load_image=load_random_image):
    first, second, third = map(chat.image_piece, files)
    messages = [
        chat.message("system", chat.text("Explore.")),
        chat.message(
            "user",
            chat.text("How many?"),
            chat.text("View 0 (top):"),
            first,
            chat.text("View 1 (ego):"),
            second,
        ),
        chat.assistant('{"rotation_angle_degrees": 45}'),
        chat.message("user", chat.text("You turned."), third),
    ]
    return Request("q", 1, messages, load_image)


def test_dialogue_is_rendered_as_chatml(inputs):
    assert inputs.prepare(request()).text == CHATML


def test_images_with_transparency_or_grey_levels_become_rgb(inputs):
    def other_mode(file):
        return load_random_image(file).convert("RGBA" if "-1" in file else "L")

    def rgb(file):
        return other_mode(file).convert("RGB")

    for ours, theirs in zip(
        inputs.prepare(request(load_image=other_mode)).images,
        inputs.prepare(request(load_image=rgb)).images,
        strict=True,
    ):
        assert torch.equal(ours.values()["pixel_values"], theirs.values()["pixel_values"])


def image_request(image):
    """Return a request with one image and no text."""
    messages = [chat.message("user", chat.image_piece("it.png"))]
    return Request("q", 0, messages, lambda _: image)


@pytest.mark.parametrize("size", [(100, 75), (50, 333), (801, 599)])
def test_resized_image_has_the_same_grid_and_nearly_the_same_pixels(inputs, processor, size):
    """For a smooth image, the interpolations of Pillow and torchvision differ by at most 2 of 255 grey levels."""
    image = random_image(*size).reduce(8).resize(size)
    prompt = inputs.prepare(image_request(image))
    ours = inputs.encode([prompt])
    theirs = processor(text=[prompt.text], images=[image], return_tensors="pt")
    assert torch.equal(ours["image_grid_thw"], theirs["image_grid_thw"])
    assert torch.equal(ours["input_ids"], theirs["input_ids"])
    assert (ours["pixel_values"] - theirs["pixel_values"]).abs().max() <= 2.01 * 2 / 255


def test_image_area_can_be_limited(processor):
    limits = {"min_pixels": 64 * 64, "max_pixels": 96 * 96}
    limited = PromptBuilder(processor, "qwen3_vl", options=limits)
    large, small = (
        limited.prepare(image_request(image)).images[0]
        for image in (random_image(640, 480), random_image(32, 32))
    )
    assert large.tokens <= 9
    assert small.grid == (1, 4, 4)
    assert len(large.values()["pixel_values"]) == 4 * large.tokens
    assert len(small.values()["pixel_values"]) == 16


@pytest.mark.slow
def test_batch_equals_single_requests_with_the_published_tokenizer(tmp_path):
    """With the vocabulary, special tokens and regular expression of the real Qwen3-VL."""
    published = test_data("qwen")
    patch_torchvision()
    directory = small_qwen3_vl(tmp_path, tokenizer=published_tokenizer(published))
    engine = load_transformers_engine(str(directory), device="cpu")
    dialogues = [request(), request(("32x32-1.png", "64x32-2.png", "32x64-3.png"))]
    requests = [
        Request("q", 1, dialogue.messages[:stop], dialogue.load_image, max_new_tokens=4)
        for dialogue in dialogues
        for stop in (2, 4)
    ]
    single = [engine.generate([request])[0].text for request in requests]
    assert [reply.text for reply in engine.generate(requests)] == single
    assert engine.loaded.ends == [151645, 151643]
    assert set(range(151652, 151657)) == set(engine.loaded.suppressed)
    assert engine.inputs.prepare(request()).text == CHATML
