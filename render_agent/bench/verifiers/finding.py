"""What views show of what questions name, by the one rule of `shown`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial

from render_agent.camera import Camera
from render_agent.config import RunConfig
from render_agent.facts import Facts, known_facts
from render_agent.named import kind_of, named_categories
from render_agent.render.choose import make_renderer
from render_agent.render.looks import Room, Rooms
from render_agent.render.seam import Renderer
from render_agent.scene.cache import SceneCache
from render_agent.score.official import ORDER
from render_agent.shown import EVERY, SIZE
from render_agent.state import Question, View
from render_agent.stress.scenes import scenes_of

Thing = str | int
"""What is to be found: a category, or where every object of it counts, a box by its number."""


class Finder:
    """Finds what questions name in views; owned by the thread that owns its renderer.

    scenes: those of the run. facts: what is known of them, as files have it. size: width and height of
    the views in pixels.
    """

    def __init__(
        self, scenes: SceneCache, facts: Mapping[str, Facts], size: tuple[int, int]
    ) -> None:
        self.scenes = scenes
        self.facts = facts
        self.rooms = Rooms(size)

    @classmethod
    def of(cls, config: RunConfig, questions: Sequence[Question]) -> Finder:
        """Return the finder for the views of a run. QuestionsError where a file of truths is odd."""
        facts = known_facts(questions, config.annotations)
        return cls(scenes_of(config, questions), facts, config.image_size)

    @cached_property
    def renderer(self) -> Renderer:
        """What draws the frames that are looked at."""
        return make_renderer()

    def things(self, question: Question) -> frozenset[Thing]:
        """Return all that has to be seen well for a question, nothing where nobody can tell.

        That is so for the size of a room and the order in a video, and where something that is named has
        no boxes. SceneError where the scene cannot be read.
        """
        names = named_categories(question)
        facts = self.facts.get(question.scene)
        if facts is None or not names or kind_of(question) in (SIZE, ORDER):
            return frozenset()
        labels = {label.lower() for label, some in facts.boxes.items() if some}
        if not labels.issuperset(names):
            return frozenset()
        if kind_of(question) != EVERY:
            return frozenset(names)
        return frozenset(self._numbers(question, names))

    def seen(self, question: Question, views: Iterable[View]) -> frozenset[Thing]:
        """Return which of the things some views show well. RenderError where they cannot be drawn."""
        names = named_categories(question)
        numbers = self._numbers(question, names)
        room = self._room(question)
        found: set[int] = set()
        for view in views:
            if isinstance(view.camera, Camera):
                found |= room.seen(view, numbers, self.renderer)
        if kind_of(question) == EVERY:
            return frozenset(found)
        return frozenset(room.labels[number] for number in found)

    def close(self) -> None:
        """Give the renderer back."""
        if "renderer" in self.__dict__:
            self.renderer.close()

    def _numbers(self, question: Question, names: Sequence[str]) -> list[int]:
        labels = self._room(question).labels
        return [number for number, label in enumerate(labels) if label in names]

    def _room(self, question: Question) -> Room:
        """Return what is known of the question's scene, in the scene's frame."""
        scene, space = partial(self.scenes.get, question), partial(self.scenes.space, question)
        return self.rooms.room(question.scene, scene, space, self.facts[question.scene])
