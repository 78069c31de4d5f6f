"""Fused scores: what a rank is, and what ties, weights and verifiers that could not tell do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from render_agent.agents.verifiers.score_fusion import fused, mean_ranks
from render_agent.agents.verifiers.verifier import Verdict

SCORES = st.tuples(st.integers(1, 4), st.integers(1, 6)).flatmap(
    lambda size: arrays(np.float64, size, elements=st.integers(-5, 5).map(float))
)


def test_ranks_go_from_worst_to_best_and_ties_share_theirs():
    assert mean_ranks([[5.0, 1.0, 3.0]]).tolist() == [1.0, 0.0, 0.5]
    assert mean_ranks([[2.0, 2.0, 7.0, 1.0]]).tolist() == [0.5, 0.5, 1.0, 0.0]
    assert mean_ranks([[1.0, 2.0], [9.0, 0.0]]).tolist() == [0.5, 0.5]
    assert mean_ranks([[3.0], [-1.0]]).tolist() == [0.5]
    assert mean_ranks([[0.1, 0.1, 0.1]]).tolist() == [0.5] * 3


@given(SCORES)
def test_only_the_order_within_a_member_counts(scores):
    assert mean_ranks(scores) == pytest.approx(mean_ranks(np.exp(scores) * 7))


def test_members_share_the_part_of_their_verifier():
    one = Verdict(np.array([[1.0, 0.0], [1.0, 0.0]]))
    other = Verdict(np.array([[0.0, 1.0]]))
    assert fused([one, other]).tolist() == [0.5, 0.5]


def test_what_a_member_could_not_score_stands_at_its_mean():
    assert fused([Verdict(np.array([[1.0, np.nan, 3.0]]))]).tolist() == [0.0, 0.5, 1.0]


def test_a_verifier_that_could_not_tell_is_left_out():
    mute, telling = Verdict(np.full((1, 2), np.nan)), Verdict(np.array([[0.0, 1.0]]))
    assert fused([mute, telling]).tolist() == [0.0, 1.0]
    assert fused([mute]) is None
