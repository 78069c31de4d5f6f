"""The oracles: `oracle` answers from the truth at once, `witness` once the views have shown what a question names, else it guesses.

The sighted one is no model and no bound for one: it tests views. Whoever shows it more of what questions are about
gets more right answers from it, and pictures that show nothing get it no further than chance.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from render_agent.dialogue.question import Question
from render_agent.dialogue.view import View
from render_agent.engines.engine import Request
from render_agent.engines.scripted.blind_policies import (
    FITTED,
    Explorer,
    FixedAnswers,
    RandomAnswer,
    random_move,
)
from render_agent.engines.scripted.policy import NamedPolicy
from render_agent.options import RunConfig
from render_agent.render.visibility.room_visibility import boxes_seen, named_boxes
from render_agent.report.diagnosis.sufficiency import first_shown, was_shown
from render_agent.runs.build import build
from render_agent.score.chance import frequent_answers
from render_agent.tasks.exact_solver import true_answer
from render_agent.tasks.ground_truth import known_facts
from render_agent.tasks.question_types import COUNTING_TYPE, ROOM_SIZE_TYPE
from render_agent_lab.oracles.question_visibility import QuestionVisibility

REASONS = {
    True: "I have seen what this is about.",
    False: "I have not seen all that this is about: I guess.",
    None: "Nobody can tell what had to be seen for this: I guess.",
}
"""What it says, by what `was_shown` tells."""

REASON_NO_BOX = "I have seen what this is about, but no box tells the answer: I guess."
"""What it says of a route, say, whose places it has seen."""


class ShownFacts(NamedTuple):
    """What views have told of a question.

    shown: whether all that it is about was seen well, None where nobody can tell. answer: the true one
    where it was and the boxes tell it. counted: how many boxes were seen of those to be counted.
    """

    shown: bool | None = None
    answer: str | None = None
    counted: int = 0


NOTHING_SHOWN = ShownFacts()
"""Of a scene of which nothing is known, and where nothing is shown."""


class SightedOracle:
    """Walks as `explorer` does until all that a question names was seen well, then answers.

    eyes: None where nothing is shown. walks: whether it chooses its views. wanders: whether it walks as
    `wanderer` does instead, to the last turn.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        seed: int,
        eyes: QuestionVisibility | None,
        *,
        walks: bool,
        wanders: bool = False,
    ) -> None:
        self.questions = {question.id: question for question in questions}
        self.eyes = eyes
        self.walks = walks
        self.wanders = wanders
        self._explorer = Explorer(questions, seed)
        self._chance = RandomAnswer(questions, seed)

    def reply(self, request: Request) -> str:
        """Return the next step of the walk, or the answer: the true one, or a guess."""
        return self.samples(request)[0]

    def samples(self, request: Request) -> list[str]:
        """Return as many replies: the same answer or step, but for one who wanders and goes many ways."""
        question = self.questions[request.question_id]
        facts = (
            NOTHING_SHOWN if self.eyes is None else shown_facts(self.eyes, question, request.views)
        )
        if facts.answer is None and not request.last and self.walks:
            if self.wanders:
                return [random_move(request.seed, number) for number in range(request.samples)]
            steps = self._explorer.walk(question.id)
            if request.turn < len(steps):
                return [json.dumps(steps[request.turn])] * request.samples
        return [self._answer(question, facts)] * request.samples

    def _answer(self, question: Question, facts: ShownFacts) -> str:
        if facts.answer is not None:
            return _answer(REASONS[True], facts.answer)
        reasoning = REASON_NO_BOX if facts.shown else REASONS[facts.shown]
        return _answer(reasoning, self._chance.guess(question.id, facts.counted))

    def close(self) -> None:
        """Give back what it looks with."""
        if self.eyes is not None:
            self.eyes.close()


def shown_facts(eyes: QuestionVisibility, question: Question, views: Sequence[View]) -> ShownFacts:
    """Return whether views showed a question's objects well, its answer if so, and the number of boxes seen; see `was_shown`.

    SceneError or RenderError where the scene cannot be looked at.
    """
    if question.scene not in eyes.facts:
        return NOTHING_SHOWN
    room = eyes.room(question)
    which = named_boxes(question, room)
    seen = boxes_seen(question, room, views, eyes.renderer)
    first = first_shown(
        question,
        [room.labels[number] for number in which],
        {place: 0 for place, number in enumerate(which) if number in seen},
    )
    coverage = room.coverage(views, eyes.renderer) if question.type == ROOM_SIZE_TYPE else None
    shown = was_shown(question, first, coverage)
    answer = true_answer(question, room.facts) if shown else None
    return ShownFacts(shown, answer, len(seen) if question.type == COUNTING_TYPE else 0)


def sighted_oracle(
    questions: Sequence[Question],
    seed: int = 0,
    config: RunConfig | None = None,
    *,
    wanders: bool = False,
) -> SightedOracle:
    """Return the policy that answers rightly once the views have shown what a question names.

    config: the options of the run; without them it sees nothing. wanders: whether it walks at random.
    Errors: QuestionsError where a file of truths is in no known format.
    """
    if config is None:
        return SightedOracle(questions, seed, None, walks=True, wanders=wanders)
    parts = build(config)
    eyes = QuestionVisibility.of(parts, questions) if parts.faithful else None
    return SightedOracle(questions, seed, eyes, walks=parts.free, wanders=wanders)


def oracle(
    questions: Sequence[Question], seed: int = 0, annotations: str | None = None
) -> FixedAnswers:
    """Return the policy that answers from what is known of the scenes, else as `frequency` does.

    annotations: the official ones; without them, what the scenes are built from or what lies beside
    them. Errors: QuestionsError where a file of truths is in no known format.
    """
    facts = known_facts(questions, annotations)
    answers = {q.id: true_answer(q, facts[q.scene]) for q in questions if q.scene in facts}
    known = {question_id: answer for question_id, answer in answers.items() if answer is not None}
    return FixedAnswers(frequent_answers(questions) | known)


def _answer(reasoning: str, answer: str) -> str:
    return json.dumps({"reasoning": reasoning, "answer": answer, "done": True})


ORACLE = NamedPolicy(
    lambda questions, seed, config: oracle(
        questions, seed, None if config is None else config.annotations
    ),
    "answers from the truth: the scenes' annotations; where they do not tell, the commonest answer,"
    f" {FITTED}",
    knows_boxes=True,
)
WITNESS = NamedPolicy(
    sighted_oracle,
    "answers from the truth once its views have shown well what the question names, else by chance: a"
    " test of views, no model",
    knows_boxes=True,
)
SEEKER = NamedPolicy(
    partial(sighted_oracle, wanders=True),
    "wanders, and answers as witness does: from the truth once its views have shown it",
    knows_boxes=True,
)
