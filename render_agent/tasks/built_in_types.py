"""The built-in question types, as records: those of VSI-Bench, and `reach_view` with a record per tier."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.question import Question
from render_agent.tasks.box_answers import (
    DIRECTION_NAMES,
    NEAREST_LIST,
    are_apart,
    count_objects,
    direction,
    has_lead,
    is_clear_direction,
    longest_side,
    nearest,
    object_distance,
    room_area,
)
from render_agent.tasks.question_type import QuestionType

# Bounded, because the patterns would otherwise take cubic time in the length of a question.
_NAME = "(.{1,100})"
_LIST = "(.{1,1000})"

# Matches the start, facing direction, goal and landmarks of a route.
ROUTE_PATTERN = (
    r"(?:beginning at|facing|navigate to|until) the (.{1,100}?)"
    r"(?=(?: and)? facing | and to |\. |,| is on your|\?| \d\.|$)"
)
_DRAFTS = "render_agent_lab.room_generator.questions."

DIRECTION = "object_rel_direction"  # task that consists of the types of relative direction


def _whole(answer: str) -> list[str]:
    return [answer]


def _route_parts(answer: str) -> list[str]:
    """Return every turn and the number of turns, which counts more, so that routes with several turns are chosen more often."""
    turns = answer.split(", ")
    return [*turns, *[f"{len(turns)} turns"] * max(1, 6 - 3 * len(turns))]


def exchange_names(question: Question, names: list[str]) -> str | None:
    """Return the text of a question with its two objects exchanged."""
    if len(names) != 2:
        return None
    first, second = names
    swap = {first: second, second: first}
    pattern = rf"\bthe ({re.escape(first)}|{re.escape(second)})\b"
    return re.sub(pattern, lambda match: f"the {swap[match[1]]}", question.text)


def _reverse_list(question: Question, names: list[str]) -> str:
    """Return the text of a question with its list of choices reversed."""
    return re.sub(
        r"(?<=of these objects \()([^)]{1,1000})(?=\))",
        lambda match: ", ".join(match[0].split(", ")[::-1]),
        question.text,
    )


def _direction(kind: str, name_of: Callable[[float], str]) -> QuestionType:
    return QuestionType(
        name=f"{DIRECTION}_{kind}",
        label=f"relative direction, {kind}",
        answer_form="letter",
        metric="direction-accuracy",
        task=DIRECTION,
        in_vsi_bench=True,
        subjects=rf"standing by the {_NAME} and facing the {_NAME}, is the {_NAME} to (?:my|the left)",
        solve=partial(direction, name_of),
        is_clear=partial(is_clear_direction, name_of),
        generator=f"{_DRAFTS}directions:{kind}_directions",
        answer_parts=_whole,
    )


COUNTING = QuestionType(
    name="object_counting",
    label="object count",
    answer_form="number",
    metric="count-accuracy",
    in_vsi_bench=True,
    needs="every object",
    subjects=rf"How many {_NAME}\(s\) are in",
    solve=count_objects,
    generator=f"{_DRAFTS}measures:counting_questions",
    answer_parts=_whole,
)
ABSOLUTE_DISTANCE = QuestionType(
    name="object_abs_distance",
    label="absolute distance",
    answer_form="number",
    metric="mean-relative-accuracy",
    in_vsi_bench=True,
    subjects=rf"the distance between the {_NAME} and the {_NAME} \(in",
    solve=object_distance,
    is_clear=are_apart,
    reorder=exchange_names,
    generator=f"{_DRAFTS}measures:distance_questions",
)
OBJECT_SIZE = QuestionType(
    name="object_size_estimation",
    label="object size",
    answer_form="number",
    metric="mean-relative-accuracy",
    in_vsi_bench=True,
    subjects=rf"dimension \(length, width, or height\) of the {_NAME}, measured",
    solve=longest_side,
    from_sizes=True,
    generator=f"{_DRAFTS}measures:sizes",
)
ROOM_SIZE = QuestionType(
    name="room_size_estimation",
    label="room size",
    answer_form="number",
    metric="mean-relative-accuracy",
    in_vsi_bench=True,
    needs="room",
    solve=room_area,
    generator=f"{_DRAFTS}measures:room_size",
)
RELATIVE_DISTANCE = QuestionType(
    name="object_rel_distance",
    label="relative distance",
    answer_form="letter",
    metric="accuracy",
    in_vsi_bench=True,
    subjects=rf"of these objects \(.{{1,1000}}\) is the closest to the {_NAME}\?",
    choices=NEAREST_LIST,
    find_names=lambda question: list(options_by_letter(question.options).values()),
    solve=nearest,
    is_clear=has_lead,
    reorder=_reverse_list,
    generator=f"{_DRAFTS}measures:nearest_of_four",
)
DIRECTION_EASY, DIRECTION_MEDIUM, DIRECTION_HARD = (
    _direction(kind, DIRECTION_NAMES[f"{DIRECTION}_{kind}"]) for kind in ("easy", "medium", "hard")
)
ROUTE = QuestionType(
    name="route_planning",
    label="route plan",
    answer_form="letter",
    metric="accuracy",
    in_vsi_bench=True,
    find_names=lambda question: re.findall(ROUTE_PATTERN, question.text),
    generator=f"{_DRAFTS}routes:route_questions",
    answer_parts=_route_parts,
)
APPEARANCE_ORDER = QuestionType(
    name="obj_appearance_order",
    label="appearance order",
    answer_form="letter",
    metric="accuracy",
    in_vsi_bench=True,
    needs="video",
    choices=rf"following categories in the video: {_LIST}\?",
)

REACH_VIEW = (
    "reach_view"  # task that consists of the tiers: move the camera until it shows the target
)


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
