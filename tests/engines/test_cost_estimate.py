import json

import pytest
from factories.runs import make_config, make_questions

from render_agent.cli.commands.runs import dry_run
from render_agent.config import RunConfig
from render_agent.dialogue import chat
from render_agent.engines.cost_estimate import (
    FOLLOWING_TOKENS,
    Estimate,
    Prices,
    estimate,
    figures,
    find_prices,
    picture_tokens,
    sentence,
    text_tokens,
)
from render_agent.errors import UsageError

OPENING = [
    chat.message("system", chat.text("s" * 400)),
    chat.message("user", chat.text("u" * 80), chat.picture("a.png"), chat.picture("b.png")),
]


def config(**more):
    given = {"image_size": (320, 320), "max_new_tokens": 50, "max_turns": 3} | more
    return RunConfig(batch=True, **given)


def summed(turns, questions, picture=100, reply=50):
    """The same by adding up every prompt, turn after turn."""
    read = cached = 0
    for question in range(questions):
        before = 100 if question else 0
        prompt = 120 + 2 * 100
        for _ in range(turns):
            read += prompt
            cached += before
            before = prompt
            prompt += reply + FOLLOWING_TOKENS + picture
    return read, cached


@pytest.mark.parametrize(("turns", "questions"), [(1, 1), (3, 1), (3, 5), (9, 7), (2, 0)])
def test_an_estimate_is_the_sum_over_all_prompts(turns, questions):
    found = estimate(config(max_turns=turns), questions, OPENING)
    read, cached = summed(turns, questions)
    assert found == Estimate(turns * questions, read, cached, turns * questions * 50)


def test_a_blind_run_has_no_pictures():
    opening = [chat.message("user", chat.text("u" * 80))]
    found = estimate(config(views="none", max_turns=2), 1, opening)
    assert found.prompt_tokens == 20 + (20 + 50 + FOLLOWING_TOKENS)


def test_costs_with_and_without_a_cache():
    found = Estimate(
        requests=3, prompt_tokens=1_000_000, cached_tokens=800_000, reply_tokens=10_000
    )
    prices = Prices(prompt=2.0, reply=10.0, cached=0.5)
    assert found.cost(prices, cache=False) == pytest.approx(2.0 + 0.1)
    assert found.cost(prices, cache=True) == pytest.approx(0.4 + 0.4 + 0.1)
    assert found.cost(Prices(2.0, 10.0), cache=True) == pytest.approx(2.1)
    assert figures(found, prices)["cost_with_cache"] == pytest.approx(0.9)
    assert figures(found, Prices(2.0, 10.0)).keys() >= {"cost", "requests"}
    assert not {"cost", "cost_with_cache"} & figures(found, None).keys()
    assert "2.10 without a prefix cache, 0.90 with one" in sentence(found, prices)
    assert "cost:" not in sentence(found, None)


def test_prices_need_both_sides():
    assert find_prices({"price_in": 1.0}) is None
    assert find_prices({"price_in": 1.0, "price_out": 0}) == Prices(1.0, 0, None)
    with pytest.raises(UsageError, match="price_out='cheap' must be a number"):
        find_prices({"price_in": 1.0, "price_out": "cheap"})
    with pytest.raises(UsageError, match="price_in=-1 must be a number >= 0"):
        find_prices({"price_in": -1, "price_out": 1.0})


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct", 20 * 15),
        ("Qwen/Qwen2.5-VL-7B-Instruct", 23 * 17),
        ("anything", 20 * 15),
    ],
)
def test_pictures_cost_what_the_family_makes_of_them(model, tokens):
    assert picture_tokens(model, 640, 480) == tokens
    assert picture_tokens(model, 1, 1) == 1


def test_texts_are_counted_by_their_characters():
    assert text_tokens(OPENING) == 120
    assert text_tokens([chat.message("user", chat.text("abcde"))]) == 2


def test_a_dry_run_states_tokens_and_cost(tmp_path, capsys):
    prices = ("price_in=1.5", "price_out=6", "price_cached=0.1")
    given = make_config(
        tmp_path,
        make_questions(tmp_path, 3),
        engine="openai",
        model="some",
        engine_option=prices,
        json=True,
        max_turns=4,
    )
    assert dry_run(given) == 0
    told = json.loads(capsys.readouterr().out)["estimate"]
    assert told["requests"] == 12
    assert told["reply_tokens"] == 12 * 512
    assert 0 < told["cached_tokens"] < told["prompt_tokens"]
    assert 0 < told["cost_with_cache"] < told["cost"]
