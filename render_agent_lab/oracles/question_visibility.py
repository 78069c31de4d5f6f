"""Visibility of the objects named in a question, from known boxes. Used by oracles, the expert and the verifier
benchmark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Self

from render_agent.dialogue.chat import View
from render_agent.dialogue.question import Question
from render_agent.render.make_renderer import make_renderer
from render_agent.render.renderer import Renderer
from render_agent.runs.build import Parts
from render_agent.scans.cache import SceneCache
from render_agent.tasks.ground_truth import Facts, load_facts
from render_agent.tasks.question_types import named_categories, type_of
from render_agent.visibility.room_visibility import (
    Rooms,
    RoomVisibility,
    clearly_visible_boxes,
    named_boxes,
)

Thing = str | int  # a category, or the index of a box if every object of the category counts


def as_things(question: Question, room: RoomVisibility, boxes: Iterable[int]) -> frozenset[Thing]:
    """Map boxes to the things that a question is about: when counting, the boxes themselves; otherwise their
    categories.
    """
    if type_of(question).needs == "every object":
        return frozenset(boxes)
    return frozenset(room.labels[number] for number in boxes)


class QuestionVisibility:
    """Finds the objects named in questions in the views of a run. Not thread-safe."""

    def __init__(
        self,
        scenes: SceneCache,
        facts: Mapping[str, Facts],  # known facts by scene, in the frames of the files
        size: tuple[int, int],  # width and height of the views in pixels
        *,
        shows_video: bool = False,  # True if the views follow the recorded video
    ) -> None:
        self.shows_video = shows_video
        self.scenes = scenes
        self.facts = facts
        self.rooms = Rooms(size)

    @classmethod
    def of(cls, parts: Parts, questions: Sequence[Question]) -> Self:
        """Create one for the views of a run. Raises QuestionsError if a ground-truth file has an unknown format."""
        config = parts.config
        facts = load_facts(questions, config)
        scenes, is_video = parts.scenes(questions), parts.view_policy.is_video
        return cls(scenes, facts, config.image_size, shows_video=is_video)

    @cached_property
    def renderer(self) -> Renderer:
        """Renders the frames to inspect."""
        return make_renderer()

    def room(self, question: Question) -> RoomVisibility:
        """Return the room of a known scene. Raises SceneError if the scan cannot be read."""
        scene, space = partial(self.scenes.get, question), partial(self.scenes.space, question)
        return self.rooms.room(question.scene, scene, space, self.facts[question.scene])

    def things(self, question: Question) -> frozenset[Thing]:
        """Return the things that must be clearly visible to answer a question; empty if unknown.

        They are unknown for room sizes, for appearance order in a video, and if a named object has no boxes. Raises
        SceneError if the scene cannot be read.
        """
        names = named_categories(question)
        facts = self.facts.get(question.scene)
        if facts is None or not names or type_of(question).needs in ("room", "video"):
            return frozenset()
        labels = {label.lower() for label, category_boxes in facts.boxes.items() if category_boxes}
        if not labels.issuperset(names):
            return frozenset()
        room = self.room(question)
        return as_things(question, room, named_boxes(question, room))

    def seen(self, question: Question, views: Iterable[View]) -> frozenset[Thing]:
        """Return the things that the views show clearly. Raises RenderError if a view cannot be rendered."""
        room = self.room(question)
        return as_things(
            question, room, clearly_visible_boxes(question, room, views, self.renderer)
        )

    def close(self) -> None:
        """Release the renderer."""
        if "renderer" in self.__dict__:
            self.renderer.close()
