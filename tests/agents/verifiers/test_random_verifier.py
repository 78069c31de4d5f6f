"""Chance as a verifier: every move that could be made is as likely as any other."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from render_agent.agents.lookahead import _best
from render_agent.agents.verifiers.random import RandomVerifier
from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import Candidate
from render_agent.geometry.camera import Camera


def candidates(firsts, seconds):
    """Some moves, and a second move after each of some of them."""
    action, here = Action(), Camera((0.0, 0.0, 1.5), 0.0)
    found = [Candidate(number, "", action, "", here) for number in range(firsts)]
    return found + [
        Candidate(firsts + place, "", action, "", here, follows=number)
        for place, number in enumerate(seconds)
    ]


@pytest.mark.parametrize("seconds", [[], [0, 1, 2], [0], [1, 2]], ids=str)
def test_a_move_is_no_likelier_for_having_a_second_one(seconds):
    given, rounds, chosen = candidates(3, seconds), 3000, Counter()
    for turn in range(rounds):
        context = SimpleNamespace(state=SimpleNamespace(id="1"), turn=turn)
        verdict = RandomVerifier(0).score(context, given)
        assert verdict.scores.shape == (1, len(given))
        chosen[_best(given, verdict.scores[0]).number] += 1
    assert set(chosen) == {0, 1, 2}
    np.testing.assert_allclose([chosen[n] / rounds for n in range(3)], 1 / 3, atol=0.035)
