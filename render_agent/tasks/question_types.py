"""Question types of VSI-Bench and ReVSI: answer forms, metrics, and grouping into tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

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
TYPES = NUMBER_TYPES + CHOICE_TYPES  # all types of VSI-Bench

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

# default metrics of question types without an entry in TYPE_METRICS
FORM_METRICS: Mapping[AnswerForm, str] = {
    "letter": "accuracy",
    "number": "mean-relative-accuracy",
    "text": "first-word",
}

DIRECTION = "object_rel_direction"  # task that consists of the types of relative direction

_WAYS = ("forward_easy", "backward_easy", "forward_hard", "backward_hard")

# ReVSI task -> its types, as in lmms-eval (tasks/revsi); a task's score is the mean over its types
REVSI_TASKS: Mapping[str, tuple[str, ...]] = {
    DIRECTION: tuple(f"{DIRECTION}_{way}" for way in _WAYS),
    "object_rel_distance": ("object_rel_distance_closest", "object_rel_distance_farthest"),
    "object_counting": ("object_counting_single", "object_counting_multiple"),
    "room_size_estimation": ("room_size_estimation_single", "room_size_estimation_multiple"),
}

REVSI_CHOICES = (*REVSI_TASKS[DIRECTION], *REVSI_TASKS["object_rel_distance"], "route_planning")
REVSI_NUMBERS = (
    *REVSI_TASKS["object_counting"],
    "object_abs_distance",
    "object_size_estimation",
    *REVSI_TASKS["room_size_estimation"],
)

# task -> its types; every other type is its own task
COMPOSITES: Mapping[str, tuple[str, ...]] = {
    **REVSI_TASKS,
    DIRECTION: DIRECTION_TYPES + REVSI_TASKS[DIRECTION],
}

# type -> its task, the inverse of COMPOSITES
PART_TYPES = {kind: task for task, kinds in COMPOSITES.items() for kind in kinds}

# tasks and question types, named as in the VSI-Bench paper
TYPE_LABELS = {
    "object_counting": "object count",
    "object_abs_distance": "absolute distance",
    "object_size_estimation": "object size",
    "room_size_estimation": "room size",
    "object_rel_distance": "relative distance",
    DIRECTION: "relative direction",
    "object_rel_direction_easy": "relative direction, easy",
    "object_rel_direction_medium": "relative direction, medium",
    "object_rel_direction_hard": "relative direction, hard",
    "route_planning": "route plan",
    "obj_appearance_order": "appearance order",
}

# words of a label or an identifier, such as "room size" -> the type or task
_BY_WORDS = {
    words: name
    for name in (*TYPES, DIRECTION)
    for words in (TYPE_LABELS[name], name.replace("_", " "))
}


def type_named(name: str) -> str:
    """Return the type or task that tables and pages print under this name; other names are returned unchanged."""
    return _BY_WORDS.get(" ".join(name.replace("_", " ").lower().split()), name)


def types_named(name: str, available: Set[str]) -> tuple[str, ...]:
    """Return the available types with a name that tables and pages print; those of a task if it is one."""
    if name in available:
        return (name,)
    kind = type_named(name)
    return tuple(sorted({*COMPOSITES.get(kind, ())} & available)) or (kind,)


def type_label(name: str) -> str:
    """Return the name of a question type or task for people."""
    return TYPE_LABELS.get(name, name.replace("_", " "))


def sort_types(types: Iterable[str]) -> list[str]:
    """Sort question types: VSI-Bench's in their order, then all others by name."""
    types = set(types)
    return [*(kind for kind in TYPES if kind in types), *sorted(types.difference(TYPES))]


def metric_name(question: Question) -> str:
    """Return a question's metric: its own, or the default for its type or answer form."""
    if question.metric is not None:
        return question.metric
    form = ANSWER_FORMS.get(question.type)
    if form == question.answer_form:
        return TYPE_METRICS[question.type]
    return FORM_METRICS[question.answer_form]
