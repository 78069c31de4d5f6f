"""Training: it learns, members are independent, and results are reproducible."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from factories.examples import SMALL, choice_examples
from scipy.stats import binomtest

from render_agent.errors import SetupError
from render_agent_lab.learned_verifier.ensemble import Ensemble
from render_agent_lab.learned_verifier.shape import Features
from render_agent_lab.verifier_training.batches import PreparedExamples
from render_agent_lab.verifier_training.choice_accuracy import choose
from render_agent_lab.verifier_training.examples import Example
from render_agent_lab.verifier_training.fit import Settings, fit_ensemble
from render_agent_lab.verifier_training.loss import losses

BRIEF = Settings(members=2, epochs=3, batch=8, rate=1e-2, seed=3)


def have_equal_parameters(first, second):
    return all(torch.equal(value, second.parameters[n]) for n, value in first.parameters.items())


@pytest.mark.slow
def test_ensemble_learns_to_choose_in_unseen_states():
    settings = Settings(members=3, epochs=7, batch=32, rate=1e-2, seed=1)
    held_out = choice_examples(150, seed=2)
    lines = []
    fitted = fit_ensemble(
        SMALL, choice_examples(400, seed=1), held_out, settings, after_epoch=lines.append
    )
    assert lines == fitted.epochs
    assert [line["epoch"] for line in lines] == list(range(1, 8))
    last = lines[-1]
    assert last["states"] == 150
    assert last["chance"] == 0.25
    right = round(150 * last["chosen"])
    assert binomtest(right, 150).proportion_ci(0.999).low > 0.6
    for share in last["members"]:
        assert binomtest(round(150 * share), 150).proportion_ci(0.999).low > 0.5
    assert all(end < begin for begin, end in zip(lines[0]["loss"], last["loss"], strict=True))
    choices = choose(fitted.ensemble, held_out)
    assert choices.to_json() == {name: last[name] for name in choices.to_json()}
    by_score = [
        example.good[fitted.ensemble.score(example.features, example.histories).argmax(1)]
        for example in held_out
    ]
    np.testing.assert_allclose(np.mean(by_score, 0), last["members"], atol=0.01)

    unlearned = choose(Ensemble.fresh(SMALL, 3, 1), held_out)
    assert binomtest(int(unlearned.fused.sum()), 150).proportion_ci(0.999).low < 0.25


def test_members_are_independent():
    """A member learns the same alone and with others, and members differ from each other."""
    examples, held_out = choice_examples(24, seed=4), choice_examples(6, seed=5)
    three = fit_ensemble(SMALL, examples, [], replace(BRIEF, members=3))
    one = fit_ensemble(SMALL, examples, [], replace(BRIEF, members=1))
    single, joint = (np.array([line["loss"] for line in f.epochs]) for f in (one, three))
    np.testing.assert_allclose(single[:, 0], joint[:, 0], rtol=1e-4)
    for state in held_out:
        single, joint = (f.ensemble.score(state.features, state.histories) for f in (one, three))
        np.testing.assert_allclose(single[0], joint[0], rtol=0, atol=1e-3)
        assert np.abs(joint[0] - joint[1]).max() > 0.01


def test_training_is_reproducible():
    examples, held_out = choice_examples(24, seed=5), choice_examples(12, seed=6)
    first, second = (fit_ensemble(SMALL, examples, held_out, BRIEF).ensemble for _ in range(2))
    assert have_equal_parameters(first, second)
    other = fit_ensemble(SMALL, examples, [], replace(BRIEF, seed=4)).ensemble
    assert not have_equal_parameters(first, other)


def test_divergence_and_too_few_states_raise_setup_error():
    with pytest.raises(SetupError, match="--rate"):
        fit_ensemble(SMALL, choice_examples(24, seed=5), [], replace(BRIEF, rate=math.inf))
    with pytest.raises(SetupError, match="2 states"):
        fit_ensemble(SMALL, choice_examples(1, seed=5), [], BRIEF)


def with_two_views(examples):
    """Give the second example the view and question of the first, and a second good candidate."""
    first, second, *rest = examples
    good = second.good.copy()
    good[np.flatnonzero(~good)[0]] = True
    return [first, Example(first.features, second.histories, good), *rest]


def test_loss_matches_its_definition():
    examples = with_two_views(choice_examples(5, seed=7))
    examples[3] = Example(
        examples[3].features, replace_rows(examples[3].histories, 2), np.array([True, True])
    )
    both = Ensemble.fresh(SMALL, 2, 0)
    prepared = PreparedExamples(SMALL, examples, torch.device("cpu"))
    assert prepared.seen.shape[0] == 4
    chosen = np.array([[0, 1, 2], [3, 1, 4]])
    actual = losses(both, prepared.batch(chosen))
    for number, row in enumerate(chosen):
        ensemble = both.member(number)
        states = [examples[n] for n in row]
        scale = math.exp(both.parameters["log_scale"][number])

        def logits(state, of, ensemble=ensemble, scale=scale):
            return np.exp(scale * ensemble.score(state.features, of.histories)[0].astype(float))

        total = 0.0
        for state in states:
            others = [o for o in states if o.features is not state.features]
            own = logits(state, state)
            negatives = sum(logits(state, o)[o.good].sum() for o in others)
            total -= math.log(own[state.good].sum() / (own.sum() + negatives))
            columns = own + sum(logits(o, state) for o in others)
            total -= np.log(own / columns)[state.good].mean()
        assert float(actual[number]) == pytest.approx(total / 2 / len(states), rel=1e-5)


def replace_rows(histories, count):
    return type(histories)(histories.values[:count], histories.known[:count])


def test_gradients_are_finite_with_padding():
    examples = choice_examples(4, seed=8)
    examples[0] = Example(
        examples[0].features, replace_rows(examples[0].histories, 1), np.array([True])
    )
    ensemble = Ensemble.fresh(SMALL, 2, 0).with_tensors(torch.Tensor.requires_grad_)
    batch = PreparedExamples(SMALL, examples, torch.device("cpu")).batch(np.array([[0, 1], [2, 3]]))
    assert (batch.state == -1).any()
    losses(ensemble, batch).sum().backward()
    assert all(t.grad.isfinite().all() for t in ensemble.parameters.values())
    assert sum(bool(t.grad.any()) for t in ensemble.parameters.values()) == len(ensemble.parameters)


def test_states_without_bad_candidates_are_not_counted():
    example = choice_examples(1, seed=9)[0]
    sure = Example(example.features, example.histories, np.ones(4, bool))
    ensemble = Ensemble.fresh(SMALL, 2, 0)
    assert choose(ensemble, [sure]).to_json()["states"] == 0
    assert choose(ensemble, [sure, example]).to_json()["states"] == 1
    fitted = fit_ensemble(SMALL, [example, sure], [sure], replace(BRIEF, epochs=1))
    assert "chosen" not in fitted.epochs[0]


def test_inconsistent_examples_are_rejected():
    example = choice_examples(1, seed=9)[0]
    with pytest.raises(ValueError, match="good candidate"):
        Example(example.features, example.histories, np.zeros(4, bool))
    with pytest.raises(ValueError, match="4 bools"):
        Example(example.features, example.histories, np.ones(3, bool))
    short = Features(example.features.patches[:3], example.features.text)
    with pytest.raises(ValueError, match="patches"):
        choose(Ensemble.fresh(SMALL, 1, 0), [Example(short, example.histories, example.good)])
    longer = type(SMALL)(**(asdict(SMALL) | {"history": 4}))
    with pytest.raises(ValueError, match="moves"):
        fit_ensemble(longer, [example] * 2, [], BRIEF)
