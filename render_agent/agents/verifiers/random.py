"""The verifier that knows nothing: the control that every other is measured against."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from render_agent.agents.verifiers.base import TurnContext, Verdict, Verifier
from render_agent.config import RunConfig
from render_agent.config.agent_plan import VerifierPlan
from render_agent.dialogue.state import Candidate, Question
from render_agent.engines.base import Engine


class RandomPlan(VerifierPlan):
    """Chance: the control that every other is measured against."""

    name = "random"
    forms = ("random",)

    def build(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Verifier:
        """Return the verifier that scores by chance."""
        return RandomVerifier(config.seed)


class RandomVerifier(Verifier):
    """Scores by chance; the same question, turn and seed give the same scores.

    A second move has the score of the move before it: else those with a second move would be chosen more
    often than those after which the dialogue ends.
    """

    name = "random"
    members = ("random",)

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def score(self, context: TurnContext, candidates: Sequence[Candidate]) -> Verdict:
        """Return a number from 0 to 1 for each candidate, (1, K)."""
        seed_text = f"random {self.seed} {context.state.id} {context.turn}"
        digest = hashlib.sha256(seed_text.encode("utf-8", "backslashreplace")).digest()
        chance = np.random.default_rng(int.from_bytes(digest[:8], "big"))
        scores = {c.number: chance.random() for c in candidates}
        first = (c.number if c.follows is None else c.follows for c in candidates)
        return Verdict(np.array([[scores[number] for number in first]]))
