"""A decision: the state of a question, its candidate moves, and what each would have shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.agents.verifiers.verifier import FloatArray, TurnContext
from render_agent.dialogue.evidence import Candidate
from render_agent.dialogue.question import Question
from render_agent.tasks.mentions import kind_of
from render_agent.tasks.question_types import ROOM_SIZE_TYPE


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """One turn of a logged run, as a verifier would have met it.

    run: the path of the run folder, as text. candidates: K moves, each with the view that it leads to.
    chosen: the place of the one that was made, None where it is not among them. found: (K,) how many of
    the things that the question names each would show well for the first time, NaN where nobody can
    tell. surface: (K,) the share of the room's visible surface that it would show for the first time.
    geometry: (K,) what the verifier geometry says of them. good: (K,) the moves that are taken for good.
    """

    run: str
    context: TurnContext
    candidates: tuple[Candidate, ...]
    chosen: int | None
    found: FloatArray
    surface: FloatArray
    geometry: FloatArray
    good: NDArray[np.bool_]

    @property
    def scene(self) -> str:
        """The name of its scene."""
        return self.context.state.question.scene

    @property
    def finds(self) -> NDArray[np.bool_]:
        """Which moves show something that the question names well for the first time, (K,)."""
        return np.asarray(self.found > 0)

    @property
    def is_a_choice(self) -> bool:
        """Whether some candidates are good and some are not."""
        return bool(self.good.any() and not self.good.all())


LEAST_SURFACE = 0.03
"""The least share of the room's visible surface that makes a move good where it shows nothing named."""

NEAR_BEST = 0.8
"""Of the largest new surface: moves that show so much of it are as good as the best."""


def good_moves(
    question: Question, found: FloatArray, surface: FloatArray, right: int | None
) -> NDArray[np.bool_]:
    """Return which moves are good, (K,).

    found, surface: as in `Decision`. Those that show something named well for the first time are. Where
    none does, and for the size of a room, those are that show about as much new surface as the best.
    Where nobody knows what is named, the move is that was made on the way to a right answer (`right`).
    """
    if (found > 0).any():
        good: NDArray[np.bool_] = found > 0
        return good
    if np.isfinite(found).any() or kind_of(question) == ROOM_SIZE_TYPE:
        return np.asarray((surface >= LEAST_SURFACE) & (surface >= NEAR_BEST * surface.max()))
    made = np.zeros(len(found), bool)
    if right is not None:
        made[right] = True
    return made


def scene_names(decisions: Sequence[Decision]) -> list[str]:
    """Return the name of the scene of every decision; scans of one name are told apart by their folder."""
    scans: dict[str, set[Path | None]] = {}
    for decision in decisions:
        question = decision.context.state.question
        scans.setdefault(question.scene, set()).add(question.scan)
    names = []
    for decision in decisions:
        question = decision.context.state.question
        shared = len(scans[question.scene]) > 1 and question.scan is not None
        folder = f"{question.scan.parent.name}/" if shared and question.scan is not None else ""
        names.append(f"{folder}{question.scene}")
    return names
