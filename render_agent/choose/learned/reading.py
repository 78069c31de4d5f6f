"""A situation with its candidates as the numbers that the ensemble reads."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.action import Action
from render_agent.choose.learned.history import Histories, encode_history, stack
from render_agent.choose.seam import Situation
from render_agent.state import Candidate


def read_histories(situation: Situation, candidates: Sequence[Candidate], length: int) -> Histories:
    """Return the history that each candidate ends, of `length` moves at the most.

    Replies that could not be read moved nothing and are left out. A candidate that goes on from another
    one has that before it. ValueError where a candidate could not be read.
    """
    made = [turn for turn in situation.state.turns if isinstance(turn.action, Action)]
    actions = [turn.action for turn in made]
    trail = [turn.stood for turn in made]
    here = situation.look.camera
    by_number = {candidate.number: candidate for candidate in candidates}
    rows = []
    for candidate in candidates:
        if not isinstance(candidate.action, Action):
            raise ValueError(f"candidate {candidate.number} could not be read: it moves nothing")
        first = None if candidate.follows is None else by_number[candidate.follows]
        led = [first] if first is not None and isinstance(first.action, Action) else []
        path = [*led, candidate]
        moves = [one.action for one in path if isinstance(one.action, Action)]
        poses = [here, *(one.camera for one in path)]
        kept = [action for action in actions if isinstance(action, Action)]
        rows.append(encode_history([*kept, *moves], [*trail, *poses], length, here))
    return stack(rows)
