"""What turns wait for is gathered: full batches, no spinning, and nothing begun that is not wanted."""

import json
import time

import pytest
from factories.runs import Silent, make_config, make_questions
from factories.samples import FreeRunning, choose, options_of

from render_agent.engines.scripted.engine import ScriptedEngine
from render_agent.errors import EngineError
from render_agent.observation import Looker
from render_agent.run.deliberation import Deliberations
from render_agent.run.runner import start

DEEP = "lookahead:3:2"


class Looking:
    """Always looks on, another way with every sample."""

    def reply(self, request):
        return self.samples(request)[0]

    def samples(self, request):
        if request.last:
            return [json.dumps({"answer": "A", "done": True})] * request.samples
        return [
            json.dumps({"rotation_angle_degrees": (request.seed + 30 * number) % 170 + 1})
            for number in range(request.samples)
        ]


class Counting(ScriptedEngine):
    """Notes how many requests every call has."""

    def answer(self, requests):
        self.sizes = [*getattr(self, "sizes", []), len(requests)]
        return super().answer(requests)


def test_second_moves_of_all_questions_are_asked_for_in_full_batches(tmp_path):
    """Four questions have three second moves each: they go in one call of 12, not in four of 3."""
    engine = Counting(Looking(), 12)
    options = {"max_turns": 3, "max_batched_turns": 3}
    choose(tmp_path, make_questions(tmp_path, 4), DEEP, engine, **options)
    assert engine.sizes == [4, 12, 4, 4]


@pytest.mark.parametrize("made", [ScriptedEngine, FreeRunning])
def test_it_waits_for_what_is_drawn_without_asking_again_and_again(tmp_path, monkeypatch, made):
    foresee, ended, rounds = Looker.foresee, Deliberations.ended, []

    def slowly(self, *given):
        time.sleep(0.2)
        return foresee(self, *given)

    def counted(self, view):
        rounds.append(view)
        return ended(self, view)

    monkeypatch.setattr(Looker, "foresee", slowly)
    monkeypatch.setattr(Deliberations, "ended", counted)
    engine = made(Looking(), 4)
    pace = {"max_turns": 3, "max_batched_turns": 0, "finish_together": 2}
    choose(tmp_path, make_questions(tmp_path, 2), "lookahead:3", engine, **pace)
    assert len(rounds) < 60


def test_a_run_that_stops_draws_nothing_more(tmp_path, monkeypatch):
    foresee, drawn = Looker.foresee, []

    def slowly(self, state, *given):
        drawn.append(state.id)
        time.sleep(0.1)
        return foresee(self, state, *given)

    class Dying(ScriptedEngine):
        def answer(self, requests):
            if self.calls > 2:
                raise EngineError("the server is gone")
            return super().answer(requests)

    monkeypatch.setattr(Looker, "foresee", slowly)
    run = start(make_config(tmp_path, make_questions(tmp_path, 12), **options_of("lookahead:3")))
    with pytest.raises(EngineError, match="gone"):
        run.go(Silent(), lambda config, asked: Dying(Looking(), 4))
    run.close()
    assert len(drawn) < 8, "two batches had begun"
