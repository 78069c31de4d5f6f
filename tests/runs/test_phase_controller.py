"""The phases of a run, with the real renderer, log and scans, and a scripted engine."""

import json
import threading
import time
from dataclasses import replace

import pytest
from factories.runs import (
    STEP,
    NullObserver,
    comparable_results,
    finish_run,
    make_config,
    make_questions,
    play,
    resume,
    transcripts,
    walking_engine,
)

from render_agent.engines.engine import Capabilities, Reply
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.errors import EngineError, RenderError
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.views.free_views import FreeViews


def logged_order(path):
    return [(line["question_id"], line["turn"]) for line in RunData(path).lines()]


def test_batching_saves_calls_and_finish_together_1_is_sequential(tmp_path):
    questions = make_questions(tmp_path, 10)
    replies = {"*": [STEP]}
    engine = ScriptedEngine(ReplayPolicy(replies))
    options = {"max_turns": 8, "finish_together": 1, "no_restate": True}
    path, _ = play(tmp_path, questions, engine, max_batched_turns=4, **options)
    assert engine.calls == 44
    alone = ScriptedEngine(ReplayPolicy(replies))
    sequential_path, _ = play(tmp_path, questions, alone, max_batched_turns=0, **options)
    assert alone.calls == 80
    assert transcripts(path) == transcripts(sequential_path)
    ids = [str(number) for number in range(10)]
    batched = [(name, turn) for turn in range(4) for name in ids]
    finishing = [(name, turn) for name in ids for turn in range(4, 8)]
    assert logged_order(path) == batched + finishing
    assert {line["phase"] for line in RunData(path).lines()[40:]} == {"finishing"}


# max_batched_turns, finish_together and batch_size; the quick cases differ in all three.
SCHEDULES = [
    pytest.param(batched, together, batch_size, marks=() if quick else pytest.mark.slow)
    for batched, together, few in (
        (0, 1, {1, 64}),
        (0, 5, {3}),
        (2, 2, {1, 64}),
        (4, "auto", {3}),
        (9, 1, {64}),
    )
    for batch_size, quick in ((size, size in few) for size in (1, 3, 64))
]


@pytest.fixture(scope="module")
def default_run(tmp_path_factory):
    """A run of seven questions with the default schedule, and its results."""
    folder = tmp_path_factory.mktemp("usual")
    return play(folder, make_questions(folder, 7), walking_engine(7), max_turns=5)


@pytest.mark.parametrize(("batched", "together", "batch_size"), SCHEDULES)
def test_schedule_does_not_change_transcripts(default_run, tmp_path, batched, together, batch_size):
    reference, results = default_run
    path, scheduled_results = play(
        tmp_path,
        make_questions(tmp_path, 7),
        walking_engine(7, batch_size=batch_size),
        max_turns=5,
        max_batched_turns=batched,
        finish_together=together,
    )
    assert transcripts(path) == transcripts(reference)
    assert scheduled_results["questions"] == results["questions"]


class StreamingEngine(ScriptedEngine):
    """Answers one or two requests at a time, in a different order."""

    capabilities = Capabilities(streaming=True)

    def ready(self, timeout=None):
        self._waiting.sort(key=lambda request: hash((request.dialogue_id, request.turn)))
        yield from super().ready()


def test_free_running_engine_gives_the_same_transcripts(tmp_path):
    questions = make_questions(tmp_path, 6)
    reference, _ = play(tmp_path, questions, walking_engine(6), max_turns=5)
    free = StreamingEngine(walking_engine(6).policy, batch_size=2)
    path, results = play(tmp_path, questions, free, max_turns=5, finish_together=4)
    assert transcripts(path) == transcripts(reference)
    assert results["counts"]["answered"] == 6


def test_free_running_engine_has_bounded_pending_views(tmp_path):
    """Waiting prompts hold images; thousands at once would not fit into memory."""
    free = StreamingEngine(walking_engine(12).policy, batch_size=2)
    pending_counts = []

    def ready(timeout=None):
        pending_counts.append(len(free._waiting))
        if (
            max(pending_counts) < 4
        ):  # wait for as many as may be submitted, however long rendering takes
            time.sleep(0.01)
            return iter(())
        return StreamingEngine.ready(free, timeout)

    free.ready = ready
    _, results = play(
        tmp_path, make_questions(tmp_path, 12), free, max_turns=5, max_batched_turns=2
    )
    assert results["counts"]["answered"] == 12
    assert max(pending_counts) == 4


def test_changed_batch_size_applies_immediately(tmp_path):
    free = StreamingEngine(walking_engine(12).policy, batch_size=2)
    max_batch = {2: 0, 5: 0}

    def ready(timeout=None):
        max_batch[free.batch_size] = max(max_batch[free.batch_size], len(free._waiting))
        if free.batch_size == 5 and max_batch[5] < 5:  # wait for it, however long rendering takes
            time.sleep(0.01)
            return iter(())
        free.batch_size = 5 if free.calls > 8 else 2
        return StreamingEngine.ready(free, timeout)

    free.ready = ready
    _, results = play(
        tmp_path, make_questions(tmp_path, 12), free, max_turns=5, max_batched_turns=0
    )
    assert results["counts"]["answered"] == 12
    assert max_batch[2] <= 2
    assert max_batch[5] == 5


class RetryingEngine(ScriptedEngine):
    """Reports two retries before every reply, and a fault before question 1 fails in turn 1."""

    def _answer_one(self, request, replies_or_text, batch_size):
        if (request.dialogue_id, request.turn) == ("1", 1):
            return Reply(error="too much", events=("out_of_memory",))
        return replace(
            super()._answer_one(request, replies_or_text, batch_size), events=("retried", "retried")
        )


def test_engine_events_are_logged_and_totalled(tmp_path):
    path, results = play(
        tmp_path, make_questions(tmp_path, 2), RetryingEngine(walking_engine(2).policy, 2)
    )
    turns = sum(len(turns_of_question) for turns_of_question in transcripts(path).values())
    assert results["totals"]["events"] == {"out_of_memory": 1, "retried": 2 * turns}
    (failed,) = [line for line in RunData(path).lines() if line["error"]]
    assert failed["events"] == ["out_of_memory"]
    resumed = resume(path, walking_engine(2))
    assert resumed["counts"]["failed"] == 0
    assert resumed["totals"]["events"] == results["totals"]["events"], "events survive resuming"


def test_finished_questions_are_not_asked_again(tmp_path):
    questions = make_questions(tmp_path, 4)
    retired = []
    engine = walking_engine(4, turns=2)
    engine.retire = retired.append
    path, results = play(tmp_path, questions, engine, max_turns=9)
    assert sorted(retired) == ["0", "1", "2", "3"]
    assert [row["turns"] for row in results["questions"]] == [2, 3, 2, 3]
    assert len(logged_order(path)) == 10


def test_broken_scan_fails_only_its_questions(tmp_path):
    questions = make_questions(tmp_path, 4)
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    expected_path, _ = play(tmp_path, questions, walking_engine(4))
    (tmp_path / "broken.ply").write_bytes(b"ply\nformat ascii 1.0\nelement vertex 9\n")
    rows[1]["scene_name"] = "broken"
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    path, results = play(tmp_path, questions, walking_engine(4))
    assert [row["status"] for row in results["questions"]] == ["answered", "failed"] + [
        "answered"
    ] * 2
    assert results["official"] is None
    assert results["questions"][1]["score"] is None
    assert (error := next(line["error"] for line in RunData(path).lines() if line["error"]))
    assert "broken.ply" in error
    left = transcripts(path)
    assert left == {
        name: turns for name, turns in transcripts(expected_path).items() if name in left
    }
    assert set(left) == {"0", "2", "3"}


class FaultyEngine(ScriptedEngine):
    """Cannot answer question 2 in turn 1 while `broken`."""

    broken = True

    def _answer_one(self, request, replies_or_text, batch_size):
        if self.broken and (request.dialogue_id, request.turn) == ("2", 1):
            return Reply(error="the picture is too large")
        return super()._answer_one(request, replies_or_text, batch_size)


def test_failed_question_resumes_from_its_last_turn(tmp_path):
    questions = make_questions(tmp_path, 4)
    reference, _ = play(tmp_path, questions, walking_engine(4))
    engine = FaultyEngine(walking_engine(4).policy)
    path, results = play(tmp_path, questions, engine)
    assert results["counts"]["failed"] == 1
    engine.broken = False
    calls_before = engine.calls
    resumed = resume(path, engine)
    assert resumed["counts"] == results["counts"] | {"failed": 0, "answered": 4}
    assert transcripts(path) == transcripts(reference)
    assert comparable_results(path) == comparable_results(reference)
    assert engine.calls - calls_before == 3


class DyingEngine(ScriptedEngine):
    """Fails after a number of calls."""

    def answer(self, requests):
        if self.calls > 3:
            raise EngineError("the server is gone")
        return super().answer(requests)


def test_run_with_failed_engine_resumes_identically(tmp_path):
    questions = make_questions(tmp_path, 4)
    reference, _ = play(tmp_path, questions, walking_engine(4))
    run = start_run(make_config(tmp_path, questions))
    with pytest.raises(EngineError, match="gone"):
        finish_run(
            run, lambda config, questions: DyingEngine(walking_engine(4).policy, batch_size=2)
        )
    assert RunData(run.path).saved_results is None
    resume(run.path, walking_engine(4))
    assert transcripts(run.path) == transcripts(reference)
    assert comparable_results(run.path) == comparable_results(reference)


def test_views_are_rendered_while_the_engine_generates(tmp_path):
    questions = make_questions(tmp_path, 4)
    run = start_run(make_config(tmp_path, questions, max_turns=3))
    drawn_ahead = threading.Event()
    engine = walking_engine(4, batch_size=1)
    answer, keep = engine.answer, run.log.images.save

    def note_drawing(file, image):
        if file.startswith("views/1/"):
            drawn_ahead.set()
        return keep(file, image)

    def wait_for_drawing(requests):
        if (requests[0].dialogue_id, requests[0].turn) == ("0", 1):
            assert drawn_ahead.wait(timeout=30), "question 1 was not rendered meanwhile"
        return answer(requests)

    run.log.images.save, engine.answer = note_drawing, wait_for_drawing
    finish_run(run, lambda config, questions: engine)
    assert drawn_ahead.is_set()


@pytest.mark.parametrize("stops", [False, True], ids=["completes", "fails"])
def test_next_views_are_rendered_while_the_slowest_reply_is_written(tmp_path, stops):
    """No question is asked for turn 1 before all have taken turn 0, but the others are rendered and read ahead by then."""
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 3), max_turns=3))
    events, rendered = [], {str(number): threading.Event() for number in range(3)}
    engine, keep = StreamingEngine(ReplayPolicy({"*": [STEP]}), batch_size=3), run.log.images.save
    slowest, ahead = [], []

    def note_drawing(file, picture):
        number, name = file.split("/")[1:3]
        if name.startswith("1_"):
            events.append(("view", number))
            rendered[number].set()
        return keep(file, picture)

    def submit(requests):
        events.extend(("asked", request.dialogue_id, request.turn) for request in requests)
        StreamingEngine.submit(engine, requests)

    def ready(timeout=None):
        if slowest:
            assert rendered["0"].wait(30)
            assert rendered["1"].wait(30)
            if len(ahead) < 2:
                time.sleep(0.001)
                return
            if stops:
                raise EngineError("gone")
            events.append("slowest reply")
            yield slowest.pop()
            return
        for request, reply in ScriptedEngine.ready(engine, timeout):
            if (request.dialogue_id, request.turn) == ("2", 0):
                slowest.append((request, reply))
            else:
                yield request, reply

    run.log.images.save, engine.submit, engine.ready = note_drawing, submit, ready
    engine.capabilities, engine.prefetch = Capabilities(streaming=True, prefetch=True), ahead.extend
    if stops:
        with pytest.raises(EngineError, match="gone"):
            finish_run(run, lambda config, questions: engine)
        assert logged_order(run.path) == [("0", 0), ("1", 0)]
        return
    finish_run(run, lambda config, questions: engine)
    index = events.index("slowest reply")
    assert {("view", "0"), ("view", "1")} <= {*events[:index]}
    assert {event[2] for event in events[:index] if event[0] == "asked"} == {0}
    assert [event for event in events if event[0] == "view"].count(("view", "0")) == 1
    assert {(request.dialogue_id, request.turn) for request in ahead[:2]} == {("0", 1), ("1", 1)}
    turns = [turn for _, turn in logged_order(run.path)]
    assert turns == sorted(turns)


class PrefetchingEngine(StreamingEngine):
    """Checks that nothing is submitted before all questions have taken the previous turn.

    The last replies of the first turn are held back until a request can be read ahead.
    """

    capabilities = Capabilities(streaming=True, prefetch=True)

    def __init__(self, policy, batch_size):
        super().__init__(policy, batch_size)
        self.ahead, self.submitted = [], []

    def ready(self, timeout=None):
        is_first_turn = {turn for _, turn in self.submitted} == {0}
        if is_first_turn and len(self._waiting) <= self.batch_size and not self.ahead:
            time.sleep(0.001)
        else:
            yield from super().ready()

    def prefetch(self, requests):
        self.ahead += requests

    def submit(self, requests):
        for request in requests:
            assert request.turn >= max([turn for _, turn in self.submitted], default=0)
            self.submitted.append((request.dialogue_id, request.turn))
        super().submit(requests)


def test_questions_can_fail_and_end_at_a_barrier(tmp_path, monkeypatch):
    questions, observe = make_questions(tmp_path, 9), FreeViews.observe
    broken = []

    def fail_if_broken(self, state):
        if (state.id, len(state.turns)) in broken:
            raise RenderError("broken view")
        return observe(self, state)

    monkeypatch.setattr(FreeViews, "observe", fail_if_broken)
    options = {"max_turns": 5, "max_batched_turns": 5}
    reference, _ = play(tmp_path, questions, walking_engine(9, turns=4), **options)
    broken += [("3", 1), ("7", 2)]
    engine = PrefetchingEngine(walking_engine(9, turns=4).policy, batch_size=3)
    path, results = play(tmp_path, questions, engine, **options)
    assert results["counts"]["failed"] == 2
    assert results["counts"]["answered"] == 7
    expected = transcripts(reference)
    expected["3"], expected["7"] = expected["3"][:1], expected["7"][:2]
    assert transcripts(path) == expected
    # Requests that were read ahead are submitted later, unchanged.
    assert engine.ahead
    assert {(request.dialogue_id, request.turn) for request in engine.ahead} <= {*engine.submitted}
    broken.clear()
    resumed = PrefetchingEngine(walking_engine(9, turns=4).policy, batch_size=3)
    resumed.submitted = [("", 1)]  # resumed questions take turns 1 and 2
    resume(path, resumed)
    assert transcripts(path) == transcripts(reference)


def test_batched_turns_are_announced_after_the_previous_one(tmp_path):
    """The observer hears of each batched turn with its questions, after their previous turns."""
    events = []

    class Listener(NullObserver):
        def on_phase_start(self, phase, states):
            events.append((phase, {state.id: len(state.turns) for state in states}))

        def on_turn(self, state, turn):
            events.append((state.id, turn.number))

    run = start_run(
        make_config(tmp_path, make_questions(tmp_path, 4), max_turns=4, max_batched_turns=2)
    )
    run.go(
        Listener(),
        lambda config, questions: PrefetchingEngine(walking_engine(4).policy, batch_size=2),
    )
    run.close()
    phases = [(phase, turns) for phase, turns in events if isinstance(turns, dict)]
    all_ids = "0123"
    assert phases == [
        ("batched", dict.fromkeys(all_ids, 0)),
        ("batched", dict.fromkeys(all_ids, 1)),
        ("finishing", dict.fromkeys("12", 2)),
    ]
    numbers = [turns for _, turns in events if not isinstance(turns, dict)]
    assert numbers[:8] == sorted(numbers[:8])


def test_ground_truth_is_in_no_message(tmp_path):
    questions = make_questions(tmp_path, 1)
    row = json.loads(questions.read_text()) | {"ground_truth": "271828"}
    questions.write_text(json.dumps(row) + "\n")
    path, _ = play(tmp_path, questions, walking_engine(1))
    messages = [line["messages"] for line in RunData(path).lines()]
    assert messages
    assert "271828" not in json.dumps(messages)
