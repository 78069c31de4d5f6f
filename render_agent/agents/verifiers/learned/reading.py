"""A situation with its candidates as the numbers that the ensemble reads."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.agents.verifiers.base import Situation
from render_agent.agents.verifiers.learned.history import Histories, encode_history, stack
from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import Candidate


def read_histories(situation: Situation, candidates: Sequence[Candidate], length: int) -> Histories:
    """Return the history that each candidate ends, of `length` moves at the most.

    Replies that could not be read moved nothing and are left out. A candidate that goes on from another
    one has that before it. ValueError where a candidate could not be read.
    """
    made = [(t.action, t.stood) for t in situation.state.turns if isinstance(t.action, Action)]
    actions, trail = [action for action, _ in made], [stood for _, stood in made]
    here = situation.observation.camera
    by_number = {candidate.number: candidate for candidate in candidates}
    rows = []
    for candidate in candidates:
        if not isinstance(candidate.action, Action):
            raise ValueError(f"candidate {candidate.number} could not be read: it moves nothing")
        path = (
            [candidate] if candidate.follows is None else [by_number[candidate.follows], candidate]
        )
        moves = [(c.action, c.camera) for c in path if isinstance(c.action, Action)]
        asked = [*actions, *(action for action, _ in moves)]
        poses = [*trail, here, *(camera for _, camera in moves)]
        rows.append(encode_history(asked, poses, length, here))
    return stack(rows)
