"""Replies written side by side, keys and values kept over the turns, are what each would be alone."""

import dataclasses
from itertools import count, pairwise

import pytest
import torch
from factories.dialogues import Dialogues, UncachedModel, load
from factories.models import small_internvl, small_model, small_qwen2_5_vl, speckled_file

from render_agent.dialogue import chat
from render_agent.engines.base import Request
from render_agent.engines.transformers.continuous_engine import ContinuousEngine
from render_agent.engines.transformers.engine import TransformersEngine
from render_agent.errors import EngineError

PLENTY = 1 << 30


@pytest.fixture(scope="module")
def loaded():
    return load(small_model())


@pytest.fixture(scope="module")
def plain(loaded):
    return UncachedModel(loaded)


@pytest.fixture(scope="module")
def expected(plain):
    return Dialogues().lead(plain).said


@pytest.fixture
def make(loaded):
    def make(budget=PLENTY, most_rows=64, **more):
        # A copy, because an engine that is closed lets its model go.
        own = dataclasses.replace(loaded)
        return ContinuousEngine(own, budget=budget, most_rows=most_rows, **more)

    return make


def test_dialogues_side_by_side_are_what_they_are_when_all_is_read_anew(make, expected):
    led = Dialogues().lead(make())
    assert led.said == expected
    assert len({texts for said in expected.values() for texts in said}) > 12


@pytest.mark.parametrize("build", [small_qwen2_5_vl, small_internvl])
def test_other_families_keep_their_keys_too(build, tmp_path):
    loaded = load(build(tmp_path))
    engine = ContinuousEngine(loaded, budget=PLENTY, most_rows=64)
    led = Dialogues(count=4, turns=3).lead(engine)
    read, seen, cached = led.tokens
    assert led.said == Dialogues(count=4, turns=3).lead(UncachedModel(loaded)).said
    assert read - cached <= 1.1 * seen
    engine.close()
    assert (engine.rows.slots.bytes, loaded.model) == (0, None)


@pytest.mark.parametrize("together", [1, 4])
def test_how_many_are_led_together_changes_nothing(make, expected, together):
    assert Dialogues().lead(make(), together).said == expected


def test_what_was_read_before_is_not_read_again(make):
    led = Dialogues(turns=6).lead(make())
    read, seen, cached = led.tokens
    assert read - cached <= 1.1 * seen
    for replies in led.replies.values():
        for before, after in pairwise(replies):
            assert after.tokens.cached >= before.tokens.prompt


def test_questions_share_what_their_prompts_begin_with(make):
    led = Dialogues(count=8, turns=1, instructions="Explore. " * 200).lead(make(), together=1)
    first, *others = [replies[0].tokens for replies in led.replies.values() if replies]
    assert first.cached == 0
    assert min(tokens.cached for tokens in others) > 500


@pytest.mark.parametrize("rows", [1, 5])
def test_with_fewer_rows_than_questions_some_are_read_again_and_all_are_right(make, expected, rows):
    engine = make(most_rows=rows)
    assert Dialogues().lead(engine).said == expected
    assert engine.rows.table.evicted > 0
    assert max(len(engine.rows.table.dialogues), engine.rows.slots.rows) <= rows


@pytest.mark.parametrize("tokens", [600, 1500])
def test_rows_stay_within_their_budget(make, expected, tokens):
    engine = make()
    Dialogues(count=1).lead(engine)
    budget = tokens * engine.rows.slots.bytes_per_token
    bounded = make(budget=budget)
    most = []
    reserve = bounded.rows.slots.reserve

    def watched(rows, capacity):
        reserve(rows, capacity)
        most.append((bounded.rows.slots.bytes, bounded.rows.slots.rows))

    bounded.rows.slots.reserve = watched
    assert Dialogues().lead(bounded).said == expected
    assert all(size <= budget or rows == 1 for size, rows in most)
    assert bounded.rows.table.evicted > 0


def test_prompts_are_read_a_few_at_a_time_where_a_call_takes_few_tokens(make, expected):
    assert Dialogues().lead(make(read_tokens=100)).said == expected


def test_a_retired_question_gives_its_row_up(make):
    engine = make()
    Dialogues().lead(engine)
    assert engine.rows.table.dialogues == []
    assert not any(engine.rows.slots.lengths)


def shown(*files, words="What is this?", name="q"):
    message = chat.message("user", chat.text(words), *map(chat.picture, files))
    return Request(name, 0, [message], speckled_file, max_new_tokens=12)


def test_another_picture_in_the_same_place_is_looked_at(make, plain):
    engine = make()
    for request in (shown("64x64-1.png", "64x64-2.png"), shown("64x64-1.png", "64x64-3.png")):
        assert engine.generate([request])[0].text == plain.generate([request])[0].text
    again = engine.generate([shown("64x64-1.png", "64x64-3.png")])[0]
    assert again.text == plain.generate([request])[0].text


def test_a_dialogue_that_was_changed_is_read_from_where_it_changed(make, plain):
    engine = make()
    engine.generate([shown(words="Where is the chair? " * 20)])
    changed = shown(words="Where is the chair? " * 10 + "Where is the table? " * 10)
    reply = engine.generate([changed])[0]
    assert reply.text == plain.generate([changed])[0].text
    assert 0 < reply.tokens.cached < reply.tokens.prompt - 20


def test_the_same_request_again_is_answered_alike(make):
    engine = make()
    first, second = engine.generate([shown("64x64-1.png")]), engine.generate([shown("64x64-1.png")])
    assert first[0].samples == second[0].samples
    assert second[0].tokens.cached == second[0].tokens.prompt - 1


def test_samples_are_drawn_as_in_any_other_batch(make):
    more = {"temperature": 1.0, "samples": 3}
    plain = TransformersEngine(str(small_model()), dtype="float32", device="cpu", batch_size=64)
    expected = Dialogues(count=3, **more).lead(plain)
    led = Dialogues(count=3, **more).lead(make())
    assert led.said == expected.said
    assert min(len(set(samples)) for said in led.said.values() for samples in said) > 1
    for replies in led.replies.values():
        for reply in replies:
            assert reply.tokens.cached >= 2 * (reply.tokens.prompt // 3 - 1), "read once"


def test_a_picture_that_cannot_be_read_fails_its_request_alone(make, plain):
    def broken(file):
        raise OSError("the file is gone")

    good = shown("64x64-1.png", name="good")
    bad = dataclasses.replace(shown("64x64-2.png", name="bad"), picture=broken)
    replies = make().generate([bad, good])
    assert "the file is gone" in replies[0].error
    assert replies[1].text == plain.generate([good])[0].text


def test_a_dialogue_that_is_too_long_fails_alone_and_says_what_to_do(make, plain):
    engine = make()
    long, short = shown(words="word " * 400, name="long"), shown(name="short")
    engine.loaded.max_len = 120
    replies = engine.generate([long, short])
    assert "120" in replies[0].error
    assert "--max-model-len" in replies[0].error
    assert replies[1].text == plain.generate([short])[0].text


def test_waiting_ends_after_the_timeout(make):
    engine = make()
    engine.submit([dataclasses.replace(shown("64x64-1.png"), max_new_tokens=200)])
    rounds = 0
    while not (answered := list(engine.ready(0.0))):
        rounds += 1
    assert rounds > 20
    assert answered[0][1].tokens.reply == 200
    assert list(engine.ready()) == []


def test_waiting_ends_when_woken_and_nothing_is_lost(make):
    engine = make()
    engine.submit([dataclasses.replace(shown("64x64-1.png"), max_new_tokens=200)])
    engine.wake()
    assert list(engine.ready()) == []
    ((_, reply),) = engine.ready()
    assert reply.tokens.reply == 200


class Failing:
    """Lets calls of a model fail, by their number or their size; counts them."""

    def __init__(self, engine, monkeypatch, fails):
        self.calls = 0
        forward = engine.loaded.model.forward

        def guarded(*args, **more):
            self.calls += 1
            if fails(self.calls - 1, len(more["input_ids"])):
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return forward(*args, **more)

        monkeypatch.setattr(engine.loaded.model, "forward", guarded)


def test_memory_that_runs_out_at_any_call_costs_nothing_but_time(make, plain, monkeypatch):
    few = {"count": 3, "turns": 2, "max_new_tokens": 10}
    expected = Dialogues(**few).lead(plain).said
    failed = 0
    for place in count():
        with monkeypatch.context() as patch:
            engine = make()
            calls = Failing(
                engine, patch, lambda call, rows, place=place: call == place and rows > 1
            )
            led = Dialogues(**few).lead(engine)
        assert led.said == expected, f"call {place}"
        failed += "out_of_memory" in led.events
        if calls.calls <= place:
            break
    assert failed > 5


@pytest.mark.parametrize("fits", [1, 3])
def test_as_many_rows_as_fit_are_written_together(make, expected, monkeypatch, fits):
    engine = make()
    Failing(engine, monkeypatch, lambda call, rows: rows > fits)
    led = Dialogues().lead(engine)
    assert led.said == expected
    assert "out_of_memory" in led.events
    assert "batch_halved" in led.events
    assert engine.rows.ceiling.rows <= fits


def test_what_fits_nowhere_fails_alone(make, plain, monkeypatch):
    engine = make()
    forward = engine.loaded.model.forward

    def guarded(*args, **more):
        if more["input_ids"].shape[1] > 300:
            raise torch.OutOfMemoryError("out of memory")
        return forward(*args, **more)

    monkeypatch.setattr(engine.loaded.model, "forward", guarded)
    good = [shown("64x64-1.png", name=f"good{number}") for number in range(3)]
    replies = engine.generate([*good, shown(words="word " * 400, name="long")])
    assert "--image-size" in replies[-1].error
    assert "--batch-size" in replies[-1].error
    monkeypatch.undo()
    assert [reply.text for reply in replies[:3]] == [plain.generate(good)[0].text] * 3


def test_rows_for_which_there_is_no_memory_wait_for_others(make, plain):
    few = {"count": 4, "turns": 2, "max_new_tokens": 7}
    expected = Dialogues(**few).lead(plain).said
    failed = 0
    for place in range(4):
        engine = make()
        resize, calls = engine.rows.slots._resize, []

        def failing(*given, engine=engine, resize=resize, calls=calls, place=place):
            there = len(engine.rows.table.dialogues)
            others = there > 1 or 0 < there < given[0]
            calls.append(others)
            if others and sum(calls) - 1 == place:
                raise torch.OutOfMemoryError("out of memory")
            return resize(*given)

        engine.rows.slots._resize = failing
        led = Dialogues(**few).lead(engine)
        assert led.said == expected, f"resize {place}"
        failed += "out_of_memory" in led.events
    assert failed > 1


def test_a_device_that_is_lost_ends_the_run(make, monkeypatch):
    engine = make()

    def lost(*args, **more):
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(engine.loaded.model, "forward", lost)
    with pytest.raises(EngineError, match="--continue"):
        engine.generate([shown("64x64-1.png")])
