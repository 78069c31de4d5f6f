import json

import pytest
from factories.runs import make_config, make_questions

from render_agent.cli.dry_run import dry_run
from render_agent.dialogue import chat
from render_agent.engines.token_estimate import picture_tokens
from render_agent.options import RunConfig
from render_agent.runs.build import build
from render_agent.runs.run_estimate import FOLLOWING_TOKENS, Estimate, estimate

OPENING = [
    chat.message("system", chat.text("s" * 400)),
    chat.message("user", chat.text("u" * 80), chat.picture("a.png"), chat.picture("b.png")),
]


def config(**more):
    given = {"image_size": (320, 320), "max_new_tokens": 50, "max_turns": 3} | more
    return build(RunConfig(batch=True, **given))


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


def test_a_dry_run_states_tokens(tmp_path, capsys):
    given = make_config(
        tmp_path, make_questions(tmp_path, 3), engine="openai", model="some", json=True, max_turns=4
    )
    assert dry_run(given) == 0
    told = json.loads(capsys.readouterr().out)["estimate"]
    assert told["requests"] == 12
    assert told["reply_tokens"] == 12 * 512
    assert 0 < told["cached_tokens"] < told["prompt_tokens"]
