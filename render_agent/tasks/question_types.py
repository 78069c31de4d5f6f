"""Looks up question types by name, and answers questions about questions: metric, names, and the answer from boxes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from functools import cache

from render_agent import registry
from render_agent.dialogue.answer import AnswerForm
from render_agent.dialogue.question import Question
from render_agent.tasks import QUESTION_TYPES
from render_agent.tasks.built_in_types import DIRECTION, REACH_VIEW
from render_agent.tasks.ground_truth import Facts
from render_agent.tasks.question_type import QuestionType

ORDER = "obj_appearance_order"

# Default metric by answer form, for questions whose type has no record.
FORM_METRICS: Mapping[AnswerForm, str] = {
    "letter": "accuracy",
    "number": "mean-relative-accuracy",
    "text": "first-word",
    "pose": "view-success",
}

UNKNOWN = QuestionType(name="", label="", answer_form="text", metric=FORM_METRICS["text"])


BUILT_IN: Mapping[str, QuestionType] = {
    name: registry.load("question type", name) for name in QUESTION_TYPES
}


def all_types() -> Mapping[str, QuestionType]:
    """Return all types by name, in the order of tables: VSI-Bench's, then those of packages."""
    return _with_packaged(tuple(registry.package_names("question type")))


@cache
def _with_packaged(names: tuple[str, ...]) -> Mapping[str, QuestionType]:
    return {**BUILT_IN, **{name: registry.load("question type", name) for name in names}}


def find_type(name: str) -> QuestionType:
    """Return the record of a type; for an unknown name with a difficulty suffix, that of the name without it; else UNKNOWN."""
    types = all_types()
    return types.get(name) or types.get(_base(name)) or UNKNOWN


def type_of(question: Question) -> QuestionType:
    return find_type(question.type)


TYPES = tuple(name for name, record in BUILT_IN.items() if record.in_vsi_bench)
CHOICE_TYPES = tuple(name for name in TYPES if BUILT_IN[name].answer_form == "letter")
NUMBER_TYPES = tuple(name for name in TYPES if BUILT_IN[name].answer_form == "number")
DIRECTION_TYPES = tuple(name for name in TYPES if BUILT_IN[name].task == DIRECTION)


def task_of(name: str) -> str:
    """Return the task that a type is part of: the type itself unless its record names another one."""
    record = all_types().get(name)
    return name if record is None or record.task is None else record.task


def parts_of(task: str) -> tuple[str, ...]:
    """Return the types whose record names a task."""
    return tuple(name for name, record in all_types().items() if record.task == task)


TASK_LABELS = {DIRECTION: "relative direction", REACH_VIEW: "reach the view"}


def type_named(name: str) -> str:
    """Return the type or task that tables and pages print under this name; other names are returned unchanged."""
    words = " ".join(name.replace("_", " ").lower().split())
    labels = {kind: record.label for kind, record in all_types().items()} | TASK_LABELS
    for kind, label in labels.items():
        if words in (label, kind.replace("_", " ")):
            return kind
    return name


def types_named(name: str, available: Set[str]) -> tuple[str, ...]:
    """Return the available types with a name that tables and pages print; those of a task if it is one."""
    if name in available:
        return (name,)
    kind = type_named(name)
    return tuple(sorted({*parts_of(kind)} & available)) or (kind,)


def type_label(name: str) -> str:
    """Return the name of a question type or task for people."""
    record = all_types().get(name)
    return TASK_LABELS.get(name, name.replace("_", " ")) if record is None else record.label


def sort_types(types: Iterable[str]) -> list[str]:
    """Sort question types: those with a record in their order, then all others by name."""
    types = set(types)
    known = all_types()
    return [*(kind for kind in known if kind in types), *sorted(types.difference(known))]


def answer_form_of(name: str) -> AnswerForm | None:
    """Return the answer form of a type; None if it has no record."""
    record = all_types().get(name)
    return None if record is None else record.answer_form


def metric_name(question: Question) -> str:
    """Return a question's metric: its own, or the default for its type or answer form."""
    if question.metric is not None:
        return question.metric
    record = all_types().get(question.type)
    if record is not None and record.answer_form == question.answer_form:
        return record.metric
    return FORM_METRICS[question.answer_form]


def subjects(question: Question) -> list[str]:
    """Return the categories that the question is about, in the order of its pattern.

    The result is a single empty name if the question does not match the pattern of its type.
    """
    return type_of(question).find_subjects(question.text)


def named_categories(question: Question) -> tuple[str, ...]:
    """Return the distinct categories that the question names, in lower case and in order of appearance.

    Includes the objects to choose from. The result is empty for room sizes and for questions that match no template.
    """
    kind = type_of(question)
    names = [
        *kind.find_subjects(question.text),
        *kind.find_choices(question.text),
        *kind.find_names(question),
    ]
    return tuple(dict.fromkeys(name.strip().lower() for name in names if name.strip()))


def base_question_type(question: Question) -> str:
    """Return the type of a question without its difficulty suffix."""
    return _base(question.type)


def _base(name: str) -> str:
    return name.removesuffix("_easy").removesuffix("_medium").removesuffix("_hard")


def true_answer(question: Question, facts: Facts) -> str | None:
    """Return the answer computed from the boxes: a letter, a text without options, or a number in the unit asked for;
    None if unclear.

    Sizes are the longest axes of boxes. Distances are between the closest points of two boxes, and directions between
    their centres. Routes and appearance orders cannot be computed from boxes.
    """
    solve = type_of(question).solve
    return None if solve is None else solve(question, facts, subjects(question))


def is_clear(question: Question, facts: Facts) -> bool:
    """Return True if the answer would stay the same if the boxes were slightly displaced."""
    return type_of(question).is_clear(question, facts, subjects(question))
