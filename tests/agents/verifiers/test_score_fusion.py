"""Fused scores: ranks, ties, weights, and missing scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from render_agent.agents.verifiers.score_fusion import fuse_scores, mean_ranks
from render_agent.agents.verifiers.verifier import Verdict

SCORES = st.tuples(st.integers(1, 4), st.integers(1, 6)).flatmap(
    lambda size: arrays(np.float64, size, elements=st.integers(-5, 5).map(float))
)


def test_mean_ranks_with_ties():
    assert mean_ranks([[5.0, 1.0, 3.0]]).tolist() == [1.0, 0.0, 0.5]
    assert mean_ranks([[2.0, 2.0, 7.0, 1.0]]).tolist() == [0.5, 0.5, 1.0, 0.0]
    assert mean_ranks([[1.0, 2.0], [9.0, 0.0]]).tolist() == [0.5, 0.5]
    assert mean_ranks([[3.0], [-1.0]]).tolist() == [0.5]
    assert mean_ranks([[0.1, 0.1, 0.1]]).tolist() == [0.5] * 3


@given(SCORES)
def test_mean_ranks_are_invariant_to_monotonic_transforms(scores):
    assert mean_ranks(scores) == pytest.approx(mean_ranks(np.exp(scores) * 7))


def test_members_share_the_weight_of_their_verifier():
    two_members = Verdict(np.array([[1.0, 0.0], [1.0, 0.0]]))
    one_member = Verdict(np.array([[0.0, 1.0]]))
    assert fuse_scores([two_members, one_member]).tolist() == [0.5, 0.5]


def test_missing_score_is_replaced_by_the_mean():
    assert fuse_scores([Verdict(np.array([[1.0, np.nan, 3.0]]))]).tolist() == [0.0, 0.5, 1.0]


def test_verifier_without_scores_is_ignored():
    empty, scored = Verdict(np.full((1, 2), np.nan)), Verdict(np.array([[0.0, 1.0]]))
    assert fuse_scores([empty, scored]).tolist() == [0.0, 1.0]
    assert fuse_scores([empty]) is None
