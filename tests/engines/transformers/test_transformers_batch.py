"""Batched replies equal single ones, with the real Qwen3-VL classes and small weights in float32."""

import random

import pytest
from factories.dialogues import load_transformers_engine
from factories.models import load_random_image, small_model

from render_agent.dialogue import chat
from render_agent.engines.engine import Request

SIZES = ("32x32", "64x64", "96x64", "64x128", "50x70", "160x96")


@pytest.fixture(scope="module")
def engine():
    return load_transformers_engine(
        str(small_model()), dtype="float32", device="cpu", batch_size=64
    )


def dialogue(turns, images, seed=0):
    """Return the messages of a dialogue with images distributed over its turns at random."""
    chance = random.Random(seed)
    messages = [chat.message("system", chat.text("Explore the room."))]
    counts = [0] * turns
    for _ in range(images):
        counts[chance.randrange(turns)] += 1
    for turn in range(turns):
        if turn:
            messages.append(chat.assistant('{"rotation_angle_degrees": 45}'))
        files = [
            f"{chance.choice(SIZES)}-{chance.randrange(1000)}.png" for _ in range(counts[turn])
        ]
        question = chat.text("Where is the chair? " * chance.randint(1, 4))
        messages.append(chat.message("user", question, *map(chat.image_piece, files)))
    return messages


def request(turns, images, seed=0, max_new_tokens=16):
    messages = dialogue(turns, images, seed)
    return Request(
        f"q{seed}", turns - 1, messages, load_random_image, max_new_tokens=max_new_tokens
    )


MIXED = [
    request(turns, images, seed=10 * turns + images)
    for turns in (1, 2, 3)
    for images in (0, 1, 2, 3)
]


@pytest.fixture(scope="module")
def batched(engine):
    """The replies to all requests in one batch."""
    return engine.generate(MIXED)


def test_mixed_batch_equals_single_requests(engine, batched):
    single = [engine.generate([request])[0] for request in MIXED]
    assert [reply.samples for reply in batched] == [reply.samples for reply in single]
    assert [reply.tokens for reply in batched] == [reply.tokens for reply in single]
    assert [reply.finish for reply in batched] == [reply.finish for reply in single]
    assert {reply.batch_size for reply in batched} == {len(MIXED)}
    assert len({reply.text for reply in batched}) == len(MIXED)


def test_replies_follow_the_order_of_the_requests(engine, batched):
    order = random.Random(5).sample(range(len(MIXED)), len(MIXED))
    texts = [reply.text for reply in batched]
    shuffled = [reply.text for reply in engine.generate([MIXED[index] for index in order])]
    assert shuffled == [texts[index] for index in order]


def test_smaller_batches_give_the_same_replies(engine, batched, monkeypatch):
    expected = [reply.samples for reply in batched]
    monkeypatch.setattr(engine, "batch_size", 5)
    before = engine.calls
    assert [reply.samples for reply in engine.generate(MIXED)] == expected
    assert engine.calls - before == 3


def test_submitted_requests_come_back_with_their_replies(engine, batched, monkeypatch):
    expected = {
        single.dialogue_id: reply.text for single, reply in zip(MIXED[:5], batched[:5], strict=True)
    }
    monkeypatch.setattr(engine, "batch_size", 2)
    engine.submit(MIXED[:3])
    answered = list(engine.ready())
    engine.submit(MIXED[3:5])
    while batch := list(engine.ready()):
        answered += batch
    assert [request.dialogue_id for request, _ in answered] == list(expected)
    assert {request.dialogue_id: reply.text for request, reply in answered} == expected


def test_every_row_stops_at_its_own_token_limit(engine):
    long = engine.generate([request(1, 1, seed=3, max_new_tokens=20)])[0]
    limits = (1, 7, 20)
    replies = engine.generate([request(1, 1, seed=3, max_new_tokens=limit) for limit in limits])
    assert [reply.tokens.reply for reply in replies] == list(limits)
    assert {reply.finish for reply in replies} == {"length"} == {long.finish}
    assert replies[2].text == long.text


def generated_ids(engine, requests, limit):
    """Return the generated token ids of each request, including end and padding tokens."""
    outputs = []
    generate = engine.model.generate
    engine.model.generate = lambda **tensors: outputs.append(generate(**tensors)) or outputs[-1]
    try:
        engine.generate(requests)
    finally:
        del engine.model.generate
    return [row[-limit:] for row in outputs[0].tolist()]


def test_finish_reason_is_per_row(engine, monkeypatch):
    both = [request(1, 0, seed=7, max_new_tokens=12), request(2, 2, seed=8, max_new_tokens=12)]
    ids, others = generated_ids(engine, both, 12)
    end = next(index for index in range(3, 12) if ids[index] not in {*ids[:index], *others})
    monkeypatch.setattr(engine.loaded, "ends", [*engine.loaded.ends, ids[end]])
    early, other = engine.generate(both)
    assert (early.finish, other.finish) == ("stop", "length")
    assert (early.tokens.reply, other.tokens.reply) == (end + 1, 12)
    assert early.text == engine.loaded.tokenizer.decode(ids[:end], skip_special_tokens=True)
    assert other.text == engine.loaded.tokenizer.decode(others, skip_special_tokens=True)


def test_prompt_tokens_are_counted_without_padding(engine):
    """An image of 64 × 96 pixels has 2 × 3 tokens plus two marks."""
    plain = chat.message("user", chat.text("Look."))
    with_image = chat.message("user", chat.text("Look."), chat.image_piece("64x96-1.png"))
    long = chat.message("user", chat.text("word " * 200))
    requests = [
        Request("q", 0, [message], load_random_image, max_new_tokens=2)
        for message in (plain, with_image, long)
    ]
    tokens = [reply.tokens.prompt for reply in engine.generate(requests)]
    text = "<|im_start|>user\nLook.<|im_end|>\n<|im_start|>assistant\n"
    assert tokens[0] == len(engine.loaded.tokenizer(text)["input_ids"])
    assert tokens[1] == tokens[0] + 6 + 2
    assert tokens[2] > tokens[1]


def test_image_tokens_are_never_generated(engine):
    names = engine.loaded.tokenizer.convert_ids_to_tokens(engine.loaded.suppressed)
    assert set(names) == {
        "<|vision_start|>",
        "<|vision_end|>",
        "<|vision_pad|>",
        "<|image_pad|>",
        "<|video_pad|>",
    }
    requests = [request(1, 0, seed=seed, max_new_tokens=60) for seed in range(40, 48)]
    rows = generated_ids(engine, requests, 60)
    assert not any(token in engine.loaded.suppressed for row in rows for token in row)
