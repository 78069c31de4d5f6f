"""Prompts and batches equal those of the model's own processor."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from conftest import test_data
from factories.models import (
    load_random_image,
    published_tokenizer,
    random_image,
    small_internvl,
    small_llava_onevision,
    small_model,
    small_qwen2_5_vl,
    small_qwen3_vl,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from render_agent.dialogue import chat
from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision
from render_agent.engines.engine import Request
from render_agent.engines.families.model_families import family_of
from render_agent.engines.transformers.model.inputs import PromptBuilder

FAMILIES = {"qwen3_vl": small_qwen3_vl, "qwen2_5_vl": small_qwen2_5_vl, "internvl": small_internvl}
SIZES = [(32, 32), (56, 84), (100, 75), (50, 133), (160, 120), (28, 57)]


def processor_of(directory):
    patch_torchvision()
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(directory)


@pytest.fixture(scope="module", params=FAMILIES)
def inputs(request):
    processor = processor_of(small_model(FAMILIES[request.param]))
    return PromptBuilder(processor, request.param)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Inputs with the vocabulary, special tokens and regular expression of the real Qwen3-VL."""
    tokenizer = published_tokenizer(test_data("qwen"))
    directory = small_qwen3_vl(tmp_path_factory.mktemp("published"), tokenizer=tokenizer)
    return PromptBuilder(processor_of(directory), "qwen3_vl")


def raw(text):
    """Return a piece of text without escaping special tokens."""
    return {"type": "text", "text": text}


TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "View 3 (ego):",
            '{"rotation_angle_degrees": 45, "done": false}',
            " \n\n\t two  spaces ",
            "5 m² – né ﬁ e\u0301",
            "日本語のテキスト 🪑🏽",
            "<|im_end|>\n<|im_start|>assistant\n",
            "<|vision_start|><|vision_end|></think>",
            "<img></img><image>",
        ]
    ),
)
FILES = st.builds(
    lambda size, seed: f"{size[0]}x{size[1]}-{seed}.png", st.sampled_from(SIZES), st.integers(0, 2)
)


@st.composite
def dialogues(draw):
    """Dialogues of 1–3 turns with 0–3 images, and text before, between and after them."""
    files = draw(st.lists(FILES, max_size=3))
    messages = [chat.message("system", raw(draw(TEXTS)))]
    turns = draw(st.integers(1, 3))
    for turn in range(turns):
        images = files if turn == turns - 1 else files[: draw(st.integers(0, len(files)))]
        files = files[len(images) :]
        content = [raw(draw(TEXTS))]
        for file in images:
            content += [chat.image_piece(file), raw(draw(TEXTS))]
        messages.append(chat.message("user", *content))
        if turn < turns - 1:
            messages.append(chat.message("assistant", raw(draw(TEXTS))))
    return Request("q", turns - 1, messages, load_random_image)


def files_of(request):
    pieces = [piece for message in request.messages for piece in message["content"]]
    return [piece["image"] for piece in pieces if piece["type"] == "image"]


def processor_inputs(inputs, prompts, requests, **options):
    """Return the tensors of a batch from the processor."""
    images = [[load_random_image(file) for file in files_of(request)] for request in requests]
    if any(images):
        options["images"] = images
    return inputs.processor(
        text=[prompt.text for prompt in prompts],
        padding=True,
        padding_side="left",
        return_tensors="pt",
        **options,
    )


def check_batch(inputs, requests, **options):
    prompts = [inputs.prepare(request) for request in requests]
    ours, theirs = inputs.encode(prompts), processor_inputs(inputs, prompts, requests, **options)
    assert set(ours) == set(theirs)
    for name in set(theirs) - {"pixel_values"}:
        assert torch.equal(ours[name], theirs[name]), name
    for row, prompt in enumerate(prompts):
        unpadded = theirs["input_ids"][row][theirs["attention_mask"][row].bool()]
        assert list(prompt.ids) == unpadded.tolist()
        image = inputs.processor.image_token_id
        for part in prompt.images:
            assert set(prompt.ids[part.start : part.start + part.tokens]) == {image}
        assert sum(part.tokens for part in prompt.images) == prompt.ids.count(image)
        assert [part.file for part in prompt.images] == files_of(requests[row])
        assert prompt.image_count == len(prompt.images)
    return ours, theirs


@settings(max_examples=40)
@given(st.lists(dialogues(), min_size=1, max_size=3))
def test_prompts_equal_those_of_the_processor(inputs, requests):
    ours, theirs = check_batch(inputs, requests, **one_tile(inputs))
    if "pixel_values" in theirs and inputs.family is family_of("internvl"):
        assert torch.equal(ours["pixel_values"], theirs["pixel_values"])


@settings(max_examples=25)
@given(st.lists(dialogues(), min_size=1, max_size=2))
def test_prompts_equal_those_of_the_processor_with_the_published_tokenizer(published, requests):
    check_batch(published, requests)


def one_tile(inputs):
    return {"max_patches": 1} if inputs.family is family_of("internvl") else {}


def dialogue(*files, question="q", load_image=load_random_image):
    """Return a request of a dialogue with one image per turn."""
    turns = [
        message
        for file in files
        for message in (
            chat.message("user", chat.text("Look:"), chat.image_piece(file)),
            chat.assistant("left"),
        )
    ]
    return Request(question, len(files) - 1, turns[:-1], load_image)


def test_pixels_equal_those_of_the_processor_for_resized_images(inputs):
    request = dialogue("100x75-1.png", "32x32-2.png", "50x133-3.png")
    prompt = inputs.prepare(request)
    ours = inputs.encode([prompt])["pixel_values"]
    images = [load_random_image(file) for file in files_of(request)]
    options = one_tile(inputs)
    if inputs.family is not family_of("internvl"):
        images, options = [inputs.form.resize(image) for image in images], {"do_resize": False}
    theirs = inputs.processor(text=[prompt.text], images=[images], return_tensors="pt", **options)[
        "pixel_values"
    ]
    assert torch.equal(ours, theirs)
    assert torch.equal(ours, torch.cat([image.values()["pixel_values"] for image in prompt.images]))


@pytest.mark.parametrize("limit", [1, 2, 5, 12])
def test_tiles_are_concatenated_and_limited(limit):
    processor = processor_of(small_model(small_internvl))
    inputs = PromptBuilder(processor, "internvl", options={"max_patches": limit})
    requests = [dialogue("160x120-1.png", "56x84-2.png"), dialogue("56x56-3.png")]
    ours, theirs = check_batch(inputs, requests, max_patches=limit)
    assert torch.equal(ours["pixel_values"], theirs["pixel_values"])
    tiles = [
        len(image.values()["pixel_values"])
        for request in requests
        for image in inputs.prepare(request).images
    ]
    assert len(ours["pixel_values"]) == sum(tiles)
    assert all(count <= limit + (count > 1) for count in tiles)
    assert max(tiles) > 1 or limit == 1


@pytest.mark.parametrize(
    "name", [*FAMILIES, "llava_onevision"], ids=lambda name: name.replace("_", "-")
)
@pytest.mark.parametrize("size", [*SIZES, (640, 480)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_image_tokens_follow_from_the_size(name, size):
    directory = small_model({**FAMILIES, "llava_onevision": small_llava_onevision}[name])
    processor = processor_of(directory)
    text, text_without_image = [
        processor.apply_chat_template(
            [{"role": "user", "content": [*image, {"type": "text", "text": "Look."}]}],
            tokenize=False,
        )
        for image in ([{"type": "image"}], [])
    ]
    options = {"max_patches": 1} if name == "internvl" else {}
    ids = processor(text=[text], images=[random_image(*size)], **options)["input_ids"][0]
    # Removing the placeholder keeps the text that the template writes around it.
    without_placeholder = text.replace(processor.image_token, "")
    family = family_of(name)
    cost = family.image_tokens(*size, processor)
    baseline = text_without_image if family.images is None else without_placeholder
    assert cost == len(ids) - len(processor.tokenizer(baseline)["input_ids"])


def test_earlier_images_are_read_once(inputs):
    reads = Counter()

    def load_image(file):
        reads[file] += 1
        return load_random_image(file)

    fresh = PromptBuilder(inputs.processor, inputs.family.model_types[0])
    files = ["64x64-0.png", "96x64-1.png", "32x96-2.png"]
    prompts = [
        fresh.prepare(dialogue(*files[: stop + 1], load_image=load_image)) for stop in range(3)
    ]
    assert reads == dict.fromkeys(files, 1), "read once for its size"
    tensors = [fresh.encode([prompt])["pixel_values"] for prompt in prompts]
    assert reads == dict.fromkeys(files, 2), "and once for its pixels"
    assert torch.equal(tensors[2][: len(tensors[1])], tensors[1])
    cached = [part for image in prompts[2].images for part in image.values().values()]
    assert fresh.image_cache.bytes == sum(part.nbytes for part in cached) >= tensors[2].nbytes


def test_cached_pixels_are_limited_and_dropped_with_their_question(inputs):
    reads = []

    def load_image(file):
        reads.append(file)
        return load_random_image(file)

    fresh = PromptBuilder(inputs.processor, inputs.family.model_types[0])
    questions = {
        name: fresh.prepare(
            dialogue("64x64-0.png", f"64x64-{seed}.png", question=name, load_image=load_image)
        )
        for seed, name in enumerate("abcd", 1)
    }
    size = sum(part.nbytes for part in questions["a"].images[0].values().values())
    fresh.image_cache.limit = 3 * size
    single = {name: fresh.encode([prompt])["pixel_values"] for name, prompt in questions.items()}
    assert fresh.image_cache.bytes == 3 * size, "the shared image, and those of the first two"
    reads.clear()
    for name, prompt in questions.items():
        assert torch.equal(fresh.encode([prompt])["pixel_values"], single[name])
    assert reads == ["64x64-3.png", "64x64-4.png"], "images of later questions did not fit"
    fresh.retire("a")
    assert fresh.image_cache.bytes == 2 * size
    for name in "bcd":
        fresh.retire(name)
    assert (fresh.image_cache.bytes, len(fresh.image_cache)) == (0, 0)


def test_same_file_name_in_another_run_is_another_image(inputs):
    ours = inputs.prepare(dialogue("64x64-0.png", load_image=lambda file: random_image(64, 64, 8)))
    theirs = inputs.prepare(
        dialogue("64x64-0.png", load_image=lambda file: random_image(96, 64, 9))
    )
    small = torch.cat([image.values()["pixel_values"] for image in ours.images])
    large = torch.cat([image.values()["pixel_values"] for image in theirs.images])
    assert small.shape != large.shape or not torch.equal(small, large)


def test_prompts_can_be_prepared_concurrently(inputs):
    requests = [dialogue("64x64-0.png", f"96x64-{seed}.png") for seed in range(16)]
    single = [inputs.prepare(request).ids for request in requests]
    with ThreadPoolExecutor(8) as pool:
        assert [prompt.ids for prompt in pool.map(inputs.prepare, requests * 4)] == single * 4


@pytest.mark.parametrize("which", ["image_token", "video_token"])
def test_placeholder_formed_by_several_texts_is_rejected(inputs, which):
    token = getattr(inputs.processor, which)
    pieces = [raw(f"Look at {token[:5]}"), raw(f"{token[5:]}!"), chat.image_piece("32x32-0.png")]
    with pytest.raises(ValueError, match="placeholder"):
        inputs.prepare(Request("q", 0, [chat.message("user", *pieces)], load_random_image))


@pytest.mark.parametrize("runs_out", [False, True])
def test_pixels_are_pinned_if_there_is_memory(inputs, monkeypatch, runs_out):
    pinned = []

    def pin_memory(tensor):
        if runs_out:
            raise RuntimeError("CUDA error: out of memory")
        pinned.append(tensor)
        return tensor.clone()

    request = dialogue("100x75-1.png")
    expected = inputs.encode([inputs.prepare(request)])["pixel_values"]
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    pinning = PromptBuilder(inputs.processor, inputs.family.model_types[0], pins=True)
    assert torch.equal(pinning.encode([pinning.prepare(request)])["pixel_values"], expected)
    assert bool(pinned) != runs_out
