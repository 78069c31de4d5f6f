"""Thinking: turned on and off, closed when its tokens are spent, counted apart; the same in batches and behind a cache."""

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

FAMILIES = ("qwen3_5", "kimi_k25", "glm46v", "gemma4", "mistral3")
"""One for each pair of marks and each switch."""

YES = {
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
def loaded(name, thinking="on", **more):
    return open_model("a small one", pretrained=small(name), thinking=thinking, **more)


def dialogues(budget=BUDGET, schema=YES, **more):
    more = {"max_new_tokens": LIMIT, "thinking_budget": budget, "schema": schema} | more
    return Dialogues(count=3, turns=2, instructions="Explore the room. " * 6, **more)


def replies(led):
    return [reply for rows in led.replies.values() for reply in rows]


@pytest.mark.parametrize("name", mostly_slow(FAMILIES, "qwen3_5"))
def test_a_model_that_only_thinks_still_answers(name):
    model = loaded(name)
    alone = dialogues().lead(TransformersEngine(model, batch_size=1))
    for reply in replies(alone):
        assert reply.tokens.thought == BUDGET, "random weights find no end themselves"
        thought, _, rest = reply.text.partition("</think>")
        assert thought
        assert json.loads(rest)["done"] in (True, False)
        assert without_thinking(reply.text) == rest
    assert len({reply.text for reply in replies(alone)}) > 2
    assert dialogues().lead(TransformersEngine(model, batch_size=3)).said == alone.said
    engine = ContinuousEngine(model, budget=10**8, most_rows=3)
    kept = dialogues().lead(engine)
    assert kept.said == alone.said
    assert [reply.tokens.thought for reply in replies(kept)] == [BUDGET] * len(replies(kept))
    assert kept.tokens[2] > 0, "something was taken from the cache"
    engine.scheduler.close()


@pytest.mark.parametrize("drawn", [{"temperature": 0.8, "samples": 2}])
def test_without_a_guide_thought_and_reply_have_their_tokens_apart(drawn):
    model = loaded("qwen3_5")
    drawn = drawn | {"schema": None, "max_new_tokens": 10}
    led = dialogues(**drawn).lead(TransformersEngine(model, batch_size=1))
    samples = 2 if drawn else 1
    for reply in replies(led):
        assert reply.tokens.thought <= samples * BUDGET
        assert reply.finish == "length"
    engine = ContinuousEngine(model, budget=10**8, most_rows=4)
    assert dialogues(**drawn).lead(engine).said == led.said
    engine.scheduler.close()


def test_a_reply_has_all_its_tokens_beside_its_thought():
    request = dialogues(schema=None).request("q0")
    (reply,) = TransformersEngine(loaded("qwen3_5"), batch_size=1).generate([request])
    assert reply.tokens.reply == request.max_new_tokens + BUDGET + 1, "the mark that closes it"


@pytest.mark.parametrize("budget", [0, None])
def test_no_thought_and_thought_without_end(budget):
    (reply,) = TransformersEngine(loaded("qwen3_5"), batch_size=1).generate(
        [dialogues(budget).request("q0")]
    )
    if budget == 0:
        assert reply.text.startswith("</think>")
        assert reply.tokens.thought == 0
    else:
        assert reply.tokens.thought == reply.tokens.reply
        assert reply.finish == "length"
        assert without_thinking(reply.text) == "", "what was only thought is no reply"


def test_where_a_dialogue_may_be_no_longer_the_thought_gives_way():
    model = loaded("qwen3_5")
    request = dialogues(budget=50).request("q0")
    tokens = len(model.inputs.prepare(request).ids)
    short = loaded("qwen3_5", max_model_len=tokens + request.max_new_tokens + 6)
    (reply,) = TransformersEngine(short, batch_size=1).generate([request])
    assert reply.tokens.thought == 4, "six, and the two marks are two of them"
    assert json.loads(without_thinking(reply.text))


@pytest.mark.parametrize("name", mostly_slow(FAMILIES, "kimi_k25", "mistral3"))
def test_thinking_is_turned_off_and_left_to_the_template(name):
    request = dialogues().request("q0")
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


def test_a_template_that_knows_no_switch_says_so():
    with pytest.raises(SetupError, match="enable_thinking"):
        loaded("qwen3_vl", "off")
    assert loaded("qwen3_vl", "auto").marks is None


@pytest.mark.parametrize("name", ["qwen3_5", "mistral3"])
def test_the_log_tells_what_the_template_makes_of_earlier_thoughts(name, caplog):
    caplog.set_level("INFO", "render_agent")
    model = open_model("a small one", pretrained=small(name))
    asked = chat.message("user", chat.text("Where?"))
    said = [asked, chat.assistant("<think>Left, surely.</think>It is on the left."), asked]
    text = model.inputs.prepare(Request("q", 1, said, None)).text
    history = text[: text.rindex("Where?")]
    assert "on the left" in history
    assert "surely" not in history
    instead = "an empty one" if model.marks.opens in history else "nothing"
    (told,) = [line for line in caplog.messages if line.startswith("thoughts")]
    assert f"between {model.marks.opens} and {model.marks.closes}; in the history {instead}" in told
    assert model.describe()["thoughts"] in told


def test_two_switches_for_thinking_are_refused():
    with pytest.raises(UsageError, match="enable_thinking"):
        open_model(
            "x",
            pretrained=small("qwen3_5"),
            thinking="on",
            options={"chat_template_kwargs": {"enable_thinking": False}},
        )


def test_prompts_for_vllm_are_told_the_same():
    request = dialogues().request("q0")
    for thinking, guided in (("on", False), ("off", True)):
        prompts = Prompts(small("qwen3_5").processor, "qwen3_5", {}, thinking)
        prompt = prompts.of(request)
        assert prompt.guided == guided, "vLLM itself holds no reply back until a thought ends"
        assert prompts.marks.opened_by(prompt.ids) == (thinking == "on")
