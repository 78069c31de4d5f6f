"""Sampling: reproducible whatever the batch, and drawn from the right distribution."""

from collections import Counter

import pytest
import torch
from factories.dialogues import library_engine
from factories.models import small_model, speckled_file

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.transformers.sampling import Truncation, drawn_tokens, uniform_draws


@pytest.fixture(scope="module")
def engine():
    return library_engine(str(small_model()), device="cpu", batch_size=64)


def request(name="q", turn=0, *, files=("64x64-1.png",), temperature=1.0, samples=1, seed=0):
    message = chat.message("user", chat.text("Where?"), *map(chat.picture, files))
    return Request(
        name,
        turn,
        [message],
        speckled_file,
        samples=samples,
        temperature=temperature,
        seed=seed,
        max_new_tokens=12,
    )


def test_a_sample_does_not_depend_on_its_batch(engine):
    asked = [
        request("a"),
        request("b", files=()),
        request("c", files=("96x32-4.png", "32x32-5.png"), samples=3),
        request("d", temperature=0.0),
        request("e", temperature=0.3, samples=2),
    ]
    together = [reply.samples for reply in engine.generate(asked)]
    assert together == [engine.generate([single])[0].samples for single in asked]
    assert together[::-1] == [reply.samples for reply in engine.generate(asked[::-1])]


def test_samples_of_one_request_differ_and_come_in_one_call(engine):
    before = engine.calls
    reply = engine.generate([request(samples=5)])[0]
    assert engine.calls == before + 1
    assert len(set(reply.samples)) == 5
    assert reply.batch_size == 1
    assert reply.tokens.reply >= 5
    assert reply.samples[:2] == engine.generate([request(samples=2)])[0].samples


def test_greedy_samples_are_equal_and_computed_once(engine):
    reply = engine.generate([request(temperature=0.0, samples=4)])[0]
    single = engine.generate([request(temperature=0.0)])[0]
    assert reply.samples == single.samples * 4
    assert reply.tokens == single.tokens


@pytest.mark.parametrize("other", [{"name": "p"}, {"turn": 1}, {"seed": 1}])
def test_seed_question_and_turn_change_what_is_drawn(engine, other):
    replies = engine.generate([request(), request(**other), request()])
    assert replies[0].text == replies[2].text != replies[1].text


def test_the_published_truncation_holds_unless_an_option_changes_it(engine):
    assert (engine.loaded.truncation.top_k, engine.loaded.truncation.top_p) == (20, 0.8)
    only_one = library_engine(str(small_model()), device="cpu", options={"top_k": 1, "top_p": 1})
    drawn = only_one.generate([request(temperature=2.0)])[0]
    assert drawn.text == engine.generate([request(temperature=0.0)])[0].text


def test_the_torch_generator_is_left_alone(engine):
    before = torch.get_rng_state()
    engine.generate([request(samples=2)])
    assert torch.equal(before, torch.get_rng_state())


def test_draws_follow_the_distribution():
    """10,000 rows with the same scores draw each token as often as the softmax says, within 5 σ."""
    rows = 10_000
    scores = torch.tensor([2.0, -torch.inf, 0.0, 1.0, -1.0])
    draws = [uniform_draws(request(str(row)), 0)[0] for row in range(rows)]
    chosen = drawn_tokens(scores.repeat(rows, 1), draws, [0.8] * rows, Truncation())
    counted = Counter(chosen.tolist())
    for token, share in enumerate(torch.softmax(scores / 0.8, 0).tolist()):
        sigma = (rows * share * (1 - share)) ** 0.5
        assert abs(counted[token] - rows * share) <= 5 * sigma


@pytest.mark.parametrize("draw", [0.0, 0.5, 1 - 2**-24])
def test_an_impossible_token_is_never_drawn(draw):
    scores = torch.tensor([[-torch.inf, 1.0, -torch.inf, 1.0, -torch.inf]])
    assert drawn_tokens(scores, [draw], [1.0], Truncation()).item() in (1, 3)


def test_truncation_keeps_the_likeliest():
    scores = torch.log(torch.tensor([[0.05, 0.5, 0.15, 0.3]]))
    kept = Truncation(top_k=3, top_p=0.7).apply(scores).isfinite()
    assert kept.tolist() == [[False, True, False, True]]
