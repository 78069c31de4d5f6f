"""A decision: the state of a question, its candidate moves, and what each would show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.agents.verifiers.verifier import FloatArray, TurnContext
from render_agent.dialogue.question import Question
from render_agent.dialogue.turn import Candidate
from render_agent.tasks.question_types import type_of


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """One turn of a logged run, as a verifier would see it."""

    run: str
    """Path of the run folder."""
    context: TurnContext
    candidates: tuple[Candidate, ...]
    """K moves, each with the view it leads to."""
    chosen: int | None
    """Index of the move that was made; None if it is not a candidate."""
    found: FloatArray
    """Number of named things each move would clearly show for the first time, (K,); NaN if unknown."""
    surface: FloatArray
    """Share of the room's visible surface each move would show for the first time, (K,)."""
    geometry: FloatArray
    """Scores of the geometry verifier, (K,)."""
    good: NDArray[np.bool_]
    """Mask of the moves labelled as good, (K,)."""

    @property
    def scene(self) -> str:
        """The name of its scene."""
        return self.context.state.question.scene

    @property
    def finds(self) -> NDArray[np.bool_]:
        """Mask of the moves that clearly show a named thing for the first time, (K,)."""
        return np.asarray(self.found > 0)

    @property
    def is_a_choice(self) -> bool:
        """True if some candidates are good and some are not."""
        return bool(self.good.any() and not self.good.all())


MIN_NEW_SURFACE = 0.03  # minimum share of new surface for a good move that shows no named object

# Moves that show this fraction of the best move's new surface count as equally good.
NEAR_BEST = 0.8


def good_moves(
    question: Question, found: FloatArray, surface: FloatArray, right: int | None
) -> NDArray[np.bool_]:
    """Return which moves are good, (K,).

    Moves that clearly show a named thing for the first time are good. If there are none, and for room sizes, moves
    that show about as much new surface as the best are good. If the named things are unknown, only the move at index
    `right` is good.
    """
    if (found > 0).any():
        good: NDArray[np.bool_] = found > 0
        return good
    if np.isfinite(found).any() or type_of(question).needs == "room":
        return np.asarray((surface >= MIN_NEW_SURFACE) & (surface >= NEAR_BEST * surface.max()))
    labels = np.zeros(len(found), bool)
    if right is not None:
        labels[right] = True
    return labels


def scene_names(decisions: Sequence[Decision]) -> list[str]:
    """Return the scene name of every decision, prefixed by the folder of its scan if ambiguous."""
    scans: dict[str, set[Path | None]] = {}
    for decision in decisions:
        question = decision.context.state.question
        scans.setdefault(question.scene, set()).add(question.scan)
    names = []
    for decision in decisions:
        question = decision.context.state.question
        is_ambiguous = len(scans[question.scene]) > 1 and question.scan is not None
        folder = (
            f"{question.scan.parent.name}/" if is_ambiguous and question.scan is not None else ""
        )
        names.append(f"{folder}{question.scene}")
    return names
