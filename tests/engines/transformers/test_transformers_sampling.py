"""Sampling is independent of the batch and follows the right distribution."""

from collections import Counter

import pytest
import torch
from factories.dialogues import load_transformers_engine
from factories.models import load_random_image, small_model

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.transformers.sampling import Truncation, sample_tokens, uniform_draws


@pytest.fixture(scope="module")
def engine():
    return load_transformers_engine(str(small_model()), device="cpu", batch_size=64)


def request(name="q", turn=0, *, files=("64x64-1.png",), temperature=1.0, num_samples=1, seed=0):
    message = chat.message("user", chat.text("Where?"), *map(chat.image_piece, files))
    return Request(
        name,
        turn,
        [message],
        load_random_image,
        num_samples=num_samples,
        temperature=temperature,
        seed=seed,
        max_new_tokens=12,
    )


def test_samples_are_independent_of_the_batch(engine):
    requests = [
        request("a"),
        request("b", files=()),
        request("c", files=("96x32-4.png", "32x32-5.png"), num_samples=3),
        request("d", temperature=0.0),
        request("e", temperature=0.3, num_samples=2),
    ]
    batched = [reply.samples for reply in engine.generate(requests)]
    assert batched == [engine.generate([single])[0].samples for single in requests]
    assert batched[::-1] == [reply.samples for reply in engine.generate(requests[::-1])]


def test_samples_of_one_request_differ_and_need_one_call(engine):
    before = engine.calls
    reply = engine.generate([request(num_samples=5)])[0]
    assert engine.calls == before + 1
    assert len(set(reply.samples)) == 5
    assert reply.batch_size == 1
    assert reply.tokens.reply >= 5
    assert reply.samples[:2] == engine.generate([request(num_samples=2)])[0].samples


def test_greedy_samples_are_equal_and_computed_once(engine):
    reply = engine.generate([request(temperature=0.0, num_samples=4)])[0]
    single = engine.generate([request(temperature=0.0)])[0]
    assert reply.samples == single.samples * 4
    assert reply.tokens == single.tokens


@pytest.mark.parametrize("other", [{"name": "p"}, {"turn": 1}, {"seed": 1}])
def test_samples_depend_on_seed_question_and_turn(engine, other):
    replies = engine.generate([request(), request(**other), request()])
    assert replies[0].text == replies[2].text != replies[1].text


def test_published_truncation_is_the_default(engine):
    assert (engine.loaded.truncation.top_k, engine.loaded.truncation.top_p) == (20, 0.8)
    top_1 = load_transformers_engine(
        str(small_model()), device="cpu", options={"top_k": 1, "top_p": 1}
    )
    sampled = top_1.generate([request(temperature=2.0)])[0]
    assert sampled.text == engine.generate([request(temperature=0.0)])[0].text


def test_global_torch_generator_is_not_used(engine):
    before = torch.get_rng_state()
    engine.generate([request(num_samples=2)])
    assert torch.equal(before, torch.get_rng_state())


def test_samples_follow_the_distribution():
    """In 10,000 rows with the same scores, the frequency of each token agrees with the softmax within 5 σ."""
    rows = 10_000
    scores = torch.tensor([2.0, -torch.inf, 0.0, 1.0, -1.0])
    draws = [uniform_draws(request(str(row)), 0)[0] for row in range(rows)]
    chosen = sample_tokens(scores.repeat(rows, 1), draws, [0.8] * rows, Truncation())
    counts = Counter(chosen.tolist())
    for token, share in enumerate(torch.softmax(scores / 0.8, 0).tolist()):
        sigma = (rows * share * (1 - share)) ** 0.5
        assert abs(counts[token] - rows * share) <= 5 * sigma


@pytest.mark.parametrize("draw", [0.0, 0.5, 1 - 2**-24])
def test_impossible_token_is_never_sampled(draw):
    scores = torch.tensor([[-torch.inf, 1.0, -torch.inf, 1.0, -torch.inf]])
    assert sample_tokens(scores, [draw], [1.0], Truncation()).item() in (1, 3)


def test_truncation_keeps_the_most_likely_tokens():
    scores = torch.log(torch.tensor([[0.05, 0.5, 0.15, 0.3]]))
    allowed = Truncation(top_k=3, top_p=0.7).apply(scores).isfinite()
    assert allowed.tolist() == [[False, True, False, True]]
