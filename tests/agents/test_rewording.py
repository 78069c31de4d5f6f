"""Questions in other words: what stays as it is, and what a model's wordings must keep."""

import json
import re
from collections import Counter

import pytest
from conftest import test_data

from render_agent.agents.rewording import (
    read_wordings,
    reword_by_rule,
    rewording_messages,
    rewording_schema,
)
from render_agent.config.agent_plan import MAX_WORDINGS
from render_agent.questions.mentions import named_categories
from render_agent.questions.rooms import bundled
from render_agent.questions.vsibench import load_vsibench

KEPT = (
    "closest point of each object",
    "this room",
    "square meters",
    "centimeters",
    "meters",
    "longest dimension (length, width, or height)",
    "in the video",
    "If multiple rooms are shown, estimate the size of the combined space.",
    "An object is to my back if I would have to turn at least 135 degrees in order to face it.",
    "The directions refer to the quadrants of a Cartesian plane (if I am standing at the origin and"
    " facing along the positive y-axis).",
    "to my front-left, front-right, back-left, or back-right",
    "to my left, right, or back",
    "to the left or the right of",
    "(Note: for each [please fill in], choose either 'turn back,' 'turn left,' or 'turn right.'): 1. ",
    "You have reached the final destination.",
)
"""What must stand in every wording of a question in which it stands."""


def check(question):
    wordings = reword_by_rule(question.text)
    assert wordings[0] == question.text
    assert len({" ".join(wording.lower().split()) for wording in wordings}) == MAX_WORDINGS
    numbers = Counter(re.findall(r"[0-9]+", question.text))
    for wording in wordings:
        assert Counter(re.findall(r"[0-9]+", wording)) == numbers
        for name in named_categories(question):
            assert wording.lower().count(name) == question.text.lower().count(name) > 0
        for phrase in KEPT:
            if phrase in question.text:
                assert phrase.lower() in wording.lower()
        assert not re.search("[{}]", wording)
    if steps := re.search(r"\): (1\. .*)", question.text):
        assert all(wording.endswith(steps[1]) for wording in wordings)
    if listed := re.search(r"\((.+?)\) is the closest|video: (.+)\?", question.text):
        assert all((listed[1] or listed[2]) in wording for wording in wordings)


def test_every_question_of_vsibench_has_other_wordings_that_keep_what_it_says():
    questions = load_vsibench(str(test_data("vsibench", "test.jsonl")))
    assert len(questions) == 5130
    distinct = {question.text: question for question in questions}
    assert len(distinct) > 2000
    for question in distinct.values():
        check(question)


def test_every_question_about_the_bundled_rooms_has_them_too():
    questions = bundled()
    assert len({question.type for question in questions}) == 9
    for question in questions:
        check(question)


@pytest.mark.parametrize(
    "text",
    [
        "Where is the sofa?",
        "How many chairs are in this room?",
        "How many chair(s) are in this room? Count stools too.",
        "What is the size of this room (in square meters)? Leave out the hall.",
    ],
)
def test_other_questions_are_not_reworded_by_rule(text):
    assert reword_by_rule(text) is None


QUESTION = "Which of the 2 lamps is nearer to the door than 1.5 m?"
OTHER = [
    "Of the 2 lamps, which is nearer to the door than 1.5 m?",
    "Nearer than 1.5 m: which of 2?",
]


def reply(*wordings, **more):
    return json.dumps({"wordings": list(wordings)} | more)


def test_a_model_is_asked_once_for_all_other_wordings():
    (asked,) = rewording_messages(QUESTION, 3)
    (piece,) = asked["content"]
    assert QUESTION in piece["text"]
    assert "in 3 other ways" in piece["text"]
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(json.loads(reply("a", "b", "c")), rewording_schema(3))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(reply("a", "b")), rewording_schema(3))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (reply(*OTHER), OTHER),
        (f"<think>Two, then.</think>\n```json\n{reply(*OTHER)}\n```", OTHER),
        (reply(f" {OTHER[0]} ", OTHER[0].upper(), QUESTION.lower(), "", 7, OTHER[1]), OTHER),
        (reply("Which of the 3 lamps is nearer to the door than 1.5 m?", OTHER[1]), OTHER[1:]),
        (reply("Which lamp is nearer to the door?"), []),
        (reply(*OTHER, OTHER[0] + " Now."), OTHER),
        (json.dumps(OTHER), []),
        (json.dumps({"wordings": OTHER[0]}), []),
        (reply(*OTHER)[:-1], []),
        (f"Sure: {reply(*OTHER)}", []),
        ("", []),
        ("[" * 100_000, []),
        ('{"answer": "A", "done": true}', []),
        ("7", []),
    ],
)
def test_only_wordings_that_are_new_and_keep_the_numbers_are_taken(text, found):
    assert list(read_wordings(text, QUESTION, 2)) == found
