"""Prompts that are read ahead of their requests are in the cache, and change no reply and no token count."""

import dataclasses

import pytest
import torch
from conftest import mostly_slow
from factories.dialogues import Dialogues, load
from factories.models import small_model
from factories.runs import (
    NullObserver,
    make_config,
    make_questions,
    resume,
    transcripts,
    truncate_log,
)

from render_agent.dialogue import chat
from render_agent.engines.transformers import scheduler
from render_agent.engines.transformers.scheduler import Scheduler
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.runs.runner import start_run

pytestmark = pytest.mark.usefixtures("freeze_earlier_objects")

LARGE_BUDGET = 1 << 30
FEW = {"count": 5, "turns": 3}


@pytest.fixture(scope="module")
def loaded():
    return load(small_model())


class Rounds:
    """Runs dialogues with a barrier after each turn, and counts the prompt tokens read before and after it lifts."""

    def __init__(self, engine, monkeypatch, prefetches=True, waits=True, **more):
        self.engine, self.dialogues = engine, Dialogues(**FEW | more)
        self.prefetches, self.waits = prefetches, waits
        self.before, self.after = [], []
        self.next = {}  # requests that were prefetched
        self.tokens = 0
        read = scheduler.prefill

        def counted(model, cache, entries, *shared):
            self.tokens += sum(len(entry.ids) - entry.start for entry in entries)
            return read(model, cache, entries, *shared)

        with monkeypatch.context() as patch:
            patch.setattr(scheduler, "prefill", counted)
            while names := [name for name in self.dialogues.ids if self.is_due(name)]:
                self.take_turn(names)
        self.texts = self.dialogues.texts

    def is_due(self, name):
        return len(self.dialogues.replies[name]) < self.dialogues.turns[name]

    def take_turn(self, names):
        ahead = self.tokens
        requests = [self.next.pop(name, None) or self.dialogues.request(name) for name in names]
        self.engine.submit(requests)
        done = []
        while len(done) < len(names):
            for request, reply in self.engine.ready():
                if not done:
                    self.after.append(self.tokens - ahead)
                    ahead = self.tokens
                done.append(request.dialogue_id)
                self.complete(done[-1], reply)
        self.before.append(self.tokens - ahead)

    def complete(self, name, reply):
        dialogues = self.dialogues
        dialogues.replies[name].append(reply)
        answer = chat.assistant(reply.text if reply.error is None else "nothing")
        dialogues.messages[name] = [*dialogues.messages[name], answer]
        if self.prefetches and self.is_due(name):
            self.next[name] = dialogues.request(name)
            self.engine.prefetch([self.next[name]])
            if self.waits:
                self.engine.await_prompts()

    @property
    def later_counts(self):
        """Token counts of all turns but the first, in which dialogues share the instructions in any order."""
        replies = self.dialogues.replies.items()
        return {name: [reply.tokens for reply in later] for name, (_, *later) in replies}


@pytest.fixture
def make(loaded):
    def make(budget=LARGE_BUDGET, **more):
        copy = dataclasses.replace(loaded)
        return ContinuousEngine(copy, budget=budget, most_rows=64, **more)

    return make


@pytest.fixture
def run(make, monkeypatch):
    return lambda engine=None, **more: Rounds(engine or make(), monkeypatch, **more)


@pytest.fixture(scope="module")
def expected(loaded):
    with pytest.MonkeyPatch.context() as patch:
        engine = ContinuousEngine(dataclasses.replace(loaded), budget=LARGE_BUDGET, most_rows=64)
        return Rounds(engine, patch, prefetches=False)


def test_next_prompts_are_read_before_the_barrier_lifts(run, expected):
    ahead = run()
    assert ahead.texts == expected.texts
    assert ahead.later_counts == expected.later_counts
    assert expected.before == [0, 0, 0]
    # The last reply of a turn completes after the others, so the prompt of its dialogue is not read ahead.
    assert ahead.before[0] > 0.4 * expected.after[1]
    assert ahead.before[0] + ahead.after[1] <= expected.after[1] + FEW["count"]


def test_fixed_shapes_read_only_complete_blocks_ahead(make, run):
    long = {"instructions": "Explore the room. " * 60}
    ahead = run(make(reproducible=True), **long)
    alone = run(make(reproducible=True), prefetches=False, **long)
    assert ahead.before[0] > 0
    assert ahead.texts == alone.texts
    assert ahead.later_counts == alone.later_counts


@pytest.mark.parametrize(
    "more",
    [{"temperature": 1.0, "num_samples": 3}, {"schema": {"type": "object"}}],
    ids=["samples", "guided"],
)
def test_other_requests_are_unaffected(run, more):
    assert run(**more).texts == run(prefetches=False, **more).texts


def test_prompt_is_built_once_and_not_read_ahead_if_its_request_comes_first(
    make, run, expected, monkeypatch
):
    engine = make()
    monkeypatch.setattr(Scheduler, "read_ahead", lambda self, samples: None)
    prepare, built = engine.loaded.inputs.prepare, []
    monkeypatch.setattr(
        engine.loaded.inputs, "prepare", lambda request: built.append(1) or prepare(request)
    )
    late = run(engine, waits=False)
    assert (late.texts, late.before) == (expected.texts, expected.before)
    assert len(built) == sum(map(len, late.dialogues.replies.values()))
    assert engine._ahead == {}


def test_changed_request_is_built_again(make, expected):
    engine, dialogues = make(), Dialogues(**FEW)
    other = dataclasses.replace(dialogues.request("q1"), dialogue_id="q0")
    engine.prefetch([other])
    dialogues = Dialogues(**FEW)
    assert engine.generate([dialogues.request("q0")])[0].samples == expected.texts["q0"][0]
    engine.prefetch([dialogues.request("q1")])
    engine.retire("q1")
    assert engine._ahead == {}


def test_error_while_a_prompt_is_built_ahead_fails_no_request(make, expected):
    def broken(file):
        raise MemoryError

    engine = make()
    requests = [Dialogues(**FEW).request(name) for name in expected.texts]
    engine.prefetch([dataclasses.replace(request, load_image=broken) for request in requests])
    engine.await_prompts()
    errors = [sample.in_flight.built.exception() for sample in engine._ahead.values()]
    assert any(errors)
    replies = engine.generate(requests)
    assert [reply.samples for reply in replies] == [own[0] for own in expected.texts.values()]


@pytest.mark.parametrize("pages", [4, 9])
def test_nothing_is_evicted_for_prompts_read_ahead(make, run, expected, monkeypatch, pages):
    engine = make(budget=pages * make().cache.page_bytes)
    read_ahead, attempts = Scheduler.read_ahead, []

    def watched(self, samples):
        before = self.cache.evicted, len(self.cache.sequences), self.cache.num_pinned
        read_ahead(self, samples)
        assert (self.cache.evicted, self.cache.num_pinned) == (before[0], before[2])
        assert len(self.cache.sequences) >= before[1]
        attempts.append(len(samples))

    monkeypatch.setattr(Scheduler, "read_ahead", watched)
    assert run(engine).texts == expected.texts
    assert attempts
    assert engine.cache.evicted > 0


@pytest.mark.parametrize("step", ["prefill", "reserve"])
def test_running_out_of_memory_while_reading_ahead_is_ignored(
    make, run, expected, monkeypatch, step
):
    engine = make()
    owner = scheduler if step == "prefill" else engine.cache
    read_ahead, faults = Scheduler.read_ahead, []

    def failing(*args, **more):
        faults.append(step)
        raise torch.OutOfMemoryError("CUDA out of memory")

    def starved(self, samples):
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, failing)
            read_ahead(self, samples)

    monkeypatch.setattr(Scheduler, "read_ahead", starved)
    starved_run = run(engine)
    assert faults
    assert starved_run.texts == expected.texts
    assert starved_run.dialogues.events == []
    assert engine.cache.num_pinned == 0


@pytest.mark.parametrize("reproducible", mostly_slow(["off", "on"], "on"))
def test_transcripts_do_not_depend_on_reading_ahead(tmp_path, monkeypatch, reproducible):
    questions = make_questions(tmp_path, 3)
    options = {
        "engine": "transformers",
        "model": str(small_model()),
        "reproducible": reproducible,
        "batch_size": 2,
        "max_turns": 3,
        "max_new_tokens": 6,
        "image_size": (64, 48),
    }
    read_ahead, calls = Scheduler.read_ahead, []
    monkeypatch.setattr(Scheduler, "read_ahead", lambda *args: calls.append(1) or read_ahead(*args))

    def play(**overrides):
        run = start_run(make_config(tmp_path, questions, **options, **overrides))
        run.go(NullObserver())
        run.close()
        return run.path

    path = play(max_batched_turns=4)
    assert calls
    expected = transcripts(path)
    assert transcripts(play(max_batched_turns=0)) == expected
    assert transcripts(play(max_batched_turns=1)) == expected
    truncate_log(path, 4)  # killed in the second turn and resumed
    resume(path)
    assert transcripts(path) == expected
