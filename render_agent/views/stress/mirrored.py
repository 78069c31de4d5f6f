"""`--pictures mirrored`: the rooms are mirrored, and the right answers about left and right change with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from render_agent.dialogue.answer import letters
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.scans.scene import Scene
from render_agent.score.means import MACRO, Scored
from render_agent.score.questions import score_answer
from render_agent.score.summary import summary
from render_agent.views.stress.image_stress import PictureStress


class Mirrored(PictureStress):
    """The scenes are mirrored, left for right: do answers change sides with the room?"""

    note = "stress test: the rooms are mirrored, left for right (--pictures mirrored)"
    changes_truth = True
    scene_set = "mirrored"

    def shown(self, scene: Scene) -> Scene:
        """Return the scene, mirrored."""
        return scene.mirrored()

    def truth(self, question: Question) -> str | None:
        """Return the letter that is right in the mirrored room, None where nobody knows."""
        return mirrored_truth(question) if names_sides(question) else question.truth

    def figures(self, states: Sequence[QuestionState]) -> dict[str, Any]:
        """Return `mirrored`: the scores of left and right against both truths."""
        return {"mirrored": mirrored_figures(states)}


def mirrored_figures(states: Sequence[QuestionState]) -> dict[str, Any]:
    """Return the scores of the questions of left and right against both truths, in percent.

    states: of a run in mirrored rooms, those that are scored. `n`: questions whose options name left
    or right and whose truth in the mirrored room is known; `excluded`: those where it is not.
    `mirrored`, `original`: their summaries against either truth. `turned`: of those whose truth
    changes with the room, `n`, the share of answers that turned with it (`mirrored`) and that stayed
    (`original`), each with its 95 % interval over scenes.
    """
    concerned = [state for state in states if names_sides(state.question)]
    truths = {state.id: mirrored_truth(state.question) for state in concerned}
    known = [state for state in concerned if truths[state.id] is not None]
    turned = [state for state in known if truths[state.id] != _original(state.question)]
    return {
        "n": len(known),
        "excluded": len(concerned) - len(known),
        "mirrored": summary(_scored(known, truths), MACRO),
        "original": summary(_scored(known, None), MACRO),
        "turned": {
            "n": len(turned),
            "mirrored": _share(_scored(turned, truths)),
            "original": _share(_scored(turned, None)),
        },
    }


def _original(question: Question) -> str:
    return (question.truth or "").upper()


def _scored(states: Sequence[QuestionState], truths: dict[str, str | None] | None) -> list[Scored]:
    """Return scores against the given truths, or against the questions' own."""
    scored = []
    for state in states:
        question = state.question
        truth = _original(question) if truths is None else truths[state.id]
        score = score_answer(replace(question, truth=str(truth)), state.answer)
        scored.append(Scored(question.type, question.dataset, question.scene, score))
    return scored


def _share(scored: Sequence[Scored]) -> dict[str, Any]:
    scores = summary(scored, MACRO)
    return {"share": scores["micro"], "interval": scores["intervals"].get("micro")}


OTHER_SIDE = {"left": "right", "right": "left"}
SIDE_WORD = re.compile(r"\b(?:left|right)\b", re.IGNORECASE)
SIDE_OF_THE_ROOM = re.compile(r"\bon (?:your|my|the|its) (?:left|right)\b", re.IGNORECASE)
"""A side that a question itself tells of the room: in the mirrored room it is not true."""


def sides_exchanged(text: str) -> str:
    """Return a text with left and right exchanged, each in the letters' case that it had."""
    return SIDE_WORD.sub(lambda found: _in_case(OTHER_SIDE[found[0].lower()], found[0]), text)


def names_sides(question: Question) -> bool:
    """Whether the options of a question name left or right, so that mirroring may change its answer."""
    return any(SIDE_WORD.search(option) for option in question.options)


def mirrored_truth(question: Question) -> str | None:
    """Return the letter that is right in the mirrored room.

    None where it is not known: the question tells a side of the room itself, or the right answer in
    the mirrored room is not among its options, or nobody knows the truth.
    """
    options = letters(question.options)
    right = options.get((question.truth or "").upper())
    if right is None or SIDE_OF_THE_ROOM.search(question.text):
        return None
    wanted = sides_exchanged(right).lower()
    same = [letter for letter, text in options.items() if text.lower() == wanted]
    return same[0] if len(same) == 1 else None


def _in_case(word: str, like: str) -> str:
    if like.isupper():
        return word.upper()
    return word.capitalize() if like[0].isupper() else word
