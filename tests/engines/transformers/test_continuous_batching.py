"""Replies written side by side, keys and values kept over the turns, are what each would be alone."""

import dataclasses
import random
from itertools import count, pairwise

import pytest
import torch
from conftest import mostly_slow
from factories.dialogues import Dialogues, UncachedModel, library_engine, load
from factories.models import small_internvl, small_model, small_qwen2_5_vl, speckled_file

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.memory import faults
from render_agent.engines.transformers.scheduler import Scheduler
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
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
    assert len({texts for said in expected.values() for texts in said}) > 8


@pytest.mark.slow
@pytest.mark.parametrize("build", [small_qwen2_5_vl, small_internvl])
def test_other_families_keep_their_keys_too(build, tmp_path):
    loaded = load(build(tmp_path))
    engine = ContinuousEngine(loaded, budget=PLENTY, most_rows=64)
    led = Dialogues(count=4, turns=3).lead(engine)
    read, seen, cached = led.tokens
    assert led.said == Dialogues(count=4, turns=3).lead(UncachedModel(loaded)).said
    assert read - cached <= 1.1 * seen
    engine.close()
    assert (engine.cache.bytes, loaded.model) == (0, None)


def test_how_many_are_led_together_changes_nothing(make, expected):
    assert Dialogues().lead(make(), together=4).said == expected


def test_tokens_of_earlier_turns_come_from_the_cache(make):
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


@pytest.mark.parametrize("rows", mostly_slow([1, 2], 2))
def test_no_more_replies_are_written_side_by_side_than_rows(make, expected, rows):
    led = Dialogues().lead(make(most_rows=rows))
    assert led.said == expected
    assert max(reply.batch_size for replies in led.replies.values() for reply in replies) <= rows


@pytest.mark.parametrize("pages", mostly_slow([4, 9], 4))
def test_with_few_pages_some_dialogues_are_read_again_and_all_are_right(make, expected, pages):
    page = make().cache.page_bytes
    engine = make(budget=pages * page)
    grow, most = engine.cache._grow_to, []

    def watched(count):
        grow(count)
        most.append((count, len(engine.cache.sequences)))

    engine.cache._grow_to = watched
    assert Dialogues().lead(engine).said == expected
    assert all(count <= pages or others == 1 for count, others in most)
    assert engine.cache.evicted > 0


def test_prompts_are_read_a_few_at_a_time_where_a_call_takes_few_tokens(make, expected):
    assert Dialogues().lead(make(read_tokens=100)).said == expected


def test_a_long_prompt_is_read_in_parts_between_which_others_go_on(make, plain, monkeypatch):
    engine = make(read_tokens=300)
    forward, calls = engine.loaded.model.forward, []

    def watched(*args, **more):
        calls.append((more["input_ids"].shape[1], rows_of(engine, more)))
        return forward(*args, **more)

    pictures = [f"160x96-{number}.png" for number in range(9)]
    long = shown(*pictures, words="Where is the chair? " * 300, name="long")
    short = dataclasses.replace(shown("64x64-1.png", name="short"), max_new_tokens=60)
    expected = [reply.text for reply in plain.generate([short, long])]
    with monkeypatch.context() as patch:
        patch.setattr(engine.loaded.model, "forward", watched)
        engine.submit([short])
        while not engine.scheduler.active:
            list(engine.ready(0))
        engine.submit([long])
        replies = {}
        while len(replies) < 2:
            replies |= {request.question_id: reply.text for request, reply in engine.ready()}
    assert [replies["short"], replies["long"]] == expected
    reads = [place for place, (tokens, rows) in enumerate(calls) if tokens > rows]
    assert max(tokens for tokens, _ in calls) <= 300
    assert len(reads) > 5
    assert all(after > before + 1 for before, after in pairwise(reads))


def test_a_retired_question_gives_its_row_up(make):
    engine = make()
    Dialogues().lead(engine)
    assert engine.cache.sequences == []
    kept = engine.cache._prefix
    assert sum(map(bool, engine.cache._references[1:])) == len(kept.pages)


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
    plain = library_engine(str(small_model()), dtype="float32", device="cpu", batch_size=64)
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


def rows_of(engine, given):
    """Return how many prompts are read, or replies written, in a call of the model."""
    reads = given["logits_to_keep"]
    return len(reads) if torch.is_tensor(reads) else given["input_ids"].shape[1]


class Failing:
    """Lets calls of a model fail, by their number or their size; counts them."""

    def __init__(self, engine, monkeypatch, fails):
        self.calls = 0
        forward = engine.loaded.model.forward

        def guarded(*args, **more):
            self.calls += 1
            if fails(self.calls - 1, rows_of(engine, more)):
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return forward(*args, **more)

        monkeypatch.setattr(engine.loaded.model, "forward", guarded)


@pytest.mark.slow
def test_memory_that_runs_out_at_any_call_costs_nothing_but_time(make, plain, monkeypatch):
    few = {"count": 3, "turns": 1, "max_new_tokens": 12}
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


@pytest.mark.parametrize("fits", mostly_slow([1, 3], 1))
def test_as_many_rows_as_fit_are_written_together(make, expected, monkeypatch, fits):
    engine = make()
    Failing(engine, monkeypatch, lambda call, rows: rows > fits)
    led = Dialogues().lead(engine)
    assert led.said == expected
    assert "out_of_memory" in led.events
    assert "batch_halved" in led.events
    assert engine.scheduler.row_ceiling.most <= 2 * fits


def test_what_fits_nowhere_fails_alone(make, plain, monkeypatch):
    engine = make()
    forward = engine.loaded.model.forward

    def guarded(*args, **more):
        if more["position_ids"].max() > 300:
            raise torch.OutOfMemoryError("out of memory")
        return forward(*args, **more)

    monkeypatch.setattr(engine.loaded.model, "forward", guarded)
    good = [shown("64x64-1.png", name=f"good{number}") for number in range(3)]
    replies = engine.generate([*good, shown(words="word " * 400, name="long")])
    assert "--image-size" in replies[-1].error
    assert "--batch-size" in replies[-1].error
    monkeypatch.undo()
    assert [reply.text for reply in replies[:3]] == [plain.generate(good)[0].text] * 3


def test_dialogues_for_which_there_is_no_memory_wait_for_others(make, plain):
    few = {"count": 4, "turns": 2, "max_new_tokens": 7}
    expected = Dialogues(**few).lead(plain).said
    failed = 0
    for place in range(4):
        engine = make()
        grow, calls = engine.cache._grow_to, []

        def failing(pages, engine=engine, grow=grow, calls=calls, place=place):
            calls.append(len(engine.cache.sequences) > 1)
            if calls[-1] and sum(calls) - 1 == place:
                raise torch.OutOfMemoryError("out of memory")
            return grow(pages)

        engine.cache._grow_to = failing
        led = Dialogues(**few).lead(engine)
        assert led.said == expected, f"growth {place}"
        failed += "out_of_memory" in led.events
    assert failed > 1


SHORTAGES = (
    torch.OutOfMemoryError("CUDA out of memory."),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("CUDA error: unknown error"),
    RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    RuntimeError("Expected mha_graph.execute(handle).is_good() to be true"),
    RuntimeError("cuDNN Frontend error: Error: No valid execution plans built."),
    MemoryError(),
)


@pytest.mark.parametrize("seed", mostly_slow(range(2), 0))
def test_memory_that_runs_out_at_random_places_loses_nothing(make, expected, monkeypatch, seed):
    chance, faulty = random.Random(seed), []
    for name in ("_pages", "_first_tokens", "_next_tokens"):
        call = getattr(Scheduler, name)

        def failing(*given, call=call):
            if chance.randrange(8) == 0:
                faulty.append(call)
                raise chance.choice(SHORTAGES)
            return call(*given)

        monkeypatch.setattr(Scheduler, name, failing)
    led = Dialogues().lead(make())
    assert led.said == expected
    assert len(set(faulty)) > 1
    assert led.events.count("out_of_memory") <= len(faulty)


def failing_device(engine, monkeypatch, answers):
    """Let a model's calls fail as on a GPU, whose small products then go well or do not."""

    def lost(*args, **more):
        raise RuntimeError("CUDA error: unknown error")

    monkeypatch.setattr(engine.loaded.model, "forward", lost)
    monkeypatch.setattr(faults, "device_answers", lambda device: answers)


def test_a_device_that_is_lost_ends_the_run(make, monkeypatch):
    engine = make()
    failing_device(engine, monkeypatch, answers=False)
    with pytest.raises(EngineError, match="--continue"):
        engine.generate([shown("64x64-1.png")])


def test_a_device_that_still_answers_is_short_of_memory(make, plain, monkeypatch):
    engine = make()
    expected = plain.generate([shown("64x64-1.png")])[0].text
    calls = []
    forward = engine.loaded.model.forward

    def once(*args, **more):
        calls.append(None)
        if len(calls) in (2, 4):
            raise RuntimeError("CUDA error: unknown error")
        return forward(*args, **more)

    monkeypatch.setattr(engine.loaded.model, "forward", once)
    requests = [shown("64x64-1.png", name=f"q{number}") for number in range(3)]
    replies = engine.generate(requests)
    assert [reply.text for reply in replies] == [expected] * 3
    assert "out_of_memory" in [event for reply in replies for event in reply.events]


def test_questions_that_fail_by_themselves_end_no_run(make, plain, monkeypatch):
    engine = make(read_tokens=1)
    forward = engine.loaded.model.forward

    def picky(*args, **more):
        if more.get("pixel_values") is not None:
            raise ValueError("this picture I cannot read")
        return forward(*args, **more)

    monkeypatch.setattr(engine.loaded.model, "forward", picky)
    bad = [shown("64x64-1.png", name=f"bad{number}") for number in range(11)]
    replies = engine.generate([*bad, shown(name="good")])
    monkeypatch.undo()
    assert all(reply.error.endswith("this picture I cannot read") for reply in replies[:-1])
    assert replies[-1].text == plain.generate([shown()])[0].text
