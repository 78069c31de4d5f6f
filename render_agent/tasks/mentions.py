"""The object categories that a question names in its text and options."""

from __future__ import annotations

import re

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.question import Question

# Bounded, because the patterns would otherwise take cubic time in the length of a question.
_NAME = "(.{1,100})"
_LIST = "(.{1,1000})"

# question type -> pattern of VSI-Bench's template, with a group for each object that the question is about
SUBJECT_PATTERNS = {
    "object_counting": rf"How many {_NAME}\(s\) are in",
    "object_size_estimation": rf"dimension \(length, width, or height\) of the {_NAME}, measured",
    "object_abs_distance": rf"the distance between the {_NAME} and the {_NAME} \(in",
    "object_rel_distance": rf"of these objects \(.{{1,1000}}\) is the closest to the {_NAME}\?",
    "object_rel_direction": rf"standing by the {_NAME} and facing the {_NAME}, is the {_NAME} to (?:my|the left)",
}

# Matches the start, facing direction, goal and landmarks of a route.
ROUTE_PATTERN = (
    r"(?:beginning at|facing|navigate to|until) the (.{1,100}?)"
    r"(?=(?: and)? facing | and to |\. |,| is on your|\?| \d\.|$)"
)

# Comma-separated lists of objects in a question.
LIST_PATTERNS = {
    "object_rel_distance": rf"of these objects \({_LIST}\) is the closest",
    "obj_appearance_order": rf"following categories in the video: {_LIST}\?",
}

NO_MATCH = "(?!)"  # matches no text, not even an empty one


def subjects(question: Question) -> list[str]:
    """Return the categories that the question is about, in the order of its pattern.

    The result is a single empty name if the question does not match VSI-Bench's template, or if its type has none.
    """
    match = re.search(SUBJECT_PATTERNS.get(base_question_type(question), NO_MATCH), question.text)
    return list(match.groups()) if match else [""]


def named_categories(question: Question) -> tuple[str, ...]:
    """Return the distinct categories that the question names, in lower case and in order of appearance.

    Includes the objects to choose from. The result is empty for room sizes and for questions that match no template.
    """
    kind = base_question_type(question)
    names = subjects(question)
    if kind == "route_planning":
        names = re.findall(ROUTE_PATTERN, question.text)
    if match := re.search(LIST_PATTERNS.get(kind, NO_MATCH), question.text):
        names += match[1].split(",")
    if kind == "object_rel_distance":
        names += options_by_letter(question.options).values()
    return tuple(dict.fromkeys(name.strip().lower() for name in names if name.strip()))


def base_question_type(question: Question) -> str:
    """Return the type of a question without its difficulty suffix."""
    return question.type.removesuffix("_easy").removesuffix("_medium").removesuffix("_hard")
