"""The elapsed time of a run, from the times at which its turns ended."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from render_agent.dialogue.state import QuestionState


def elapsed_by_turn(states: Iterable[QuestionState]) -> list[float]:
    """Return the elapsed seconds of a run by turn number; empty if the log is of an older version.

    Time in which several turns were in progress counts for the one that ended first. Pauses of the run do not count.
    """
    turns = [turn for state in states for turn in state.turns]
    turns.sort(key=lambda turn: turn.seconds.ended_at)
    if not turns or not turns[0].seconds.ended_at:
        return []
    seconds = [turn.seconds for turn in turns]
    starts = [s.ended_at - s.rendering - s.waiting - s.generating for s in seconds]
    earliest_starts = [*accumulate(reversed(starts), min)][::-1]  # of the turns that end later
    elapsed = [0.0] * (1 + max(turn.number for turn in turns))
    previous_end = 0.0
    for turn, start in zip(turns, earliest_starts, strict=True):
        elapsed[turn.number] += turn.seconds.ended_at - max(start, previous_end)
        previous_end = turn.seconds.ended_at
    return elapsed
