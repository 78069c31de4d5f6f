"""Scripted replies for benchmarks: random walks with given numbers of turns and reply lengths."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.engines.engine import Request
from render_agent.engines.scripted.blind_policies import draw
from render_agent.score.chance import frequent_answers
from render_agent_lab.random_models.random_model import FILLER

# Median reply length in tokens, and standard deviation of its logarithm. With this spread, the longest reply of a batch
# is 2.0 (batch of 16) or 2.6 (batch of 64) times the mean, as measured for real replies.
REPLY_TOKENS, SPREAD = 120, 0.45


@dataclass(frozen=True, slots=True)
class LengthDistributions:
    """Distributions of dialogue and reply lengths."""

    turns: tuple[int, int] = (1, 9)
    """Minimum and maximum turns per question, drawn uniformly."""
    reply_tokens: float = REPLY_TOKENS
    """Median of the log-normal distribution of reply tokens."""
    spread: float = SPREAD
    """Standard deviation of the logarithm of reply tokens."""
    most: int = 512
    """Maximum reply length in tokens."""

    def turns_of(self, question_id: str, seed: int) -> int:
        """Draw the number of turns of a question."""
        return draw(f"turns of {question_id}", seed).randint(*self.turns)

    def tokens_of(self, question_id: str, turn: int, seed: int) -> int:
        """Draw the number of tokens of a reply."""
        rng = draw(f"tokens of {question_id} {turn}", seed)
        length = rng.lognormvariate(log(self.reply_tokens), self.spread)
        return max(1, min(self.most, round(length)))


class ScriptedWalk:
    """Produces every reply: one step of a random walk, with filler reasoning of the drawn length.

    Replies are within a few percent of the drawn length unless the action alone is longer.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        lengths: LengthDistributions,
        tokenize: Callable[[str], Sequence[Any]],
        seed: int = 0,
    ) -> None:
        self.answers = frequent_answers(questions)
        self.lengths = lengths
        self.tokenize = tokenize
        self.seed = seed
        self.words = FILLER.split()
        self.tokens_a_word = len(tokenize(FILLER)) / len(self.words)
        self.written: dict[tuple[str, int, bool], str] = {}

    def reply(self, request: Request) -> str:
        """Return the reply to a request: the answer in the last turn of its question, otherwise a step."""
        key = (request.question_id, request.turn, request.is_last_turn)
        if key not in self.written:
            self.written[key] = self._write(*key)
        return self.written[key]

    def _write(self, question: str, turn: int, is_last: bool) -> str:
        action: dict[str, Any] = {"reasoning": ""}
        if is_last or turn + 1 >= self.lengths.turns_of(question, self.seed):
            action |= {"answer": self.answers[question], "done": True}
        else:
            action |= random_step(draw(f"step of {question} {turn}", self.seed))
        target = self.lengths.tokens_of(question, turn, self.seed)
        num_missing = target - len(self.tokenize(json.dumps(action))) - 1
        count = max(0, round(num_missing / self.tokens_a_word))
        action["reasoning"] = " ".join(self.words[i % len(self.words)] for i in range(count))
        return json.dumps(action)


def random_step(rng: random.Random) -> dict[str, Any]:
    """Return one random step: a rotation and a move, or another view."""
    if rng.random() < 0.25:
        return {"view": rng.choice(["around", "top"])}
    return {
        "rotation_angle_degrees": rng.choice([-120, -90, -45, 45, 90, 120]),
        "forward_meters": rng.choice([0.5, 1, 1.5]),
    }
