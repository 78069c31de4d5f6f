"""The verifier that scores views by scene geometry: how much new surface a candidate's view shows.

It uses the scene that the camera moves in, even if the model is shown other images (`--image-stress black`, `noise`).
With `--image-stress shuffled`, that scene belongs to another question, so the boxes of the question's own scene are
not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from render_agent.agents.verifiers.verifier import TurnContext, Verdict, Verifier
from render_agent.dialogue.chat import View
from render_agent.dialogue.question import Question
from render_agent.dialogue.turn import Candidate
from render_agent.engines.engine import Engine
from render_agent.options import RunConfig
from render_agent.render.make_renderer import make_renderer
from render_agent.render.renderer import Renderer
from render_agent.scans.camera import Camera
from render_agent.tasks.ground_truth import Facts, facts_files, load_facts
from render_agent.tasks.question_types import type_of
from render_agent.visibility.object_visibility import (
    MIN_CLEAR_AREA,
    MIN_CLEAR_SHARE,
    ObjectSighting,
)
from render_agent.visibility.room_visibility import (
    NO_FACTS,
    Rooms,
    RoomVisibility,
    clearly_visible_boxes,
    named_boxes,
)

# Privileged information that models do not have; recorded in config.json and noted in results.
KNOWS = "where the named objects are"

NAMED_WEIGHT = 1.0  # for clearly showing all named objects that were not clearly visible before
SURFACE_WEIGHT = 1.0  # for showing all of the room's visible surface for the first time
PARTLY_SEEN_WEIGHT = 0.3  # maximum fraction of an object's weight if it is partly visible
NEAR_PENALTY = 0.5  # if the whole image shows surfaces closer than half a metre
EMPTY_PENALTY = 0.5  # if the whole image shows unscanned space
TOLERATED_SHARE = 0.4  # fraction of the image that may be near or empty without penalty
REPEATED_VIEW_SCORE = -1.0  # for a view that was already shown; lower than any other score


@dataclass(frozen=True, eq=False)
class Coverage:
    """The surface and objects shown so far, and the objects still missing."""

    covered: NDArray[np.bool_]  # (points,) mask of the room's surface samples that were visible
    missing: Mapping[int, str]
    """Box number -> category of the named objects that were not clearly visible yet."""
    counts_all: bool
    """True for counting questions, in which every object counts; otherwise one per category suffices."""

    @property
    def total(self) -> int:
        """Number of missing objects: all boxes if every one counts, otherwise one per category."""
        return len(self.missing if self.counts_all else set(self.missing.values()))


@dataclass(frozen=True)
class Gain:
    """The score of a view and its reason in a few words."""

    value: float
    reason: str


@dataclass(eq=False)
class GeometryVerifier(Verifier):
    """Scores a view by the surface and the named objects that it shows for the first time, from the depth buffer.

    Must be called from the rendering thread.
    """

    name = "geometry"
    forms = ("geometry", "geometry:unnamed")
    needs_views = True

    facts: Mapping[str, Facts] = field(default_factory=dict)
    """Scene -> boxes in the frame of its file; empty if boxes are not used."""
    size: tuple[int, int] = (0, 0)  # width and height of the views in pixels

    def reads_boxes(self, config: RunConfig) -> bool:
        """Return True if object boxes are used where available."""
        return self.argument is None and self.own_scene

    def describe(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
        """Return the privileged information that the verifier uses: object boxes, if there are any."""
        if self.argument is not None:
            return {}
        has_boxes = self.reads_boxes(config) and facts_files(questions, config)
        return {"knows": KNOWS if has_boxes else None}

    def open(
        self, config: RunConfig, questions: Sequence[Question], engine: Engine | None = None
    ) -> Self:
        facts = load_facts(questions, config) if self.reads_boxes(config) else {}
        return replace(self, facts=facts, size=config.image_size)

    @cached_property
    def rooms(self) -> Rooms:
        """Visibility data of the scenes, computed on first use."""
        return Rooms(self.size)

    @cached_property
    def renderer(self) -> Renderer:
        """The renderer for depth and visibility."""
        return make_renderer()

    def score(self, context: TurnContext, candidates: Sequence[Candidate]) -> Verdict:
        """Return the score of each candidate, (1, K); NaN if its view was not rendered."""
        state, space = context.state, context.observation.space
        if space is None:
            count = len(candidates)
            return Verdict(np.full((1, count), np.nan), ("nothing is shown here",) * count)
        facts = self.facts.get(state.question.scene, NO_FACTS)
        room = self.rooms.room(state.question.scene, lambda: state.scene, lambda: space, facts)
        coverage = self._coverage(room, state.question, context.views)
        gains = [
            self._gain(room, coverage, candidate.view, context.views) if candidate.view else None
            for candidate in candidates
        ]
        return Verdict(
            np.array([[np.nan if gain is None else gain.value for gain in gains]]),
            tuple("its view was not drawn" if gain is None else gain.reason for gain in gains),
        )

    def close(self) -> None:
        if "renderer" in self.__dict__:
            self.renderer.close()

    def _coverage(
        self, room: RoomVisibility, question: Question, views: Sequence[View]
    ) -> Coverage:
        seen_boxes = clearly_visible_boxes(question, room, views, self.renderer)
        counts_all = type_of(question).needs == "every object"
        seen_labels = set() if counts_all else {room.labels[number] for number in seen_boxes}
        missing = {
            number: room.labels[number]
            for number in named_boxes(question, room)
            if number not in seen_boxes and room.labels[number] not in seen_labels
        }
        return Coverage(room.covered(views, self.renderer), missing, counts_all)

    def _gain(
        self, room: RoomVisibility, coverage: Coverage, view: View, earlier: Sequence[View]
    ) -> Gain:
        if any(
            view.file == earlier_view.file or _is_same_view(view, earlier_view)
            for earlier_view in earlier
        ):
            return Gain(REPEATED_VIEW_SCORE, "shown before")
        if not isinstance(view.camera, Camera):
            return Gain(0.0, "a map shows no new surface")
        frame = room.look(view, self.renderer)
        newly_covered = room.covered([view], self.renderer) & ~coverage.covered
        new_surface = float(newly_covered.mean()) if len(newly_covered) else 0.0
        reasons = [f"new surface {new_surface:.0%}"]
        value = SURFACE_WEIGHT * new_surface
        if coverage.total:
            sightings = room.sightings(view, list(coverage.missing), self.renderer)
            visibility = self._visibility(coverage, sightings)
            value += NAMED_WEIGHT * sum(visibility.values()) / coverage.total
            reasons += _describe_sightings(coverage, sightings)
        if frame.near > TOLERATED_SHARE:
            value -= NEAR_PENALTY * (frame.near - TOLERATED_SHARE) / (1 - TOLERATED_SHARE)
            reasons.append(f"stares at a surface at {frame.nearest:.1f} m")
        if frame.empty > TOLERATED_SHARE:
            value -= EMPTY_PENALTY * (frame.empty - TOLERATED_SHARE) / (1 - TOLERATED_SHARE)
            reasons.append(f"{frame.empty:.0%} of it is beyond the scan")
        return Gain(value, ", ".join(reasons))

    def _visibility(
        self, coverage: Coverage, sightings: Sequence[ObjectSighting]
    ) -> dict[object, float]:
        """Return the visibility, 0 to 1, of each box if every object counts, otherwise of each category."""
        visibility: dict[object, float] = {}
        for (number, label), sighting in zip(coverage.missing.items(), sightings, strict=True):
            key = number if coverage.counts_all else label
            visibility[key] = max(visibility.get(key, 0.0), self._sighting_value(sighting))
        return visibility

    def _sighting_value(self, sighting: ObjectSighting) -> float:
        if sighting.is_clear(self.size):
            return 1.0
        min_area = MIN_CLEAR_AREA * self.size[0] * self.size[1]
        return PARTLY_SEEN_WEIGHT * min(
            1.0, sighting.share / MIN_CLEAR_SHARE, sighting.area / min_area
        )


def _is_same_view(view: View, reference: View) -> bool:
    """Return True if two views have the same kind and camera. Maps always differ, because they mark the current pose."""
    return isinstance(view.camera, Camera) and (view.kind, view.camera) == (
        reference.kind,
        reference.camera,
    )


def _describe_sightings(coverage: Coverage, sightings: Sequence[ObjectSighting]) -> list[str]:
    """Return the visibility of the most visible object of each category, in words."""
    best_by_category: dict[str, float] = {}
    for label, sighting in zip(coverage.missing.values(), sightings, strict=True):
        best_by_category[label] = max(best_by_category.get(label, 0.0), sighting.share)
    return [
        f"sees {label} {share:.0%}" for label, share in best_by_category.items() if share >= 0.01
    ]
