"""Replies with syntax errors, several steps, tool calls as text, and unknown fields."""

import json

import pytest
from factories.replies import parse_reply
from hypothesis import given
from hypothesis import strategies as st

from render_agent.dialogue.parsing.replies import repair
from render_agent.dialogue.reply import Action, Malformed

OPTIONS = ("A. left", "B. right", "C. back")


def action_of(text, wanted="letter", **more):
    action = parse_reply(text, wanted, OPTIONS if wanted == "letter" else (), **more)
    assert isinstance(action, Action), action
    return action


def reason_of(text, **more):
    malformed = parse_reply(text, "letter", OPTIONS, **more)
    assert isinstance(malformed, Malformed), malformed
    return malformed.reason


FINAL = [
    '{"reasoning": "it says "left", then", "answer": "B", "done": true}',
    '{"answer": "B", "done": true,}',
    '{"answer": "B", "done": true,,}',
    '{"answer": "B" "done": true}',
    '{"answer": "B"\n "done": true}',
    '{"answer": "B"; "done": true}',
    '{"pitch_degrees": +45, "answer": "B", "done": true}',
    "{'answer': 'B', 'done': True}",
    "{'answer': 'B', 'done': True, 'look_at': None}",
    "{'reasoning': 'it's the right one', 'answer': 'B', 'done': true}",
    '{"answer": "B", "done": True}',
    '{answer: "B", done: true}',
    "{answer: B, done: true}",
    '{\u00a0"answer":\u00a0"B",\u2009"done": true}',
    '{"answer":\u3000"B","done":\u200atrue}',
    "{“answer”: “B”, “done”: true}",
    '{"reasoning": "他说“左”", "answer": "B", "done": true,}',
    '{"reasoning": "it says "left" then", "answer": "B", "done": true}',
    '{"reasoning": "a 5" wide shelf", "answer": "B", "done": true}',
    '{"reasoning": "C:\\x", "answer": "B", "done": true}',
    '{"look_at": (1, 2, 3), "answer": "B", "done": true}',
    '{"reasoning": "one\ntwo", "answer": "B", "done": true,}',
    'Sure!\n{"answer": "B", "done": true,}\nI hope {this} helps.',
    '{"answer": "B", "done": TRUE}',
    '{"answer": "B", "done": true, ...}',
    '{"rotation_angle_degrees": 45°, "answer": "B", "done": true}',
]


# Comments, full-width punctuation, odd numbers, and objects that are not closed.
ASKED_AGAIN = [
    '{"pitch_degrees": 045, "answer": "B", "done": true}',
    '{"pitch_degrees": .5, "answer": "B", "done": true}',
    '{"answer": "B", // the right one\n "done": true}',
    '{"answer": "B", /* not A */ "done": true}',
    '{"answer": "B", # because it\'s blocked\n "done": true}',
    "｛＂answer＂：＂Ｂ＂，＂done＂：true｝",
    '{"answer"：“B”，"done"：true}',
    "{‘answer’: ‘B’, ‘done’: true}",
    '{"answer": "B", "done": true',
    '{"answer": "B", "done": true\n',
    '```json\n{"answer": "B", "done": true\n```',
    '{"reasoning": "x", "answer": "B", "done": true]',
    '{"answer": "B", "look_at": [1, 2, 3',
    '{"answer": "B", "done": true,',
    '{"answer": "B", "done": true\nThat is my answer.',
    '{"answer": "B", "done": true\n\nI hope {this} helps.',
    '{"answer": "B", "done": true;}',
    '{\u200b"answer": "B", "done": true}',
    '"{\\"answer\\": \\"B\\", \\"done\\": true}"',
    "{\n  // my answer\n  'answer': 'B',\n  'done': True,\n}",
]


@pytest.mark.parametrize("text", ASKED_AGAIN)
def test_other_slips_are_asked_again(text):
    malformed = parse_reply(text, "letter", OPTIONS)
    assert isinstance(malformed, Malformed)
    assert malformed.answer is None


@pytest.mark.parametrize("text", FINAL)
def test_slips_are_repaired(text):
    action = action_of(text)
    assert (action.answer, action.repaired) == ("B", True)


@pytest.mark.parametrize("minus", ["-", "\u2212", "\u2010", "\u2013", "\uff0d"])
def test_any_minus_sign_turns_right(minus):
    assert action_of(f'{{"rotation_angle_degrees": {minus}45}}').rotation == -45


def test_valid_replies_are_not_repaired():
    valid = '{"reasoning": "{\'answer\': \'A\',}", "answer": "B", "done": true}'
    assert action_of(valid) == Action(
        answer="B", answer_text="B", done=True, reasoning="{'answer': 'A',}"
    )
    assert not action_of(valid).repaired


@pytest.mark.parametrize(
    "text",
    ['{"answer": "B", "done": true', '{"answer": "B", "look_at": [1, 2, 3', '{"answer": 2', '{"answer": "B",', '{"answer": "B',
     '{"answer": "B", "done": tr', "<function=step><parameter=answer>B</parameter>"],
)  # fmt: skip
def test_truncated_reply_is_not_completed(text):
    assert isinstance(parse_reply(text, "letter", OPTIONS), Malformed)
    assert action_of("{\"answer\": 'B',} and\n" + text).answer == "B"


@pytest.mark.parametrize(
    "text",
    ['{"answer": "B', '{"answer": "B", "done": tr', '{"answer": "B", "done"', '{"answer": "B", "done":', "{'answer': 'B"],
)  # fmt: skip
def test_unfinished_values_are_not_completed(text):
    assert isinstance(parse_reply(text, "letter", OPTIONS), Malformed)


@pytest.mark.parametrize(
    "text",
    [
        '{"forward_meters": 50 cm}',
        '{"rotation_angle_degrees": 45 - 10}',
        '{"answer": "A", "answer": "B", "done": true,}',
        '{"answer": "A", "answer": "B", "done": true}',
        '{"answer": "A", "Answer": "B", "done": true}',
        '{"answer": "A" or "B", "done": true}',
        '{"answer": A or B, "done": true}',
        '{"answer": ["A", "B"], "done": true,}',
        '{"forward_meters": 1, "forward_meters": 2}',
        "{'answer': 'A', 'plan': {'answer': 'B'}, 'x': 50 cm}",
        '{"answer": "A" "B", "done": true}',
        "{'answer': 'A', 'B', 'done': True}",
        '{"answer": !B, "done": true}',
        '{"answer": "B", "done": !true}',
        '{"look_at": [1,- 2, 3]}',
        '{"rotation_angle_degrees": ±45}',
    ],
)
def test_repair_never_chooses_between_two_readings(text):
    assert isinstance(parse_reply(text, "letter", OPTIONS), Malformed)


@pytest.mark.parametrize("value", ["300 cm", "~3", "<3", "3%", "3?"])
def test_repair_drops_no_part_of_a_number(value):
    text = f'{{"answer":{value},"done":true}}'
    assert isinstance(parse_reply(text, "number"), Malformed)


def test_equal_or_empty_duplicates_are_one_value():
    assert action_of('{"answer": "B", "answer": "B", "done": true}').answer == "B"
    assert action_of('{"answer": null, "answer": "B", "ANSWER": ""}').answer == "B"


def test_repair_is_bounded():
    reasoning = "x" * 9_000
    assert action_of(f'{{"reasoning": "{reasoning}", "answer": "B",}}').answer == "B"
    assert isinstance(
        parse_reply(f'{{"reasoning": "{reasoning * 2}", "answer": "B",}}', "letter"), Malformed
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text("abc dé,:{}[]'", max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=2)
    ),
    max_leaves=5,
)
OBJECTS = st.dictionaries(
    st.sampled_from(["answer", "view", "x", "look_at"]), VALUES, min_size=1, max_size=4
)


@given(OBJECTS)
def test_repair_of_a_trailing_comma_is_exact_or_refused(fields):
    source = json.dumps(fields, ensure_ascii=False)[:-1] + ",}"
    repaired = repair(source, ["answer", "view", "x", "look_at"])
    assert repaired is None or repaired == fields


@given(st.text("{}[]()\"'“”:,/*#\\ \nansweB1t<>`", max_size=60))
def test_any_syntax_is_an_action_or_malformed(text):
    for reply in (text, '{"answer": ' + text, text + '{"answer": "B"}'):
        assert isinstance(parse_reply(reply, "letter", OPTIONS), Action | Malformed)


@pytest.mark.parametrize(
    "text",
    [
        '{"forward_meters": 1}\n{"rotation_angle_degrees": 45}',
        '{"forward_meters": 1}\nThen:\n{"rotation_angle_degrees": 45}\n{"forward_meters": 2}',
        '[{"forward_meters": 1}, {"rotation_angle_degrees": 45}]',
        '{"actions": [{"forward_meters": 1}, {"rotation_angle_degrees": 45}]}',
        '{"steps": [{"forward_meters": 1}, {"view": "top"}]}',
        '{"forward_meters": 1,}\n{"rotation_angle_degrees": 45}',
        '<tool_call>{"name": "move", "arguments": {"forward_meters": 1}}</tool_call>\n'
        '<tool_call>{"name": "move", "arguments": {"rotation_angle_degrees": 45}}</tool_call>',
        "<function=move><parameter=forward_meters>1</parameter></function>\n"
        "<function=move><parameter=rotation_angle_degrees>45</parameter></function>",
        '{"forward_meters": 1}\n{"answer": "B", "done": true}',
        '{"forward_meters": 1}\n{"forward_meters": "far"}',
    ],
)
def test_only_the_first_of_several_steps_is_carried_out(text):
    action = action_of(text)
    assert (action.forward, action.rotation, action.view, action.done) == (1, 0, None, False)
    assert "only the first" in action.notes[-1]


def test_unreadable_first_step_is_reported():
    assert "forward_meters" in reason_of(
        '{"forward_meters": "far"}\n{"rotation_angle_degrees": 45}'
    )


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ('{"forward_meters": 1}\n{"forward_meters": 1.0}', Action(forward=1)),
        (
            '{"answer": "B"}\n{"answer": "B. right", "done": true}',
            Action(answer="B", answer_text="B", done=True),
        ),
        ('{"answer": "B"}\n{"done": true}', Action(answer="B", answer_text="B", done=True)),
        ('{"forward_meters": 1}\n{"answer": "B"}', Action(forward=1, answer="B", answer_text="B")),
        ('{"answer": "B"}\n{"view": "ego"}', Action(answer="B", answer_text="B")),
    ],
)
def test_objects_that_agree_are_one_step(text, action):
    assert action_of(text) == action


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "A"}\nNo, wait.\n{"answer": "B", "done": true}',
        '{"answer": "A", "done": true}\n{"answer": "B", "done": true}',
        '{"answer": "A or B"}\n{"answer": "B", "done": true}',
        '[{"answer": "A", "done": true}, {"answer": "B", "done": true}]',
        '{"forward_meters": 1, "answer": "A"}\n{"answer": "B", "done": true}',
        '<function=answer><parameter=answer>A</parameter></function>{"answer": "B"}',
    ],
)
def test_different_answers_contradict_each_other(text):
    assert "different answers" in reason_of(text)
    malformed = parse_reply(text, "letter", OPTIONS)
    assert malformed.answer is None


def test_texts_that_differ_in_case_agree():
    assert action_of('{"answer": "Red"}\n{"answer": "red", "done": true}', "text").done
    assert isinstance(
        parse_reply('{"answer": "red"}\n{"answer": "blue", "done": true}', "text"), Malformed
    )
    assert action_of('{"answer": 3}\n{"answer": "3.0 m", "done": true}', "number").answer == "3"


DRAFTS = [
    "<reasoning>maybe {}, but no</reasoning>{}",
    "<scratch_pad>{}</scratch_pad>\n<answer>{}</answer>",
    "[REASONING]{}[/REASONING]{}",
    "◁reflect▷{}◁/reflect▷{}",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
    "<|START_THINKING|>{}<|END_THINKING|><|START_RESPONSE|>{}<|END_RESPONSE|>",
    "<a><b>{}</b> so </a>{}",
]


@pytest.mark.parametrize("template", DRAFTS)
@pytest.mark.parametrize(
    "draft", ['{"answer": "A", "done": true}', '{"forward_meters": 1}', "{'answer': 'A',}"]
)
def test_draft_in_a_closed_block_does_not_count(template, draft):
    final = '{"answer": "B", "done": true}'
    action = action_of(template.replace("{}", draft, 1).replace("{}", final, 1))
    assert (action.answer, action.done, action.forward, action.notes) == ("B", True, 0, ())
    assert action_of(f"{final}\n<later>{draft}</later>").answer == "B"


@pytest.mark.parametrize(
    "text",
    [
        '<reasoning>{"answer": "A"}\n{"answer": "B", "done": true}',
        '{"answer": "A"}</reasoning>{"answer": "B", "done": true}',
        '<br>{"answer": "A"}<hr>{"answer": "B", "done": true}',
        '<x>{"answer": "A"} {"answer": "B"}</x>',
    ],
)
def test_open_block_hides_no_answer(text):
    assert "different answers" in reason_of(text)


CALLS = [
    '<tool_call>\n{"name": "step", "arguments": {"answer": "B", "done": true}}\n</tool_call>',
    '{"name": "step", "arguments": {"answer": "B", "done": true}}',
    '{"name": "step", "arguments": "{\\"answer\\": \\"B\\", \\"done\\": true}"}',
    '{"tool": "step", "parameters": {"answer": "B", "done": true}}',
    '[TOOL_CALLS][{"name": "step", "arguments": {"answer": "B", "done": true}}]',
    '<|python_tag|>{"name": "step", "parameters": {"answer": "B", "done": true}}',
    '{"tool_calls": [{"type": "function", "function": {"name": "step", "arguments": {"answer": "B", "done": true}}}]}',
    '```json\n{"reasoning": "x", "action": {"answer": "B", "done": true}}\n```',
    'step({"name": "step", "arguments": {"answer": "B", "done": true}})',
    "<tool_call>\n<function=step>\n<parameter=answer>\nB\n</parameter>\n<parameter=done>\ntrue\n</parameter>\n</function>\n</tool_call>",
    "<function_calls>\n<invoke name=\"step\">\n<parameter name=\"answer\">B</parameter>\n<parameter name=\"done\">true</parameter>\n"
    "</invoke>\n</function_calls>",
    "<tool_call>step\n<arg_key>answer</arg_key>\n<arg_value>B</arg_value>\n<arg_key>done</arg_key>\n<arg_value>true</arg_value>\n"
    "</tool_call>",
    "<think>{\"answer\": \"A\"}</think>I will answer.\n<function=step><parameter=answer>B</parameter><parameter=done>true</parameter>"
    "</function>",
]  # fmt: skip


@pytest.mark.parametrize("text", CALLS)
def test_tool_calls_as_text(text):
    assert action_of(text) == Action(answer="B", answer_text="B", done=True, repaired=True)


def test_parameters_of_tool_calls_may_be_json():
    text = "<function=look><parameter=look_at>[1, 2, 3]</parameter><parameter=answer>null</parameter></function>"
    assert action_of(text) == Action(look_at=(1, 2, 3), repaired=True)


def test_json_in_function_tags():
    text = '<function=answer>{"answer": "B", "done": true}</function>'
    assert action_of(text) == Action(answer="B", answer_text="B", done=True, repaired=True)


def test_reasoning_is_not_a_tool_call():
    assert "requests nothing" in reason_of('{"reasoning": "{\\"answer\\": \\"A\\"}"}')


def test_json_schema_is_not_a_tool_call():
    schema = {
        "name": "step",
        "parameters": {"type": "object", "properties": {"answer": {"type": "string"}}},
    }
    assert "requests nothing" in reason_of(json.dumps(schema))


def test_unknown_fields_are_reported_but_do_not_end_the_dialogue():
    (note,) = action_of('{"forward_meters": 1, "speed": 3}').notes
    assert '"speed"' in note
    assert action_of('{"forward_meters": 1, "speed": null}').notes == ()
    reason = reason_of('{"final_answer": "B", "done": true}')
    assert all(part in reason for part in ('"final_answer"', '"answer"', "A, B or C"))
    reason = reason_of('{"final_answer": "B"}')
    assert all(part in reason for part in ("requests nothing", '"final_answer"'))
    final = action_of('{"answer": "B", "done": true, "confidence": 0.9}')
    assert (final.answer, final.done) == ("B", True)
    many = action_of(json.dumps({f"x{i}" * 50: 1 for i in range(99)} | {"view": "top"}))
    assert len(many.notes[0]) < 400


def test_measure_is_unknown_without_the_tool():
    assert '"measure"' in action_of('{"measure": [[1, 2]], "view": "top"}').notes[0]
    assert action_of('{"measure": [[1, 2]], "view": "top"}', measures=True).notes == ()
