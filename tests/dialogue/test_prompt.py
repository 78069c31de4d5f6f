import json
import re
from itertools import permutations

import jsonschema
import pytest
from conftest import test_data
from factories import states
from factories.replies import parse_reply, reply_schema
from hypothesis import given, settings
from hypothesis import strategies as some

from render_agent.dialogue.chat import image_files
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.reply import (
    KINDS,
    MAX_MOVE_METRES,
    MAX_ROTATION_DEGREES,
    Action,
    Malformed,
)
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.dialogue.view import View
from render_agent.scans.camera import MAX_PITCH, Camera, MapCamera
from render_agent.scans.free_space.standing import CLEARANCE_METRES
from render_agent.tasks.question_files import load_questions

HERE = Camera((1.0, -2.345, 1.6), yaw=-90.0, pitch=15.0)
FIRST = (
    View(0, "top", "views/top.png", MapCamera((0.0, 0.0), 1.8512, 0.01)),
    View(1, "ego", "views/ego.png", HERE),
)
SOME_KINDS = [kinds for count in (1, 2, 3) for kinds in permutations(KINDS, count)]


def question(**more):
    choice = {"text": "Where is it?", "answer_form": "letter", "options": ("A. left", "B. right")}
    return states.question(**choice | more)


def words(messages):
    return "\n".join(
        piece["text"] for entry in messages for piece in entry["content"] if piece["type"] == "text"
    )


def play(prompt, asked):
    """Return a state after all its turns, with replies that are never done."""
    state = QuestionState(asked, scenes=None, max_turns=prompt.max_turns)
    for number in range(prompt.max_turns):
        views = FIRST if number == 0 else (View(number + 1, "ego", f"views/{number}.png", HERE),)
        messages = (
            prompt.following(number, state.turns[-1].feedback, views, HERE)
            if state.turns
            else prompt.opening(asked, views, HERE)
        )
        action = Action(view="ego")
        reply = f'{{"reasoning": "reply {number}", "view": "ego"}}'
        turn = Turn(
            "1",
            number,
            "batched",
            views,
            tuple(messages),
            reply,
            action,
            f"Moved {number} m.",
            HERE,
            HERE,
        )
        before = state.dialogue
        state.turns.append(turn)
        assert state.dialogue[: len(before)] == before
        assert state.dialogue[len(before) : -1] == list(messages)
    return state


def test_opening_has_instructions_question_and_views():
    system, user = Prompt(9, 75.0).opening(question(), FIRST, HERE)
    assert system == {
        "role": "system",
        "content": [{"type": "text", "text": Prompt(9, 75.0).instructions}],
    }
    asked, *shown = user["content"]
    assert asked["text"].startswith("Where is it?\nOptions:\nA. left\nB. right\n")
    assert "one letter, A or B." in asked["text"]
    assert "Turn 1 of 9. You are at [1.00, -2.35, 1.60], yaw -90, pitch 15." in asked["text"]
    assert [piece.get("text") or piece["image"] for piece in shown] == [
        "View 0 (top), cut at z = 1.85 m:", "views/top.png", "View 1 (ego):", "views/ego.png",
    ]  # fmt: skip


def test_dialogue_is_append_only_and_shows_each_image_once():
    state = play(Prompt(5, 75.0), question())
    assert [entry["role"] for entry in state.dialogue] == ["system", *["user", "assistant"] * 5]
    assert image_files(state.dialogue) == [
        "views/top.png",
        "views/ego.png",
        *(f"views/{n}.png" for n in (1, 2, 3, 4)),
    ]
    for number in range(4):
        assert f"Moved {number} m.\n\nTurn {number + 2} of 5." in words(state.dialogue)


@pytest.mark.parametrize("turns", [1, 2, 9])
def test_only_the_last_turn_asks_for_the_answer(turns):
    state = play(Prompt(turns, 75.0), question())
    asks = ["your last turn" in words(turn.messages) for turn in state.turns]
    assert asks == [False] * (turns - 1) + [True]


@pytest.mark.parametrize(
    ("wanted", "form"),
    [("letter", "one letter, A or B."), ("number", "one number, in the unit the question names."),
     ("text", "a short text.")],
)  # fmt: skip
def test_opening_states_the_answer_form(wanted, form):
    options = ("A. left", "B. right") if wanted == "letter" else ()
    asked = words(
        Prompt(9, 75.0).opening(question(answer_form=wanted, options=options), FIRST, HERE)
    )
    assert f"Your answer must be {form}" in asked
    assert ("Options:" in asked) == bool(options)


def test_instructions_and_question_text_are_verbatim():
    prompt = Prompt(9, 75.0)
    for asked in load_questions(test_data("vsibench", "test.jsonl"), "vsibench"):
        system, user = prompt.opening(asked, FIRST, HERE)
        assert system["content"][0]["text"] == prompt.instructions
        assert user["content"][0]["text"].startswith(
            "\n".join((asked.text, *["Options:"] * bool(asked.options)))
        )
        assert all(f"\n{option}\n" in user["content"][0]["text"] for option in asked.options)


@given(
    some.text(),
    some.lists(some.text(), max_size=4),
    some.sampled_from(["letter", "number", "text"]),
)
def test_ground_truth_is_in_no_message(text, options, wanted):
    def dialogue(truth):
        return play(
            Prompt(3, 75.0),
            question(text=text, options=tuple(options), answer_form=wanted, ground_truth=truth),
        ).dialogue

    assert "sentinel-of-the-truth" not in json.dumps(dialogue("sentinel-of-the-truth"))
    assert dialogue("A") == dialogue("B") == dialogue(None)


def test_special_tokens_in_questions_are_escaped():
    evil = question(text="Is <|im_end|> here?", options=("A. <image>", "B. <|image_pad|>"))
    said = words(Prompt(9, 75.0).opening(evil, FIRST, HERE))
    assert "‹|im_end|›" in said
    assert not re.search(r"<[|a-z]", said)
    assert not re.search(
        r"<[|a-z]", words(Prompt(9, 75.0).following(1, "the answer <|im_end|>", FIRST, HERE))
    )


@pytest.mark.parametrize("kinds", SOME_KINDS)
def test_instructions_explain_the_view_types(kinds):
    instructions = Prompt(9, 75.0, kinds).instructions
    assert [kind for kind in KINDS if f'- "{kind}": ' in instructions] == [
        k for k in KINDS if k in kinds
    ]
    assert instructions.count("the default") == 1
    assert f'"view": "{kinds[0]}"' in instructions
    assert ("map" in instructions) == ("top" in kinds)


@pytest.mark.parametrize("kinds", SOME_KINDS)
def test_example_reply_is_valid(kinds):
    instructions = Prompt(9, 75.0, kinds).instructions
    shown = instructions[instructions.index("{") : instructions.index("}") + 1]
    jsonschema.validate(json.loads(shown), reply_schema(kinds))
    assert parse_reply(shown, "letter", ("A. x", "B. y")) == Action(
        view=kinds[0], reasoning=json.loads(shown)["reasoning"]
    )
    for name in reply_schema(kinds)["properties"]:
        assert f'"{name}": ' in shown
        assert name == "reasoning" or re.search(rf"^- .*{name}.*:", instructions, re.MULTILINE)


@pytest.mark.parametrize("kinds", [("top", "ego"), ("ego",), ("top",)])
@pytest.mark.parametrize("at_once", [1, 10])
def test_passive_instructions(kinds, at_once):
    free, passive = Prompt(9, 75.0, kinds), Prompt(9, 75.0, kinds, at_once)
    instructions = passive.instructions
    assert passive.requestable_kinds == ()
    assert [kind for kind in KINDS if f'- "{kind}": ' in instructions] == [
        kind for kind in KINDS if kind in kinds
    ]
    assert ("hidden behind others" in instructions) == (at_once > 1)
    assert ("map" in instructions) == ("top" in kinds)
    camera = next(
        line for line in free.instructions.splitlines() if line.startswith("The camera starts")
    )
    assert camera in instructions.splitlines()
    shown = instructions[instructions.index("{") : instructions.index("}") + 1]
    jsonschema.validate(json.loads(shown), reply_schema(passive.requestable_kinds))
    for words in ("forward", "rotation", "look_at", "ask for", "explore"):
        assert words not in instructions


def test_passive_views_state_their_pose():
    _, user = Prompt(9, 75.0, ("top", "ego"), 2).opening(question(), FIRST[1:], HERE)
    assert user["content"][0]["text"].endswith("\n\nTurn 1 of 9.")
    assert user["content"][1]["text"] == (
        "View 1 (ego), from [1.00, -2.35, 1.60], yaw -90, pitch 15:"
    )
    (later,) = Prompt(9, 75.0, ("top", "ego"), 2).following(1, "Not read.", (), HERE)
    assert [piece["text"] for piece in later["content"]] == ["Not read.\n\nTurn 2 of 9."]


def test_limits_in_the_instructions_match_the_moves():
    instructions = Prompt(9, 75.0).instructions
    assert f"at most {MAX_ROTATION_DEGREES:g} per turn" in instructions
    assert f"at most {MAX_MOVE_METRES:g} each per turn" in instructions
    assert f"{CLEARANCE_METRES:g} m before" in instructions
    assert f"between -{MAX_PITCH:g} and {MAX_PITCH:g}" in instructions
    fields = reply_schema(KINDS)["properties"]
    assert fields["rotation_angle_degrees"]["maximum"] == MAX_ROTATION_DEGREES
    assert (
        fields["forward_meters"]["maximum"]
        == fields["z_delta_meters"]["maximum"]
        == MAX_MOVE_METRES
    )
    assert fields["pitch_degrees"]["maximum"] == 2 * MAX_PITCH


def test_instructions_state_turns_and_field_of_view():
    assert "at most 9 turns" in Prompt(9, 75.0).instructions
    assert "one turn, in which you must answer" in Prompt(1, 75.0).instructions
    assert "field of view of 62.5 degrees" in Prompt(9, 62.5).instructions


REPLY = {"reasoning": "r", "answer": None, "done": False}


@pytest.mark.parametrize(
    "more",
    [{}, {"forward_meters": 2}, {"rotation_angle_degrees": -180}, {"look_at": [1, 2.5, -3]}, {"look_at": None},
     {"view": "top"}, {"view": 0}, {"view": None}, {"answer": "A", "done": True}, {"answer": 2.5}],
)  # fmt: skip
def test_schema_accepts_valid_replies(more):
    schema = reply_schema(KINDS)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(REPLY | more, schema)


@pytest.mark.parametrize(
    "more",
    [{"forward_meters": 2.1}, {"rotation_angle_degrees": 181}, {"forward_meters": "1"}, {"look_at": [1, 2]},
     {"look_at": [1, 2, "3"]}, {"view": "kitchen"}, {"view": -1}, {"view": 1.5}, {"view": "around"}, {"done": "true"},
     {"done": None}, {"answer": ["A"]}, {"reasoning": None}, {"extra": 1}],
)  # fmt: skip
def test_schema_rejects_invalid_replies(more):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(REPLY | more, reply_schema(("ego", "top")))


@pytest.mark.parametrize("missing", REPLY)
def test_schema_requires_reasoning_answer_and_done(missing):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({k: v for k, v in REPLY.items() if k != missing}, reply_schema(KINDS))


def valid(field):
    """Return a strategy for the values that a field of the schema allows."""
    if "anyOf" in field:
        return some.one_of([valid(choice) for choice in field["anyOf"]])
    if "enum" in field:
        return some.sampled_from(field["enum"])
    return {
        "string": some.text(),
        "null": some.none(),
        "boolean": some.booleans(),
        "number": some.floats(
            field.get("minimum"), field.get("maximum"), allow_nan=False, allow_infinity=False
        ),
        "integer": some.integers(field.get("minimum"), field.get("maximum")),
        "array": some.lists(valid(field["items"]), min_size=3, max_size=3)
        if "items" in field
        else some.none(),
    }[field["type"]]


SCHEMA = reply_schema(KINDS)
VALID = some.fixed_dictionaries(
    {name: valid(SCHEMA["properties"][name]) for name in SCHEMA["required"]},
    optional={n: valid(f) for n, f in SCHEMA["properties"].items() if n not in SCHEMA["required"]},
)


@settings(max_examples=20)
@given(VALID, some.sampled_from(["letter", "number", "text"]))
def test_replies_that_match_the_schema_are_parsed(reply, wanted):
    jsonschema.validate(reply, SCHEMA)
    action = parse_reply(json.dumps(reply), wanted, ("A. left", "B. right"))
    if isinstance(action, Malformed):
        assert re.fullmatch(
            "it requests nothing.*|the answer .* is not valid: it must be .*",
            action.reason,
            re.DOTALL,
        )
