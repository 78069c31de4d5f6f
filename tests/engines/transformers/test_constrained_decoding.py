"""Guided replies are what the schema allows, and what the model would have written where it can be."""

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
from factories.dialogues import library_engine
from factories.models import published_tokenizer, small_model, small_tokenizer, speckled_file
from factories.replies import reply_schema
from factories.runs import make_questions, play

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.scripted import Replies, ScriptedEngine
from render_agent.engines.transformers.constrained_decoding import Guides, guides_of
from render_agent.engines.transformers.factory import engine_of
from render_agent.engines.transformers.sampling import (
    ChosenRows,
    Truncation,
    Writing,
)
from render_agent.engines.transformers.transformers_engine import ContinuousEngine

SCHEMA = reply_schema(("ego", "top", "around"))
PADDED = 151_936
"""Width of Qwen3-VL's scores; its tokenizer has 151,669 tokens."""


def bounded(schema):
    """The same schema with short texts, so that a model with random weights comes to an end."""
    if isinstance(schema, dict):
        more = {"maxLength": 8} if schema.get("type") == "string" else {}
        return {name: bounded(value) for name, value in schema.items()} | more
    return [bounded(value) for value in schema] if isinstance(schema, list) else schema


SHORT = bounded(SCHEMA)


def ends_of(tokenizer):
    return [tokenizer.convert_tokens_to_ids(text) for text in ("<|im_end|>", "<|endoftext|>")]


@pytest.fixture(scope="module")
def qwen():
    """The guides of Qwen3-VL's own tokenizer."""
    tokenizer = published_tokenizer(test_data("qwen"))
    return Guides(tokenizer, PADDED, ends_of(tokenizer))


@pytest.fixture(scope="module")
def small():
    tokenizer = small_tokenizer()
    return Guides(tokenizer, len(tokenizer) + 5, ends_of(tokenizer))


@pytest.fixture(scope="module")
def engine():
    return library_engine(str(small_model()), dtype="float32", device="cpu", batch_size=64)


def taken(guides, text, prompt="", schema=SCHEMA):
    """How much of a text a guide takes, and the guide."""
    guide = guides.start(schema, prompt)
    text_taken = ""
    for token in guides.tokenizer.encode(text):
        if not guide.allows(token):
            break
        guide.take(token)
        text_taken += guides.tokenizer.decode([token])
    return text_taken, guide


def may_end(guide):
    allowed = {guide.allows(end) for end in guide.guides.ends}
    assert allowed == {bool(guide.mask()[end]) for end in guide.guides.ends}
    return allowed == {True}


def some_number(chance, limit):
    return chance.choice((0, limit, -limit, round(chance.uniform(-limit, limit), 2)))


def some_reply(chance):
    """A reply that the schema allows, its keys in the schema's order, those not required at random."""
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
        "rotation_angle_degrees": some_number(chance, 180),
        "pitch_degrees": some_number(chance, 120),
        "forward_meters": some_number(chance, 2),
        "left_meters": some_number(chance, 2),
        "z_delta_meters": some_number(chance, 2),
        "look_at": chance.choice((None, [1, -2.5, 0.25])),
        "view": chance.choice(("ego", "top", None, 0, 12)),
        "answer": chance.choice((None, "A", "B. left", 4, -2.75, "")),
        "done": chance.random() < 0.5,
    }
    kept = (name for name in values if name in SCHEMA["required"] or chance.random() < 0.6)
    return {name: values[name] for name in kept}


@pytest.mark.parametrize("seed", mostly_slow(range(6), 1))
def test_a_reply_may_be_written_in_any_usual_form(qwen, seed):
    chance = random.Random(seed)
    reply = some_reply(chance)
    jsonschema.validate(reply, SCHEMA)
    forms = [*product((None, 0, 4), (None, (",", ":")), (True, False))]
    for indent, separators, ascii_only in forms[seed % 3 :: 3]:
        text = json.dumps(reply, indent=indent, separators=separators, ensure_ascii=ascii_only)
        if "\\ud" in text:  # a pair of escapes for one character: no model writes that
            continue
        text = "\n" * chance.randrange(3) + text
        read, guide = taken(qwen, text)
        assert read.replace("\ufffd", "") == "".join(
            qwen.tokenizer.decode([token]) for token in qwen.tokenizer.encode(text)
        ).replace("\ufffd", "")
        assert may_end(guide)


@pytest.mark.parametrize(
    ("text", "refused"),
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
def test_what_the_schema_forbids_does_not_come_up(qwen, text, refused):
    read, guide = taken(qwen, text)
    assert read == text
    token = qwen.tokenizer.encode(refused)[0]
    assert not guide.allows(token)
    assert not guide.mask()[token]
    assert may_end(guide) == text.endswith("}")


def random_walk(guides, closing, seed, limit=400):
    """Tokens of a guided reply in which any may follow that is allowed, those of `closing` more often."""
    guide = guides.start(SCHEMA, "<think>\n\n</think>\n\n")
    chance = np.random.default_rng(seed)
    ids = []
    while not guide.finished and len(ids) < limit:
        mask = guide.mask().numpy()
        tried = chance.integers(guides.vocabulary, size=20)
        allowed = np.array([guide.allows(int(token)) for token in tried])
        assert not (mask[tried] & ~allowed).any()
        # Where one text alone can follow, the mask is the token that a tokenizer makes of it.
        if mask.sum() > 1:
            assert (allowed == mask[tried]).all()
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
def test_whatever_is_drawn_from_what_is_allowed_becomes_a_valid_reply(request, family, count):
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


def test_space_comes_to_an_end(qwen):
    """A reply that puts space wherever it may is still a reply."""
    blank = torch.zeros(PADDED, dtype=torch.bool)
    blank[[t for t, text in enumerate(texts_of(qwen)) if text and text.isspace()]] = True
    closing = [qwen.tokenizer.convert_tokens_to_ids(text) for text in ('"', "}", "e", "0")]
    guide, ids = qwen.start(SHORT), []
    while not guide.finished and len(ids) < 600:
        mask = guide.mask()
        spaces = (mask & blank).nonzero()[:, 0].tolist()
        wanted = [*spaces, *(token for token in closing if mask[token])]
        ids.append((wanted or mask.nonzero()[:, 0].tolist())[0])
        guide.take(ids[-1])
    assert guide.finished
    text = qwen.tokenizer.decode(ids[:-1])
    jsonschema.validate(json.loads(text), SCHEMA)
    assert re.search(r"\n {8}", text)


def test_no_token_that_stands_for_something_else_comes_up_in_a_text(qwen):
    _, guide = taken(qwen, '{"reasoning": "a')
    mask = guide.mask()
    added = list(qwen.tokenizer.get_added_vocab().values())
    assert not mask[added].any()
    assert not any(map(guide.allows, added))
    assert not mask[len(qwen.tokenizer) :].any()
    assert not guide.allows(len(qwen.tokenizer))


def test_a_token_that_is_refused_cannot_be_taken(qwen):
    _, guide = taken(qwen, '{"reasoning')
    with pytest.raises(ValueError, match="cannot come next"):
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
def test_a_model_may_think_before_its_reply(qwen, prompt, reply):
    read, guide = taken(qwen, reply, prompt)
    assert read == reply
    assert may_end(guide)


@pytest.mark.parametrize(
    ("prompt", "reply", "refused"),
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
def test_thoughts_stand_only_before_the_reply(qwen, prompt, reply, refused):
    read, guide = taken(qwen, reply, prompt)
    assert reply == read + refused
    assert not guide.mask()[qwen.tokenizer.encode(refused)[0]]


def test_a_tokenizer_without_think_tokens_has_no_thoughts(small):
    allowed = {small.tokenizer.decode([t]) for t in small.start(SCHEMA).mask().nonzero()[:, 0]}
    assert allowed == {"{", "\n"}


def test_scores_may_be_narrower_than_the_tokenizer_is_long(small):
    narrow = Guides(small.tokenizer, 310, ends_of(small.tokenizer))
    _, guide = taken(narrow, REPLY[:14])
    assert guide.mask().shape == (310,)
    assert guide.mask()[:301].equal(taken(small, REPLY[:14])[1].mask()[:301])
    assert not guide.allows(311)


def writing(*guides, limit=9, **more):
    return [Writing(limit=limit, guide=guide, **more) for guide in guides]


def told(guides, text, noise, width):
    """Scores (steps, vocabulary) of a model that is set on writing a text and its end."""
    ids = [*guides.tokenizer.encode(text), guides.tokenizer.convert_tokens_to_ids("<|im_end|>")]
    scores = noise * torch.randn(len(ids), width, generator=torch.Generator().manual_seed(1))
    for step, token in enumerate(ids):
        scores[step, token] += 100
    return ids, scores


@pytest.mark.parametrize("text", [REPLY, "\n" + json.dumps(json.loads(REPLY), indent=2)])
def test_a_valid_reply_is_left_as_it_is(small, text):
    ids, scores = told(small, text, 1.0, small.vocabulary)
    rows = writing(small.start(SCHEMA), None, limit=len(ids))
    processor = ChosenRows(rows, sorted(small.ends), Truncation())
    for step in range(len(ids)):
        kept = processor(torch.empty(2, 0), scores[step].expand(2, -1))
        assert kept.argmax(-1).tolist() == [ids[step]] * 2
    assert all(row.written == ids for row in rows)
    kept = processor(torch.empty(2, 0), torch.randn(2, small.vocabulary))
    assert kept.argmax(-1).tolist() == sorted(small.ends)[:1] * 2
    assert all(row.written == ids for row in rows)


def asked(seed, schema=SHORT, pictures=1, **more):
    files = [f"64x{32 * (1 + seed % 3)}-{seed + n}.png" for n in range(pictures)]
    question = chat.text(f"Where is chair {seed}? " * (1 + seed % 4))
    messages = [chat.message("user", question, *map(chat.picture, files))]
    more = {"max_new_tokens": 120} | more
    return Request(f"q{seed}", 0, messages, speckled_file, schema=schema, seed=seed, **more)


MIXED = [
    asked(seed, None if seed % 4 == 3 else SHORT, seed % 3, temperature=(0, 1.5)[seed % 2])
    for seed in range(5)
]


@pytest.fixture(scope="module")
def replies(engine):
    return engine.generate(MIXED)


def test_replies_of_a_model_are_valid_where_they_end(engine, replies):
    assert engine.capabilities.schema
    ended = [
        reply
        for request, reply in zip(MIXED, replies, strict=True)
        if request.schema is not None and reply.finish == "stop"
    ]
    assert len(ended) >= 3
    for reply in ended:
        jsonschema.validate(json.loads(reply.text), SCHEMA)
        assert reply.text.endswith("}")
    assert len({reply.text for reply in ended}) == len(ended)


def test_guided_replies_are_the_same_alone_and_in_a_batch(engine, replies):
    alone = [engine.generate([single])[0] for single in MIXED]
    assert [reply.samples for reply in replies] == [reply.samples for reply in alone]
    assert [reply.finish for reply in replies] == [reply.finish for reply in alone]
    assert [reply.tokens for reply in replies] == [reply.tokens for reply in alone]


def test_guided_replies_are_the_same_where_keys_are_kept(engine, replies):
    kept = engine_of(engine.loaded, 4, {"reuse": "keys"}, 1000)
    assert isinstance(kept, ContinuousEngine)
    assert kept.capabilities.schema
    found = kept.generate(MIXED)
    assert [reply.samples for reply in found] == [reply.samples for reply in replies]
    assert [reply.finish for reply in found] == [reply.finish for reply in replies]


def test_a_row_without_a_schema_is_not_held(engine, replies):
    free = [place for place, single in enumerate(MIXED) if single.schema is None]
    unguided = engine.generate([MIXED[place] for place in free])
    assert [replies[place].samples for place in free] == [reply.samples for reply in unguided]
    assert not any(reply.text.startswith("{") for reply in unguided)


def test_every_sample_is_guided(engine):
    (reply,) = engine.generate([asked(1, samples=4, temperature=1.2, max_new_tokens=200)])
    assert len(set(reply.samples)) == 4
    for text in reply.samples:
        assert text.lstrip("\n").startswith("{")


def test_a_schema_that_cannot_guide_is_told(small):
    with pytest.raises(ValueError, match="unevaluatedProperties"):
        small.start({"type": "object", "unevaluatedProperties": False})


class SlowTokenizer:
    """One that is not of the library tokenizers."""


@pytest.mark.parametrize("ends", [[], [301]])
def test_a_model_that_cannot_be_guided_is_told_once(ends, caplog):
    tokenizer = SlowTokenizer() if ends else small_tokenizer()
    assert guides_of(None, tokenizer, ends) is None
    assert "schema" in caplog.text
    with pytest.raises(ValueError, match="guided"):
        Guides(tokenizer, 400, ends)


def test_a_reply_that_outgrows_the_guide_goes_on_without_it(small, caplog):
    guide = small.start(SCHEMA)
    guide.matcher.consume_token(small.tokenizer.convert_tokens_to_ids("a"))
    assert guide.mask().all()
    assert guide.finished
    assert "without its guide" in caplog.text
    guide.take(0)


class Listening(ScriptedEngine):
    """Notes which schemas it was asked to hold to."""

    def answer(self, requests):
        self.schemas = [*getattr(self, "schemas", ()), *(one.schema for one in requests)]
        return super().answer(requests)


@pytest.mark.parametrize("no_guide", [False, True])
def test_no_guide_asks_for_no_schema(tmp_path, no_guide):
    engine = Listening(Replies({}), 4)
    play(tmp_path, make_questions(tmp_path), engine, max_turns=2, no_guide=no_guide)
    assert len(engine.schemas) == 8
    assert {schema is None for schema in engine.schemas} == {no_guide}
    assert no_guide or engine.schemas[0] == SCHEMA
