"""Other wordings of a question: by rule for VSI-Bench's questions, by a model for any other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.dialogue.chat import Message, message, text
from render_agent.dialogue.reply import object_schema, unfenced
from render_agent.text.safe_parse import parse_json

_COUNT = r"How many (?P<name>.+)\(s\) are in this room\?"
_SIZE = (
    r"What is the length of the longest dimension \(length, width, or height\) of the (?P<name>.+),"
    r" measured in centimeters\?"
)
_APART = (
    r"Measuring from the closest point of each object, what is the distance between the (?P<one>.+)"
    r" and the (?P<other>.+) \(in meters\)\?"
)
_CLOSEST = (
    r"Measuring from the closest point of each object, which of these objects \((?P<names>.+)\) is the"
    r" closest to the (?P<name>.+)\?"
)
_DIRECTION = (
    r"If I am standing by the (?P<by>.+) and facing the (?P<ahead>.+), is the (?P<name>.+)"
    r" (?P<side>to (?:my|the) (?:front-)?left.*?)\?(?P<rule>\n.+)?"
)
_ORDER = (
    r"What will be the first-time appearance order of the following categories in the video:"
    r" (?P<names>.+)\?"
)
_ROOM = r"What is the size of this room \(in square meters\)\?(?P<rule>(?:\s*\n.+)?)"
_ROUTE = (
    r"You are a robot (?P<begin>beginning .+?)\. You want to navigate to (?P<goal>.+?)\."
    r" You will perform the following actions (?P<note>\(Note: [^)]+\)): (?P<steps>.+)"
)

_CLOSE = "measuring from the closest point of each object"
_LONGEST = "longest dimension (length, width, or height)"

TEMPLATES: Mapping[str, Sequence[str]] = {
    _COUNT: (
        "What is the number of {name}(s) in this room?",
        "In this room, how many {name}(s) are there?",
        "Count the {name}(s) in this room: how many are there?",
        "How many {name}(s) does this room have?",
        "How many {name}(s) can be found in this room?",
        "This room has how many {name}(s)?",
        "Give the number of {name}(s) that are in this room.",
    ),
    _SIZE: (
        f"Measured in centimeters, what is the length of the {_LONGEST} of the {{name}}?",
        f"How long, measured in centimeters, is the {_LONGEST} of the {{name}}?",
        f"Take the {_LONGEST} of the {{name}}. What is its length, measured in centimeters?",
        f"How many centimeters does the {_LONGEST} of the {{name}} measure?",
        f"The {{name}} has a {_LONGEST}. How long is it, measured in centimeters?",
        f"Give the length of the {_LONGEST} of the {{name}}, measured in centimeters.",
        f"In centimeters, how long is the {{name}} along its {_LONGEST}?",
    ),
    _APART: (
        f"What is the distance (in meters) between the {{one}} and the {{other}}, {_CLOSE}?",
        f"{_CLOSE.capitalize()}, how far apart are the {{one}} and the {{other}} (in meters)?",
        f"How far (in meters) is the {{one}} from the {{other}}, {_CLOSE}?",
        f"Take the {{one}} and the {{other}}. {_CLOSE.capitalize()}, what is the distance between them"
        " (in meters)?",
        f"Give the distance between the {{one}} and the {{other}} (in meters), {_CLOSE}.",
        f"Between the {{one}} and the {{other}}, what is the distance (in meters), {_CLOSE}?",
        f"{_CLOSE.capitalize()}, how many meters is the {{one}} away from the {{other}}?",
    ),
    _CLOSEST: (
        f"Which of these objects ({{names}}) is the closest to the {{name}}, {_CLOSE}?",
        f"Consider these objects ({{names}}). {_CLOSE.capitalize()}, which of them is the closest to the"
        " {name}?",
        f"Of these objects ({{names}}), which is the closest to the {{name}}, {_CLOSE}?",
        f"Which one of these objects ({{names}}) has the smallest distance to the {{name}}, {_CLOSE}?",
        f"{_CLOSE.capitalize()}, the distance to the {{name}} is the smallest for which of these objects"
        " ({names})?",
        f"Name the one of these objects ({{names}}) that is the closest to the {{name}}, {_CLOSE}.",
        f"How far are these objects ({{names}}) from the {{name}}, {_CLOSE}? Which is the closest?",
    ),
    _DIRECTION: (
        "Suppose I am standing by the {by} and facing the {ahead}. Is the {name} {side}?{rule}",
        "When I stand by the {by} and face the {ahead}, is the {name} {side}?{rule}",
        "I am standing by the {by} and facing the {ahead}. Is the {name} {side}?{rule}",
        "Imagine that I am standing by the {by}, and that I am facing the {ahead}. Is the {name}"
        " {side}?{rule}",
        "Is the {name} {side}, if I am standing by the {by} and facing the {ahead}?{rule}",
        "Standing by the {by} and facing the {ahead}, do I have the {name} {side}?{rule}",
        "I stand by the {by}, and I face the {ahead}: is the {name} {side}?{rule}",
    ),
    _ORDER: (
        "In what order will the following categories appear for the first time in the video: {names}?",
        "What will be the order of first-time appearance of the following categories in the video:"
        " {names}?",
        "Consider the following categories: {names}. What will be their first-time appearance order in"
        " the video?",
        "In which order will these categories be seen for the first time in the video: {names}?",
        "Give the first-time appearance order of the following categories in the video: {names}.",
        "By first-time appearance in the video, what will be the order of the following categories:"
        " {names}?",
        "Which of the following categories will appear first in the video, and in what order will the"
        " others appear for the first time after it: {names}?",
    ),
    _ROOM: (
        "How large is this room (in square meters)?{rule}",
        "What size does this room have (in square meters)?{rule}",
        "In square meters, what is the size of this room?{rule}",
        "How big is this room (in square meters)?{rule}",
        "Give the size of this room (in square meters).{rule}",
        "How many square meters does this room have?{rule}",
        "This room has what size (in square meters)?{rule}",
    ),
    _ROUTE: (
        "Imagine that you are a robot {begin}. You want to navigate to {goal}. You will perform the"
        " following actions {note}: {steps}",
        "You are a robot {begin}. Your goal is to navigate to {goal}. You will perform these actions"
        " {note}: {steps}",
        "You are a robot {begin}. To navigate to {goal}, you will perform the following actions"
        " {note}: {steps}",
        "You want to navigate to {goal}. You are a robot {begin}. You will perform the following"
        " actions {note}: {steps}",
        "Suppose that you are a robot {begin}. You want to get to {goal}. These are the actions that"
        " you will perform {note}: {steps}",
        "You are a robot {begin}. Where you want to navigate to is {goal}. The actions that you will"
        " perform are the following {note}: {steps}",
        "Think of yourself as a robot {begin}. You want to navigate to {goal}, and you will perform the"
        " following actions {note}: {steps}",
    ),
}
"""Other words for every form of VSI-Bench's questions; names, units, lists and rules stay as they are."""

REQUEST = """\
Write the question below in {count} other ways. Keep its meaning exactly: the same objects by the same \
names, the same numbers, units and conditions. Do not answer it. Reply with one JSON object and nothing \
else: {{"wordings": [{count} texts]}}

The question:
{question}"""

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def reword_by_rule(question: str) -> tuple[str, ...] | None:
    """Return a question in all the words that are known for its form, its own text first.

    None where it has no form of VSI-Bench's.
    """
    for form, templates in TEMPLATES.items():
        if match := re.fullmatch(form, question, re.DOTALL):
            parts = match.groupdict(default="")
            return (question, *(template.format(**parts) for template in templates))
    return None


def rewording_messages(question: str, count: int) -> list[Message]:
    """Return the dialogue that asks a model for a question in this many other wordings."""
    return [message("user", text(REQUEST.format(count=count, question=question)))]


def rewording_schema(count: int) -> Mapping[str, Any]:
    """Return the JSON schema of the reply to `rewording_messages`."""
    texts = {"type": "array", "items": {"type": "string"}, "minItems": count, "maxItems": count}
    return object_schema({"wordings": texts})


def read_wordings(reply: str, question: str, count: int) -> tuple[str, ...]:
    """Return the wordings that a reply gives, `count` at the most; none where it cannot be read.

    Those that are there already are left out, and those that hold other numbers than the question.
    """
    try:
        wordings = parse_json(unfenced(reply))["wordings"]
    except (ValueError, TypeError, KeyError):
        return ()
    distinct = {_normalised(question): question}
    for wording in wordings if isinstance(wordings, list) else ():
        if (
            isinstance(wording, str)
            and _normalised(wording)
            and _numbers(wording) == _numbers(question)
        ):
            distinct.setdefault(_normalised(wording), wording.strip())
    return tuple(distinct.values())[1 : count + 1]


def _normalised(words: str) -> str:
    return " ".join(words.lower().split())


def _numbers(words: str) -> Counter[str]:
    return Counter(_NUMBER.findall(words))
