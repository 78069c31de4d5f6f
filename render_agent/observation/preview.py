"""What a turn's evidence says of the next views: they were drawn when its move was chosen."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.config.agent_plan import agent_plan
from render_agent.dialogue.state import Candidate, Evidence, QuestionState, View
from render_agent.geometry.camera import Camera


def foreseen(state: QuestionState) -> View | None:
    """Return the view that was drawn when the last move was chosen, None where none was."""
    evidence = state.turns[-1].evidence if state.turns else None
    if evidence is None:
        return None
    return next(c.view for c in evidence.candidates if c.number == evidence.chosen)


def beside(state: QuestionState) -> list[View]:
    """Return the views of the moves that were not made, where the model is shown them."""
    evidence = state.turns[-1].evidence if state.turns else None
    if evidence is None or not agent_plan(evidence.agent).shows_all:
        return []
    return unmade(evidence, state.views)


def unmade(evidence: Evidence, shown: Sequence[View]) -> list[View]:
    """Return the views of the moves that were not made: each picture once, none that was shown before."""
    before = {view.file for view in shown}
    before |= {c.view.file for c in evidence.candidates if c.view and c.number == evidence.chosen}
    others = {c.view.file: c.view for c in evidence.candidates if c.view}
    return [view for file, view in others.items() if file not in before]


def led(evidence: Evidence, candidate: Candidate) -> list[Camera]:
    """Return the pose of the move that a candidate goes on from."""
    return [c.camera for c in evidence.candidates if c.number == candidate.follows]
