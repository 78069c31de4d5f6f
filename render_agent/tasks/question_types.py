"""Question types of VSI-Bench and ReVSI: the form of their answers, their metrics, and the tasks that they form."""

from __future__ import annotations

from collections.abc import Mapping

from render_agent.dialogue.answer import AnswerForm
from render_agent.dialogue.question import Question

COUNTING_TYPE = "object_counting"
ROOM_SIZE_TYPE = "room_size_estimation"
ORDER = "obj_appearance_order"

NUMBER_TYPES = (
    COUNTING_TYPE,
    "object_abs_distance",
    "object_size_estimation",
    ROOM_SIZE_TYPE,
)
DIRECTION_TYPES = (
    "object_rel_direction_easy",
    "object_rel_direction_medium",
    "object_rel_direction_hard",
)
CHOICE_TYPES = (
    "object_rel_distance",
    *DIRECTION_TYPES,
    "route_planning",
    ORDER,
)
TYPES = NUMBER_TYPES + CHOICE_TYPES  # VSI-Bench's

ANSWER_FORMS: Mapping[str, AnswerForm] = {
    **dict.fromkeys(NUMBER_TYPES, "number"),
    **dict.fromkeys(CHOICE_TYPES, "letter"),
}

TYPE_METRICS: Mapping[str, str] = {
    **dict.fromkeys(NUMBER_TYPES, "mean-relative-accuracy"),
    COUNTING_TYPE: "count-accuracy",
    **dict.fromkeys(CHOICE_TYPES, "accuracy"),
    **dict.fromkeys(DIRECTION_TYPES, "direction-accuracy"),
}

FORM_METRICS: Mapping[AnswerForm, str] = {
    "letter": "accuracy",
    "number": "mean-relative-accuracy",
    "text": "first-word",
}
"""The metric of questions of any other type that name none."""

DIRECTION = "object_rel_direction"
"""The task that the three types of relative direction form."""

_WAYS = ("forward_easy", "backward_easy", "forward_hard", "backward_hard")

REVSI_TASKS: Mapping[str, tuple[str, ...]] = {
    DIRECTION: tuple(f"{DIRECTION}_{way}" for way in _WAYS),
    "object_rel_distance": ("object_rel_distance_closest", "object_rel_distance_farthest"),
    "object_counting": ("object_counting_single", "object_counting_multiple"),
    "room_size_estimation": ("room_size_estimation_single", "room_size_estimation_multiple"),
}
"""Types of ReVSI that form one task (lmms-eval, tasks/revsi); the score of a task is the mean over its types."""

REVSI_CHOICES = (*REVSI_TASKS[DIRECTION], *REVSI_TASKS["object_rel_distance"], "route_planning")
REVSI_NUMBERS = (
    *REVSI_TASKS["object_counting"],
    "object_abs_distance",
    "object_size_estimation",
    *REVSI_TASKS["room_size_estimation"],
)

COMPOSITES: Mapping[str, tuple[str, ...]] = {
    **REVSI_TASKS,
    DIRECTION: DIRECTION_TYPES + REVSI_TASKS[DIRECTION],
}
"""Task -> the types that form it. Any other type is a task of its own."""

PART_TYPES = {kind: task for task, kinds in COMPOSITES.items() for kind in kinds}
"""Type -> its task, the inverse of COMPOSITES."""


def metric_name(question: Question) -> str:
    """Return the name of the metric of a question: its own, that of its type, or that of the form of its answer."""
    if question.metric is not None:
        return question.metric
    form = ANSWER_FORMS.get(question.type)
    in_words = (form, question.wanted) == ("letter", "text")  # a counterpart (`--change`)
    if form == question.wanted or in_words:
        return TYPE_METRICS[question.type]
    return FORM_METRICS[question.wanted]
