"""The verifier that looks at the scene itself: what a candidate's view would newly show.

It sees the scene in which the dialogue takes place, whatever the pictures show the model (--pictures
black, noise), and that in which the camera stands where scenes are exchanged (shuffled): there no box is
known, as those of the question's own scene do not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from render_agent.agents.verifiers.verifier import TurnContext, Verdict, Verifier
from render_agent.dialogue.evidence import Candidate
from render_agent.dialogue.question import Question
from render_agent.dialogue.view import View
from render_agent.engines.engine import Engine
from render_agent.options import RunConfig
from render_agent.render.make_renderer import make_renderer
from render_agent.render.renderer import Renderer
from render_agent.render.visibility.object_visibility import (
    LEAST_AREA,
    LEAST_SHARE,
    Sighting,
)
from render_agent.render.visibility.room_visibility import (
    NOTHING,
    Room,
    Rooms,
    boxes_seen,
    named_boxes,
)
from render_agent.scans.camera import Camera
from render_agent.tasks.ground_truth import Facts, known_facts
from render_agent.tasks.input_files import InputFile, annotation_files
from render_agent.tasks.mentions import kind_of
from render_agent.tasks.question_types import COUNTING_TYPE

KNOWS = "where the named objects are"
"""What it knows of a scene whose boxes are known, and no model does."""

NAMED_WEIGHT = 1.0
"""What it counts that all is seen well that the question names and no view has shown well so far."""

SURFACE_WEIGHT = 1.0
"""What it counts that the whole of the room's visible surface is newly shown."""

PARTLY_SEEN_WEIGHT = 0.3
"""Of an object that is seen, but not well: as much of what it would count at the most."""

NEAR_PENALTY = 0.5
"""What is taken off for a picture all of which is nearer than half a metre."""

EMPTY_PENALTY = 0.5
"""What is taken off for a picture in which nothing at all was scanned."""

TOLERATED_SHARE = 0.4
"""The share of a picture that may be near, or empty, before anything is taken off."""

REPEATED_VIEW_SCORE = -1.0
"""The score of a picture that was shown before: below that of every other."""


@dataclass(frozen=True, eq=False)
class Coverage:
    """What the views so far have shown.

    covered: which points of the room's surface. wanted: the boxes, by number, of what the question names
    and no view has shown well, with the category of each. total: what there is to be found of it.
    """

    covered: NDArray[np.bool_]
    wanted: Mapping[int, str]
    every: bool

    @property
    def total(self) -> int:
        """Objects that are wanted: all boxes where every one counts, else one of each category."""
        return len(self.wanted if self.every else set(self.wanted.values()))


@dataclass(frozen=True)
class Gain:
    """What a view adds. value: its score. reason: what that rests on, in a few words."""

    value: float
    reason: str


@dataclass(eq=False)
class GeometryVerifier(Verifier):
    """Scores a view by the surface and the named objects that it newly shows, from the depth buffer.

    facts: by scene, as files have them; empty where boxes are not to be used. size: width and height of
    the views in pixels. It belongs to the thread that draws.
    """

    name = "geometry"
    forms = ("geometry", "geometry:unnamed")
    looks = True

    facts: Mapping[str, Facts] = field(default_factory=dict)
    size: tuple[int, int] = (0, 0)

    @property
    def reads_boxes(self) -> bool:
        """Whether it goes by boxes, where they are known."""
        return self.argument is None and self.own_scene

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Give the files of boxes that it goes by."""
        return annotation_files(config, questions) if self.reads_boxes else ()

    def describe(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
        """Return what it knows that no model should: the boxes, where there are some."""
        if self.argument is not None:
            return {}
        return {"knows": KNOWS if any(self.inputs(config, questions)) else None}

    def open(
        self, config: RunConfig, questions: Sequence[Question], engine: Engine | None = None
    ) -> Self:
        """Return the verifier with the boxes. QuestionsError where a file of truths is in no known format."""
        facts = known_facts(questions, config.annotations) if self.reads_boxes else {}
        return replace(self, facts=facts, size=config.image_size)

    @cached_property
    def rooms(self) -> Rooms:
        """What was found out of the scenes."""
        return Rooms(self.size)

    @cached_property
    def renderer(self) -> Renderer:
        """What draws the frames that are looked at."""
        return make_renderer()

    def score(self, context: TurnContext, candidates: Sequence[Candidate]) -> Verdict:
        """Return the score of each candidate, (1, K); NaN where its view was not drawn.

        SceneError or RenderError where the scene cannot be looked at.
        """
        state, space = context.state, context.observation.space
        if space is None:
            count = len(candidates)
            return Verdict(np.full((1, count), np.nan), ("nothing is shown here",) * count)
        facts = self.facts.get(state.question.scene, NOTHING)
        room = self.rooms.room(state.question.scene, lambda: state.scene, lambda: space, facts)
        known = self._coverage(room, state.question, context.views)
        gains = [
            self._gain(room, known, candidate.view, context.views) if candidate.view else None
            for candidate in candidates
        ]
        return Verdict(
            np.array([[np.nan if gain is None else gain.value for gain in gains]]),
            tuple("its view was not drawn" if gain is None else gain.reason for gain in gains),
        )

    def close(self) -> None:
        """Give the renderer back."""
        if "renderer" in self.__dict__:
            self.renderer.close()

    def _coverage(self, room: Room, question: Question, views: Sequence[View]) -> Coverage:
        seen = boxes_seen(question, room, views, self.renderer)
        every = kind_of(question) == COUNTING_TYPE
        shown_labels = set() if every else {room.labels[number] for number in seen}
        wanted = {
            number: room.labels[number]
            for number in named_boxes(question, room)
            if number not in seen and room.labels[number] not in shown_labels
        }
        return Coverage(room.covered(views, self.renderer), wanted, every)

    def _gain(self, room: Room, known: Coverage, view: View, before: Sequence[View]) -> Gain:
        if any(view.file == other.file or _alike(view, other) for other in before):
            return Gain(REPEATED_VIEW_SCORE, "shown before")
        if not isinstance(view.camera, Camera):
            return Gain(0.0, "a map shows no new surface")
        shown = room.look(view, self.renderer)
        fresh = room.covered([view], self.renderer) & ~known.covered
        new = float(fresh.mean()) if len(fresh) else 0.0
        reasons = [f"new surface {new:.0%}"]
        value = SURFACE_WEIGHT * new
        if known.total:
            seen = room.sightings(view, list(known.wanted), self.renderer)
            shares = self._shown_shares(known, seen)
            value += NAMED_WEIGHT * sum(shares.values()) / known.total
            reasons += _shown_words(known, seen)
        if shown.near > TOLERATED_SHARE:
            value -= NEAR_PENALTY * (shown.near - TOLERATED_SHARE) / (1 - TOLERATED_SHARE)
            reasons.append(f"stares at a surface at {shown.nearest:.1f} m")
        if shown.empty > TOLERATED_SHARE:
            value -= EMPTY_PENALTY * (shown.empty - TOLERATED_SHARE) / (1 - TOLERATED_SHARE)
            reasons.append(f"{shown.empty:.0%} of it is beyond the scan")
        return Gain(value, ", ".join(reasons))

    def _shown_shares(self, known: Coverage, seen: Sequence[Sighting]) -> dict[object, float]:
        """Return the visibility, 0 to 1, of each wanted thing: a box where each counts, else a category."""
        shares: dict[object, float] = {}
        for (number, label), each in zip(known.wanted.items(), seen, strict=True):
            thing = number if known.every else label
            shares[thing] = max(shares.get(thing, 0.0), self._shown_well(each))
        return shares

    def _shown_well(self, seen: Sighting) -> float:
        if seen.well(self.size):
            return 1.0
        enough = LEAST_AREA * self.size[0] * self.size[1]
        return PARTLY_SEEN_WEIGHT * min(1.0, seen.share / LEAST_SHARE, seen.area / enough)


def _alike(view: View, other: View) -> bool:
    """Whether two views show the same: of a map also where the camera stands, which its picture shows."""
    return isinstance(view.camera, Camera) and (view.kind, view.camera) == (
        other.kind,
        other.camera,
    )


def _shown_words(known: Coverage, seen: Sequence[Sighting]) -> list[str]:
    """Return words on the wanted objects in a view: the best of each category."""
    best: dict[str, float] = {}
    for label, each in zip(known.wanted.values(), seen, strict=True):
        best[label] = max(best.get(label, 0.0), each.share)
    return [f"sees {label} {share:.0%}" for label, share in best.items() if share >= 0.01]
