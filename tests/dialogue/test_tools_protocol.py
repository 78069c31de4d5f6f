"""The protocol of tool calls: the same dialogues as in JSON, and histories that servers and templates accept."""

import json
import time
from itertools import pairwise

import pytest
from factories import states
from factories.runs import make_questions
from hypothesis import given
from hypothesis import strategies as st

import render_agent
from render_agent.dialogue.parsing.tool_calls import call_text, split_calls
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.reply import Action, Malformed, Place, ReplyForm
from render_agent.dialogue.tools_protocol import ToolsProtocol
from render_agent.runs.read import RunData

FIELDS = [
    {"rotation_angle_degrees": 90, "view": "around"},
    {"forward_meters": 5},
    {"look_at": [0.5, 0.5, 1.0]},
    {"view": "top"},
    {"answer": "B", "done": True},
]
TOOL_OF = {"rotation_angle_degrees": "look", "forward_meters": "move", "look_at": "look", "view": "look", "answer": "answer"}  # fmt: skip


def hermes(name, arguments):
    return call_text(name, arguments)


def coder(name, arguments):
    """Write a call as Qwen3-Coder and Qwen3.5 do."""
    parameters = "".join(
        f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
        for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def glm(name, arguments):
    """Write a call as GLM does."""
    parameters = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{value if isinstance(value, str) else json.dumps(value)}</arg_value>\n"
        for key, value in arguments.items()
    )
    return f"<tool_call>{name}\n{parameters}</tool_call>"


def mistral(name, arguments):
    return f"[TOOL_CALLS]{name}[ARGS]{json.dumps(arguments)}"


def gemma(name, arguments):
    """Write a call as the chat template of Gemma 4 does."""

    def write(value):
        if isinstance(value, str):
            return f'<|"|>{value}<|"|>'
        if isinstance(value, dict):
            return "{" + ",".join(f"{key}:{write(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ",".join(map(write, value)) + "]"
        return json.dumps(value)

    return f"<|tool_call>call:{name}{write(arguments)}<tool_call|>"


def kimi(name, arguments):
    call = f"functions.{name}:0<|tool_call_argument_begin|>{json.dumps(arguments)}"
    return f"<|tool_call_begin|>{call}<|tool_call_end|>"


def lfm2(name, arguments):
    """Write a call as LFM2 does: Python, with JSON inside."""
    values = [
        f"{key}={json.dumps(value) if isinstance(value, list) else repr(value)}"
        for key, value in arguments.items()
    ]
    return f"<|tool_call_start|>[{name}({', '.join(values)})]<|tool_call_end|>"


SYNTAXES = [hermes, coder, glm, mistral, gemma, kimi, lfm2]


def calling_engine(write):
    """Return an engine that replies with the calls of FIELDS in turn."""

    def reply(request):
        fields = FIELDS[min(request.turn, len(FIELDS) - 1)]
        return "I look.\n" + write(TOOL_OF[next(iter(fields))], fields)

    return reply


def play(tmp_path, engine, **options):
    questions = make_questions(tmp_path, 2)
    results = render_agent.run(
        benchmark=questions, engine=engine, output=tmp_path / "runs", image_size=(96, 72), **options
    )
    return RunData(results.path)


@pytest.mark.parametrize("write", SYNTAXES, ids=lambda write: write.__name__)
def test_calls_in_any_syntax_give_the_dialogue_of_json(tmp_path, write):
    def json_engine(request):
        return json.dumps(FIELDS[min(request.turn, len(FIELDS) - 1)])

    expected = play(tmp_path, json_engine)
    run = play(tmp_path, calling_engine(write), reply_protocol="tools")
    for ours, theirs in zip(run.turns, expected.turns, strict=True):
        assert ours.views == theirs.views
        assert ours.outcome == theirs.outcome
        assert ours.camera == theirs.camera
        assert ours.action.answer == theirs.action.answer
    assert run.rows["1"].score == expected.rows["1"].score


def test_results_of_calls_follow_them_with_their_ids(tmp_path):
    requests = []

    def engine(request):
        requests.append(request)
        return calling_engine(hermes)(request)

    play(tmp_path, engine, reply_protocol="tools", limit=1, no_restate=True)
    last = requests[-1].messages
    assert {tool["function"]["name"] for tool in requests[0].tools} == {"look", "move", "answer"}
    for earlier, later in pairwise(requests):
        assert list(later.messages[: len(earlier.messages)]) == list(earlier.messages)
    for number, message in enumerate(last):
        if message["role"] == "assistant":
            (call,) = message["tool_calls"]
            result, views = last[number + 1 : number + 3]
            assert (result["role"], result["tool_call_id"]) == ("tool", call["id"])
            assert [piece["type"] for piece in result["content"]] == ["text"]
            assert views["role"] == "user"
            assert "image" in [piece["type"] for piece in views["content"]]
    ids = [m["tool_call_id"] for m in last if m["role"] == "tool"]
    assert len(set(ids)) == len(ids)


def test_only_the_first_of_several_calls_is_carried_out(tmp_path):
    def engine(request):
        if request.turn:
            return call_text("answer", {"answer": "3", "done": True})
        moves = ({"forward_meters": 0.5}, {"left_meters": 0.5})
        return "\n".join(call_text("move", move) for move in moves)

    run = play(tmp_path, engine, reply_protocol="tools", limit=1)
    first, second = run.turns
    assert first.outcome.requested == (0.5, 0.0, 0.0)
    results = [message for message in second.messages if message["role"] == "tool"]
    assert len(results) == 2
    assert results[0]["content"] != results[1]["content"]


def test_reply_without_a_call_is_answered_in_a_user_message(tmp_path):
    def engine(request):
        if request.turn:
            return call_text("answer", {"answer": "3", "done": True})
        return "I would look to the left."

    run = play(tmp_path, engine, reply_protocol="tools", limit=1)
    assert [message["role"] for message in run.turns[1].messages] == ["user"]


@pytest.mark.parametrize(
    ("form", "names"),
    [
        (ReplyForm(), ["look", "move", "answer"]),
        (ReplyForm(image_size=(96, 72)), ["look", "move", "measure", "answer"]),
        (ReplyForm("passive", ()), ["answer"]),
    ],
)
def test_tools_have_the_fields_of_the_run(form, names):
    tools = ToolsProtocol().tools(form, None)
    assert [tool["function"]["name"] for tool in tools] == names
    declared = {name for tool in tools for name in tool["function"]["parameters"]["properties"]}
    assert declared == {field.name for field in form.requested_fields} - {"reasoning"}
    for tool in tools:
        for schema in tool["function"]["parameters"]["properties"].values():
            assert schema["description"]
    assert all(name in Prompt(3, 75.0, protocol=ToolsProtocol()).instructions for name in names[:1])


@pytest.mark.parametrize(
    "reply",
    [
        '[answer(answer="B", done=True)]',
        '<think>[look()]</think>\nanswer(answer="B", done=true)',
        '```tool_code\nanswer(answer="B", done=True)\n```',
        '<|python_tag|>answer(answer="B", done=True)',
    ],
)
def test_calls_in_python_syntax_are_split(reply):
    (call,) = split_calls(reply)[1]
    assert (call.name, call.arguments) == ("answer", {"answer": "B", "done": True})


def read(reply, form=None):
    question = states.question(answer_form="letter", options=("A. left", "B. right"))
    return ToolsProtocol().read(reply, question, form or ReplyForm())


@pytest.mark.parametrize(
    ("reply", "names"),
    [
        ("I would look to the left.", ["look", "move", "answer"]),
        ("", ["look", "move", "answer"]),
        (hermes("fly", {"forward_meters": 1}), ["fly", "look", "move", "answer"]),
        (hermes("look", {"degrees": 30}), ["look", "degrees", "rotation_angle_degrees", "view"]),
        (hermes("look", {"forward_meters": 1}), ["look", "forward_meters", "rotation_angle_degrees"]),
        (hermes("answer", {}), ["answer", "done"]),
        (hermes("measure", {"measure": [[1, 2]]}), ["measure", "look"]),
        (hermes("answer", {"answer": "A"}) + hermes("answer", {"answer": "B"}), ['"A"', '"B"']),
    ],
)  # fmt: skip
def test_faults_of_calls_are_explained_in_terms_of_tools(reply, names):
    malformed = read(reply)
    assert isinstance(malformed, Malformed)
    assert all(name in malformed.reason for name in names)
    assert not any(word in malformed.reason for word in ("JSON", '"name"', '"arguments"'))


@pytest.mark.parametrize(
    ("call", "action"),
    [
        (("look", {}), Action(view="ego")),
        (("move", {}), Action(view="ego")),
        (("look", {"rotation_angle_degrees": 0, "view": None}), Action(view="ego")),
        (("look", {"look_at": "[1.0, 2.0, 1.5]"}), Action(look_at=(1, 2, 1.5), view="ego")),
        (("look", {"look_at": '{"x": 1, "y": 2, "z": 1.5}'}), Action(look_at=(1, 2, 1.5), view="ego")),
        (("measure", {"measure": "[[1, 2], [3, 4]]"}), Action(measure=(Place(1, 2), Place(3, 4)))),
        (("answer", {"answer": "B", "done": True}), Action(answer="B", answer_text="B", done=True)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("write", [hermes, coder, mistral], ids=lambda write: write.__name__)
def test_calls_that_fit_their_schema_are_carried_out(write, call, action):
    assert read(write(*call), ReplyForm(image_size=(64, 64))) == action


def test_unknown_argument_beside_a_known_one_is_noted():
    action = read(hermes("look", {"degrees": 30, "view": "top"}))
    assert action.view == "top"
    assert "degrees" in action.notes[0]


@given(st.text(max_size=300))
def test_splitting_never_raises_and_keeps_texts_without_calls(text):
    outside, calls = split_calls(text)
    if not calls:
        assert outside == text.strip()


@given(
    st.sampled_from(SYNTAXES),
    st.dictionaries(
        st.sampled_from(["forward_meters", "view", "answer"]),
        st.one_of(
            st.integers(-9, 9),
            st.sampled_from([-1.5, 2e-7, 1e22, True, None]),
            st.sampled_from(["ego", "top", "left of it", 'a "b": {c}', "", "true", "it's"]),
            st.lists(st.sampled_from([0.5, -9.0, "x", None, True]), max_size=3),
        ),
        min_size=1,
    ),
)
def test_calls_are_read_as_they_were_written(write, arguments):
    outside, (call,) = split_calls("So.\n" + write("move", arguments))
    assert (outside, call.name) == ("So.", "move")
    if write in (coder, glm):  # their strings have no quotes
        arguments = {key: as_json(value) for key, value in arguments.items()}
    assert dict(call.arguments) == arguments


def as_json(value):
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


@pytest.mark.parametrize("write", SYNTAXES, ids=lambda write: write.__name__)
def test_parallel_calls_are_all_split_off(write):
    expected = [("move", {"forward_meters": 0.5}), ("look", {"view": "top"})]
    outside, calls = split_calls("So.\n" + "\n".join(write(*call) for call in expected))
    assert outside == "So."
    assert [(call.name, dict(call.arguments)) for call in calls] == expected


def test_python_list_of_several_calls_is_split():
    reply = "<|tool_call_start|>[move(forward_meters=1, view='top'), look()]<|tool_call_end|>Now?"
    outside, calls = split_calls(reply)
    assert outside == "Now?"
    assert [(call.name, dict(call.arguments)) for call in calls] == [
        ("move", {"forward_meters": 1, "view": "top"}),
        ("look", {}),
    ]


@pytest.mark.parametrize(
    "reply",
    [
        "<|tool_call_start|>[look(90)]<|tool_call_end|>",
        "<|tool_call_start|>[look(view='top')",
        "<|tool_call_start|>look<|tool_call_end|>",
        "<|tool_call_start|>[" + "(" * 9_000 + "<|tool_call_end|>",
        '<|tool_call>call:look{view:<|"|>top',
        "<|tool_call_begin|>look<|tool_call_end|>",
    ],
)
def test_incomplete_call_stays_text(reply):
    assert split_calls(reply) == (reply, [])


@pytest.mark.parametrize(
    "part",
    [
        "<|tool_call>call:a{",
        '<|tool_call>call:a{<|"|>',
        "<|tool_call_start|>[",
        "<|tool_call_begin|>a",
    ],
)
def test_splitting_takes_linear_time(part):
    start = time.perf_counter()
    split_calls(part * 50_000)
    assert time.perf_counter() - start < 10
