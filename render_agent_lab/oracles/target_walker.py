"""Baselines for questions of the type `reach_view`: the shortest path, and the most similar of some random views."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from PIL import Image

from render_agent.dialogue.question import TARGET, Question
from render_agent.dialogue.reply import FIELDS, MAX_MOVE_METRES, Action
from render_agent.engines.engine import Request
from render_agent.engines.scripted.blind_policies import FixedAnswerPolicy, draw
from render_agent.engines.scripted.policy import NamedPolicy, Policy
from render_agent.options import RunConfig
from render_agent.render.make_renderer import make_renderer
from render_agent.runs.build import build
from render_agent.scans.cache import SceneCache
from render_agent.scans.camera import Camera, wrap_degrees
from render_agent.scans.free_space.shortest_path import ShortestPaths
from render_agent.score.chance import frequent_answers
from render_agent.views.targets import target_camera
from render_agent.visibility.start_pose import EYE_HEIGHT_METRES

NUM_VIEWS = 64  # random views that `nearest-view` compares with the target
SIZE = (48, 36)  # width and height in pixels of the images that are compared
CLOSE_METRES, CLOSE_DEGREES = 0.01, 0.5  # a camera this close to its goal has reached it

DONE = json.dumps({"answer": None, "done": True})


def step_towards(camera: Camera, goal: Camera, paths: ShortestPaths) -> Action:
    """Return the action that turns a camera to its goal's direction and moves it along the shortest path; done if it is there."""
    turn, tilt = wrap_degrees(goal.yaw - camera.yaw), goal.pitch - camera.pitch
    away = math.dist(camera.position, goal.position)
    path = paths.waypoints(camera.position) if away > CLOSE_METRES else None
    if path is None and max(abs(turn), abs(tilt)) < CLOSE_DEGREES:
        return Action(done=True)
    x, y, up = (0.0, 0.0, 0.0) if path is None else path[1] - np.array(camera.position)
    yaw = math.radians(goal.yaw)
    forward, left = x * math.cos(yaw) + y * math.sin(yaw), y * math.cos(yaw) - x * math.sin(yaw)
    share = min(1.0, MAX_MOVE_METRES / max(abs(forward), abs(left), 1e-9))
    return Action(
        rotation=round(turn, 4),
        pitch=round(tilt, 4),
        forward=round(share * forward, 4),
        left=round(share * left, 4),
        up=round(up, 4) if share == 1.0 else 0.0,  # paths are level first
    )


def _reply(action: Action) -> str:
    """Return the reply of an action that moves or ends the dialogue."""
    fields = {field.name: getattr(action, field.attribute) for field in FIELDS if field.moves}
    return json.dumps({**fields, "answer": None, "done": action.done})


class TargetWalker:
    """Walks to a camera chosen for each question: that of the target."""

    def __init__(self, questions: Sequence[Question], config: RunConfig | None) -> None:
        self.questions = {question.id: question for question in questions}
        self.scenes = SceneCache() if config is None else build(config).scenes(questions)
        self._goals: dict[str, tuple[Camera, ShortestPaths]] = {}

    def reply(self, request: Request) -> str:
        """Return the next step, or the end if the camera is there or this is the last turn."""
        cameras = [view.camera for view in request.views if isinstance(view.camera, Camera)]
        if request.is_last_turn or not cameras:
            return DONE
        if request.question_id not in self._goals:
            question = self.questions[request.question_id]
            goal = self.goal(question, request, cameras[-1])
            paths = ShortestPaths(self.scenes.space(question), goal.position)
            self._goals[request.question_id] = goal, paths
        return _reply(step_towards(cameras[-1], *self._goals[request.question_id]))

    def goal(self, question: Question, request: Request, camera: Camera) -> Camera:
        """Return the camera to walk to."""
        return target_camera(question, self.scenes.get(question), camera.vertical_fov)


class NearestView(TargetWalker):
    """Walks to that of NUM_VIEWS random views whose pixels differ least from the target image.

    Without a target image, it walks to the first of them.
    """

    def __init__(self, questions: Sequence[Question], seed: int, config: RunConfig | None) -> None:
        super().__init__(questions, config)
        self.seed = seed
        self.renderer = make_renderer()

    def goal(self, question: Question, request: Request, camera: Camera) -> Camera:
        chance = draw(question.seed_id, self.seed)
        places = self.scenes.space(question).standing_places(EYE_HEIGHT_METRES)
        cameras = [
            replace(camera, yaw=chance.uniform(-180, 180), pitch=0.0).at(chance.choice(places))
            for _ in range(NUM_VIEWS)
        ]
        files = [view.file for view in request.views if view.kind == TARGET]
        if not files:
            return cameras[0]
        target = np.asarray(request.load_image(files[0]).resize(SIZE, Image.Resampling.BOX), float)
        scene = self.scenes.get(question)

        def difference(candidate: Camera) -> float:
            image = self.renderer.draw(scene, candidate, *SIZE).colours
            return float(np.abs(image - target).mean())

        return min(cameras, key=difference)

    def close(self) -> None:
        self.renderer.close()


class ByAnswerForm:
    """Uses one policy for questions whose answer is a pose, and another one for all others."""

    def __init__(self, questions: Sequence[Question], walker: Policy, other: Policy) -> None:
        self._policies: Mapping[str, Policy] = {
            question.id: walker if question.answer_form == "pose" else other
            for question in questions
        }

    def reply(self, request: Request) -> str:
        return self._policies[request.question_id].reply(request)

    def close(self) -> None:
        """Close the policies."""
        for policy in set(self._policies.values()):
            if (close := getattr(policy, "close", None)) is not None:
                close()


def nearest_view(questions: Sequence[Question], seed: int, config: RunConfig | None) -> Policy:
    """Return the policy `nearest-view`; other questions get their most frequent answer."""
    walker = NearestView(questions, seed, config)
    return ByAnswerForm(questions, walker, FixedAnswerPolicy(frequent_answers(questions)))


NEAREST_VIEW = NamedPolicy(
    nearest_view,
    f"renders {NUM_VIEWS} random views of the scan and walks to the one nearest to the target image in pixels; not a"
    " model",
)
STAY = NamedPolicy(
    lambda questions, seed, config: FixedAnswerPolicy(frequent_answers(questions)),
    "rule-based: the camera stays at the start",
)
