"""Batch equals singles for every family that one engine class serves, in float32, however ragged."""

import pytest
from conftest import mostly_slow
from factories.models import (
    small_gemma3,
    small_internvl,
    small_llava_onevision,
    small_model,
    small_qwen2_5_vl,
    small_qwen3_vl,
    speckled_file,
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
SHOWN = ([], [1], [0, 2], [1, 1, 1], [3, 0], [0, 0, 0], [2, 0, 1])
"""How many pictures each dialogue shows on each of its turns; the first asks without any."""


def opened(name, **options):
    directory = str(small_model(FAMILIES[name]))
    return open_model(directory, dtype="float32", device="cpu", options=options)


@pytest.fixture(scope="module", params=mostly_slow(FAMILIES, "qwen3_vl", "internvl"))
def engine(request):
    return TransformersEngine(opened(request.param), batch_size=64)


def asked(number, shown, length=8):
    """Return what the last turn of one dialogue asks."""
    messages = [chat.message("system", chat.text("Explore the room."))]
    for turn, count in enumerate(shown or [0]):
        if turn:
            messages.append(chat.assistant('{"rotation_angle_degrees": 45}'))
        files = [f"{SIZES[(number + n) % 4]}-{10 * number + turn + n}.png" for n in range(count)]
        words = chat.text("Where is the chair? " * (1 + (number + turn) % 3))
        messages.append(chat.message("user", words, *map(chat.picture, files)))
    return Request(f"q{number}", len(shown), messages, speckled_file, max_new_tokens=length)


MIXED = [asked(number, shown) for number, shown in enumerate(SHOWN)]


def test_a_ragged_batch_gives_what_each_gives_alone(engine):
    alone = [engine.generate([single])[0] for single in MIXED]
    together = engine.generate(MIXED)
    assert [reply.error for reply in alone] == [None] * len(MIXED)
    assert [reply.samples for reply in together] == [reply.samples for reply in alone]
    assert [reply.tokens for reply in together] == [reply.tokens for reply in alone]
    assert {reply.batch_size for reply in together} == {len(MIXED)}
    assert len({reply.text for reply in together}) > len(MIXED) // 2, "the dialogues matter"


def test_rows_that_retire_change_nothing_for_the_others(engine):
    expected = [engine.generate([single])[0].text for single in MIXED]
    for kept in ([0, 2, 3, 6], [3, 6], [6]):
        for place in set(range(len(MIXED))) - set(kept):
            engine.retire(MIXED[place].question_id)
        replies = engine.generate([MIXED[place] for place in kept])
        assert [reply.text for reply in replies] == [expected[place] for place in kept]


def test_a_picture_changes_the_reply(engine):
    def showing(file):
        message = chat.message("user", chat.text("What is this?"), chat.picture(file))
        return Request("q", 0, [message], speckled_file, max_new_tokens=8)

    replies = engine.generate([showing("64x64-1.png"), showing("64x64-2.png")])
    assert replies[0].text != replies[1].text
    assert replies[0].tokens.prompt == replies[1].tokens.prompt


def test_more_tiles_cost_more_tokens():
    few, many = (
        TransformersEngine(opened("internvl", **options), batch_size=8)
        for options in ({}, {"max_patches": 6})
    )
    (one,), (tiled,) = few.generate([MIXED[1]]), many.generate([MIXED[1]])
    assert tiled.tokens.prompt - one.tokens.prompt in {4 * tiles for tiles in range(2, 7)}
    assert many.generate(MIXED)[1].text == tiled.text


@pytest.mark.parametrize(
    ("name", "option"), [("internvl", "min_pixels"), ("qwen3_vl", "max_patches")]
)
def test_an_option_of_another_family_is_refused(name, option):
    with pytest.raises(SetupError, match=option):
        opened(name, **{option: 4})
