"""The prompt: instructions, question, views, and the schema of replies."""

import json
import re
from itertools import permutations

import jsonschema
import pytest
from conftest import test_data
from factories import states
from factories.replies import parse_reply, reply_schema
from hypothesis import given, settings
from hypothesis import strategies as st

from render_agent.dialogue.chat import View, image_files
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.reply import (
    MAX_MOVE_METRES,
    MAX_ROTATION_DEGREES,
    Action,
    Malformed,
)
from render_agent.dialogue.reply_protocol import JsonProtocol
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.tools_protocol import ToolsProtocol
from render_agent.dialogue.turn import Turn
from render_agent.options import VIEW_TYPES
from render_agent.scans.camera import MAX_PITCH, Camera, MapCamera
from render_agent.scans.free_space.standing import CLEARANCE_METRES
from render_agent.tasks.row_files import load_questions
from training.wording import small_wording

HERE = Camera((1.0, -2.345, 1.6), yaw=-90.0, pitch=15.0)
FIRST = (
    View(0, "top", "views/top.png", MapCamera((0.0, 0.0), 1.8512, 0.01)),
    View(1, "ego", "views/ego.png", HERE),
)
SOME_KINDS = [kinds for count in (1, 2, 3) for kinds in permutations(VIEW_TYPES, count)]


def question(**fields):
    choice = {"text": "Where is it?", "answer_form": "letter", "options": ("A. left", "B. right")}
    return states.question(**choice | fields)


def text_of(messages):
    return "\n".join(
        piece["text"] for entry in messages for piece in entry["content"] if piece["type"] == "text"
    )


def play(prompt, question):
    """Return a state after all its turns, with replies that are never done."""
    state = QuestionState(question, scenes=None, max_turns=prompt.max_turns)
    for number in range(prompt.max_turns):
        views = FIRST if number == 0 else (View(number + 1, "ego", f"views/{number}.png", HERE),)
        messages = (
            prompt.following(number, state.turns[-1].feedback, views, HERE)
            if state.turns
            else prompt.opening(question, views, HERE)
        )
        reply = f'{{"reasoning": "reply {number}", "view": "ego"}}'
        turn = Turn(
            "1", number, "batched", views, tuple(messages), reply, Action(view="ego"), f"Moved {number} m.", HERE, HERE,
        )  # fmt: skip
        before = state.dialogue
        state.turns.append(turn)
        assert state.dialogue[: len(before)] == before
        assert state.dialogue[len(before) : -1] == list(messages)
    return state


def test_opening_has_instructions_question_and_views():
    system, user = Prompt(9, 75.0).opening(question(), FIRST, HERE)
    assert system["role"] == "system"
    assert system["content"] == [{"type": "text", "text": Prompt(9, 75.0).instructions}]
    first, *views = user["content"]
    assert first["text"].startswith("Where is it?\nOptions:\nA. left\nB. right\n")
    assert "the letter of your choice, A or B." in first["text"]
    assert "Turn 1 of 9. You are at [1.00, -2.35, 1.60], yaw -90, pitch 15." in first["text"]
    assert [piece.get("text") or piece["image"] for piece in views] == [
        "View 0 (top), cut at z = 1.85 m:", "views/top.png", "View 1 (ego):", "views/ego.png",
    ]  # fmt: skip


def test_dialogue_is_append_only_and_shows_each_image_once():
    state = play(Prompt(5, 75.0), question())
    assert [entry["role"] for entry in state.dialogue] == ["system", *["user", "assistant"] * 5]
    names = ("top", "ego", 1, 2, 3, 4)
    assert image_files(state.dialogue) == [f"views/{name}.png" for name in names]
    for number in range(4):
        assert f"Moved {number} m.\n\nTurn {number + 2} of 5." in text_of(state.dialogue)


@pytest.mark.parametrize("turns", [1, 2, 9])
def test_only_the_last_turn_asks_for_the_answer(turns):
    state = play(Prompt(turns, 75.0), question())
    asks = ["your last turn" in text_of(turn.messages) for turn in state.turns]
    assert asks == [False] * (turns - 1) + [True]


@pytest.mark.parametrize(
    ("wanted", "form"),
    [("letter", "the letter of your choice, A or B."), ("number", "one number, in the unit the question names."),
     ("text", "a short text.")],
)  # fmt: skip
def test_opening_states_the_answer_form(wanted, form):
    options = ("A. left", "B. right") if wanted == "letter" else ()
    labelled = question(answer_form=wanted, options=options)
    text = text_of(Prompt(9, 75.0).opening(labelled, FIRST, HERE))
    assert f"Your answer must be {form}" in text
    assert ("Options:" in text) == bool(options)


def test_instructions_and_question_text_are_verbatim():
    prompt = Prompt(9, 75.0)
    for question in load_questions(test_data("vsibench", "test.jsonl"), "vsibench"):
        system, user = prompt.opening(question, FIRST, HERE)
        text = user["content"][0]["text"]
        assert system["content"][0]["text"] == prompt.instructions
        assert text.startswith("\n".join((question.text, *["Options:"] * bool(question.options))))
        assert all(f"\n{option}\n" in text for option in question.options)


@given(
    st.text(),
    st.lists(st.text(), max_size=4),
    st.sampled_from(["letter", "number", "text"]),
)
def test_ground_truth_is_in_no_message(text, options, wanted):
    def dialogue(truth):
        fields = {"text": text, "options": tuple(options), "answer_form": wanted}
        return play(Prompt(3, 75.0), question(**fields, ground_truth=truth)).dialogue

    assert "sentinel-of-the-truth" not in json.dumps(dialogue("sentinel-of-the-truth"))
    assert dialogue("A") == dialogue("B") == dialogue(None)


def test_special_tokens_in_questions_are_escaped():
    hostile = question(text="Is <|im_end|> here?", options=("A. <image>", "B. <|image_pad|>"))
    opening = text_of(Prompt(9, 75.0).opening(hostile, FIRST, HERE))
    assert "‹|im_end|›" in opening
    following = text_of(Prompt(9, 75.0).following(1, "the answer <|im_end|>", FIRST, HERE))
    assert not re.search(r"<[|a-z]", opening + following)


@pytest.mark.parametrize("kinds", SOME_KINDS)
def test_instructions_explain_the_view_types(kinds):
    instructions = Prompt(9, 75.0, kinds).instructions
    assert [kind for kind in VIEW_TYPES if f'- "{kind}": ' in instructions] == [
        k for k in VIEW_TYPES if k in kinds
    ]
    assert instructions.count("the default") == 1
    assert f'"view": "{kinds[0]}"' in instructions
    assert ("map" in instructions) == ("top" in kinds)


def example_in(instructions):
    return instructions[instructions.index("{") : instructions.index("}") + 1]


@pytest.mark.parametrize("kinds", SOME_KINDS)
def test_example_reply_is_valid(kinds):
    instructions = Prompt(9, 75.0, kinds).instructions
    example = example_in(instructions)
    jsonschema.validate(json.loads(example), reply_schema(kinds))
    reasoning = json.loads(example)["reasoning"]
    action = parse_reply(example, "letter", ("A. x", "B. y"))
    assert action == Action(view=kinds[0], reasoning=reasoning)
    for name in reply_schema(kinds)["properties"]:
        assert f'"{name}": ' in example
        assert name == "reasoning" or re.search(rf"^- .*{name}.*:", instructions, re.MULTILINE)


@pytest.mark.parametrize("kinds", [("top", "ego"), ("ego",), ("top",)])
@pytest.mark.parametrize("num_views", [1, 10])
def test_passive_instructions_mention_no_moves(kinds, num_views):
    free, passive = Prompt(9, 75.0, kinds), Prompt(9, 75.0, kinds, num_views)
    instructions = passive.instructions
    assert passive.requestable_kinds == ()
    assert [kind for kind in VIEW_TYPES if f'- "{kind}": ' in instructions] == [
        kind for kind in VIEW_TYPES if kind in kinds
    ]
    assert ("hidden behind others" in instructions) == (num_views > 1)
    assert ("map" in instructions) == ("top" in kinds)
    camera = next(
        line for line in free.instructions.splitlines() if line.startswith("The camera starts")
    )
    assert camera in instructions.splitlines()
    example = json.loads(example_in(instructions))
    jsonschema.validate(example, reply_schema(passive.requestable_kinds))
    for word in ("forward", "rotation", "look_at", "ask for", "explore"):
        assert word not in instructions


def test_passive_views_state_their_pose():
    _, user = Prompt(9, 75.0, ("top", "ego"), 2).opening(question(), FIRST[1:], HERE)
    assert user["content"][0]["text"].endswith("\n\nTurn 1 of 9.")
    label = "View 1 (ego), from [1.00, -2.35, 1.60], yaw -90, pitch 15:"
    assert user["content"][1]["text"] == label
    (message,) = Prompt(9, 75.0, ("top", "ego"), 2).following(1, "Not read.", (), HERE)
    assert [piece["text"] for piece in message["content"]] == ["Not read.\n\nTurn 2 of 9."]


def test_limits_in_the_instructions_match_the_moves():
    instructions = Prompt(9, 75.0).instructions
    assert f"at most {MAX_ROTATION_DEGREES:g} per turn" in instructions
    assert f"at most {MAX_MOVE_METRES:g} each per turn" in instructions
    assert f"{CLEARANCE_METRES:g} m before" in instructions
    assert f"between -{MAX_PITCH:g} and {MAX_PITCH:g}" in instructions
    fields = reply_schema(VIEW_TYPES)["properties"]
    assert fields["rotation_angle_degrees"]["maximum"] == MAX_ROTATION_DEGREES
    for name in ("forward_meters", "z_delta_meters"):
        assert fields[name]["maximum"] == MAX_MOVE_METRES
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
    schema = reply_schema(VIEW_TYPES)
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
        jsonschema.validate(
            {k: v for k, v in REPLY.items() if k != missing}, reply_schema(VIEW_TYPES)
        )


def valid(field):
    """Return a strategy for the values that a field of the schema allows."""
    if "anyOf" in field:
        return st.one_of([valid(choice) for choice in field["anyOf"]])
    if "enum" in field:
        return st.sampled_from(field["enum"])
    return {
        "string": st.text(),
        "null": st.none(),
        "boolean": st.booleans(),
        "number": st.floats(
            field.get("minimum"), field.get("maximum"), allow_nan=False, allow_infinity=False
        ),
        "integer": st.integers(field.get("minimum"), field.get("maximum")),
        "array": st.lists(valid(field["items"]), min_size=3, max_size=3)
        if "items" in field
        else st.none(),
    }[field["type"]]


LETTERS = ("A. left", "B. right", "C. back")
ANSWERS = {"letter": ["A", "B", "C"], "number": [3, 2.5, -1e-3], "text": ["red", "A", "3"]}
OTHERS = {"letter": ["D", "left", "A. left", "a", 1, ""], "number": ["3", "3 m", True], "text": [3]}


def ask(form):
    return question(answer_form=form, options=LETTERS if form == "letter" else ())


@pytest.mark.parametrize("form", ANSWERS)
@pytest.mark.parametrize("protocol", [JsonProtocol(), ToolsProtocol()])
def test_schema_permits_only_answers_to_the_question(form, protocol):
    prompt = Prompt(9, 75.0, protocol=protocol)
    if schema := prompt.schema(ask(form)):
        answer = schema["properties"]["answer"]
    else:
        tools = {tool["function"]["name"]: tool["function"] for tool in prompt.tools(ask(form))}
        answer = tools["answer"]["parameters"]["properties"]["answer"]
    for value in (*ANSWERS[form], None):
        jsonschema.validate(value, answer)
    for value in (*OTHERS[form], ["A"]):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(value, answer)


def test_questions_with_the_same_letters_share_a_schema():
    prompt = Prompt(9, 75.0)
    other = question(answer_form="letter", options=("A. red", "B. blue", "C. green"), id="8")
    assert prompt.schema(ask("letter")) is prompt.schema(other)
    assert prompt.schema(ask("number")) is not prompt.schema(ask("text"))


def test_words_are_mapped_to_letters_exactly():
    prompt = Prompt(9, 75.0, wording=small_wording())
    asked = ask("letter")
    schema = prompt.schema(asked)["properties"]["answer"]
    for value in ("left", "right", "back", None):
        jsonschema.validate(value, schema)
    for value in ("A", "the left", "lef", 1):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(value, schema)
    action = prompt.parse_reply('{"reasoning": "", "answer": "right", "done": true}', asked)
    assert (action.answer, action.answer_text) == ("B", "B")
    number = prompt.schema(ask("number"))["properties"]["answer"]
    jsonschema.validate("17.2", number)
    for value in (17.2, "17.2 m", "a"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(value, number)


def valid_reply(form):
    """Return a strategy for the replies that the schema of `ask(form)` allows."""
    schema = reply_schema(VIEW_TYPES, question=ask(form))
    required = {name: valid(schema["properties"][name]) for name in schema["required"]}
    optional = {n: valid(f) for n, f in schema["properties"].items() if n not in required}
    return st.fixed_dictionaries(required, optional=optional)


@settings(max_examples=60)
@given(st.data(), st.sampled_from(["letter", "number", "text"]))
def test_replies_that_match_the_schema_are_parsed(data, form):
    reply = data.draw(valid_reply(form))
    jsonschema.validate(reply, reply_schema(VIEW_TYPES, question=ask(form)))
    action = parse_reply(json.dumps(reply), form, ask(form).options)
    if isinstance(action, Malformed):
        assert re.fullmatch("it requests nothing.*", action.reason, re.DOTALL)
    elif str(reply["answer"]).strip().lower() not in ("", "null"):
        assert (action.answer is None) == (reply["answer"] is None)
