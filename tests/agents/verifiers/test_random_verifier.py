"""The random verifier chooses all moves with equal probability."""

from collections import Counter
from types import SimpleNamespace

import numpy as np

from render_agent.agents.lookahead import Best
from render_agent.agents.verifiers.random import RandomVerifier
from render_agent.dialogue.reply import Action
from render_agent.dialogue.turn import Candidate
from render_agent.scans.camera import Camera


def test_every_move_is_equally_likely():
    action, here = Action(), Camera((0.0, 0.0, 1.5), 0.0)
    candidates = [Candidate(number, "", action, "", here) for number in range(3)]
    rounds, chosen = 3000, Counter()
    for turn in range(rounds):
        context = SimpleNamespace(state=SimpleNamespace(id="1"), turn=turn)
        verdict = RandomVerifier(seed=0).score(context, candidates)
        assert verdict.scores.shape == (1, len(candidates))
        chosen[Best("best:2").pick_best(candidates, verdict.scores[0]).number] += 1
    np.testing.assert_allclose([chosen[n] / rounds for n in range(3)], 1 / 3, atol=0.035)
