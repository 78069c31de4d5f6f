"""Thinking can be turned on and off, has its own budget and count, and is the same in batches and with a cache."""

import json
from functools import cache

import pytest
import torch
from conftest import mostly_slow
from factories.dialogues import Dialogues
from factories.families import small_family

from render_agent.dialogue import chat
from render_agent.dialogue.chat import without_thinking
from render_agent.engines.engine import Request
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import open_model
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.engines.vllm.requests import Prompts
from render_agent.errors import SetupError, UsageError

# Together they have all marks and switches.
FAMILIES = ("qwen3_5", "kimi_k25", "glm46v", "gemma4", "mistral3")

DONE = {
    "type": "object",
    "properties": {"done": {"type": "boolean"}},
    "required": ["done"],
    "additionalProperties": False,
}
BUDGET, LIMIT = 5, 24


@cache
def small(name):
    torch.set_num_threads(1)
    return small_family(name)


@cache
def loaded(name, thinking="on", **options):
    return open_model("small", pretrained=small(name), thinking=thinking, **options)


def make_dialogues(budget=BUDGET, schema=DONE, **options):
    options = {"max_new_tokens": LIMIT, "thinking_budget": budget, "schema": schema} | options
    return Dialogues(count=3, turns=2, instructions="Explore the room. " * 6, **options)


def replies(dialogues):
    return [reply for rows in dialogues.replies.values() for reply in rows]


@pytest.mark.parametrize("name", mostly_slow(FAMILIES, "qwen3_5"))
def test_model_that_only_thinks_still_answers(name):
    model = loaded(name)
    single = make_dialogues().run(TransformersEngine(model, batch_size=1))
    for reply in replies(single):
        assert reply.tokens.thought == BUDGET, "random weights do not close a thought"
        thought, _, rest = reply.text.partition("</think>")
        assert thought
        assert json.loads(rest)["done"] in (True, False)
        assert without_thinking(reply.text) == rest
    assert len({reply.text for reply in replies(single)}) > 1, "replies depend on the dialogue"
    assert make_dialogues().run(TransformersEngine(model, batch_size=3)).texts == single.texts
    engine = ContinuousEngine(model, budget=10**8, most_rows=3)
    cached = make_dialogues().run(engine)
    assert cached.texts == single.texts
    assert [reply.tokens.thought for reply in replies(cached)] == [BUDGET] * len(replies(cached))
    assert cached.tokens[2] > 0, "the cache was used"
    engine.scheduler.close()


def test_thought_and_reply_have_separate_limits_without_a_schema():
    model = loaded("qwen3_5")
    options = {"temperature": 0.8, "num_samples": 2, "schema": None, "max_new_tokens": 10}
    dialogues = make_dialogues(**options).run(TransformersEngine(model, batch_size=1))
    for reply in replies(dialogues):
        assert reply.tokens.thought <= 2 * BUDGET
        assert reply.finish == "length"
    engine = ContinuousEngine(model, budget=10**8, most_rows=4)
    assert make_dialogues(**options).run(engine).texts == dialogues.texts
    engine.scheduler.close()


def test_thinking_budget_does_not_reduce_the_tokens_of_the_reply():
    request = make_dialogues(schema=None).request("q0")
    (reply,) = TransformersEngine(loaded("qwen3_5"), batch_size=1).generate([request])
    assert reply.tokens.reply == request.max_new_tokens + BUDGET + 1, "including the closing mark"


@pytest.mark.parametrize("budget", [0, None])
def test_zero_and_unlimited_thinking_budget(budget):
    (reply,) = TransformersEngine(loaded("qwen3_5"), batch_size=1).generate(
        [make_dialogues(budget).request("q0")]
    )
    if budget == 0:
        assert reply.text.startswith("</think>")
        assert reply.tokens.thought == 0
    else:
        assert reply.tokens.thought == reply.tokens.reply
        assert reply.finish == "length"
        assert without_thinking(reply.text) == "", "a thought is not a reply"


def test_thought_is_shortened_at_the_length_limit():
    model = loaded("qwen3_5")
    request = make_dialogues(budget=50).request("q0")
    tokens = len(model.inputs.prepare(request).ids)
    short = loaded("qwen3_5", max_model_len=tokens + request.max_new_tokens + 6)
    (reply,) = TransformersEngine(short, batch_size=1).generate([request])
    assert reply.tokens.thought == 4, "6 tokens remain, of which 2 are marks"
    assert json.loads(without_thinking(reply.text))


@pytest.mark.parametrize("name", mostly_slow(FAMILIES, "kimi_k25", "mistral3"))
def test_thinking_can_be_on_off_or_left_to_the_template(name):
    request = make_dialogues().request("q0")
    ends = {
        thinking: loaded(name, thinking).inputs.prepare(request).text
        for thinking in ("on", "off", "auto")
    }
    marks = loaded(name).marks
    assert marks.left_open(ends["on"])
    assert marks.closed(ends["off"])
    assert ends["auto"] in (ends["on"], ends["off"])
    (reply,) = TransformersEngine(loaded(name, "off"), batch_size=1).generate([request])
    assert reply.tokens.thought == 0
    assert json.loads(reply.text)


def test_template_without_a_switch_is_rejected():
    with pytest.raises(SetupError, match="enable_thinking"):
        loaded("qwen3_vl", "off")
    assert loaded("qwen3_vl", "auto").marks is None


@pytest.mark.parametrize("name", ["qwen3_5", "mistral3"])
def test_log_describes_how_the_template_renders_earlier_thoughts(name, caplog):
    caplog.set_level("INFO", "render_agent")
    model = open_model("small", pretrained=small(name))
    user = chat.message("user", chat.text("Where?"))
    messages = [user, chat.assistant("<think>Left, surely.</think>It is on the left."), user]
    text = model.inputs.prepare(Request("q", 1, messages, None)).text
    history = text[: text.rindex("Where?")]
    assert "on the left" in history
    assert "surely" not in history
    rendered = "empty" if model.marks.opens in history else "omitted"
    (message,) = [line for line in caplog.messages if line.startswith("thoughts")]
    assert f"between {model.marks.opens} and {model.marks.closes}" in message
    assert rendered in message
    assert model.thoughts() in message


def test_conflicting_thinking_options_are_rejected():
    options = {"chat_template_kwargs": {"enable_thinking": False}}
    with pytest.raises(UsageError, match="enable_thinking"):
        open_model("x", pretrained=small("qwen3_5"), thinking="on", options=options)


def test_vllm_prompts_support_thinking():
    request = make_dialogues().request("q0")
    for thinking, guided in (("on", False), ("off", True)):
        prompts = Prompts(small("qwen3_5").processor, "qwen3_5", {}, thinking)
        prompt = prompts.build(request)
        assert prompt.guided == guided, "vLLM would apply the schema to the thought, too"
        assert prompts.marks.opened_by(prompt.ids) == (thinking == "on")
