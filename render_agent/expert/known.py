"""What the expert knows of scenes: the boxes in the truths beside the scans, and how large the rooms are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from render_agent.annotations import is_annotations
from render_agent.expert.derive import Knowledge
from render_agent.facts import Facts, known_facts
from render_agent.rooms.truth import read_truth
from render_agent.state import Question


def room_extents(scan: Path | None) -> tuple[tuple[float, float], ...]:
    """Return how far each room reaches along x and y, metres, the largest first.

    Nothing where no truth lies beside the scan. QuestionsError where it cannot be read.
    """
    if scan is None or is_annotations(scan) or not scan.with_suffix(".json").is_file():
        return ()
    boxes = [room.box for room in read_truth(scan.with_suffix(".json")).rooms]
    extents = [(right - left, back - front) for left, front, right, back in boxes]
    return tuple(sorted(extents, key=lambda extent: -extent[0] * extent[1]))


def knowledge(facts: Facts, extents: Sequence[tuple[float, float]] = ()) -> Knowledge:
    """Return what facts tell, by categories in lower case."""
    return Knowledge({name.lower(): tuple(some) for name, some in facts.boxes.items()}, extents)


def known_scenes(
    questions: Sequence[Question], annotations: str | None = None
) -> dict[str, Knowledge]:
    """Return all that is known of the scenes of some questions, in the frames of their files.

    Scenes of which nothing is known are left out. Errors: QuestionsError as in `known_facts`.
    """
    scans = {question.scene: question.scan for question in questions}
    return {
        scene: knowledge(facts, room_extents(scans[scene]))
        for scene, facts in known_facts(questions, annotations).items()
    }
