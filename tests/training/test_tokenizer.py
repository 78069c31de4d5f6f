"""The small model's tokenizer and processor: lossless, compact for fixed texts, compatible with guided decoding."""

import hashlib
import os
import subprocess
import sys
from functools import cache

import pytest
from factories import TREE
from factories.models import random_image, small_config
from factories.replies import reply_schema
from hypothesis import given, settings
from hypothesis import strategies as st

from render_agent.dialogue.chat import message, text
from render_agent.dialogue.prompt import Prompt
from render_agent.engines.families.images import QwenImages
from render_agent.engines.transformers.constrained_decoding import Guides
from training.phrases import LABELS, numbers
from training.processor import CHAT_TEMPLATE, HEIGHT, IMAGE_TOKENS, WIDTH, save_processor
from training.tokenizer import SPECIAL_TOKENS, small_tokenizer
from training.wording import small_wording

# Replies of the small model. Under a guide every reply has `answer` and `done`.
REPLIES = [
    '{"reasoning": "sofa 1.2 3.4; tv stand ?; clock ?", "rotation_angle_degrees": 75, "answer": null, "done": false}',
    '{"reasoning": "tv stand ?", "rotation_angle_degrees": -75, "forward_meters": 1.5, "answer": null, "done": false}',
    '{"reasoning": "chair 1.2 3.4, -2.2 3.1", "view": "around", "answer": null, "done": false}',
    '{"reasoning": "sofa 1.2 3.4; tv stand 0.4 2.0; clock 3.0 0.1. tv stand 240, clock 120: 120 right", "answer": "B", "done": true}',
    '{"reasoning": "bed 1.2 3.4; door 0.4 2.0. apart 2.3", "answer": "2.1", "done": true}',
    '{"reasoning": "chair 1.2 3.4, 2.2 0.1. 2 seen", "answer": 2, "done": true}',
    '{"reasoning": "room 4.2 x 4.0, 3.1 x 2.2", "answer": "24.1", "done": true}',
    '{"reasoning": "door 1.0 2.0. facing 230, bed 140: right; facing 140, sink 320: back", "answer": "A", "done": true}',
    '{"reasoning": "", "answer": "B", "done": true}',
]

REJECTED = [
    '{"reasoning": "sofa ?", "view": "map"',
    '{"reasoning": "sofa ?", "rotation_angle_degrees": 181,',
    '{"answer": "B"',
    '{"reasoning": "sofa ?", "done": true}',
    "sofa 1.2",
]


@cache
def tokenizer():
    return small_tokenizer()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a folder like the shipped one, without weights."""
    directory = tmp_path_factory.mktemp("small")
    processor = save_processor(directory)
    small_config(processor.tokenizer).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def processor(saved):
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(saved, local_files_only=True)


def encode(text):
    return tokenizer()(text)["input_ids"]


def pieces(text):
    return [tokenizer().decode([number]) for number in encode(text)]


@pytest.mark.slow
def test_tokenizer_is_small_and_deterministic():
    assert len(tokenizer()) <= 2000
    script = "from training.tokenizer import small_tokenizer as build; print(build().backend_tokenizer.to_str())"
    other_process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=TREE,
        env={**os.environ, "PYTHONHASHSEED": "5"},
        capture_output=True,
        check=True,
    ).stdout.strip()
    this_process = tokenizer().backend_tokenizer.to_str().encode()
    assert hashlib.sha256(other_process).hexdigest() == hashlib.sha256(this_process).hexdigest()


@given(st.text() | st.text(alphabet='{}", :;.?[]()-0123456789 \ntvsofa<|>'))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_any_text_round_trips(content):
    assert tokenizer().decode(encode(content)) == content


def number_parts():
    """Return the parts of numbers that are tokens: metres before and after the point, and bearings."""
    wholes = {number.split(".")[0] for number in numbers() if "." in number}
    bearings = {number.rstrip(",") for number in numbers() if number.endswith(",")}
    return wholes | bearings | {f".{tenth}" for tenth in range(10)}


@pytest.mark.parametrize("name", ["sofa", "tv stand", "ceiling light"])
@pytest.mark.parametrize(("x", "y"), [("1.2", "3.4"), ("12.0", "-0.1"), ("-0.3", "0.9")])
def test_position_is_four_tokens_after_its_name(name, x, y):
    assert pieces(f"; {name} {x} {y}; ")[1:-1] == [
        name,
        *(f" {x}".partition(".")[0], "." + x.partition(".")[2]),
        *(f" {y}".partition(".")[0], "." + y.partition(".")[2]),
    ]


@pytest.mark.parametrize("reply", REPLIES)
def test_replies_use_merges_only_and_split_numbers(reply):
    assert not set(encode(reply)) & set(tokenizer().get_added_vocab().values())
    allowed = {*"0123456789", *number_parts()}
    assert {piece for piece in pieces(reply) if set(piece) & set("0123456789")} <= allowed
    assert len(encode(reply)) <= len(reply) / 2


def test_label_is_one_token_in_every_context():
    templates = (
        "; {} 1.2",
        '"{} ?',
        "\nA. {}\n",
        ", is the {} to my left",
        "How many {}(s) are in this room?",
    )
    for label in LABELS:
        (token,) = encode(label)
        assert all(token in encode(template.format(label)) for template in templates), label


def test_instructions_are_at_most_36_tokens():
    for kinds, num_shown in (
        (("top", "ego", "around"), 0),
        (("ego",), 0),
        (("top", "ego"), 4),
        ((), 0),
    ):
        prompt = Prompt(9, 75.0, kinds, num_shown, wording=small_wording())
        assert len(encode(prompt.instructions)) <= 36


def test_saved_processor_loads_unchanged(processor):
    assert processor.tokenizer.backend_tokenizer.to_str() == tokenizer().backend_tokenizer.to_str()
    assert processor.chat_template == CHAT_TEMPLATE
    assert sorted(processor.tokenizer.all_special_tokens) == sorted(SPECIAL_TOKENS)


def test_view_is_70_tokens(processor):
    view = random_image(320, 240)
    processed = processor(
        text=["<|vision_start|><|image_pad|><|vision_end|>"], images=[view], return_tensors="pt"
    )
    assert processed["image_grid_thw"].tolist() == [[1, HEIGHT // 16, WIDTH // 16]]
    assert processed["input_ids"].shape == (1, IMAGE_TOKENS + 2)
    assert QwenImages(processor, {}).cost(320, 240).tokens == IMAGE_TOKENS
    assert QwenImages(processor, {}).cost(640, 480).tokens == IMAGE_TOKENS


def test_special_tokens_in_messages_are_harmless(processor):
    question = message("user", text("Is <|im_end|> or <|image_pad|> left of the sofa?"))
    prompt = processor.apply_chat_template([question], tokenize=False, add_generation_prompt=True)
    ids = encode(prompt)
    assert ids.count(tokenizer().eos_token_id) == 1
    assert tokenizer().convert_tokens_to_ids("<|image_pad|>") not in ids


def rejected_piece(reply, *, masked=False):
    """Return the piece at which a guide stops a reply, None if it accepts the reply."""
    ends = [tokenizer().eos_token_id, tokenizer().pad_token_id]
    guide = _guides(len(tokenizer()), *ends).start(reply_schema(), "<|im_start|>assistant\n")
    for token in (*encode(reply), tokenizer().eos_token_id):
        if not guide.allows(token) or (masked and not guide.mask()[token]):
            return tokenizer().decode([token])
        guide.take(token)
    assert guide.finished
    return None


@cache
def _guides(vocabulary, *ends):
    return Guides(tokenizer(), vocabulary, ends)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("reply", REPLIES)
def test_guide_accepts_replies_token_by_token(reply, masked):
    assert rejected_piece(reply, masked=masked) is None


@pytest.mark.parametrize("reply", REJECTED)
def test_guide_rejects_other_replies(reply):
    assert rejected_piece(reply) is not None
