"""Policies that ignore the views: random walks, random answers, and the most frequent answer."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.engines.engine import Request
from render_agent.engines.scripted.policy import NamedPolicy
from render_agent.score.chance import (
    FALLBACK_ANSWERS,
    frequent_answers,
    random_answers,
)


def draw(question_id: str, seed: int) -> random.Random:
    """Return a random generator that depends only on the question id and the seed."""
    digest = hashlib.sha256(f"{seed} {question_id}".encode("utf-8", "backslashreplace")).digest()
    return random.Random(digest)


class ExplorerPolicy:
    """Looks around, walks a little, and gives the most frequent answer for the question type."""

    def __init__(self, questions: Sequence[Question], seed: int = 0) -> None:
        self.answers = frequent_answers(questions)
        self.chance_ids = {question.id: question.seed_id for question in questions}
        self.seed = seed

    def reply(self, request: Request) -> str:
        """Return the next step of the walk, or the answer at its end or in the last turn."""
        steps = self.walk(request.question_id)
        if request.turn >= len(steps) or request.is_last_turn:
            answer = self.answers[request.question_id]
            reasoning = "I have looked around; this is the commonest answer to such a question."
            return json.dumps({"reasoning": reasoning, "answer": answer or None, "done": True})
        return json.dumps(steps[request.turn])

    def walk(self, question_id: str) -> list[dict[str, Any]]:
        """Return the replies before the answer, as JSON objects."""
        chance = draw(self.chance_ids.get(question_id, question_id), self.seed)
        steps: list[dict[str, Any]] = [
            {"reasoning": "I look around first.", "view": "around"},
            {
                "reasoning": "I turn and walk to see what is hidden from here.",
                "rotation_angle_degrees": chance.choice([-120, -90, -45, 45, 90, 120]),
                "forward_meters": chance.choice([0.5, 1, 1.5, 2]),
            },
            {"reasoning": "I look to the left.", "rotation_angle_degrees": 90},
            {
                "reasoning": "I step aside and look down a little.",
                "left_meters": chance.choice([-1, 1]),
                "pitch_degrees": -15,
            },
            {"reasoning": "I check where I have been.", "view": "top"},
            {
                "reasoning": "I go on.",
                "rotation_angle_degrees": chance.choice([-60, 60]),
                "forward_meters": 1.5,
            },
        ]
        return steps[: chance.randint(2, len(steps))]


class WandererPolicy:
    """Moves at random until the last turn, then gives the most frequent answer for the question type."""

    def __init__(self, questions: Sequence[Question], seed: int = 0) -> None:
        self._explorer = ExplorerPolicy(questions, seed)

    def reply(self, request: Request) -> str:
        """Return a random move, or the answer in the last turn."""
        return self.samples(request)[0]

    def samples(self, request: Request) -> list[str]:
        """Return one random move per sample, drawn from the request's seed and the sample number."""
        if request.is_last_turn:
            return [self._explorer.reply(request)] * request.num_samples
        return [random_move(request.seed, number) for number in range(request.num_samples)]


def random_move(seed: int, number: int) -> str:
    """Return a rotation by a random angle, usually followed by a walk; depends only on the arguments."""
    chance = random.Random(f"{seed} {number}")
    move = {
        "reasoning": "I go somewhere else.",
        "rotation_angle_degrees": round(chance.uniform(-180, 180)),
        "forward_meters": chance.choice([0, 0.5, 1, 1.5, 2]),
        "pitch_degrees": chance.choice([0, 0, 0, -15]),
    }
    return json.dumps(move)


class RandomPolicy:
    """Answers immediately, uniformly among the options or the quantiles of VSI-Bench's published answers.

    If the answer is a pose, moves at random until the last turn.
    """

    def __init__(self, questions: Sequence[Question], seed: int = 0) -> None:
        self.questions = {question.id: question for question in questions}
        self.seed = seed

    def reply(self, request: Request) -> str:
        """Return a random answer, which is the same in every turn of a question; a random walk if it is a pose."""
        if self.questions[request.question_id].answer_form != "pose":
            return json.dumps({"answer": self.guess(request.question_id), "done": True})
        if request.is_last_turn:
            return json.dumps({"answer": None, "done": True})
        return random_move(request.seed, 0)

    def guess(self, question_id: str, least: float | None = None) -> str:
        """Return a random answer; of numbers, one that is at least `least` if there is any."""
        question = self.questions[question_id]
        answers = random_answers(question) or [FALLBACK_ANSWERS[question.answer_form]]
        if least is not None and question.answer_form == "number":
            answers = [answer for answer in answers if float(answer) >= least] or answers
        return draw(question.seed_id, self.seed).choice(answers)


WALK_NOTE = "rule-based: a random walk, then the answer of the baseline frequency"
EXPLORER = NamedPolicy(lambda questions, seed, config: ExplorerPolicy(questions, seed), WALK_NOTE)
WANDERER = NamedPolicy(lambda questions, seed, config: WandererPolicy(questions, seed), WALK_NOTE)
RANDOM = NamedPolicy(
    lambda questions, seed, config: RandomPolicy(questions, seed),
    "rule-based: the baseline random; a random walk if the answer is a pose",
)


class FixedAnswerPolicy:
    """Gives a fixed answer per question in the first turn."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.answers = answers

    def reply(self, request: Request) -> str:
        return json.dumps({"answer": self.answers[request.question_id] or None, "done": True})


FREQUENCY = NamedPolicy(
    lambda questions, seed, config: FixedAnswerPolicy(frequent_answers(questions)),
    "rule-based: the baseline frequency",
)
