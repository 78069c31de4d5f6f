"""Where the candidates of a turn would have led, drawn over a floor plan."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from render_agent.analysis.report.maps.floor_plan import Plan
from render_agent.dialogue.state import Candidate, QuestionState

LONG = 22.0
"""Pixels of the line that says which way a candidate looks."""

Pixel = tuple[float, float]


@dataclass(frozen=True, slots=True)
class CandidateMark:
    """A pose that was not taken: its pixel, the end of the line where it looks, the candidate's number."""

    place: Pixel
    tip: Pixel
    name: str


@dataclass(frozen=True, slots=True)
class TurnMarks:
    """The candidates of one turn; target: the turn's id on the page."""

    target: str
    marks: tuple[CandidateMark, ...]


def candidate_marks(state: QuestionState, plan: Plan) -> tuple[TurnMarks, ...]:
    """Return for every turn with candidates where those that were not taken would have led."""
    found = []
    for turn in state.turns:
        evidence = turn.evidence
        others = [
            c
            for c in (evidence.candidates if evidence else ())
            if evidence and c.goes_on and c.number != evidence.chosen and c.camera != turn.camera
        ]
        if others:
            marks = tuple(_mark(candidate, plan) for candidate in others)
            found.append(TurnMarks(f"turn-{turn.number + 1}", marks))
    return tuple(found)


def _mark(candidate: Candidate, plan: Plan) -> CandidateMark:
    u, v = (float(value) for value in plan.pixels(np.array([candidate.camera.position]))[0])
    yaw = math.radians(candidate.camera.yaw)
    tip = u + LONG * math.cos(yaw), v - LONG * math.sin(yaw)
    return CandidateMark((u, v), tip, str(candidate.number + 1))
