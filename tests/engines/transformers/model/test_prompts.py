"""Prompts as token ids and their batches: what the model's own processor gives, without asking it again."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from conftest import test_data
from factories.models import (
    published_tokenizer,
    small_internvl,
    small_llava_onevision,
    small_model,
    small_qwen2_5_vl,
    small_qwen3_vl,
    speckled,
    speckled_file,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from render_agent.dialogue import chat
from render_agent.engines.checkpoint.torchvision_compat import cure_torchvision
from render_agent.engines.engine import Request
from render_agent.engines.families.model_families import family_of
from render_agent.engines.transformers.model.inputs import PromptBuilder

FAMILIES = {"qwen3_vl": small_qwen3_vl, "qwen2_5_vl": small_qwen2_5_vl, "internvl": small_internvl}
SIZES = [(32, 32), (56, 84), (100, 75), (50, 133), (160, 120), (28, 57)]


def processor_of(directory):
    cure_torchvision()
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(directory)


@pytest.fixture(scope="module", params=FAMILIES)
def inputs(request):
    processor = processor_of(small_model(FAMILIES[request.param]))
    return PromptBuilder(processor, request.param)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The vocabulary, the special tokens and the regular expression of the real Qwen3-VL."""
    tokenizer = published_tokenizer(test_data("qwen"))
    directory = small_qwen3_vl(tmp_path_factory.mktemp("published"), tokenizer=tokenizer)
    return PromptBuilder(processor_of(directory), "qwen3_vl")


def raw(words):
    """Return a piece of text as it is, special tokens and all."""
    return {"type": "text", "text": words}


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
    """Dialogues of 1–3 turns that show 0–3 pictures, text before, between and behind them."""
    pictures = draw(st.lists(FILES, max_size=3))
    messages = [chat.message("system", raw(draw(TEXTS)))]
    turns = draw(st.integers(1, 3))
    for turn in range(turns):
        shown = pictures if turn == turns - 1 else pictures[: draw(st.integers(0, len(pictures)))]
        pictures = pictures[len(shown) :]
        content = [raw(draw(TEXTS))]
        for file in shown:
            content += [chat.picture(file), raw(draw(TEXTS))]
        messages.append(chat.message("user", *content))
        if turn < turns - 1:
            messages.append(chat.message("assistant", raw(draw(TEXTS))))
    return Request("q", turns - 1, messages, speckled_file)


def files_of(request):
    pieces = [piece for message in request.messages for piece in message["content"]]
    return [piece["image"] for piece in pieces if piece["type"] == "image"]


def by_the_processor(inputs, prompts, requests, **options):
    """Return the tensors of a batch as the processor gives them that reads every picture."""
    nested = [[speckled_file(file) for file in files_of(one)] for one in requests]
    if any(nested):
        options["images"] = nested
    return inputs.processor(
        text=[prompt.text for prompt in prompts],
        padding=True,
        padding_side="left",
        return_tensors="pt",
        **options,
    )


def check_batch(inputs, requests, **options):
    prompts = [inputs.prepare(one) for one in requests]
    ours, theirs = inputs.encode(prompts), by_the_processor(inputs, prompts, requests, **options)
    assert set(ours) == set(theirs)
    for name in set(theirs) - {"pixel_values"}:
        assert torch.equal(ours[name], theirs[name]), name
    for row, prompt in enumerate(prompts):
        unpadded = theirs["input_ids"][row][theirs["attention_mask"][row].bool()]
        assert list(prompt.ids) == unpadded.tolist()
        image = inputs.processor.image_token_id
        for shown in prompt.shown:
            assert set(prompt.ids[shown.start : shown.start + shown.tokens]) == {image}
        assert sum(shown.tokens for shown in prompt.shown) == prompt.ids.count(image)
        assert [shown.file for shown in prompt.shown] == files_of(requests[row])
        assert prompt.picture_count == len(prompt.shown)
    return ours, theirs


@settings(max_examples=40)
@given(st.lists(dialogues(), min_size=1, max_size=3))
def test_prompts_are_token_for_token_what_the_processor_gives(inputs, requests):
    ours, theirs = check_batch(inputs, requests, **one_tile(inputs))
    if "pixel_values" in theirs and inputs.family is family_of("internvl"):
        assert torch.equal(ours["pixel_values"], theirs["pixel_values"])


@settings(max_examples=25)
@given(st.lists(dialogues(), min_size=1, max_size=2))
def test_prompts_are_what_the_processor_gives_with_the_published_tokenizer(published, requests):
    check_batch(published, requests)


def one_tile(inputs):
    return {"max_patches": 1} if inputs.family is family_of("internvl") else {}


def dialogue(*files, question="q", picture=speckled_file):
    """Return a request whose last turn shows the last picture."""
    turns = [
        message
        for file in files
        for message in (
            chat.message("user", chat.text("Look:"), chat.picture(file)),
            chat.assistant("left"),
        )
    ]
    return Request(question, len(files) - 1, turns[:-1], picture)


def test_the_pixels_are_those_that_the_processor_gives_for_scaled_pictures(inputs):
    request = dialogue("100x75-1.png", "32x32-2.png", "50x133-3.png")
    prompt = inputs.prepare(request)
    ours = inputs.encode([prompt])["pixel_values"]
    pictures = [speckled_file(file) for file in files_of(request)]
    options = one_tile(inputs)
    if inputs.family is not family_of("internvl"):
        pictures, options = [inputs.form.scaled(one) for one in pictures], {"do_resize": False}
    theirs = inputs.processor(
        text=[prompt.text], images=[pictures], return_tensors="pt", **options
    )["pixel_values"]
    assert torch.equal(ours, theirs)
    assert torch.equal(ours, torch.cat([shown.values()["pixel_values"] for shown in prompt.shown]))


@pytest.mark.parametrize("most", [1, 2, 5, 12])
def test_tiles_are_concatenated_and_as_many_as_were_asked_for(most):
    processor = processor_of(small_model(small_internvl))
    inputs = PromptBuilder(processor, "internvl", options={"max_patches": most})
    requests = [dialogue("160x120-1.png", "56x84-2.png"), dialogue("56x56-3.png")]
    ours, theirs = check_batch(inputs, requests, max_patches=most)
    assert torch.equal(ours["pixel_values"], theirs["pixel_values"])
    tiles = [
        len(shown.values()["pixel_values"])
        for one in requests
        for shown in inputs.prepare(one).shown
    ]
    assert len(ours["pixel_values"]) == sum(tiles)
    assert all(count <= most + (count > 1) for count in tiles)
    assert max(tiles) > 1 or most == 1


@pytest.mark.parametrize(
    "name", [*FAMILIES, "llava_onevision"], ids=lambda name: name.replace("_", "-")
)
@pytest.mark.parametrize("size", [*SIZES, (640, 480)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_cost_of_a_picture_is_known_without_reading_it(name, size):
    directory = small_model({**FAMILIES, "llava_onevision": small_llava_onevision}[name])
    processor = processor_of(directory)
    picture = speckled(*size)
    text, extra = [
        processor.apply_chat_template(
            [{"role": "user", "content": [*shown, {"type": "text", "text": "Look."}]}],
            tokenize=False,
        )
        for shown in ([{"type": "image"}], [])
    ]
    options = {"max_patches": 1} if name == "internvl" else {}
    shown = processor(text=[text], images=[picture], **options)["input_ids"][0]
    # A placeholder is one token of the text, and what the template writes around it stays.
    around = text.replace(processor.image_token, "")
    without = processor.tokenizer(around)["input_ids"]
    family = family_of(name)
    cost = family.picture_tokens(*size, processor)
    if family.pictures is None:
        assert cost == len(shown) - len(processor.tokenizer(extra)["input_ids"])
    else:
        assert cost == len(shown) - len(without)


def test_an_earlier_picture_is_read_once(inputs):
    read = Counter()

    def picture(file):
        read[file] += 1
        return speckled_file(file)

    fresh = PromptBuilder(inputs.processor, inputs.family.model_types[0])
    files = ["64x64-0.png", "96x64-1.png", "32x96-2.png"]
    prompts = [fresh.prepare(dialogue(*files[: stop + 1], picture=picture)) for stop in range(3)]
    assert read == dict.fromkeys(files, 1), "to know its size"
    tensors = [fresh.encode([prompt])["pixel_values"] for prompt in prompts]
    assert read == dict.fromkeys(files, 2), "and to get its pixels"
    assert (fresh.kept.hits, fresh.kept.misses) == (3, 3)
    assert torch.equal(tensors[2][: len(tensors[1])], tensors[1])
    kept = [part for shown in prompts[2].shown for part in shown.values().values()]
    assert fresh.kept.bytes == sum(part.nbytes for part in kept) >= tensors[2].nbytes


def test_kept_pixels_are_bounded_and_go_with_their_question(inputs):
    fresh = PromptBuilder(inputs.processor, inputs.family.model_types[0])
    questions = {
        name: fresh.prepare(dialogue("64x64-0.png", f"64x64-{seed}.png", question=name))
        for seed, name in enumerate("abcd", 1)
    }
    size = sum(part.nbytes for part in questions["a"].shown[0].values().values())
    fresh.kept.limit = 3 * size
    alone = {name: fresh.encode([prompt])["pixel_values"] for name, prompt in questions.items()}
    assert fresh.kept.bytes == 3 * size, "the picture of all, and those of the first two"
    fresh.kept.hits = fresh.kept.misses = 0
    for name, prompt in questions.items():
        assert torch.equal(fresh.encode([prompt])["pixel_values"], alone[name])
    assert (fresh.kept.hits, fresh.kept.misses) == (6, 2), "who has come later waits for room"
    fresh.retire("a")
    assert fresh.kept.bytes == 2 * size
    for name in "bcd":
        fresh.retire(name)
    assert (fresh.kept.bytes, len(fresh.kept)) == (0, 0)


def test_a_file_of_another_run_is_another_picture(inputs):
    ours = inputs.prepare(dialogue("64x64-0.png", picture=lambda file: speckled(64, 64, 8)))
    theirs = inputs.prepare(dialogue("64x64-0.png", picture=lambda file: speckled(96, 64, 9)))
    small = torch.cat([shown.values()["pixel_values"] for shown in ours.shown])
    large = torch.cat([shown.values()["pixel_values"] for shown in theirs.shown])
    assert small.shape != large.shape or not torch.equal(small, large)


def test_prompts_may_be_prepared_side_by_side(inputs):
    requests = [dialogue("64x64-0.png", f"96x64-{seed}.png") for seed in range(16)]
    alone = [inputs.prepare(one).ids for one in requests]
    with ThreadPoolExecutor(8) as pool:
        assert [prompt.ids for prompt in pool.map(inputs.prepare, requests * 4)] == alone * 4


@pytest.mark.parametrize("which", ["image_token", "video_token"])
def test_a_placeholder_that_texts_make_together_is_refused(inputs, which):
    token = getattr(inputs.processor, which)
    pieces = [raw(f"Look at {token[:5]}"), raw(f"{token[5:]}!"), chat.picture("32x32-0.png")]
    with pytest.raises(ValueError, match="stands for a"):
        inputs.prepare(Request("q", 0, [chat.message("user", *pieces)], speckled_file))
