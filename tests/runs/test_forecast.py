import math

import numpy as np
import pytest
from factories.runs import make_config, make_questions

from render_agent.engines.scripted import Replies, ScriptedEngine
from render_agent.runs.forecast import FEWEST_TURNS, KNOWN_SECONDS, SHARP_RANGE, Forecast
from render_agent.runs.phase_controller import Silent
from render_agent.runs.runner import start_run

STEP = '{"forward_meters": 0.5}'
DONE = '{"answer": "3", "done": true}'


def middle(forecast):
    return math.sqrt(math.prod(forecast.range))


def take(forecast, numbers, clock, *, each=0.0, batch=1, ended=False):
    """Take turns of these numbers, so many seconds each; return when the last was."""
    for number in numbers:
        clock += each
        forecast.took(number, batch, clock, ended=ended)
    return clock


def played(lengths, max_turns, size, rng):
    """Yield a run's turns in batches of a size: all take the first, then those that go on the second."""
    clock = 3.0  # scans are read
    for number in range(max_turns):
        active = [length for length in lengths if length > number]
        for begin in range(0, len(active), size):
            batch = active[begin : begin + size]
            clock += 0.4 * len(batch) * rng.lognormal(0, 0.2)
            for length in batch:
                yield clock, number, len(batch), length == number + 1


def test_what_is_told_is_as_sure_as_it_says():
    rng, inside, near, known = np.random.default_rng(0), [], [], []
    for _ in range(30):
        max_turns = int(rng.integers(4, 12))
        hazard = rng.beta(1, 4)
        lengths = np.minimum(rng.geometric(max(hazard, 0.01), 48), max_turns)
        turns = list(played(lengths, max_turns, 8, rng))
        forecast = Forecast(max_turns, [(0, True)] * len(lengths))
        total, shares = turns[-1][0], iter((0.25, 0.5, 0.75, 2.0))
        share = next(shares)
        for at, number, batch, ended in turns:
            if at > share * total:
                known.append(forecast.range is not None)
                if forecast.range:
                    low, high = forecast.range
                    left = (1 - share) * total
                    inside.append(low <= left <= high)
                    if high <= SHARP_RANGE * low:
                        near.append(1 / 1.5 <= middle(forecast) / left <= 1.5)
                share = next(shares)
            forecast.took(number, batch, at, ended=ended)
    assert np.mean(known) > 0.7
    assert np.mean(inside) > 0.8
    assert len(near) > 20
    assert np.mean(near) > 0.9


def test_the_last_turn_ends_every_question():
    forecast = Forecast(4, [(3, True)] * 5)
    assert forecast.turns_to_come() == (5, 0)


def test_a_continued_run_knows_how_long_its_dialogues_were():
    before = [(3, False)] * 40  # each ended in its third turn
    fresh = Forecast(20, [(0, True)] * 20)
    continued = Forecast(20, [*before, *[(0, True)] * 20])
    assert continued.turns_to_come()[0] == pytest.approx(60, rel=0.1)
    assert continued.turns_to_come()[1] < fresh.turns_to_come()[1] / 3
    # those that go on are no evidence of an end
    assert Forecast(20, [(3, True)] * 40).turns_to_come()[0] > 40 * 10


def test_an_earlier_run_tells_how_long_dialogues_are_until_this_one_does():
    earlier = [3] * 30 + [6] * 10
    fresh, told = Forecast(20, [(0, True)] * 20), Forecast(20, [(0, True)] * 20, earlier)
    assert told.turns_to_come()[0] == pytest.approx(20 * 3.75, rel=0.1)
    assert told.turns_to_come()[1] < fresh.turns_to_come()[1] / 2
    longer = Forecast(20, [*[(3, True)] * 40, *[(0, True)] * 20], earlier)
    for _ in range(40):  # they went on after the third turn, whatever comes of them
        longer.failed(3)
    assert longer.turns_to_come()[0] > 20 * 5


def test_a_run_knows_the_newest_finished_one_of_its_model_beside_it(tmp_path):
    questions, replies = make_questions(tmp_path), Replies({id: [STEP, DONE] for id in "0123"})

    def played(finish=True, **options):
        run = start_run(make_config(tmp_path, questions, **options))
        try:
            if finish:
                run.go(Silent(), lambda config, asked: ScriptedEngine(replies, 4))
            return run.path, run.earlier_dialogues()
        finally:
            run.close()

    first, earlier = played(max_turns=4)
    assert earlier == []
    assert played(finish=False, max_turns=4)[1] == [
        2,
        4,
        2,
        4,
    ]  # "3" is no option of every other one
    assert played(finish=False, max_turns=5)[1] == []
    (first / "results.json").write_text("{}")
    assert played(finish=False, max_turns=4)[1] == []


def test_a_question_that_fails_says_nothing_of_others():
    forecast = Forecast(10, [(0, True)] * 20)
    for _ in range(20):
        forecast.took(0, 1, 1.0, ended=False)
    expected = forecast.turns_to_come()[0]
    for _ in range(10):
        forecast.failed(1)
    assert forecast.turns_to_come()[0] == pytest.approx(expected / 2)


def test_the_first_batch_says_little_of_the_pace():
    forecast = Forecast(2, [(0, True)] * 80)
    clock = take(forecast, [0] * 16, 300.0, batch=16)  # kernels were compiled meanwhile
    for _ in range(2):
        clock = take(forecast, [0] * 16, clock + 16.0, batch=16)
    assert middle(forecast) == pytest.approx(32 + 80, rel=0.05)


def test_a_phase_has_its_own_pace():
    forecast = Forecast(3, [(0, True)] * 40)
    clock = take(forecast, [0] * 40, 0.0, each=1.0)
    forecast.began_phase()
    clock = take(forecast, [1] * FEWEST_TURNS, clock, each=9.0)
    assert middle(forecast) == pytest.approx(9 * (80 - FEWEST_TURNS), rel=0.15)


@pytest.mark.parametrize("each", [0.1, 1.0, 30.0])
def test_nothing_is_told_in_the_first_seconds_and_the_first_share(each):
    forecast = Forecast(1, [(0, True)] * 2000)
    clock = told = 0.0
    for _ in range(400):
        clock = take(forecast, [0], clock, each=each, ended=True)
        told = told or clock * bool(forecast.range)
    assert told >= KNOWN_SECONDS
    assert told >= 0.03 * 2000 * each
    assert told <= max(KNOWN_SECONDS, 0.04 * 2000 * each) + 2 * each
