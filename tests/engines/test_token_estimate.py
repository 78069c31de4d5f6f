"""The estimate of a run's tokens, and the tokens of an image by model family."""

import json

import pytest
from factories.runs import make_config, make_questions

from render_agent.cli.dry_run import dry_run
from render_agent.dialogue import chat
from render_agent.engines.token_estimate import image_tokens
from render_agent.options import RunConfig
from render_agent.runs.build import build
from render_agent.runs.cost.run_estimate import (
    FOLLOWING_TOKENS,
    RESTATE_TOKENS,
    RunEstimate,
    estimate,
)

OPENING = [
    chat.message("system", chat.text("s" * 400)),
    chat.message("user", chat.text("u" * 80), chat.image_piece("a.png"), chat.image_piece("b.png")),
]


def config(**overrides):
    options = {"image_size": (320, 320), "max_new_tokens": 50, "max_turns": 3} | overrides
    return build(RunConfig(batch=True, **options))


def sum_prompts(turns, questions, image=100, reply=50):
    """Reference implementation: add up the prompts turn by turn."""
    total = cached = 0
    for question in range(questions):
        reusable = 100 if question else 0
        prompt = 120 + 2 * 100
        for _ in range(turns):
            total += prompt
            cached += reusable
            reusable = prompt
            prompt += reply + FOLLOWING_TOKENS + image
        total += reusable + reply + RESTATE_TOKENS  # the extra request for an answer
        cached += reusable
    return total, cached


@pytest.mark.parametrize(("turns", "questions"), [(1, 1), (3, 1), (3, 5), (9, 7), (2, 0)])
def test_estimate_is_the_sum_over_all_prompts(turns, questions):
    result = estimate(config(max_turns=turns), questions, OPENING)
    total, cached = sum_prompts(turns, questions)
    requests = (turns + 1) * questions
    assert result == RunEstimate(requests, total, cached, requests * 50)
    result = estimate(config(max_turns=turns, no_restate=True), questions, OPENING)
    assert result.requests == turns * questions
    assert result.reply_tokens == turns * questions * 50


def test_blind_run_has_no_image_tokens():
    opening = [chat.message("user", chat.text("u" * 80))]
    result = estimate(config(views="none", max_turns=2), 1, opening)
    last_prompt = 20 + 50 + FOLLOWING_TOKENS
    assert result.prompt_tokens == 20 + last_prompt + (last_prompt + 50 + RESTATE_TOKENS)


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct", 20 * 15),
        ("Qwen/Qwen2.5-VL-7B-Instruct", 23 * 17),
        ("anything", 20 * 15),
    ],
)
def test_image_tokens_depend_on_the_model_family(model, tokens):
    assert image_tokens(model, 640, 480) == tokens
    assert image_tokens(model, 1, 1) == 1


def test_dry_run_prints_token_counts(tmp_path, capsys):
    options = make_config(
        tmp_path, make_questions(tmp_path, 3), engine="openai", model="any", json=True, max_turns=4
    )
    assert dry_run(options) == 0
    result = json.loads(capsys.readouterr().out)["estimate"]
    assert result["requests"] == 15
    assert result["reply_tokens"] == 15 * 512
    assert 0 < result["cached_tokens"] < result["prompt_tokens"]


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        ("claude-opus-5-5", (512, 512), 361),
        ("anthropic/claude-haiku-4-5", (640, 480), 23 * 18),
        ("gemini-3.8-flash", (640, 480), 1120),
        ("gemini-2.5-pro", (384, 384), 258),
        ("gemini-2.5-pro", (960, 540), 6 * 258),
        ("gpt-6-astra", (256, 256), 77),
        ("gpt-5.5-2026-04-23", (512, 512), 308),
        ("gpt-4o", (1024, 1024), 85 + 4 * 170),
        ("gpt-5.2-2025-12-11", (640, 480), 360),
        ("gpt-5.1", (640, 480), 630),
        ("gpt-5-mini", (640, 480), 516),
        ("gpt-oss-120b", (640, 480), 300),
        ("my-gpt-5", (640, 480), 300),
    ],
)
def test_hosted_models_count_images_by_their_own_rules(model, size, tokens):
    assert image_tokens(model, *size) == tokens
