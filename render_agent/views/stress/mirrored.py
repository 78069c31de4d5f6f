"""`--image-stress mirrored`: mirrors rooms, and with them the correct answers about left and right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.scans.scene import Scene
from render_agent.score.means import MACRO, AnswerScore
from render_agent.score.questions import score_answer
from render_agent.score.summary import summary
from render_agent.views.stress.image_stress import ImageStress


class Mirrored(ImageStress):
    """Scenes are mirrored left to right, to test whether answers change with the room."""

    note = "stress test: the rooms are mirrored, left for right (--image-stress mirrored)"
    changes_ground_truth = True
    scene_set = "mirrored"

    def transform_scene(self, scene: Scene) -> Scene:
        return scene.mirrored()

    def ground_truth(self, question: Question) -> str | None:
        """Return the letter of the correct answer in the mirrored room; None if it is unknown."""
        return mirrored_ground_truth(question) if names_sides(question) else question.ground_truth

    def metrics(self, states: Sequence[QuestionState]) -> dict[str, Any]:
        """Return `mirrored`: scores of left-or-right questions against both ground truths, in percent.

        `n` questions mention left or right in their options; for `excluded` ones the mirrored truth is unknown.
        `turned` has, for questions whose truth changes, `n` and the shares of answers that match the changed and the
        original truth, each with its 95 % interval over scenes.
        """
        side_questions = [state for state in states if names_sides(state.question)]
        truths = {state.id: mirrored_ground_truth(state.question) for state in side_questions}
        answerable = [state for state in side_questions if truths[state.id] is not None]
        changed_states = [
            state for state in answerable if truths[state.id] != _original(state.question)
        ]
        figures = {
            "n": len(answerable),
            "excluded": len(side_questions) - len(answerable),
            "mirrored": summary(_score_answers(answerable, truths), MACRO),
            "original": summary(_score_answers(answerable, None), MACRO),
            "turned": {
                "n": len(changed_states),
                "mirrored": _share(_score_answers(changed_states, truths)),
                "original": _share(_score_answers(changed_states, None)),
            },
        }
        return {"mirrored": figures}


def _original(question: Question) -> str:
    return (question.ground_truth or "").upper()


def _score_answers(
    states: Sequence[QuestionState], truths: dict[str, str | None] | None
) -> list[AnswerScore]:
    """Score answers against the given ground truths; by default, against those of the questions."""
    answers = []
    for state in states:
        question = state.question
        truth = _original(question) if truths is None else truths[state.id]
        score = score_answer(replace(question, ground_truth=str(truth)), state.answer_text)
        answers.append(AnswerScore(question.type, question.dataset, question.scene, score))
    return answers


def _share(answers: Sequence[AnswerScore]) -> dict[str, Any]:
    scores = summary(answers, MACRO)
    return {"share": scores["micro"], "interval": scores["intervals"].get("micro")}


OTHER_SIDE = {"left": "right", "right": "left"}
SIDE_WORD = re.compile(r"\b(?:left|right)\b", re.IGNORECASE)
# Phrases about a side of the room; they are false in the mirrored room.
SIDE_OF_THE_ROOM = re.compile(r"\bon (?:your|my|the|its) (?:left|right)\b", re.IGNORECASE)


def swap_sides(text: str) -> str:
    """Swap left and right in a text, preserving case."""
    return SIDE_WORD.sub(lambda match: _in_case(OTHER_SIDE[match[0].lower()], match[0]), text)


def names_sides(question: Question) -> bool:
    """Return True if an option mentions left or right, so that mirroring may change the answer."""
    return any(SIDE_WORD.search(option) for option in question.options)


def mirrored_ground_truth(question: Question) -> str | None:
    """Return the letter of the correct answer in the mirrored room.

    The result is None if the question describes a side of the room, if no option is correct in the mirrored room, or
    if there is no ground truth.
    """
    options = options_by_letter(question.options)
    right = options.get((question.ground_truth or "").upper())
    if right is None or SIDE_OF_THE_ROOM.search(question.text):
        return None
    mirrored_text = swap_sides(right).lower()
    letters = [letter for letter, text in options.items() if text.lower() == mirrored_text]
    return letters[0] if len(letters) == 1 else None


def _in_case(word: str, original: str) -> str:
    if original.isupper():
        return word.upper()
    return word.capitalize() if original[0].isupper() else word
