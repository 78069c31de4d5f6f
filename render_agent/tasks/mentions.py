"""What a question names: the categories of objects that its text and its options are about."""

from __future__ import annotations

import re

from render_agent.dialogue.answer import letters
from render_agent.dialogue.question import Question

SUBJECT_PATTERNS = {
    "object_counting": r"How many (.+)\(s\) are in",
    "object_size_estimation": r"dimension \(length, width, or height\) of the (.+), measured",
    "object_abs_distance": r"the distance between the (.+) and the (.+) \(in",
    "object_rel_distance": r"of these objects \(.+\) is the closest to the (.+)\?",
    "object_rel_direction": r"standing by the (.+) and facing the (.+), is the (.+) to (?:my|the left)",
}
"""How VSI-Bench names the objects that its questions are about."""

ROUTE_PATTERN = (
    r"(?:beginning at|facing|navigate to|until) the (.+?)"
    r"(?=(?: and)? facing | and to |\. |,| is on your|\?| \d\.|$)"
)
"""How a route's start, its direction, its goal and the marks on its way are named."""

LIST_PATTERNS = {
    "object_rel_distance": r"of these objects \((.+)\) is the closest",
    "obj_appearance_order": r"following categories in the video: (.+)\?",
}
"""Where a question lists objects with commas between them."""


NO_MATCH = "(?!)"
"""A pattern that is found in no text, an empty one included."""


def subjects(question: Question) -> list[str]:
    """Return the categories that the question is about, in the order of its pattern.

    An empty name stands where it is worded otherwise, and for types whose truth no box tells.
    """
    match = re.search(SUBJECT_PATTERNS.get(kind_of(question), NO_MATCH), question.text)
    return list(match.groups()) if match else [""]


def named_categories(question: Question) -> tuple[str, ...]:
    """Return every category that the question names, in lower case, each once, as they come.

    Those that it lists to choose from are among them. None where it names no object, as for the
    size of a room or a question that is worded otherwise.
    """
    kind = kind_of(question)
    names = subjects(question)
    if kind == "route_planning":
        names = re.findall(ROUTE_PATTERN, question.text)
    if match := re.search(LIST_PATTERNS.get(kind, NO_MATCH), question.text):
        names += match[1].split(",")
    if kind == "object_rel_distance":
        names += letters(question.options).values()
    return tuple(dict.fromkeys(name.strip().lower() for name in names if name.strip()))


def kind_of(question: Question) -> str:
    """Return the type of a question without its difficulty."""
    return question.type.removesuffix("_easy").removesuffix("_medium").removesuffix("_hard")
