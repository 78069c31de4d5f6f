"""What views show of what questions name: one reading for whoever answers, chooses, learns or measures by it."""

from __future__ import annotations

from collections.abc import Iterable

from render_agent.dialogue.state import Question, View
from render_agent.questions.mentions import named_categories
from render_agent.render.base import Renderer
from render_agent.render.visibility.room_visibility import Room


def named_boxes(question: Question, room: Room) -> list[int]:
    """Return the numbers of the room's boxes that a question names."""
    names = named_categories(question)
    return [number for number, label in enumerate(room.labels) if label in names]


def boxes_seen(
    question: Question, room: Room, views: Iterable[View], renderer: Renderer
) -> frozenset[int]:
    """Return the numbers of the boxes that a question names and one of some views shows well.

    RenderError where a view cannot be drawn.
    """
    which = named_boxes(question, room)
    seen: set[int] = set()
    for view in dict.fromkeys(views):
        seen |= room.seen(view, which, renderer)
    return frozenset(seen)
