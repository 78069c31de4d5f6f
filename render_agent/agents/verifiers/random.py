"""The random verifier: the baseline for all others."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from render_agent.agents.verifiers.verifier import TurnContext, Verdict, Verifier
from render_agent.dialogue.question import Question
from render_agent.dialogue.turn import Candidate
from render_agent.engines.engine import Engine
from render_agent.options import RunConfig


@dataclass(eq=False)
class RandomVerifier(Verifier):
    """Scores candidates at random. The same question, turn and seed give the same scores."""

    name = "random"
    forms = ("random",)

    seed: int = 0

    def open(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Self:
        return replace(self, seed=config.seed)

    def score(self, context: TurnContext, candidates: Sequence[Candidate]) -> Verdict:
        """Return a random number in [0, 1) for each candidate, (1, K)."""
        seed_text = f"random {self.seed} {context.state.id} {context.turn}"
        digest = hashlib.sha256(seed_text.encode("utf-8", "backslashreplace")).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
        return Verdict(np.array([[rng.random() for _ in candidates]]))
