"""The witness: answers from the truth once the views have shown what a question names, else guesses.

It is no model and no bound for one: it tests views. Whoever shows it more of what questions are about
gets more right answers from it, and pictures that show nothing get it no further than chance.
"""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from render_agent.camera import Camera, Vector
from render_agent.config import RunConfig
from render_agent.engines.seam import Request
from render_agent.engines.unseeing import Explorer, RandomChoice
from render_agent.facts import Facts, known_facts, placed
from render_agent.named import named_categories
from render_agent.oracle import true_answer
from render_agent.render.around import cameras_of, cell_size
from render_agent.render.choose import make_renderer
from render_agent.render.seam import Renderer
from render_agent.render.sight import Counted, Sight, seen_well
from render_agent.rooms.boxes import OrientedBox
from render_agent.scene.cache import SceneCache
from render_agent.scene.model import Scene
from render_agent.state import Question, View
from render_agent.stress.scenes import scenes_of

Box = tuple[str, int]
"""A category, in lower case, and the number of a box within it."""

COUNTING, ROOM_SIZE = "object_counting", "room_size_estimation"

PLACES, APART = 3, 0.5
"""A room's size is judged from so many places, each so many metres from the others."""

OPEN_SCENES = 8
"""Scenes whose boxes are kept sorted; those of more are sorted again when they are looked at."""

KEPT = 1024
"""Views of a scene whose counts are kept: more than all questions of a scene have at a time."""

SHOWING = ("real", "mirrored")
"""The --pictures that show the scene which a question is about."""


class Witness:
    """Walks as `explorer` does until all that a question names was seen well, then answers.

    eyes: None where nothing is shown. walks: whether it chooses its views.
    """

    def __init__(
        self, questions: Sequence[Question], seed: int, eyes: Eyes | None, *, walks: bool
    ) -> None:
        self.questions = {question.id: question for question in questions}
        self.eyes = eyes
        self.walks = walks
        self._explorer = Explorer(questions, seed)
        self._chance = RandomChoice(questions, seed)

    def reply(self, request: Request) -> str:
        """Return the next step of the walk, or the answer: the true one, or a guess."""
        question = self.questions[request.question_id]
        answer, least = None, 0
        if self.eyes is not None:
            answer, least = self.eyes.answer(question, request.views)
        steps = self._explorer.walk(question.id) if self.walks else []
        if answer is None and not request.last and request.turn < len(steps):
            return json.dumps(steps[request.turn])
        if answer is not None:
            return _answer("I have seen what this is about.", answer)
        guess = self._chance.guess(question.id, least)
        return _answer("I have not seen all that this is about: I guess.", guess)

    def close(self) -> None:
        """Give back what it looks with."""
        if self.eyes is not None:
            self.eyes.close()


class Eyes:
    """Tells what the views of a dialogue have shown; owned by the thread that owns the engine.

    scenes: those of the run. facts: what is known of them, as files have it. size: width and height of
    the views in pixels.
    """

    def __init__(
        self, scenes: SceneCache, facts: Mapping[str, Facts], size: tuple[int, int]
    ) -> None:
        self.scenes = scenes
        self.facts = facts
        self.size = size
        self._rooms: OrderedDict[str, Room] = OrderedDict()

    @cached_property
    def renderer(self) -> Renderer:
        """What draws the frames that are looked at."""
        return make_renderer()

    def answer(self, question: Question, views: Sequence[View]) -> tuple[str | None, int]:
        """Return the true answer where the views have shown enough for it, and what was counted.

        That is every box of the category for counting, at least one of every category for other
        questions that name some, and several places for the size of the room.
        """
        if question.scene not in self.facts:
            return None, 0
        room = self._room(question)
        cameras = {view: view.camera for view in views if isinstance(view.camera, Camera)}
        if question.type == ROOM_SIZE:
            enough = distinct_places(cameras.values()) >= PLACES
            return (true_answer(question, room.facts) if enough else None), 0
        counting = question.type == COUNTING
        names = named_categories(question)
        seen: set[Box] = set()
        for view in cameras:
            seen |= room.seen(view, self.size, names, self.renderer)
        counted = Counter(name for name, _ in seen)
        known = Counter(name for name, _ in room.boxes)
        enough = bool(names) and all(
            known[name] and counted[name] >= (known[name] if counting else 1) for name in names
        )
        return (true_answer(question, room.facts) if enough else None), len(seen) * counting

    def close(self) -> None:
        """Give the renderer back."""
        if "renderer" in self.__dict__:
            self.renderer.close()

    def _room(self, question: Question) -> Room:
        """Return what is known of the question's scene, in the scene's frame."""
        name = question.scene
        if name not in self._rooms:
            scene = self.scenes.get(question)
            self._rooms[name] = Room(scene, placed(self.facts[name], scene))
        self._rooms.move_to_end(name)
        while len(self._rooms) > OPEN_SCENES:
            self._rooms.popitem(last=False)
        return self._rooms[name]


class Room:
    """A scene and what is known of it. facts: with their boxes in the scene's frame."""

    def __init__(self, scene: Scene, facts: Facts) -> None:
        self.scene = scene
        self.facts = facts
        self.boxes: list[Box] = []
        self._in_frame: list[OrientedBox] = []
        for label, some in facts.boxes.items():
            self.boxes += [(label.lower(), number) for number in range(len(some))]
            self._in_frame += some
        self._looks: Sight | None = None
        self._counted: OrderedDict[tuple[str, Camera], Counted] = OrderedDict()

    def seen(
        self, view: View, size: tuple[int, int], names: Sequence[str], renderer: Renderer
    ) -> set[Box]:
        """Return the boxes of some categories that a view of this size shows well.

        Of a picture of four directions what they show together counts.
        """
        camera = view.camera
        which = [number for number, (label, _) in enumerate(self.boxes) if label in names]
        if not which or not isinstance(camera, Camera):
            return set()
        sight = self._sight(size, renderer)
        key = view.kind, camera
        if key not in self._counted:
            self._counted[key] = _count(sight, view.kind, camera, size)
        self._counted.move_to_end(key)
        while len(self._counted) > KEPT:
            self._counted.popitem(last=False)
        shown = sight.seen(self._counted[key], camera.position, which)
        return {
            self.boxes[number]
            for number, seen in zip(which, shown, strict=True)
            if seen_well(seen, size)
        }

    def _sight(self, size: tuple[int, int], renderer: Renderer) -> Sight:
        """Return what looks for the boxes; made when it is first needed, as it sorts the whole surface."""
        if self._looks is None:
            self._looks = Sight(renderer, self.scene, self._in_frame, size)
        return self._looks


def _count(sight: Sight, kind: str, camera: Camera, size: tuple[int, int]) -> Counted:
    """Return what of each box shows in a view, in all four directions of an `around`."""
    if kind != "around":
        return sight.count(sight.frame(camera), camera)
    sight = sight.sized(cell_size(size))
    first, *others = (sight.count(sight.frame(one), one) for one in cameras_of(camera))
    return sum(others, first)


def witness(
    questions: Sequence[Question], seed: int = 0, config: RunConfig | None = None
) -> Witness:
    """Return the policy that answers rightly once the views have shown what a question names.

    config: the options of the run; without them it sees nothing. Errors: QuestionsError where a file of
    truths is in no known format.
    """
    if config is None:
        return Witness(questions, seed, None, walks=True)
    eyes = None
    if not config.blind and config.pictures in SHOWING:
        facts = known_facts(questions, config.annotations)
        eyes = Eyes(scenes_of(config, questions), facts, config.image_size)
    return Witness(questions, seed, eyes, walks=config.views == "free")


def distinct_places(cameras: Iterable[Camera]) -> int:
    """Return how many of the cameras' places lie at least APART metres from those before them."""
    places: list[Vector] = []
    for camera in cameras:
        if all(math.dist(camera.position, place) >= APART for place in places):
            places.append(camera.position)
    return len(places)


def _answer(reasoning: str, answer: str) -> str:
    return json.dumps({"reasoning": reasoning, "answer": answer, "done": True})
