"""What every question is made to say: walks of given lengths, and replies of given lengths."""

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

REPLY_TOKENS, SPREAD = 120, 0.45
"""Median of a reply's tokens, and the standard deviation of their logarithm.

With that spread the longest of a batch is to its mean as it was found for such replies: 2.0 in a
batch of 16, 2.6 in one of 64.
"""


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long dialogues and replies are.

    turns: least and most of a question, every number in between as likely. reply_tokens, spread: of
    the log-normal distribution of a reply's tokens. most: tokens of a reply at the most.
    """

    turns: tuple[int, int] = (1, 9)
    reply_tokens: float = REPLY_TOKENS
    spread: float = SPREAD
    most: int = 512

    def turns_of(self, question_id: str, seed: int) -> int:
        """Return the number of turns of a question."""
        return draw(f"turns of {question_id}", seed).randint(*self.turns)

    def tokens_of(self, question_id: str, turn: int, seed: int) -> int:
        """Return the number of tokens of a reply."""
        chance = draw(f"tokens of {question_id} {turn}", seed)
        drawn = chance.lognormvariate(log(self.reply_tokens), self.spread)
        return max(1, min(self.most, round(drawn)))


class ScriptedWalk:
    """The text of every reply: a step of a walk, its reasoning as long as was drawn for it.

    tokenize: text → its tokens. A reply ends up within some percent of the length drawn, unless its
    bare action is longer.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        lengths: Lengths,
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
        """Return the reply to one request: the answer in the question's last turn, else a step."""
        key = (request.question_id, request.turn, request.last)
        if key not in self.written:
            self.written[key] = self._write(*key)
        return self.written[key]

    def _write(self, question: str, turn: int, last: bool) -> str:
        action: dict[str, Any] = {"reasoning": ""}
        if last or turn + 1 >= self.lengths.turns_of(question, self.seed):
            action |= {"answer": self.answers[question], "done": True}
        else:
            action |= step(draw(f"step of {question} {turn}", self.seed))
        wanted = self.lengths.tokens_of(question, turn, self.seed)
        missing = wanted - len(self.tokenize(json.dumps(action))) - 1
        count = max(0, round(missing / self.tokens_a_word))
        action["reasoning"] = " ".join(self.words[i % len(self.words)] for i in range(count))
        return json.dumps(action)


def step(chance: random.Random) -> dict[str, Any]:
    """Return one step of a walk: a turn and a move, or another view."""
    if chance.random() < 0.25:
        return {"view": chance.choice(["around", "top"])}
    return {
        "rotation_angle_degrees": chance.choice([-120, -90, -45, 45, 90, 120]),
        "forward_meters": chance.choice([0.5, 1, 1.5]),
    }
