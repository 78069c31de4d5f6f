"""`--pictures mirrored`: the rooms are mirrored, and what is right of left and right changes with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from render_agent.observation.stress.base import PictureStress
from render_agent.observation.stress.left_right import mirrored_truth, names_sides
from render_agent.score.means import MACRO, Scored
from render_agent.score.official import score_answer
from render_agent.score.summary import summary

if TYPE_CHECKING:
    from render_agent.config import RunConfig
    from render_agent.dialogue.state import Question, QuestionState
    from render_agent.scene.cache import SceneCache
    from render_agent.scene.model import Scene


class Mirrored(PictureStress):
    """The scenes are mirrored, left for right: do answers change sides with the room?"""

    note = "stress test: the rooms are mirrored, left for right (--pictures mirrored)"
    changes_truth = True
    scene_set = "mirrored"

    def scenes(
        self, config: RunConfig, questions: Sequence[Question], limit: int | None = None
    ) -> SceneCache:
        """Return the scenes, mirrored."""
        from render_agent.scene.cache import MAX_CACHE_BYTES, SceneCache, SceneFiles
        from render_agent.scene.mirrored import mirrored

        self.check(config, questions)
        files = SceneFiles()

        def load(path: Path, name: str) -> Scene:
            return mirrored(files.read(path, name))

        return SceneCache(MAX_CACHE_BYTES if limit is None else limit, load)

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
    asked = [state for state in states if names_sides(state.question)]
    truths = {state.id: mirrored_truth(state.question) for state in asked}
    known = [state for state in asked if truths[state.id] is not None]
    turned = [state for state in known if truths[state.id] != _original(state.question)]
    return {
        "n": len(known),
        "excluded": len(asked) - len(known),
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
        score = score_answer(question.type, state.answer, str(truth))
        scored.append(Scored(question.type, question.dataset, question.scene, score))
    return scored


def _share(scored: Sequence[Scored]) -> dict[str, Any]:
    found = summary(scored, MACRO)
    return {"share": found["micro"], "interval": found["intervals"].get("micro")}
