"""Guided replies match the schema, and equal the unconstrained reply if that is valid."""

import json
import random
import re
from functools import cache
from itertools import product

import jsonschema
import numpy as np
import pytest
import torch
from conftest import mostly_slow, test_data
from factories import states
from factories.dialogues import load_transformers_engine
from factories.models import load_random_image, published_tokenizer, small_model, small_tokenizer
from factories.replies import reply_schema
from factories.runs import make_questions, play

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.engines.transformers import sampling
from render_agent.engines.transformers.constrained_decoding import Guides, make_guides
from render_agent.engines.transformers.factory import build_engine
from render_agent.engines.transformers.sampling import (
    PartialReply,
    TokenForcer,
    Truncation,
)
from render_agent.engines.transformers.transformers_engine import ContinuousEngine

SCHEMA = reply_schema(("ego", "top", "around"))
PADDED = 151_936  # width of Qwen3-VL's scores; its tokenizer has 151,669 tokens


def limit_strings(schema):
    """Limit the length of strings, so that the replies of a model with random weights end."""
    if isinstance(schema, dict):
        limit = {"maxLength": 8} if schema.get("type") == "string" else {}
        return {name: limit_strings(value) for name, value in schema.items()} | limit
    return [limit_strings(value) for value in schema] if isinstance(schema, list) else schema


SHORT = limit_strings(SCHEMA)
# The schemas of questions with different answers, as they are mixed in a batch.
SHORT_BY_FORM = [
    limit_strings(reply_schema(question=states.question(answer_form=form, options=options)))
    for form, options in (("letter", ("A. left", "B. right")), ("text", ()))
]


def ends_of(tokenizer):
    return [tokenizer.convert_tokens_to_ids(text) for text in ("<|im_end|>", "<|endoftext|>")]


@pytest.fixture(scope="module")
def qwen():
    """The guides for the tokenizer of Qwen3-VL."""
    tokenizer = published_tokenizer(test_data("qwen"))
    return Guides(tokenizer, PADDED, ends_of(tokenizer))


@pytest.fixture(scope="module")
def small():
    tokenizer = small_tokenizer()
    return Guides(tokenizer, len(tokenizer) + 5, ends_of(tokenizer))


@pytest.fixture(scope="module")
def engine():
    return load_transformers_engine(
        str(small_model()), dtype="float32", device="cpu", batch_size=64
    )


def feed(guides, text, prompt="", schema=SCHEMA):
    """Feed a text to a guide; return the part that it allows, and the guide."""
    guide = guides.start(schema, prompt)
    allowed = ""
    for token in guides.tokenizer.encode(text):
        if not guide.allows(token):
            break
        guide.take(token)
        allowed += guides.tokenizer.decode([token])
    return allowed, guide


def may_end(guide):
    allowed = {guide.allows(end) for end in guide.guides.ends}
    assert allowed == {bool(guide.mask()[end]) for end in guide.guides.ends}
    return allowed == {True}


def random_number(chance, limit):
    return chance.choice((0, limit, -limit, round(chance.uniform(-limit, limit), 2)))


def random_reply(chance):
    """Return a reply that matches the schema, with a random selection of optional keys."""
    texts = (
        "",
        "left of the chair",
        'a "table"\n\t\\',
        "Größe 3 m² — 椅子 🪑",
        "}{[",
        "</b> <think",
    )
    values = {
        "reasoning": chance.choice(texts),
        "rotation_angle_degrees": random_number(chance, 180),
        "pitch_degrees": random_number(chance, 120),
        "forward_meters": random_number(chance, 2),
        "left_meters": random_number(chance, 2),
        "z_delta_meters": random_number(chance, 2),
        "look_at": chance.choice((None, [1, -2.5, 0.25])),
        "view": chance.choice(("ego", "top", None, 0, 12)),
        "answer": chance.choice((None, "A", "B. left", 4, -2.75, "")),
        "done": chance.random() < 0.5,
    }
    names = (name for name in values if name in SCHEMA["required"] or chance.random() < 0.6)
    return {name: values[name] for name in names}


@pytest.mark.parametrize("seed", mostly_slow(range(6), 1))
def test_valid_replies_are_allowed_in_all_common_layouts(qwen, seed):
    chance = random.Random(seed)
    reply = random_reply(chance)
    jsonschema.validate(reply, SCHEMA)
    forms = [*product((None, 0, 4), (None, (",", ":")), (True, False))]
    for indent, separators, ascii_only in forms[seed % 3 :: 3]:
        text = json.dumps(reply, indent=indent, separators=separators, ensure_ascii=ascii_only)
        if "\\ud" in text:  # models do not write surrogate pairs
            continue
        text = "\n" * chance.randrange(3) + text
        allowed, guide = feed(qwen, text)
        assert allowed.replace("\ufffd", "") == "".join(
            qwen.tokenizer.decode([token]) for token in qwen.tokenizer.encode(text)
        ).replace("\ufffd", "")
        assert may_end(guide)


@pytest.mark.parametrize(
    ("text", "forbidden"),
    [
        ("", "The chair"),
        ("", "```json"),
        ('{"', "done"),
        ('{"reasoning": "a", "', "done"),
        ('{"reasoning": "a", "answer": null, "', "rotation"),
        ('{"reasoning": "a", "rotation_angle_degrees": 18', "1"),
        ('{"reasoning": "a", "rotation_angle_degrees": -180.', "5"),
        ('{"reasoning": "a", "forward_meters": ', "3"),
        ('{"reasoning": "a", "forward_meters": ', '"'),
        ('{"reasoning": "a", "view": "', "side"),
        ('{"reasoning": "a", "view": 100', "0"),
        ('{"reasoning": "a", "look_at": [1, 2', "]"),
        ('{"reasoning": "a", "look_at": [1, 2, 3', ","),
        ('{"reasoning": "a", "answer": ', "true"),
        ('{"reasoning": "a', "\n"),
        ('{"reasoning": "\\', "x"),
        ('{"reasoning": "a", "answer": null, "done": true', ","),
        ('{"reasoning": "a", "answer": null, "done": true}', " "),
        ('{"reasoning": "a", "answer": null, "done": true}', "\n"),
        ('{"reasoning": "a", "answer": null, "done": true}', "{"),
        ("\n\n", "\n"),
        ('{"reasoning":\n        ', " "),
    ],
)
def test_tokens_that_the_schema_forbids_are_masked(qwen, text, forbidden):
    allowed, guide = feed(qwen, text)
    assert allowed == text
    token = qwen.tokenizer.encode(forbidden)[0]
    assert not guide.allows(token)
    assert not guide.mask()[token]
    assert may_end(guide) == text.endswith("}")


def random_walk(guides, closing, seed, limit=400):
    """Generate a guided reply by choosing among the allowed tokens at random, those of `closing` more often."""
    guide = guides.start(SCHEMA, "<think>\n\n</think>\n\n")
    chance = np.random.default_rng(seed)
    ids = []
    while not guide.finished and len(ids) < limit:
        mask = guide.mask().numpy()
        probes = chance.integers(guides.vocabulary, size=20)
        allowed = np.array([guide.allows(int(token)) for token in probes])
        assert not (mask[probes] & ~allowed).any()
        # If only one text can follow, the mask contains only the token that the tokenizer produces.
        if mask.sum() > 1:
            assert (allowed == mask[probes]).all()
        likely = mask & closing if chance.random() < 0.3 else mask
        ids.append(int(chance.choice(np.flatnonzero(likely if likely.any() else mask))))
        guide.take(ids[-1])
    return ids, guide.finished


@cache
def texts_of(guides):
    return guides.tokenizer.batch_decode([[token] for token in range(len(guides.tokenizer))])


def without_strings(text):
    return re.sub(r'"(\\.|[^"\\])*"', '""', text)


@pytest.mark.parametrize(("family", "count"), [("small", 12), ("qwen", 5)])
def test_random_allowed_tokens_form_a_valid_reply(request, family, count):
    guides = request.getfixturevalue(family)
    added = set(guides.tokenizer.get_added_vocab().values())
    closing = np.zeros(guides.vocabulary, dtype=bool)
    texts = texts_of(guides)
    closing[[t for t, text in enumerate(texts) if '"' in text or "}" in text]] = True
    ended = 0
    for seed in range(count):
        ids, finished = random_walk(guides, closing, seed)
        assert not added & set(ids[:-1])
        assert max(ids[:-1]) < len(guides.tokenizer)
        if not finished:
            continue
        ended += 1
        assert ids[-1] in guides.ends
        text = guides.tokenizer.decode(ids[:-1], clean_up_tokenization_spaces=False)
        jsonschema.validate(json.loads(text), SCHEMA)
        assert text.endswith("}")
        assert not re.search(r"\s{10}", without_strings(text))
    assert ended >= 0.6 * count


def test_whitespace_is_limited(qwen):
    """A reply that contains whitespace wherever it is allowed still ends."""
    blank = torch.zeros(PADDED, dtype=torch.bool)
    blank[[t for t, text in enumerate(texts_of(qwen)) if text and text.isspace()]] = True
    closing = [qwen.tokenizer.convert_tokens_to_ids(text) for text in ('"', "}", "e", "0")]
    guide, ids = qwen.start(SHORT), []
    while not guide.finished and len(ids) < 600:
        mask = guide.mask()
        spaces = (mask & blank).nonzero()[:, 0].tolist()
        preferred = [*spaces, *(token for token in closing if mask[token])]
        ids.append((preferred or mask.nonzero()[:, 0].tolist())[0])
        guide.take(ids[-1])
    assert guide.finished
    text = qwen.tokenizer.decode(ids[:-1])
    jsonschema.validate(json.loads(text), SCHEMA)
    assert re.search(r"\n {8}", text)


def test_control_tokens_are_masked_within_strings(qwen):
    _, guide = feed(qwen, '{"reasoning": "a')
    mask = guide.mask()
    added = list(qwen.tokenizer.get_added_vocab().values())
    assert not mask[added].any()
    assert not any(map(guide.allows, added))
    assert not mask[len(qwen.tokenizer) :].any()
    assert not guide.allows(len(qwen.tokenizer))


def test_taking_a_forbidden_token_is_an_error(qwen):
    _, guide = feed(qwen, '{"reasoning')
    with pytest.raises(ValueError, match="not allowed next"):
        guide.take(min(qwen.ends))
    assert guide.allows(qwen.tokenizer.encode('":')[0])


REPLY = '{"reasoning": "a", "answer": "A", "done": true}'


@pytest.mark.parametrize(
    ("prompt", "reply"),
    [
        ("assistant\n", REPLY),
        ("assistant\n", "<think>\nLet me see: {x}.\n</think>\n\n" + REPLY),
        ("assistant\n", "<think></think>" + REPLY),
        ("assistant\n<think>\n", "So it is {\n}.\n</think>\n\n" + REPLY),
        ("assistant\n<think>\n", "</think>" + REPLY),
        ("assistant\n<think>\n\n</think>\n\n", REPLY),
    ],
)
def test_thought_is_allowed_before_the_reply(qwen, prompt, reply):
    allowed, guide = feed(qwen, reply, prompt)
    assert allowed == reply
    assert may_end(guide)


@pytest.mark.parametrize(
    ("prompt", "reply", "forbidden"),
    [
        ("assistant\n", "\n<think>", "<think>"),
        ("assistant\n", "<think>a<|im_end|>", "<|im_end|>"),
        ("assistant\n", "<think>a<|image_pad|>", "<|image_pad|>"),
        ("assistant\n", "<think>a<think>", "<think>"),
        ("assistant\n", "<think>a</think>b", "b"),
        ("assistant\n", "<think>a</think><think>", "<think>"),
        ("assistant\n", '{"reasoning": "</think>', "</think>"),
        ("assistant\n<think>\n", "a<|im_end|>", "<|im_end|>"),
        ("assistant\n<think>\n\n</think>\n\n", "<think>", "<think>"),
    ],
)
def test_thought_is_allowed_only_before_the_reply(qwen, prompt, reply, forbidden):
    allowed, guide = feed(qwen, reply, prompt)
    assert reply == allowed + forbidden
    assert not guide.mask()[qwen.tokenizer.encode(forbidden)[0]]


def test_tokenizer_without_think_tokens_allows_no_thoughts(small):
    allowed = {small.tokenizer.decode([t]) for t in small.start(SCHEMA).mask().nonzero()[:, 0]}
    assert allowed == {"{", "\n"}


def test_scores_can_be_narrower_than_the_tokenizer(small):
    narrow = Guides(small.tokenizer, 310, ends_of(small.tokenizer))
    _, guide = feed(narrow, REPLY[:14])
    assert guide.mask().shape == (310,)
    assert guide.mask()[:301].equal(feed(small, REPLY[:14])[1].mask()[:301])
    assert not guide.allows(311)


def partial_replies(*guides, limit):
    return [PartialReply(limit=limit, guide=guide) for guide in guides]


def scores_for(guides, text, noise, width):
    """Return a text with its end token as ids, and scores (steps, vocabulary) of a model that writes it."""
    ids = [*guides.tokenizer.encode(text), guides.tokenizer.convert_tokens_to_ids("<|im_end|>")]
    scores = noise * torch.randn(len(ids), width, generator=torch.Generator().manual_seed(1))
    for step, token in enumerate(ids):
        scores[step, token] += 100
    return ids, scores


@pytest.mark.parametrize("text", [REPLY, "\n" + json.dumps(json.loads(REPLY), indent=2)])
def test_valid_reply_is_not_changed(small, text):
    ids, scores = scores_for(small, text, 1.0, small.vocabulary)
    rows = partial_replies(small.start(SCHEMA), None, limit=len(ids))
    processor = TokenForcer(rows, sorted(small.ends), Truncation())
    for step in range(len(ids)):
        forced = processor(torch.empty(2, 0), scores[step].expand(2, -1))
        assert forced.argmax(-1).tolist() == [ids[step]] * 2
    assert all(row.written == ids for row in rows)
    forced = processor(torch.empty(2, 0), torch.randn(2, small.vocabulary))
    assert forced.argmax(-1).tolist() == sorted(small.ends)[:1] * 2
    assert all(row.written == ids for row in rows)


def make_request(seed, schema=SHORT, images=1, **options):
    files = [f"64x{32 * (1 + seed % 3)}-{seed + n}.png" for n in range(images)]
    question = chat.text(f"Where is chair {seed}? " * (1 + seed % 4))
    messages = [chat.message("user", question, *map(chat.image_piece, files))]
    options = {"max_new_tokens": 120} | options
    return Request(f"q{seed}", 0, messages, load_random_image, schema=schema, seed=seed, **options)


MIXED = [
    make_request(
        seed,
        None if seed % 4 == 3 else [SHORT, *SHORT_BY_FORM][seed % 3],
        seed % 3,
        temperature=(0, 1.5)[seed % 2],
    )
    for seed in range(5)
]


@pytest.fixture(scope="module")
def replies(engine):
    return engine.generate(MIXED)


def test_complete_replies_of_a_model_are_valid(engine, replies):
    assert engine.capabilities.guided_decoding
    ended = [
        reply
        for request, reply in zip(MIXED, replies, strict=True)
        if request.schema is not None and reply.finish == "stop"
    ]
    assert len(ended) >= 3
    for reply in ended:
        assert reply.text.endswith("}")
    for request, reply in zip(MIXED, replies, strict=True):
        if reply in ended:
            jsonschema.validate(json.loads(reply.text), request.schema)
    assert len({reply.text for reply in ended}) == len(ended)


def test_guided_replies_in_a_batch_equal_single_ones(engine, replies):
    single = [engine.generate([request])[0] for request in MIXED]
    assert [reply.samples for reply in replies] == [reply.samples for reply in single]
    assert [reply.finish for reply in replies] == [reply.finish for reply in single]
    assert [reply.tokens for reply in replies] == [reply.tokens for reply in single]


def test_guided_replies_are_the_same_with_reuse_of_the_cache(engine, replies):
    continuous = build_engine(engine.loaded, 4, {"reuse": "keys"}, 1000, image_size=(64, 64))
    assert isinstance(continuous, ContinuousEngine)
    assert continuous.capabilities.guided_decoding
    cached = continuous.generate(MIXED)
    assert [reply.samples for reply in cached] == [reply.samples for reply in replies]
    assert [reply.finish for reply in cached] == [reply.finish for reply in replies]


class DeviceTensor(torch.Tensor):
    """A tensor that looks like one on a GPU, and records when the CPU waits for it."""

    is_cuda = True
    events = None

    def tolist(self):
        self.events.append("wait")
        return super().tolist()


def test_masks_are_computed_before_the_cpu_waits_for_the_logits(engine, monkeypatch):
    """On a GPU, a step is launched, its masks are computed meanwhile, and then its tokens are awaited, once."""
    requests = [make_request(seed, temperature=0, max_new_tokens=30) for seed in range(3)]
    expected = [reply.samples for reply in engine.generate(requests)]
    continuous = build_engine(engine.loaded, 4, {"reuse": "keys"}, 1000, image_size=(64, 64))
    decoder, masks, events = continuous.scheduler.decoder, sampling.allowed_tokens, []
    launch = decoder.step
    monkeypatch.setattr(DeviceTensor, "events", events)

    def recorded_launch(rows):
        events.append("launch")
        return tuple(tensor.as_subclass(DeviceTensor) for tensor in launch(rows))

    def recorded_masks(guides, logits):
        events.append("masks")
        return masks(guides, logits.as_subclass(torch.Tensor))

    monkeypatch.setattr(decoder, "step", recorded_launch)
    monkeypatch.setattr(sampling, "allowed_tokens", recorded_masks)
    replies = continuous.generate(requests)
    assert [reply.samples for reply in replies] == expected
    steps = " ".join(events).count("launch masks wait")
    assert steps == events.count("launch") == events.count("wait") > 20


def test_rows_without_a_schema_are_not_constrained(engine, replies):
    indices = [index for index, request in enumerate(MIXED) if request.schema is None]
    unguided = engine.generate([MIXED[index] for index in indices])
    assert [replies[index].samples for index in indices] == [reply.samples for reply in unguided]
    assert not any(reply.text.startswith("{") for reply in unguided)


def test_every_sample_is_guided(engine):
    (reply,) = engine.generate(
        [make_request(1, num_samples=4, temperature=1.2, max_new_tokens=200)]
    )
    assert len(set(reply.samples)) == 4
    for text in reply.samples:
        assert text.lstrip("\n").startswith("{")


def test_unsupported_schema_is_reported(small):
    with pytest.raises(ValueError, match="unevaluatedProperties"):
        small.start({"type": "object", "unevaluatedProperties": False})


class SlowTokenizer:
    """A tokenizer without the fast implementation."""


@pytest.mark.parametrize("ends", [[], [301]])
def test_unsupported_tokenizer_is_reported(ends, caplog):
    tokenizer = SlowTokenizer() if ends else small_tokenizer()
    assert make_guides(None, tokenizer, ends) is None
    assert "schema" in caplog.text


def test_failed_guide_stops_constraining_the_reply(small, caplog):
    guide = small.start(SCHEMA)
    guide.matcher.consume_token(small.tokenizer.convert_tokens_to_ids("a"))
    assert guide.mask().all()
    assert guide.finished
    assert "no longer constrained" in caplog.text
    guide.take(0)


class SchemaRecorder(ScriptedEngine):
    """Records the schemas of all requests."""

    def answer(self, requests):
        self.schemas = [*getattr(self, "schemas", ()), *(request.schema for request in requests)]
        return super().answer(requests)


@pytest.mark.parametrize("no_guide", [False, True])
def test_no_guide_option_omits_the_schema(tmp_path, no_guide):
    engine = SchemaRecorder(ReplayPolicy({"*": ["?"]}), 4)
    play(tmp_path, make_questions(tmp_path), engine, max_turns=2, no_guide=no_guide)
    assert len(engine.schemas) == 4 * (2 + 1)  # the last ones request only the answer
    assert {schema is None for schema in engine.schemas} == {no_guide}
    numbers, letters = (
        reply_schema(question=states.question(answer_form=form, options=options))
        for form, options in (("number", ()), ("letter", ("A. left", "B. right")))
    )
    if no_guide:
        return
    assert engine.schemas[:8] == [numbers, letters] * 4
    answers = [{"type": "number"}, {"type": "string", "enum": ["A", "B"]}]
    assert [schema["properties"] for schema in engine.schemas[8:]] == [
        {"answer": answer} for answer in answers * 2
    ]
