"""Batched replies equal single ones for every family, in float32, with prompts of different lengths."""

import pytest
from conftest import mostly_slow
from factories.models import (
    load_random_image,
    small_gemma3,
    small_internvl,
    small_llava_onevision,
    small_model,
    small_qwen2_5_vl,
    small_qwen3_vl,
)

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import open_model
from render_agent.errors import SetupError

FAMILIES = {
    "qwen3_vl": small_qwen3_vl,
    "qwen2_5_vl": small_qwen2_5_vl,
    "internvl": small_internvl,
    "gemma3": small_gemma3,
    "llava_onevision": small_llava_onevision,
}
SIZES = ("32x32", "96x64", "64x128", "50x70")
# Images per turn of each dialogue.
IMAGE_COUNTS = ([], [1], [0, 2], [1, 1, 1], [3, 0], [0, 0, 0], [2, 0, 1])


def load(name, **options):
    directory = str(small_model(FAMILIES[name]))
    return open_model(directory, dtype="float32", device="cpu", options=options)


@pytest.fixture(scope="module", params=mostly_slow(FAMILIES, "qwen3_vl", "internvl"))
def engine(request):
    return TransformersEngine(load(request.param), batch_size=64)


def make_request(number, counts, length=8):
    """Return the request of the last turn of a dialogue."""
    messages = [chat.message("system", chat.text("Explore the room."))]
    for turn, count in enumerate(counts or [0]):
        if turn:
            messages.append(chat.assistant('{"rotation_angle_degrees": 45}'))
        files = [f"{SIZES[(number + n) % 4]}-{10 * number + turn + n}.png" for n in range(count)]
        words = chat.text("Where is the chair? " * (1 + (number + turn) % 3))
        messages.append(chat.message("user", words, *map(chat.image_piece, files)))
    return Request(f"q{number}", len(counts), messages, load_random_image, max_new_tokens=length)


MIXED = [make_request(number, counts) for number, counts in enumerate(IMAGE_COUNTS)]


def test_batch_with_different_lengths_equals_single_requests(engine):
    single = [engine.generate([request])[0] for request in MIXED]
    batched = engine.generate(MIXED)
    assert [reply.error for reply in single] == [None] * len(MIXED)
    assert [reply.samples for reply in batched] == [reply.samples for reply in single]
    assert [reply.tokens for reply in batched] == [reply.tokens for reply in single]
    assert {reply.batch_size for reply in batched} == {len(MIXED)}
    assert len({reply.text for reply in batched}) > len(MIXED) // 2, "replies depend on the prompt"


def test_retired_questions_do_not_affect_the_others(engine):
    expected = [engine.generate([request])[0].text for request in MIXED]
    for active in ([0, 2, 3, 6], [3, 6], [6]):
        for index in set(range(len(MIXED))) - set(active):
            engine.retire(MIXED[index].dialogue_id)
        replies = engine.generate([MIXED[index] for index in active])
        assert [reply.text for reply in replies] == [expected[index] for index in active]


def test_reply_depends_on_the_image(engine):
    def request(file):
        message = chat.message("user", chat.text("What is this?"), chat.image_piece(file))
        return Request("q", 0, [message], load_random_image, max_new_tokens=8)

    replies = engine.generate([request("64x64-1.png"), request("64x64-2.png")])
    assert replies[0].text != replies[1].text
    assert replies[0].tokens.prompt == replies[1].tokens.prompt


def test_more_tiles_take_more_tokens():
    few, many = (
        TransformersEngine(load("internvl", **options), batch_size=8)
        for options in ({}, {"max_patches": 6})
    )
    (untiled,), (tiled,) = few.generate([MIXED[1]]), many.generate([MIXED[1]])
    assert tiled.tokens.prompt - untiled.tokens.prompt in {4 * tiles for tiles in range(2, 7)}
    assert many.generate(MIXED)[1].text == tiled.text


@pytest.mark.parametrize(
    ("name", "option"), [("internvl", "min_pixels"), ("qwen3_vl", "max_patches")]
)
def test_option_of_another_family_is_rejected(name, option):
    with pytest.raises(SetupError, match=option):
        load(name, **{option: 4})
