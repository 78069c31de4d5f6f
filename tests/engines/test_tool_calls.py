"""Native tool calls in engines: chat templates, servers, and the check before a run."""

import importlib.util
import json
from itertools import pairwise
from pathlib import Path

import pytest
from factories.models import TOOLS_TEMPLATE, add_tools_template, small_model, small_tokenizer
from factories.runs import make_questions
from factories.servers import StubServer, chat_answers, model_server

import render_agent
from render_agent.dialogue.chat import image_piece, message, text
from render_agent.dialogue.parsing.tool_calls import TOOL_MARKS, call_text, split_calls
from render_agent.dialogue.reply import ReplyForm
from render_agent.dialogue.tools_protocol import ToolsProtocol
from render_agent.engines.checkpoint.locate import find_model
from render_agent.engines.checkpoint.pretrained import load_processor
from render_agent.engines.checkpoint.tool_template import check_tools
from render_agent.engines.families.thinking import reply_text
from render_agent.engines.transformers.model.inputs import PromptBuilder
from render_agent.errors import SetupError
from render_agent.runs.read import RunData


@pytest.fixture(scope="module")
def model_with_tools(tmp_path_factory):
    """A small model whose chat template has tools."""
    return add_tools_template(tmp_path_factory.mktemp("tools") / "model", small_model())


def processor_of(folder):
    return load_processor(find_model(str(folder)))


TOOLS = ToolsProtocol().tools(ReplyForm(), None)


def test_template_without_tools_is_rejected_before_the_run(tmp_path, model_with_tools):
    check_tools("it", processor_of(model_with_tools), TOOLS)
    check_tools("it", processor_of(small_model()), None)
    with pytest.raises(SetupError, match="--reply-protocol"):
        check_tools("it", processor_of(small_model()), TOOLS)
    with pytest.raises(SetupError, match="--reply-protocol"):
        render_agent.run(
            benchmark=make_questions(tmp_path, 1),
            model=small_model(),
            reply_protocol="tools",
            output=tmp_path / "runs",
        )


@pytest.mark.parametrize(
    "dropped", ["<|vision_start|><|image_pad|><|vision_end|>", "{{ tool | tojson }}"]
)
def test_template_that_drops_images_or_tools_is_rejected(model_with_tools, dropped):
    processor = processor_of(model_with_tools)
    processor.chat_template = TOOLS_TEMPLATE.replace(dropped, "")
    with pytest.raises(SetupError):
        check_tools("it", processor, TOOLS)


def test_prompts_only_grow_and_contain_calls_and_images(model_with_tools):
    builder = PromptBuilder(processor_of(model_with_tools), "qwen3_vl")
    protocol, form = ToolsProtocol(), ReplyForm()
    messages = [
        message("system", text("You explore.")),
        message("user", text("Where?"), image_piece("a")),
    ]
    rendered = []
    for turn in range(3):
        rendered.append(builder.render_template(messages, tools=TOOLS))
        reply = "I look.\n" + call_text("look", {"view": f"<|im_end|>{turn}"})
        feedback = text(f"Turned {turn}.")
        messages = [
            *messages,
            protocol.reply_message(reply, turn),
            *protocol.feedback_messages(reply, turn, feedback, [image_piece("b")], form),
        ]
    for turn, (before, after) in enumerate(pairwise(rendered)):
        assert after.startswith(before)
        assert after.count("<tool_call>") == after.count("<tool_response>") == turn + 1
        assert after.count("<|image_pad|>") == turn + 2
        # One end mark per message, because those inside arguments are escaped.
        assert after.count("<|im_end|>") == 2 + 3 * (turn + 1)


def test_batching_does_not_change_replies_with_tools(tmp_path, model_with_tools):
    questions = make_questions(tmp_path, 3)
    runs = [
        render_agent.run(
            benchmark=questions,
            model=model_with_tools,
            reply_protocol="tools",
            max_turns=2,
            max_new_tokens=12,
            image_size=(64, 64),
            batch_size=size,
            dtype="float32",
            output=tmp_path / "runs",
        )
        for size in (1, 3)
    ]
    single, batched = (
        sorted(RunData(run.path).turns, key=lambda t: (t.question_id, t.number)) for run in runs
    )
    assert [turn.reply for turn in single] == [turn.reply for turn in batched]
    assert len(single) == 6


def chat_with_calls(*calls, content=None):
    """Return the body of a chat completion that calls tools."""
    tool_calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(calls)
    ]
    reply = {"role": "assistant", "content": content, "tool_calls": tool_calls}
    choice = {"index": 0, "message": reply, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return json.dumps({"choices": [choice], "usage": usage}).encode()


@pytest.mark.parametrize("as_object", [False, True])
def test_server_gets_tools_and_results(tmp_path, as_object):
    bodies = []
    encode = (lambda value: value) if as_object else json.dumps

    def reply(body):
        bodies.append(body)
        turn = sum(entry["role"] == "assistant" for entry in body["messages"])
        if turn == 0:
            calls = [("move", encode({"forward_meters": 0.5})), ("look", encode({"view": "top"}))]
            return chat_with_calls(*calls, content="I walk.")
        return chat_with_calls(("answer", encode({"answer": "3", "done": True})))

    with StubServer(chat_answers(reply)) as server:
        results = render_agent.run(
            benchmark=make_questions(tmp_path, 1),
            engine="openai",
            model="made",
            base_url=server.url,
            reply_protocol="tools",
            image_size=(64, 64),
            output=tmp_path / "runs",
        )
    assert results.finished
    first, second = RunData(results.path).turns
    assert first.outcome.requested == (0.5, 0.0, 0.0)
    assert second.action.answer == "3"
    assert not first.action.repaired
    *_, last = bodies
    assert {tool["function"]["name"] for tool in last["tools"]} == {"look", "move", "answer"}
    assert "response_format" not in last
    roles = [entry["role"] for entry in last["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]
    calling, *tool_results, images = last["messages"][2:]
    assert calling["content"] == "I walk."
    assert [call["id"] for call in calling["tool_calls"]] == [
        entry["tool_call_id"] for entry in tool_results
    ]
    assert json.loads(calling["tool_calls"][0]["function"]["arguments"]) == {"forward_meters": 0.5}
    assert all(isinstance(entry["content"], str) for entry in tool_results)
    assert any(piece["type"] == "image_url" for piece in images["content"])


@pytest.mark.slow
def test_real_server_accepts_the_dialogue(tmp_path, model_with_tools):
    with model_server(model_with_tools) as server:
        results = render_agent.run(
            benchmark=make_questions(tmp_path, 1),
            engine="openai",
            model=server.model,
            base_url=server.url,
            reply_protocol="tools",
            max_turns=2,
            max_new_tokens=12,
            image_size=(64, 64),
            output=tmp_path / "runs",
        )
    assert results.finished
    assert len(RunData(results.path).turns) == 2


# Published templates of vision-language models, and whether they have tool calls.
PUBLISHED = {
    "qwen3_vl": True,
    "qwen3_5_nothink": True,
    "qwen3_6": True,
    "gemma4_v5": True,
    "lfm2_2_5_vl": True,
    "qwen2_5_vl": False,
    "llava_next": False,
    "smolvlm": False,
    "gemma3": False,
}


def published(name):
    """Return the small tokenizer with a published template."""
    package = importlib.util.find_spec("trl")
    if package is None:
        pytest.skip("trl, which contains the templates, is not installed")
    (folder,) = package.submodule_search_locations
    tokenizer = small_tokenizer()
    tokenizer.chat_template = (Path(folder) / "chat_templates" / f"{name}.jinja").read_text("utf-8")
    return tokenizer


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_templates_are_accepted_if_they_have_tool_calls(name):
    if PUBLISHED[name]:
        check_tools(name, published(name), TOOLS)
    else:
        with pytest.raises(SetupError, match=name):
            check_tools(name, published(name), TOOLS)


@pytest.mark.parametrize("name", [name for name in PUBLISHED if PUBLISHED[name]])
def test_calls_are_read_as_a_published_template_writes_them(name):
    arguments = {"look_at": [0.5, -1.0, 0], "rotation_angle_degrees": -90, "view": "a 'top' view"}
    question = [message("user", text("Where?"))]
    reply = ToolsProtocol().reply_message("I look. " + call_text("look", arguments), 0)
    prompts = [
        published(name).apply_chat_template(messages, tools=TOOLS, tokenize=False)
        for messages in (question, [*question, reply])
    ]
    outside, (call,) = split_calls(prompts[1].removeprefix(prompts[0]))
    assert (call.name, dict(call.arguments)) == ("look", arguments)
    assert "view" not in outside


def test_special_tokens_of_calls_are_part_of_the_text():
    marks = {f"mark_{number}": mark for number, mark in enumerate(sorted(TOOL_MARKS))}
    tokenizer = small_tokenizer(extra_special_tokens=marks)
    reply = 'Now. <|tool_call>call:look{view:<|"|>top<|"|>}<tool_call|>'
    ids = tokenizer(reply + "<|im_end|>")["input_ids"]
    assert reply_text(tokenizer, None, ids) == reply
    assert reply_text(tokenizer, None, tokenizer("".join(marks.values()))["input_ids"]) == "".join(
        marks.values()
    )
    assert "<|" not in reply_text(
        small_tokenizer(), None, small_tokenizer()("<|im_end|>")["input_ids"]
    )
