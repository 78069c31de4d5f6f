"""The scheduler serves full batches without polling, and starts nothing unwanted."""

import json
import threading
import time

import pytest
from factories.runs import finish_run, make_config, make_questions, play
from factories.samples import agent_options

from render_agent.engines.engine import Capabilities
from render_agent.engines.scripted.scripted_engine import ScriptedEngine
from render_agent.errors import EngineError
from render_agent.runs.runner import start_run
from render_agent.runs.scheduler import TurnScheduler
from render_agent.views.free_views import FreeViews


class ExploringPolicy:
    """Always explores, differently for every sample."""

    def reply(self, request):
        return self.samples(request)[0]

    def samples(self, request):
        if request.is_last_turn:
            return [json.dumps({"answer": "A", "done": True})] * request.num_samples
        return [
            json.dumps({"rotation_angle_degrees": (request.seed + 30 * number) % 170 + 1})
            for number in range(request.num_samples)
        ]


class WaitingEngine(ScriptedEngine):
    """Waits until it has `enough` requests, and must be woken when a view is rendered."""

    capabilities = Capabilities(streaming=True)

    def __init__(self, policy, enough):
        super().__init__(policy, enough)
        self.enough, self.woken, self.waits = enough, threading.Event(), 0

    def wake(self):
        self.woken.set()

    def ready(self, timeout=None):
        self.waits += 1
        if len(self._waiting) < self.enough and self.woken.wait(timeout=60):
            self.woken.clear()
            return
        yield from super().ready()


def test_views_are_submitted_while_waiting_for_the_engine(tmp_path, monkeypatch):
    """The engine is polled only after a reply or a view has arrived."""
    observe, observed = FreeViews.observe, []

    def observe_slowly(self, state):
        observed.append(state.id)
        time.sleep(0.02)
        return observe(self, state)

    monkeypatch.setattr(FreeViews, "observe", observe_slowly)
    engine, sizes = WaitingEngine(ExploringPolicy(), 3), []
    answer = engine.answer
    engine.answer = lambda requests: sizes.append(len(requests)) or answer(requests)
    pace = {"max_turns": 2, "max_batched_turns": 0, "finish_together": 3, "no_restate": True}
    play(tmp_path, make_questions(tmp_path, 3), engine, **pace)
    assert sizes == [3, 3], "the last request was submitted while waiting for the first"
    assert len(observed) == 6
    assert engine.waits <= len(observed) + len(sizes)


def test_stopped_run_renders_nothing_more(tmp_path, monkeypatch):
    preview, previewed, stopped = FreeViews.preview, [], threading.Event()
    close = TurnScheduler.close

    def held_preview(self, state, *arguments):
        previewed.append(state.id)
        if len(previewed) > 4:
            assert stopped.wait(60)
        return preview(self, state, *arguments)

    def close_all(self):
        stopped.set()
        close(self)

    class DyingEngine(ScriptedEngine):
        def answer(self, requests):
            if self.calls > 2:
                raise EngineError("the server is gone")
            return super().answer(requests)

    monkeypatch.setattr(FreeViews, "preview", held_preview)
    monkeypatch.setattr(TurnScheduler, "close", close_all)
    run = start_run(
        make_config(tmp_path, make_questions(tmp_path, 12), **agent_options("lookahead:3"))
    )
    with pytest.raises(EngineError, match="gone"):
        finish_run(run, lambda config, questions: DyingEngine(ExploringPolicy(), 4))
    assert len(previewed) < 8, "two batches had been started"
