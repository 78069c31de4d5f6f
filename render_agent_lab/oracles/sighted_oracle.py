"""The oracles: `oracle` always knows the answer, `witness` only once the views have shown the objects in question.

The witness is neither a model nor an upper bound for one. It tests views: the more of the relevant objects they show,
the more questions it answers correctly. With images that show nothing, it is at chance.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.chat import View
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Request
from render_agent.engines.scripted.blind_policies import (
    ExplorerPolicy,
    FixedAnswerPolicy,
    RandomPolicy,
    random_move,
)
from render_agent.engines.scripted.policy import NamedPolicy, Policy
from render_agent.options import RunConfig
from render_agent.report.diagnosis.sufficiency import first_shown, saw_all_objects
from render_agent.runs.build import build
from render_agent.score.chance import frequent_answers
from render_agent.tasks.ground_truth import load_facts
from render_agent.tasks.question_types import true_answer, type_of
from render_agent.visibility.room_visibility import clearly_visible_boxes, named_boxes
from render_agent_lab.oracles.question_visibility import QuestionVisibility
from render_agent_lab.oracles.target_walker import ByAnswerForm, TargetWalker

# Reasoning of the reply, by the result of `was_shown`.
REASONS = {
    True: "I have seen what this is about.",
    False: "I have not seen all that this is about: I guess.",
    None: "Nobody can tell what had to be seen for this: I guess.",
}

# Reasoning if the objects were seen but the boxes do not determine the answer, as for routes.
REASON_NO_BOX = "I have seen what this is about, but no box tells the answer: I guess."


class ShownFacts(NamedTuple):
    """The facts that the views have shown about a question."""

    shown: bool | None = None
    """True if all relevant objects were clearly visible; None if unknown."""
    answer: str | None = None
    """Ground truth, if the objects were shown and their boxes determine it."""
    counted: int = 0
    """Number of boxes seen, for counting questions."""


NOTHING_SHOWN = ShownFacts()  # for unknown scenes, and if nothing is shown


class SightedOracle:
    """Walks like `explorer` (`wanders`: like `wanderer`) until all objects of the question were clearly visible, then
    answers.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        seed: int,
        # computes what the views show; None if the scans are not shown
        visibility: QuestionVisibility | None,
        *,
        walks: bool,
        wanders: bool = False,
    ) -> None:
        self.questions = {question.id: question for question in questions}
        self.visibility = visibility
        self.walks = walks
        self.wanders = wanders
        self._explorer = ExplorerPolicy(questions, seed)
        self._chance = RandomPolicy(questions, seed)

    def reply(self, request: Request) -> str:
        """Return the next step of the walk, or the answer (correct or guessed)."""
        return self.samples(request)[0]

    def samples(self, request: Request) -> list[str]:
        """Return `request.num_samples` replies, which are equal except for the steps of a wanderer."""
        question = self.questions[request.question_id]
        facts = (
            NOTHING_SHOWN
            if self.visibility is None
            else shown_facts(self.visibility, question, request.views)
        )
        if facts.answer is None and not request.is_last_turn and self.walks:
            if self.wanders:
                return [random_move(request.seed, number) for number in range(request.num_samples)]
            steps = self._explorer.walk(question.id)
            if request.turn < len(steps):
                return [json.dumps(steps[request.turn])] * request.num_samples
        return [self._answer(question, facts)] * request.num_samples

    def believe(self, request: Request) -> str:
        """Return the requested parts of its map: the objects that the views have clearly shown, where they are."""
        assert request.probe is not None
        belief = self.belief(request)
        return json.dumps({key: belief[key] for key in request.probe.keys if key in belief})

    def belief(self, request: Request) -> dict[str, Any]:
        """Return all parts of a belief; without visibility it knows only the camera's pose."""
        question, probe = self.questions[request.question_id], request.probe
        assert probe is not None
        x, y, _ = probe.camera.position
        objects, counts = [], dict.fromkeys(probe.named, 0)
        belief: dict[str, Any] = {
            "position": [round(x, 2), round(y, 2)],
            "yaw_degrees": round(probe.camera.yaw),
        }
        if self.visibility is not None and question.scene in self.visibility.facts:
            room = self.visibility.room(question)
            boxes = [box for label_boxes in room.facts.boxes.values() for box in label_boxes]
            seen = clearly_visible_boxes(question, room, request.views, self.visibility.renderer)
            objects = [
                {
                    "category": room.labels[number],
                    "position": [round(float(value), 3) for value in boxes[number].centre[:2]],
                    "sure": 100,
                    "length_meters": round(float(boxes[number].size.max()), 3),
                }
                for number in sorted(seen)
            ]
            counts |= {name: sum(entry["category"] == name for entry in objects) for name in counts}
            if {*named_boxes(question, room)} <= seen:  # annotated counts may differ from the boxes
                counts |= {name: room.facts.counts.get(name, counts[name]) for name in counts}
            if not counts:
                belief["floor_square_meters"] = round(room.facts.room_size, 1)
        unseen = [name for name in counts if not any(name == e["category"] for e in objects)]
        entries = [{"category": name, "count": count} for name, count in counts.items()]
        return belief | {"objects": objects, "counts": entries, "unseen": unseen}

    def _answer(self, question: Question, facts: ShownFacts) -> str:
        if facts.answer is not None:
            return _answer(REASONS[True], facts.answer)
        reasoning = REASON_NO_BOX if facts.shown else REASONS[facts.shown]
        return _answer(reasoning, self._chance.guess(question.id, facts.counted))

    def close(self) -> None:
        """Release the renderer."""
        if self.visibility is not None:
            self.visibility.close()


def shown_facts(
    visibility: QuestionVisibility, question: Question, views: Sequence[View]
) -> ShownFacts:
    """Return the facts that the views have shown about a question; see `saw_all_objects`.

    Raises SceneError or RenderError if the scene cannot be rendered.
    """
    if question.scene not in visibility.facts:
        return NOTHING_SHOWN
    room = visibility.room(question)
    box_numbers = named_boxes(question, room)
    clear_boxes = clearly_visible_boxes(question, room, views, visibility.renderer)
    first_turns = first_shown(
        question,
        [room.labels[number] for number in box_numbers],
        {place: 0 for place, number in enumerate(box_numbers) if number in clear_boxes},
    )
    if visibility.shows_video and type_of(question).needs == "video":
        order = first_appearances(visibility, question, views)
        answer = _option_of(question, order)
        return ShownFacts(answer is not None, answer)
    coverage = (
        room.coverage(views, visibility.renderer) if type_of(question).needs == "room" else None
    )
    was_shown = saw_all_objects(question, first_turns, coverage)
    answer = true_answer(question, room.facts) if was_shown else None
    return ShownFacts(
        was_shown, answer, len(clear_boxes) if type_of(question).needs == "every object" else 0
    )


def first_appearances(
    visibility: QuestionVisibility, question: Question, views: Sequence[View]
) -> list[str]:
    """Return the categories that a question names in the order in which the views first show them clearly."""
    room = visibility.room(question)
    order: dict[str, None] = {}
    for view in views:
        boxes = clearly_visible_boxes(question, room, [view], visibility.renderer)
        order |= dict.fromkeys(sorted(room.labels[number] for number in boxes))
    return list(order)


def _option_of(question: Question, order: Sequence[str]) -> str | None:
    """Return the letter of the option that lists these categories in this order; None if there is none."""
    options = options_by_letter(question.options).items()
    return next((letter for letter, text in options if text.lower().split(", ") == [*order]), None)


def sighted_oracle(
    questions: Sequence[Question],
    seed: int = 0,
    config: RunConfig | None = None,  # options of the run; None makes the policy see nothing
    *,
    wanders: bool = False,
) -> SightedOracle:
    """Return the policy that answers correctly once the views have shown the named objects."""
    if config is None:
        return SightedOracle(questions, seed, None, walks=True, wanders=wanders)
    parts = build(config)
    visibility = QuestionVisibility.of(parts, questions) if parts.faithful else None
    return SightedOracle(questions, seed, visibility, walks=parts.free, wanders=wanders)


def oracle(
    questions: Sequence[Question],
    seed: int = 0,
    config: RunConfig | None = None,  # None uses the files next to the scans
) -> Policy:
    """Return the policy that answers from known facts, or like `frequency` if they do not determine the answer.

    If the answer is a pose, it walks to the target on the shortest path.
    """
    facts = load_facts(questions, config)
    answers = {q.id: true_answer(q, facts[q.scene]) for q in questions if q.scene in facts}
    known_answers = {
        question_id: answer for question_id, answer in answers.items() if answer is not None
    }
    answering = FixedAnswerPolicy(frequent_answers(questions) | known_answers)
    if not any(question.answer_form == "pose" for question in questions):
        return answering
    return ByAnswerForm(questions, TargetWalker(questions, config), answering)


def _answer(reasoning: str, answer: str) -> str:
    return json.dumps({"reasoning": reasoning, "answer": answer, "done": True})


ORACLE = NamedPolicy(
    lambda questions, seed, config: oracle(questions, seed, config),
    "answers from the scenes' annotations, the ground truth; if they do not determine the answer, like the baseline"
    " frequency; walks to targets on the shortest path",
    knows_boxes=True,
)
WITNESS = NamedPolicy(
    sighted_oracle,
    "answers from the ground truth once its views have clearly shown the named objects, else at random;"
    " tests views, not a model",
    knows_boxes=True,
    answers_probes=True,
)
SEEKER = NamedPolicy(
    partial(sighted_oracle, wanders=True),
    "moves at random and answers like witness: from the ground truth once its views have shown it",
    knows_boxes=True,
    answers_probes=True,
)
