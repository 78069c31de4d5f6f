"""Parsing of replies: fields, spellings, malformed replies, and any text."""

import json
import math
from pathlib import Path

import pytest
from conftest import mostly_slow
from factories import states
from factories.replies import parse_reply
from hypothesis import given, settings
from hypothesis import strategies as st

from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import Action, Malformed, ParsedReply, ReplyForm
from render_agent.dialogue.reply_protocol import JsonProtocol
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.options import VIEW_TYPES
from render_agent.runs.log.lines import line_to_json, read_line
from render_agent.scans.camera import Camera
from render_agent.util.safe_parse import convert, encode_line, to_plain

OPTIONS = ("A. left", "B. right", "C. back")
REPLY = {
    "reasoning": 'A sofa {red} stands "left" of the table.',
    "rotation_angle_degrees": 45,
    "pitch_degrees": -10,
    "forward_meters": 0.5,
    "left_meters": -1,
    "z_delta_meters": 0.25,
    "look_at": [1, 2.5, 0],
    "view": "top",
    "answer": "A",
    "done": False,
}


WANTED = st.sampled_from(["letter", "number", "text"])


def action_of(text, wanted="letter"):
    action = parse_reply(text, wanted, OPTIONS)
    assert isinstance(action, Action), action
    return action


def reason_of(text, wanted="letter"):
    malformed = parse_reply(text, wanted, OPTIONS)
    assert isinstance(malformed, Malformed), malformed
    return malformed.reason


def test_all_fields_are_parsed():
    assert action_of(json.dumps(REPLY)) == Action(
        rotation=45,
        pitch=-10,
        forward=0.5,
        left=-1,
        up=0.25,
        look_at=(1, 2.5, 0),
        view="top",
        answer="A",
        answer_text="A",
        reasoning=REPLY["reasoning"],
    )


@pytest.mark.parametrize(
    "template",
    ["{}", "```json\n{}\n```", "Sure! Here it is:\n{}\nI hope {{this}} helps.", "the set {{1, 2}} … {}",
     "<think>{{\"answer\": \"C\"}}</think>{}",
     "{{{}}}", "{{\"a\": {{\"answer\": \"C\"}} oops {}", "{}\n{{\"answer\": \"C\", \"done\": tr",
     "{}\n{{}}", "{}\n\\boxed{{}}", "{}\n{{\"reasoning\": \"what you see\", \"answer\": null, \"done\": false}}",
     "{}\nFormat: {{\"answer\": \"...\", \"done\": true}}", "{}\n{{\"answer\": \"<letter>\", \"done\": true}}", "{}\n{{\"answer\": \"string\", \"done\": \"boolean\"}}",
     "{}\n{{\"answer\": \"the letter of your choice, A, B or C\"}}", "{}\n{{\"answer\": \"your answer so far\"}}", "{}\n{{\"answer\": \"string|null\"}}", "{}\n{}",
     "{{\"answer\": null}} {}", "{}\n[]", "{}\n{{\"look_at\": [null, null, null], \"forward_meters\": 0}}",
     "{}\n{{\"type\": \"object\", \"properties\": {{\"answer\": {{\"type\": \"string\"}}}}}}", "{}\n{{\"note\": \"the end\"}}"],
)  # fmt: skip
def test_last_object_that_says_something_counts(template):
    reply = json.dumps(REPLY, indent=1)
    assert action_of(template.format(reply, reply)) == action_of(json.dumps(REPLY))


@pytest.mark.parametrize("mode", ["free", "passive", "blind", "graph"])
def test_repeated_format_says_nothing(mode):
    form = ReplyForm(mode, VIEW_TYPES if mode == "free" else (), (640, 480))
    example = json.dumps({field.name: field.example(form) for field in form.requested_fields})
    question = states.question(answer_form="letter", options=OPTIONS)
    for answer in ('{"answer": "B", "done": true}', '{"answer": "B", "done": true, "view": "ego"}'):
        for text in (f"{answer}\nFormat: {example}", f"Format: {example}\n{answer}", answer):
            action = JsonProtocol().read(text, question, form)
            assert (action.answer, action.done, action.notes) == ("B", True, ())


def test_nested_object_is_not_the_reply():
    nested = {"plan": {"answer": "B", "done": True}, "answer": "A"}
    assert action_of(json.dumps(nested)).answer == "A"
    assert (
        action_of('{"reasoning": "I will say {\\"answer\\": \\"B\\"}", "answer": "A"}').answer
        == "A"
    )
    assert action_of("{'plan': {'answer': 'B', 'done': true}, 'answer': 'A'}").answer == "A"
    for rest in ('"A"', "nul"):
        text = f'{{"plan": {{"answer": "B", "done": true}}, "answer": {rest}'
        assert "cut off" in reason_of(text)


def test_keys_are_case_insensitive():
    action = Action(answer="B", answer_text="B", done=True)
    assert action_of('{" Answer ": "B", "DONE": true}') == action


def test_line_breaks_inside_strings_are_accepted():
    assert (
        action_of('{"reasoning": "one\ntwo\tthree", "view": "ego"}').reasoning == "one\ntwo\tthree"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("<think>hm", "empty"),
        ("A", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ("\0", "no JSON object"),
        ("{answer}", "double quotes"),
        ('{"answer": "A", "x": 1 2 or}', "expecting"),
        ('{"forward_meters": 50 cm}', "expecting ',' delimiter"),
        ("{", "cut off"),
        ('{"reasoning": "I see', "cut off"),
        ('{"reasoning": "', "cut off"),
        ('{"answer": "A", "done": fals', "cut off"),
        ('{"answer": "A', "cut off"),
        ("{}", "requests nothing"),
        (
            '{"reasoning": "", "forward_meters": 0, "look_at": null, "done": false}',
            "requests nothing",
        ),
        ('{"forward": 1}', "requests nothing"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "too deeply"),
        ('{"a":' * 100_000 + '{"answer": "A"}' + "}" * 100_000, "too deeply"),
    ],
)
def test_malformed_reply_states_the_reason(text, reason):
    assert reason in reason_of(text)


@pytest.mark.parametrize(
    "none", ["null", '""', '"null"', '" None "', "[]", "{}", "[null, null, null]"]
)
@pytest.mark.parametrize("name", [name for name in REPLY if name not in ("reasoning", "view")])
def test_spellings_of_an_empty_value(name, none):
    assert action_of(f'{{"{name}": {none}, "view": "ego"}}') == Action(view="ego")


@pytest.mark.parametrize(
    ("field", "action"),
    [
        ('"rotation_angle_degrees": "twelve"', Action(rotation=12)),
        ('"rotation_angle_degrees": "-45°"', Action(rotation=-45)),
        ('"pitch_degrees": "10 degrees"', Action(pitch=10)),
        ('"forward_meters": "0.5 m"', Action(forward=0.5)),
        ('"forward_meters": "50 cm"', Action(forward=0.5)),
        ('"look_at": ["1 m", "2", -3]', Action(look_at=(1, 2, -3))),
        ('"look_at": {"x": 1, "y": 2, "z": 3}', Action(look_at=(1, 2, 3))),
        ('"look_at": [0, 0, 0]', Action(look_at=(0, 0, 0))),
        ('"view": 0', Action(view=0)),
        ('"view": 2.0', Action(view=2)),
        ('"view": "3"', Action(view=3)),
        ('"view": "View 3"', Action(view=3)),
        ('"view": "Around"', Action(view="around")),
        ('"view": "top view"', Action(view="top")),
        ('"done": "True"', Action(done=True)),
        ('"done": "yes"', Action(done=True)),
        ('"done": 1', Action(done=True)),
        ('"answer": "b", "done": "false"', Action(answer="B", answer_text="b")),
        ('"answer": ["B"]', Action(answer="B", answer_text='["B"]')),
    ],
)
def test_alternative_spellings_of_values(field, action):
    assert action_of(f"{{{field}}}") == action


@pytest.mark.parametrize(
    "field",
    [
        *(f'"forward_meters": {value}' for value in ('"far"', "NaN", "1e999", "9" * 5000)),
        *(f'"view": {value}' for value in ("9" * 5000, "1e300", "-1", "true", '"kitchen"')),
        *(f'"rotation_angle_degrees": {value}' for value in ("true", "[90]")),
        *(f'"look_at": {value}' for value in ("[1, 2]", "[1, 2, null]", '"the sofa"')),
        '"done": "maybe"',
        '"done": 2',
        '"answer": "E"',
        '"answer": true',
    ],
)
def test_invalid_fields_are_named(field):
    assert field.partition('"')[2].partition('"')[0] in reason_of(f"{{{field}}}")


def test_all_invalid_fields_are_reported_together():
    reason = reason_of('{"forward_meters": "far", "done": "maybe", "answer": "AB"}')
    assert all(name in reason for name in ("forward_meters", "done", '"AB"'))


def test_unreadable_answer_with_a_move_is_noted():
    action = action_of('{"answer": "A or B", "forward_meters": 1}')
    assert (action.forward, action.answer, action.answer_text) == (1, None, "A or B")
    assert action.notes == (
        'the answer "A or B" is not valid: it must be the letter of your choice, A, B or C',
    )


@pytest.mark.parametrize("fields", ["", ', "forward_meters": 1', ', "view": "top"'])
def test_unreadable_answer_with_done_is_malformed(fields):
    malformed = parse_reply(f'{{"answer": "AB", "done": true{fields}}}', "letter", OPTIONS)
    assert isinstance(malformed, Malformed)
    assert malformed.answer_text == "AB"
    assert "A, B or C" in malformed.reason


def test_done_without_an_answer_is_an_action():
    for answer in ("null", '""', '"none"'):
        assert action_of(f'{{"answer": {answer}, "done": true}}') == Action(done=True)


def test_done_with_an_answer_overrides_invalid_fields():
    action = action_of('{"answer": "A", "done": true, "view": "kitchen", "forward_meters": 1}')
    assert (action.answer, action.done, action.requests_move) == ("A", True, True)
    assert "view must be" in action.notes[0]


@pytest.mark.parametrize(
    ("answer", "wanted", "canonical"),
    [("3", "number", "3"), ("3.0", "number", "3"), ("2.50", "number", "2.5"), ("1e-2", "number", "0.01"), ("0", "number", "0"),
     ('"none"', "number", None), ('"red"', "text", "red"), ('"none"', "text", "none"), ("3", "text", "3")],
)  # fmt: skip
def test_answer_text_and_canonical_answer(answer, wanted, canonical):
    action = action_of(f'{{"answer": {answer}, "view": "ego"}}', wanted)
    assert action.answer == canonical
    json_value = json.loads(answer)
    assert action.answer_text == (
        None if canonical is None else json_value if isinstance(json_value, str) else answer
    )


def test_lone_surrogates_and_nuls_are_replaced():
    text = '{"reasoning": "\\ud800\\u0000", "answer": "\\udfff", "view": "\\ud800"}'
    malformed = parse_reply(text, "letter", OPTIONS)
    assert "\ufffd" in malformed.reason
    encode_line(malformed).decode()
    assert action_of('{"answer": "\\ud83d\\ude00"}', "text").answer == "😀"


MEGABYTES = ['{"' * 500_000, '{"a" ' * 200_000, "{" * 1_000_000, "{}" * 300_000, '{"a":' * 200_000, '{"a":' + "[" * 1_000_000,
    "<think>" * 150_000, "</think>" * 120_000, "{" + " " * 1_000_000, '{"answer":' + "9" * 1_000_000 + "}",
    '{"answer": "' + "a or " * 200_000 + '"}', '{"forward_meters": "' + "one " * 250_000 + '"}',
    '{"view": "' + "view" * 250_000 + '"}', "<" * 1_000_000, "<|a" * 300_000, "{'answer': '" * 80_000,
    '{"answer": "A",}' * 60_000, "{answer:" * 120_000, "{'answer': 'A', // " * 50_000, "<function=a>" * 80_000,
    "<parameter=answer>" * 50_000, "<tool_call>" + " " * 1_000_000, '{"answer": "A", ' + '"answer": "B", ' * 60_000 + "}",
    '{"answer": "' + "B\\n" * 300_000, "<tool_call><arg_key>" * 50_000, "{" + "“" * 300_000, '{"answer": ' + "(" * 1_000_000,
    '{"a": {"answer": "A", "done": true, }' * 25_000, "{// " * 250_000, '{"answer": "A"} ' * 60_000,
    '{"actions": [' + '{"forward_meters": 1}, ' * 40_000 + "]}", "<invoke name='a'><parameter name='answer'>A</parameter></invoke>" * 15_000]  # fmt: skip


@pytest.mark.parametrize("text", mostly_slow(MEGABYTES, *MEGABYTES[::5]), ids=range(len(MEGABYTES)))
def test_megabyte_of_any_text_is_parsed_quickly(text):
    for wanted in ("letter", "number", "text"):
        assert parse_reply(text, wanted, OPTIONS)


def test_megabyte_of_reasoning_is_parsed():
    reasoning = 'a {"b": [1, 2]} ' * 70_000
    action = action_of(json.dumps({"reasoning": reasoning, "answer": "A", "done": True}))
    assert (action.answer, action.reasoning) == ("A", reasoning)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.sampled_from([*REPLY, "foo"]), JSON, max_size=4).map(json.dumps)
ANYTHING = st.text(alphabet=st.characters(exclude_categories=()))


@settings(max_examples=300, deadline=None)
@given(ANYTHING | OBJECTS | st.tuples(ANYTHING, OBJECTS, ANYTHING).map("".join), WANTED)
def test_any_reply_is_an_action_or_malformed(text, wanted):
    action = parse_reply(text, wanted, OPTIONS)
    if isinstance(action, Malformed):
        assert action.reason.strip()
    else:
        numbers = (action.rotation, action.pitch, action.forward, action.left, action.up)
        assert all(map(math.isfinite, (*numbers, *(action.look_at or ()))))
        assert (
            action.requests_move
            or action.view is not None
            or action.answer is not None
            or action.done
        )
        assert action.view is None or action.view in VIEW_TYPES or action.view >= 0
        assert action.answer is None or action.answer_text is not None
    assert convert(json.loads(json.dumps(to_plain(action))), ParsedReply) == action
    assert_round_trips(text, action)


def assert_round_trips(text, action):
    """Assert that a state accepts the turn, and that it round-trips through the log."""
    camera = Camera((0.0, 0.0, 1.6))
    question = Question("1", "b", "d", "s", "t", "?", "letter", OPTIONS, scan=Path("s.ply"))
    state = QuestionState(question, scenes=None, max_turns=1)
    turn = Turn("1", 0, "batched", (), (), text, action, "", camera, camera)
    state.take(turn)
    assert not state.active
    assert state.answer == action.answer
    assert read_line(encode_line(line_to_json(turn))) == turn
