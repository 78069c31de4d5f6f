"""The elapsed time of a run, by turn: the time in which any turn was in progress."""

import time
from types import SimpleNamespace

import pytest
from factories.reports import run_rooms
from hypothesis import given
from hypothesis import strategies as st

from render_agent.dialogue.turn import Seconds
from render_agent.report.elapsed_time import elapsed_by_turn


def states_of(turns):
    """Return a state with turns, given as (number, start, end)."""
    made = [
        SimpleNamespace(number=number, seconds=Seconds(waiting=end - start, ended_at=end))
        for number, start, end in turns
    ]
    return [SimpleNamespace(turns=made)]


def test_concurrent_turns_and_pauses_are_not_added_up():
    turns = [(0, 100, 110), (0, 100, 112), (1, 110, 120), (1, 112, 130), (2, 1000, 1005)]
    assert elapsed_by_turn(states_of(turns)) == [12, 18, 5]


def test_a_long_turn_fills_the_time_around_a_short_one():
    assert elapsed_by_turn(states_of([(0, 100, 110), (1, 108, 109)])) == [1, 9]


SPANS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1000, 1060), st.integers(0, 30)), min_size=1
)


@given(SPANS)
def test_total_is_the_time_in_which_any_turn_was_in_progress(spans):
    turns = [(number, start, start + length) for number, start, length in spans]
    busy = {second for _, start, end in turns for second in range(start, end)}
    assert sum(elapsed_by_turn(states_of(turns))) == len(busy)


def test_logs_without_times_have_no_elapsed_time():
    state = SimpleNamespace(turns=[SimpleNamespace(number=0, seconds=Seconds(waiting=3.0))])
    assert elapsed_by_turn([state]) == []
    assert elapsed_by_turn([]) == []


def test_a_run_takes_no_longer_than_the_clock_says(tmp_path):
    start = time.time()
    run = run_rooms(tmp_path, id=("0", "1", "2"), max_turns=3)
    elapsed = elapsed_by_turn(run.states)
    assert len(elapsed) == 3
    assert 0 < sum(elapsed) <= time.time() - start
    last = max(turn.seconds.ended_at for state in run.states for turn in state.turns)
    assert last == pytest.approx(start, abs=600)
