"""Fused scores: what a rank is, what ties and weights do, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from render_agent.agents.verifiers.score_fusion import (
    FUSIONS,
    highest,
    mean_normalised,
    mean_ranks,
)

SCORES = st.tuples(st.integers(1, 4), st.integers(1, 6)).flatmap(
    lambda size: arrays(np.float64, size, elements=st.integers(-5, 5).map(float))
)


def test_ranks_go_from_worst_to_best_and_ties_share_theirs():
    assert mean_ranks([[5.0, 1.0, 3.0]]).tolist() == [1.0, 0.0, 0.5]
    assert mean_ranks([[2.0, 2.0, 7.0, 1.0]]).tolist() == [0.5, 0.5, 1.0, 0.0]
    assert mean_ranks([[1.0, 2.0], [9.0, 0.0]]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(("fuse", "middle"), [(mean_ranks, 0.5), (mean_normalised, 0.0)])
def test_a_single_candidate_and_a_member_that_cannot_tell_are_in_the_middle(fuse, middle):
    assert fuse([[3.0], [-1.0]]).tolist() == [middle]
    assert fuse([[0.1, 0.1, 0.1]]).tolist() == [middle] * 3
    apart = fuse([[1.0, 2.0, 5.0]])
    with_it = fuse([[1.0, 2.0, 5.0], [0.3, 0.3, 0.3]])
    assert np.argsort(with_it).tolist() == np.argsort(apart).tolist()


@given(SCORES, st.integers(0, 2**32 - 1))
def test_fused_scores_follow_no_scale_and_no_order(scores, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(scores.shape[1])
    scale = rng.uniform(0.1, 10, (len(scores), 1))
    shift = rng.uniform(-10, 10, (len(scores), 1))
    for fuse in FUSIONS.values():
        fused = fuse(scores, None)
        np.testing.assert_allclose(fuse(scores[:, order], None), fused[order], atol=1e-9)
        np.testing.assert_allclose(fuse(scores[::-1], None), fused, atol=1e-9)
    normalised = mean_normalised(
        np.where(np.ptp(scores, 1, keepdims=True), scores * scale + shift, 0)
    )
    np.testing.assert_allclose(normalised, mean_normalised(scores), atol=1e-9)
    np.testing.assert_allclose(mean_ranks(np.exp(scores)), mean_ranks(scores), atol=1e-12)
    assert mean_ranks(scores).mean() == pytest.approx(0.5)


@given(SCORES)
def test_a_weight_of_two_is_a_member_twice_and_one_of_zero_is_none(scores):
    for fuse in FUSIONS.values():
        twice = fuse(np.concatenate([scores, scores[:1]]), None)
        weights = [2.0] + [1.0] * (len(scores) - 1)
        np.testing.assert_allclose(fuse(scores, weights), twice, atol=1e-12)
        alone = fuse(
            np.concatenate([scores, [np.arange(scores.shape[1])]]), [1.0] * len(scores) + [0.0]
        )
        np.testing.assert_allclose(alone, fuse(scores, None), atol=1e-12)


def test_members_are_heard_alike_however_large_their_numbers_are():
    scores = [[1000.0, 0.0, 999.0], [0.0, 0.001, 0.0009]]
    assert highest(mean_normalised(scores)) == 2
    assert highest(np.mean(scores, axis=0)) == 0
    assert highest([0.2, 0.7, 0.7]) == 1


@pytest.mark.parametrize("fuse", FUSIONS.values())
@pytest.mark.parametrize(
    "scores", [[], [[]], [1.0, 2.0], [[1.0, np.nan]], [[np.inf, 1.0]], np.zeros((2, 0))]
)
def test_what_is_no_score_is_refused(fuse, scores):
    with pytest.raises(ValueError, match=r"score|scores"):
        fuse(scores, None)


@pytest.mark.parametrize(
    "weights", [[1.0], [0.0, 0.0], [-1.0, 2.0], [np.nan, 1.0], [1.0, 1.0, 1.0]]
)
def test_what_is_no_weight_is_refused(weights):
    with pytest.raises(ValueError, match="weight"):
        mean_ranks([[1.0, 2.0], [2.0, 1.0]], weights)
