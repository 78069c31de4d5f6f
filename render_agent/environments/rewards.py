"""Rewards of an episode: the official score, and terms computed from the geometry of the scene.

Every term is one number per step. The reward of a step is the weighted sum of the terms that the user selected. The
formulas are in `TERMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.chat import View
from render_agent.dialogue.question import TargetError
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.errors import UsageError
from render_agent.options import RunConfig
from render_agent.parts.beliefs.scored_probe import map_error
from render_agent.render.renderer import Renderer
from render_agent.runs.log.row import score_of
from render_agent.score.dialogues.reached_views import is_success
from render_agent.util.numbers import is_finite_number
from render_agent.util.reasons import did_you_mean, short_repr
from render_agent.visibility.room_visibility import RoomVisibility, named_boxes

Boxes = NDArray[np.float64]  # one value per box that the question names


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a step of an episode."""

    state: QuestionState
    turn: Turn | None
    """The turn that the step completed; None if a probe or a request to restate its answer follows."""
    before: Boxes
    """Best visible share so far of each object that the question names, before the step."""
    after: Boxes  # the same values after the step
    shares: Boxes  # largest visible share of each of these objects in the new views
    room: RoomVisibility | None  # ground truth of the scene; None unless a term needs it


@dataclass(frozen=True)
class Term:
    """A part of the reward."""

    compute: Callable[[Step], float]  # returns its value for a step
    needs_boxes: bool = False  # True if it needs the object boxes of the scene
    needs_map: bool = False
    needs_target: bool = False


def _answer_term(step: Step) -> float:
    return 0.0 if step.state.active else score_of(step.state) or 0.0


def _malformed_term(step: Step) -> float:
    return float(step.turn is not None and isinstance(step.turn.action, Malformed))


def _blocked_term(step: Step) -> float:
    turn = step.turn
    return float(turn is not None and turn.outcome is not None and turn.outcome.is_short)


def _gain(value: Callable[[TargetError], float]) -> Callable[[Step], float]:
    """Return the function that computes how much a value of the camera's pose increased in the step."""

    def compute(step: Step) -> float:
        errors = step.state.target_errors
        return 0.0 if step.turn is None or not errors else value(errors[-1]) - value(errors[-2])

    return compute


def _success_term(step: Step) -> float:
    errors = step.state.target_errors
    return float(not step.state.active and bool(errors) and is_success(errors[-1]))


def _map_error_term(step: Step) -> float:
    if step.turn is None or step.room is None:
        return 0.0
    return map_error(step.state.question, step.turn, step.room.facts)


TERMS: Mapping[str, Term] = {
    # The question's official score, 0 to 1, in the last step of an episode.
    "answer": Term(_answer_term),
    # 1 if the reply was unreadable.
    "malformed": Term(_malformed_term),
    # 1 if the camera moved or turned less than requested.
    "blocked": Term(_blocked_term),
    # 1 per turn.
    "turn": Term(lambda step: float(step.turn is not None)),
    # Mean over the named objects of the largest visible share in the new views, 0 to 1.
    "visible": Term(lambda step: _mean(step.shares), needs_boxes=True),
    # Mean over the named objects of the increase in the best visible share so far; at most 1 per episode.
    "newly_visible": Term(lambda step: _mean(step.after - step.before), needs_boxes=True),
    # Decrease of the shortest free path to the target in metres; over an episode, at most the path at the start.
    "distance": Term(
        _gain(lambda e: -(e.position if e.path is None else e.path)), needs_target=True
    ),
    # Decrease of the heading and pitch errors in units of 180 degrees; at most 1.67 over an episode.
    "angle": Term(_gain(lambda e: -(e.heading + e.pitch) / 180), needs_target=True),
    # Increase of the overlap of visible surface with the target; from -1 to 1 over an episode.
    "overlap": Term(_gain(lambda e: e.overlap), needs_target=True),
    # 1 in the last step if the camera is at most 0.5 m and 30 degrees from the target.
    "success": Term(_success_term, needs_target=True),
    # Mean over the named objects of min(distance on the believed map / 1 m, 1); missing objects count as 1.
    "map_error": Term(_map_error_term, needs_boxes=True, needs_map=True),
}

DEFAULT_WEIGHTS: Mapping[str, float] = {"answer": 1.0}


def _mean(values: Boxes) -> float:
    return float(values.mean()) if len(values) else 0.0


@dataclass(frozen=True)
class Rewards:
    """The terms of a reward with their weights."""

    weights: Mapping[str, float]
    config: RunConfig

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Mapping):
            raise UsageError(
                f"rewards {short_repr(self.weights)} must be weights by term, such as {{'answer': 1}}"
            )
        for name, weight in self.weights.items():
            if name not in TERMS:
                raise UsageError(
                    f"there is no reward {name!r}. Choose from {', '.join(TERMS)}{did_you_mean(str(name), TERMS)}"
                )
            if not is_finite_number(weight):
                raise UsageError(
                    f"the weight {short_repr(weight)} of the reward {name!r} is not a finite number"
                )
            if TERMS[name].needs_map and "map" not in self.config.probe:
                raise UsageError(f"the reward {name!r} scores the believed map. Pass probe='map'.")

    @property
    def needs_boxes(self) -> bool:
        """True if a term needs the object boxes of the scene."""
        return any(TERMS[name].needs_boxes for name in self.weights)

    @property
    def needs_target(self) -> list[str]:
        """The terms that need a target."""
        return [name for name in self.weights if TERMS[name].needs_target]

    def of(self, step: Step) -> dict[str, float]:
        """Return the weighted value of each term."""
        return {
            name: float(weight) * TERMS[name].compute(step) for name, weight in self.weights.items()
        }


class NamedObjectsShown:
    """Tracks how much of the objects named in a question an episode has shown."""

    def __init__(
        self,
        state: QuestionState,
        room: RoomVisibility | None,  # its scene with object boxes; None if no term needs them
        renderer: Renderer | None,
    ) -> None:
        self.state = state
        self.room = room
        self._renderer = renderer
        self._box_indices = [] if room is None else named_boxes(state.question, room)
        self._best = np.zeros(len(self._box_indices))
        self._num_views = 0
        self._num_turns = 0

    @property
    def progress(self) -> tuple[Boxes, int, int]:
        """The best share of each object so far, and the numbers of views and turns that were taken into account."""
        return self._best, self._num_views, self._num_turns

    @progress.setter
    def progress(self, progress: tuple[Boxes, int, int]) -> None:
        self._best, self._num_views, self._num_turns = progress

    def step(self, views: Sequence[View]) -> Step:
        """Return the step that led to `views`, which are all views of the episode so far."""
        new, self._num_views = views[self._num_views :], len(views)
        shares = np.zeros(len(self._box_indices))
        if self.room is not None and self._renderer is not None and self._box_indices:
            for view in new:
                sightings = self.room.sightings(view, self._box_indices, self._renderer)
                shares = np.maximum(shares, [sighting.share for sighting in sightings])
        before, self._best = self._best, np.maximum(self._best, shares)
        turns = self.state.turns
        turn = turns[-1] if len(turns) > self._num_turns else None
        self._num_turns = len(turns)
        return Step(self.state, turn, before, self._best, shares, self.room)
