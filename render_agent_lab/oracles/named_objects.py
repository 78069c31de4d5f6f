"""The views of `--views oracle`: the camera looks at the objects that a question names, where their boxes are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from render_agent.dialogue.question import Question
from render_agent.errors import SetupError
from render_agent.options import RunConfig
from render_agent.scans.camera import Camera, wrapped
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts, known_facts, placed
from render_agent.tasks.input_files import InputFile, annotation_files
from render_agent.tasks.mentions import named_categories
from render_agent.views.view_policies.tour import Tour, in_short_order
from render_agent.views.view_policies.view_policy import (
    FurtherViews,
    Policy,
    ViewContext,
    ViewPolicy,
)
from render_agent_lab.oracles.viewpoint_search import ViewpointSearch, Wanted

VIEWS_PER_OBJECT = 3
"""Views of an object, from as many places, before the rest of the room is shown."""

MIN_GAIN = 0.1
"""A view that adds less than this to what was seen is not taken while others wait."""

SAME_VIEW_DEGREES = 45.0
"""Degrees: cameras at one place that differ by less show about the same."""


@dataclass(eq=False)
class NamedObjects:
    """Looks at every object that the question names, best views first, then as the tour does.

    count: views after the first ones. facts: what is known of the scenes, by scene; of others, and
    for questions that name nothing known, it is the tour.
    """

    count: int
    facts: Mapping[str, Facts]
    tour: Tour = field(init=False)
    _scene: Scene | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.tour = Tour(self.count)

    def further(self, question: Question, context: ViewContext) -> FurtherViews:
        """Return the views of the named objects in a short order from the start."""
        around = self.tour.further(question, context)
        wanted = self._wanted(question, context.scene)
        if not wanted or not self.count:
            return around
        if self._scene is not context.scene:  # questions come scene by scene
            self._scene, self._search = context.scene, ViewpointSearch(context)
        cameras = greedy_views(self._search, wanted, self.count)
        cameras += around.cameras[: self.count - len(cameras)]
        return FurtherViews(in_short_order(context.start, cameras), shared=False)

    def _wanted(self, question: Question, scene: Scene) -> list[Wanted]:
        """Return the boxes of the named categories, those of each category worth one together."""
        facts = self.facts.get(question.scene)
        if facts is None:
            return []
        boxes = placed(facts, scene).boxes
        return [
            Wanted((name, number), box, 1 / len(boxes[name]))
            for name in named_categories(question)
            for number, box in enumerate(boxes.get(name, ()))
        ]


def greedy_views(search: ViewpointSearch, wanted: Sequence[Wanted], count: int) -> list[Camera]:
    """Return at most `count` cameras that look at the wanted boxes, each time the one that adds most.

    Once all have been seen as well as they can be, they are looked at again from other places.
    """
    cameras, values = search.candidates(wanted)
    best = values.max(axis=0, initial=0.0)
    values = np.where(best > 0, values / np.where(best > 0, best, 1.0), 0.0)
    weights = np.array([each.weight for each in wanted])
    unused = np.ones(len(cameras), bool)
    chosen_cameras: list[Camera] = []
    for _ in range(VIEWS_PER_OBJECT):
        seen = np.zeros(len(wanted))
        while len(chosen_cameras) < count and unused.any():
            gains = np.where(unused, np.maximum(values - seen, 0.0) @ weights, -1.0)
            chosen = int(gains.argmax())
            if gains[chosen] < MIN_GAIN * weights.min():
                break
            chosen_cameras.append(cameras[chosen])
            seen = np.maximum(seen, values[chosen])
            unused &= [not _alike(camera, cameras[chosen]) for camera in cameras]
    return chosen_cameras


def _alike(camera: Camera, other: Camera) -> bool:
    """Return whether two cameras show about the same."""
    return (
        camera.position == other.position
        and abs(wrapped(camera.yaw - other.yaw)) < SAME_VIEW_DEGREES
    )


class OracleViews(ViewPolicy):
    """Views of the objects that a question names, by boxes that are known."""

    name = "oracle"
    words = "{count} that look at the objects named, by boxes that are known"

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise SetupError where nothing is known of a scene that is to be looked at."""
        known_boxes(config, questions)

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Give the files of boxes."""
        return annotation_files(config, questions)

    def build(self, config: RunConfig, questions: Sequence[Question]) -> Policy:
        """Return the policy that looks at named objects. SetupError as in `check`."""
        return NamedObjects(config.max_turns - 1, known_boxes(config, questions))


def known_boxes(config: RunConfig, questions: Sequence[Question]) -> dict[str, Facts]:
    """Return the facts of the scenes of some questions, by scene.

    SetupError where nothing is known of a scene that is to be looked at.
    """
    looked_at = [question for question in questions if question.scan is not None]
    facts = known_facts(looked_at, config.annotations)
    unknown = sorted({question.scene for question in looked_at} - facts.keys())
    if unknown:
        raise SetupError(
            f"--views oracle needs the boxes of the objects, and those of {len(unknown)} scenes are not"
            f" known ({unknown[0]} among them): name VSI-Bench's official annotations by --annotations"
            " DIR, or run the bundled rooms by --benchmark rooms"
        )
    return facts
