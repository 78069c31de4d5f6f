"""The views of `--views oracle`: the camera looks at the objects named in a question, if their boxes are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from render_agent.dialogue.question import Question
from render_agent.errors import SetupError
from render_agent.options import RunConfig
from render_agent.scans.camera import Camera, wrap_degrees
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts, load_facts, place_facts
from render_agent.tasks.question_types import named_categories
from render_agent.views.view_policies.tour import shortest_order, tour
from render_agent.views.view_policies.view_policy import (
    AdditionalViews,
    ScenePlanner,
    ViewChooser,
    ViewContext,
    ViewPolicy,
)
from render_agent_lab.oracles.viewpoint_search import TargetBox, ViewpointSearch

# Views of each object, from different positions, before the rest of the room is shown.
VIEWS_PER_OBJECT = 3

MIN_GAIN = 0.1  # views that add less visibility than this wait until no better ones are left

SAME_VIEW_DEGREES = 45.0  # degrees; cameras at one position that differ by less show about the same


@dataclass(eq=False)
class NamedObjectsPolicy:
    """Shows every object named in the question, best views first, and then continues like the tour.

    Falls back to the tour for unknown scenes and for questions that name no known object.
    """

    count: int  # number of views after the first ones
    facts: Mapping[str, Facts]
    tour: ScenePlanner = field(init=False)
    _scene: Scene | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.tour = ScenePlanner(tour, self.count)

    def additional_views(self, question: Question, context: ViewContext) -> AdditionalViews:
        """Return views of the named objects, ordered for a short path from the start."""
        tour_views = self.tour.additional_views(question, context)
        targets = self._targets(question, context.scene)
        if not targets or not self.count:
            return tour_views
        if self._scene is not context.scene:  # questions are grouped by scene
            self._scene, self._search = context.scene, ViewpointSearch(context)
        cameras = greedy_views(self._search, targets, self.count)
        cameras += tour_views.cameras[: self.count - len(cameras)]
        return AdditionalViews(shortest_order(context.start, cameras), shared=False)

    def _targets(self, question: Question, scene: Scene) -> list[TargetBox]:
        """Return the boxes of the named categories; each category has a total weight of one."""
        facts = self.facts.get(question.scene)
        if facts is None:
            return []
        boxes = place_facts(facts, scene).boxes
        return [
            TargetBox((name, number), box, 1 / len(boxes[name]))
            for name in named_categories(question)
            for number, box in enumerate(boxes.get(name, ()))
        ]


def greedy_views(search: ViewpointSearch, targets: Sequence[TargetBox], count: int) -> list[Camera]:
    """Choose at most `count` cameras that look at the wanted boxes, greedily by added visibility.

    Once every box has been seen as well as possible, boxes are viewed again from other positions.
    """
    cameras, values = search.candidates(targets)
    best_values = values.max(axis=0, initial=0.0)
    values = np.where(best_values > 0, values / np.where(best_values > 0, best_values, 1.0), 0.0)
    weights = np.array([target.weight for target in targets])
    is_unused = np.ones(len(cameras), bool)
    chosen_cameras: list[Camera] = []
    for _ in range(VIEWS_PER_OBJECT):
        seen_values = np.zeros(len(targets))
        while len(chosen_cameras) < count and is_unused.any():
            gains = np.where(is_unused, np.maximum(values - seen_values, 0.0) @ weights, -1.0)
            choice = int(gains.argmax())
            if gains[choice] < MIN_GAIN * weights.min():
                break
            chosen_cameras.append(cameras[choice])
            seen_values = np.maximum(seen_values, values[choice])
            is_unused &= [not _is_same_view(camera, cameras[choice]) for camera in cameras]
    return chosen_cameras


def _is_same_view(camera: Camera, reference: Camera) -> bool:
    """Return True if two cameras show about the same."""
    return (
        camera.position == reference.position
        and abs(wrap_degrees(camera.yaw - reference.yaw)) < SAME_VIEW_DEGREES
    )


class OracleViews(ViewPolicy):
    """Views of the objects named in a question, located by their known boxes."""

    name = "oracle"
    description = "{count} of the objects named in the question, located by known boxes"

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise SetupError if the boxes of a scene are unknown."""
        known_boxes(config, questions)

    def reads_boxes(self, config: RunConfig) -> bool:
        return True

    def build(self, config: RunConfig, questions: Sequence[Question]) -> ViewChooser:
        """Return the policy that looks at named objects. Raises SetupError like `check`."""
        return NamedObjectsPolicy(config.max_turns - 1, known_boxes(config, questions))


def known_boxes(config: RunConfig, questions: Sequence[Question]) -> dict[str, Facts]:
    """Return the facts of the questions' scenes, by scene.

    Raises SetupError if those of a scene with a scan are unknown.
    """
    looked_at = [question for question in questions if question.scan is not None]
    facts = load_facts(looked_at, config)
    unknown = sorted({question.scene for question in looked_at} - facts.keys())
    if unknown:
        raise SetupError(
            f"--views oracle needs object boxes, which are missing for {len(unknown)} scenes (e.g. {unknown[0]})."
            " Pass VSI-Bench's official annotations with --annotations DIR, or use the bundled rooms with"
            " --benchmark rooms."
        )
    return facts
