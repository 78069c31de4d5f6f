"""The question types that ReVSI has in addition to those of VSI-Bench, grouped into tasks as in lmms-eval (tasks/revsi)."""

from __future__ import annotations

from render_agent.dialogue.answer import AnswerForm
from render_agent.tasks.question_type import QuestionType


def _type(task: str, part: str, answer_form: AnswerForm) -> QuestionType:
    metric = "accuracy" if answer_form == "letter" else "mean-relative-accuracy"
    name = f"{task}_{part}"
    label = name.replace("_", " ")
    return QuestionType(name=name, label=label, answer_form=answer_form, metric=metric, task=task)


OBJECT_REL_DIRECTION_FORWARD_EASY = _type("object_rel_direction", "forward_easy", "letter")
OBJECT_REL_DIRECTION_BACKWARD_EASY = _type("object_rel_direction", "backward_easy", "letter")
OBJECT_REL_DIRECTION_FORWARD_HARD = _type("object_rel_direction", "forward_hard", "letter")
OBJECT_REL_DIRECTION_BACKWARD_HARD = _type("object_rel_direction", "backward_hard", "letter")
OBJECT_REL_DISTANCE_CLOSEST = _type("object_rel_distance", "closest", "letter")
OBJECT_REL_DISTANCE_FARTHEST = _type("object_rel_distance", "farthest", "letter")
OBJECT_COUNTING_SINGLE = _type("object_counting", "single", "number")
OBJECT_COUNTING_MULTIPLE = _type("object_counting", "multiple", "number")
ROOM_SIZE_ESTIMATION_SINGLE = _type("room_size_estimation", "single", "number")
ROOM_SIZE_ESTIMATION_MULTIPLE = _type("room_size_estimation", "multiple", "number")
