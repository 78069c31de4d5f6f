"""The question type `reach_view`, one record per tier: move the camera until it shows the target."""

from __future__ import annotations

from render_agent.tasks.question_type import QuestionType

REACH_VIEW = "reach_view"  # task that consists of the tiers


def _tier(name: str, *, shows_target: bool = True) -> QuestionType:
    return QuestionType(
        name=f"{REACH_VIEW}_{name}",
        label=f"reach the view, {name}",
        answer_form="pose",
        metric="view-success",
        task=REACH_VIEW,
        shows_target=shows_target,
    )


ROTATION = _tier("rotation")  # the target is at the same place
TRANSLATION = _tier("translation")  # it has the same heading
NEAR = _tier("near")  # a straight move leads there
FAR = _tier("far")  # a wall or furniture is in between
DESCRIBED = _tier("described", shows_target=False)  # a sentence describes it
