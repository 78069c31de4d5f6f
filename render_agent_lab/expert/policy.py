"""The expert: a policy for imitation learning that knows the room but acts only on what the views have shown.

It states the position of an object only after a view has shown it, looks for missing objects where it has not looked
yet, and answers when it has seen enough. Its answer is always the ground truth, as a training label. If it does not
know some positions, the label teaches the best guess. Its score is therefore meaningless.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Protocol

from render_agent.dialogue.chat import View
from render_agent.dialogue.question import Question
from render_agent.engines.scripted.policy import NamedPolicy
from render_agent.options import RunConfig
from render_agent.runs.build import build
from render_agent.score.chance import frequent_answers
from render_agent.tasks.question_types import true_answer, type_of
from render_agent.views.stress.mirrored import mirrored_ground_truth, names_sides
from render_agent.visibility.room_visibility import RoomVisibility
from render_agent_lab.expert.derive import (
    Knowledge,
    final_reply,
    make_answer_reply,
    make_reasoning,
    question_categories,
)
from render_agent_lab.expert.homes import SceneTruth, load_homes
from render_agent_lab.expert.search import Move, is_wrong_turn, standing_cameras, wrong_turn
from render_agent_lab.expert.sightings import Sightings, make_knowledge, measure_sightings
from render_agent_lab.expert.situation import Situation
from render_agent_lab.oracles.question_visibility import QuestionVisibility

MAX_TURNS = 6  # it answers no later than in this turn

# fields of a move, in reply order
MOVE_FIELDS = ("rotation_angle_degrees", "pitch_degrees", "forward_meters", "view")


class ExpertRequest(Protocol):
    """The parts of a request that the expert reads."""

    @property
    def question_id(self) -> str:
        """The question's id."""
        ...

    @property
    def turn(self) -> int:
        """The turn number, from 0."""
        ...

    @property
    def views(self) -> Sequence[View]:
        """All views so far, with their cameras."""
        ...

    @property
    def is_last_turn(self) -> bool:
        """True if no turn follows."""
        ...


class Expert:
    """Replies like someone who knows the room but acts only on the views shown.

    Replies depend only on the question, turn, views and seed.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        seed: int,
        # computes what the views show; None if the scans are not shown
        visibility: QuestionVisibility | None,
        homes: Mapping[str, SceneTruth],
        *,
        walks: bool,
        blind: bool = False,
        makes_wrong_turns: bool = True,
    ) -> None:
        self.questions = {question.id: question for question in questions}
        self.seed = seed
        self.visibility = visibility
        self.homes = homes
        self.walks = walks
        self.blind = blind
        self.makes_wrong_turns = makes_wrong_turns
        self._most_frequent = frequent_answers(questions)

    def reply(self, request: ExpertRequest) -> str:
        """Return the next move given the facts known so far, or the answer.

        Raises SceneError or RenderError if the scene cannot be rendered.
        """
        question = self.questions[request.question_id]
        if self.blind or not self._has_boxes(question):
            return make_answer_reply("", question, self._answer(question, None))
        if self.visibility is None:
            return "".join(final_reply(question, Knowledge(), self._answer(question, None)))
        room = self.visibility.room(question)
        sightings = measure_sightings(room, request.views, self.visibility.renderer)
        has_map = any(view.kind == "top" for view in request.views)
        home = self.homes[question.scene]
        knowledge = make_knowledge(room, sightings, home.extents if has_map else ())
        move = self._next_move(question, room, sightings, request)
        if move is None:
            return "".join(final_reply(question, knowledge, self._answer(question, room)))
        reasoning = "".join(make_reasoning(question, knowledge, final=False))
        fields = {name: move[name] for name in MOVE_FIELDS if name in move}
        return json.dumps({"reasoning": reasoning, **fields, "answer": None, "done": False})

    def close(self) -> None:
        """Release the renderer."""
        if self.visibility is not None:
            self.visibility.close()

    def _has_boxes(self, question: Question) -> bool:
        """Return True if the scene and every object named in the question are known."""
        home = self.homes.get(question.scene)
        if home is None:
            return False
        return type_of(question).needs == "room" or home.categories.issuperset(
            question_categories(question) or ("",)
        )

    def _answer(self, question: Question, room: RoomVisibility | None) -> str:
        """Return the ground truth (in a mirrored room, the mirrored one), or otherwise the best available guess."""
        is_mirrored = (
            room is not None and room.scene is not None and room.scene.mirrored_at is not None
        )
        if room is not None and is_mirrored and names_sides(question):
            mirrored_answer = mirrored_ground_truth(question) or true_answer(question, room.facts)
            return mirrored_answer or self._most_frequent[question.id]
        if question.ground_truth is not None:
            return question.ground_truth
        home = self.homes.get(question.scene)
        answer = None if home is None else true_answer(question, home.facts)
        return answer or self._most_frequent[question.id]

    def _next_move(
        self, question: Question, room: RoomVisibility, sightings: Sightings, request: ExpertRequest
    ) -> Move | None:
        """Return the next move; None if it is time to answer."""
        cameras = standing_cameras(request.views)
        if not self.walks or request.is_last_turn or request.turn >= MAX_TURNS - 1 or not cameras:
            return None
        if self.makes_wrong_turns and is_wrong_turn(question.id, self.seed, request.turn):
            return wrong_turn(question.id, self.seed, request.turn)
        if type_of(question).needs == "room":
            return None
        situation = Situation(
            question_categories(question),
            room,
            sightings,
            request.views,
            self.homes[question.scene],
        )
        return (
            situation.next_counting_move()
            if type_of(question).needs == "every object"
            else situation.next_move()
        )


def expert(
    questions: Sequence[Question],
    seed: int = 0,
    config: RunConfig | None = None,  # options of the run; None makes the expert see nothing
    *,
    makes_wrong_turns: bool = True,
) -> Expert:
    """Return the expert policy."""
    homes = load_homes(questions, config)
    if config is None:
        return Expert(questions, seed, None, homes, walks=False)
    parts = build(config)
    visibility = QuestionVisibility.of(parts, questions) if parts.faithful else None
    return Expert(
        questions,
        seed,
        visibility,
        homes,
        walks=parts.free,
        blind=parts.blind,
        makes_wrong_turns=makes_wrong_turns,
    )


EXPERT = NamedPolicy(
    expert,
    "always answers with the ground truth, seen or not, and names options by their text, which VSI-Bench's script counts"
    " as wrong; for training only, scores are meaningless",
    knows_boxes=True,
)
