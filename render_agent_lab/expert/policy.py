"""The expert: it knows the room, and says and does only what it may know by then; a policy to learn from.

It says the place of an object only once a view has shown it, looks where it has not looked yet for what
is missing, and answers when it has seen enough. Its answer is always the question's truth, as a label to
learn from: where places are unknown to it, it teaches the best guess. What it scores is no result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Protocol

from render_agent.dialogue.question import Question
from render_agent.dialogue.view import View
from render_agent.engines.scripted.policy import NamedPolicy
from render_agent.options import RunConfig
from render_agent.render.visibility.room_visibility import Room
from render_agent.runs.build import build
from render_agent.score.chance import frequent_answers
from render_agent.tasks.exact_solver import true_answer
from render_agent.tasks.question_types import COUNTING_TYPE, ROOM_SIZE_TYPE
from render_agent.views.stress.mirrored import mirrored_truth, names_sides
from render_agent_lab.expert.derive import Knowledge, answering, final_reply, reasoning_of, things
from render_agent_lab.expert.homes import Home, homes_of
from render_agent_lab.expert.search import Move, is_wrong_turn, stood, wrong_turn
from render_agent_lab.expert.sightings import Sightings, knowledge_of, sightings
from render_agent_lab.expert.situation import Situation
from render_agent_lab.oracles.question_visibility import QuestionVisibility

TURNS = 6
"""It answers in this turn at the latest."""


FIELDS = ("rotation_angle_degrees", "pitch_degrees", "forward_meters", "view")
"""What a move is made of, in the order in which replies have it."""


class Asked(Protocol):
    """What it reads of a request."""

    @property
    def question_id(self) -> str:
        """The question's id."""
        ...

    @property
    def turn(self) -> int:
        """The turn, counted from 0."""
        ...

    @property
    def views(self) -> Sequence[View]:
        """All views so far, with their cameras."""
        ...

    @property
    def last(self) -> bool:
        """Whether no turn follows."""
        ...


class Expert:
    """Gives the replies of one who knows the room and acts on what was shown.

    eyes: None where nothing of the question's scene is shown. walks: whether it chooses its views.
    blind: whether it is shown no picture at all, so that it reasons about none. strays: whether it goes
    wrong now and then, to come back from there. What it replies depends on question, turn, views and seed alone.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        seed: int,
        eyes: QuestionVisibility | None,
        homes: Mapping[str, Home],
        *,
        walks: bool,
        blind: bool = False,
        strays: bool = True,
    ) -> None:
        self.questions = {question.id: question for question in questions}
        self.seed = seed
        self.eyes = eyes
        self.homes = homes
        self.walks = walks
        self.blind = blind
        self.strays = strays
        self._frequent = frequent_answers(questions)

    def reply(self, request: Asked) -> str:
        """Return the next move with what is known so far, or the answer.

        SceneError or RenderError where the scene cannot be looked at.
        """
        question = self.questions[request.question_id]
        if self.blind or not self._told_by_boxes(question):
            return answering("", question, self._true(question, None))
        if self.eyes is None:
            return "".join(final_reply(question, Knowledge(), self._true(question, None)))
        room = self.eyes.room(question)
        sighted = sightings(room, request.views, self.eyes.renderer)
        mapped = any(view.kind == "top" for view in request.views)
        home = self.homes[question.scene]
        known = knowledge_of(room, sighted, home.extents if mapped else ())
        move = self._move(question, room, sighted, request)
        if move is None:
            return "".join(final_reply(question, known, self._true(question, room)))
        reasoning = "".join(reasoning_of(question, known, final=False))
        fields = {name: move[name] for name in FIELDS if name in move}
        return json.dumps({"reasoning": reasoning, **fields, "answer": None, "done": False})

    def close(self) -> None:
        """Give back what it looks with."""
        if self.eyes is not None:
            self.eyes.close()

    def _told_by_boxes(self, question: Question) -> bool:
        """Whether something is known of the scene, and of all that the question names."""
        home = self.homes.get(question.scene)
        if home is None:
            return False
        return question.type == ROOM_SIZE_TYPE or home.categories.issuperset(
            things(question) or ("",)
        )

    def _true(self, question: Question, room: Room | None) -> str:
        """Return the question's truth, in a mirrored room what is true there; else the best that is known."""
        mirrored = (
            room is not None and room.scene is not None and room.scene.mirrored_at is not None
        )
        if room is not None and mirrored and names_sides(question):
            there = mirrored_truth(question) or true_answer(question, room.facts)
            return there or self._frequent[question.id]
        if question.truth is not None:
            return question.truth
        home = self.homes.get(question.scene)
        answer = None if home is None else true_answer(question, home.facts)
        return answer or self._frequent[question.id]

    def _move(
        self, question: Question, room: Room, sighted: Sightings, request: Asked
    ) -> Move | None:
        """Return the next move, None where it is time to answer."""
        cameras = stood(request.views)
        if not self.walks or request.last or request.turn >= TURNS - 1 or not cameras:
            return None
        if self.strays and is_wrong_turn(question.id, self.seed, request.turn):
            return wrong_turn(question.id, self.seed, request.turn)
        if question.type == ROOM_SIZE_TYPE:
            return None
        situation = Situation(
            things(question), room, sighted, request.views, self.homes[question.scene]
        )
        return situation.counting() if question.type == COUNTING_TYPE else situation.looking()


def expert(
    questions: Sequence[Question],
    seed: int = 0,
    config: RunConfig | None = None,
    *,
    strays: bool = True,
) -> Expert:
    """Return the policy to learn from.

    config: the options of the run; without them it sees nothing. strays: as `Expert` has it.
    Errors: QuestionsError where a file of truths is in no known format.
    """
    annotations = None if config is None else config.annotations
    homes = homes_of(questions, annotations)
    if config is None:
        return Expert(questions, seed, None, homes, walks=False)
    parts = build(config)
    eyes = QuestionVisibility.of(parts, questions) if parts.faithful else None
    return Expert(questions, seed, eyes, homes, walks=parts.free, blind=parts.blind, strays=strays)


EXPERT = NamedPolicy(
    expert,
    "answers from the truth always, shown or not: a policy to learn from, no result",
    knows_boxes=True,
)
