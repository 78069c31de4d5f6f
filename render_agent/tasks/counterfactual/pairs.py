"""Creates the counterparts of a run's questions: one for each value of `--change`, where possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError, SceneError
from render_agent.options import RunConfig
from render_agent.scans.scene import Scene
from render_agent.tasks.counterfactual.change_plan import ChangePlan
from render_agent.tasks.counterfactual.room import ChangeableRoom, NoCounterpartError
from render_agent.tasks.ground_truth import load_facts
from render_agent.tasks.scene_reader import SceneReader


def with_counterparts(
    config: RunConfig, questions: Sequence[Question], changes: Sequence[ChangePlan]
) -> list[Question]:
    """Return the questions of a run, each followed by its counterparts.

    Counterparts depend only on the seed, the questions and their scenes. `Question.left_out` gives the reason for each
    missing one.
    """
    facts = load_facts(questions, config)
    files = SceneReader(*config.frame)
    families: dict[str, list[Question]] = {}
    for scene in dict.fromkeys(question.scene for question in questions):
        of_scene = [question for question in questions if question.scene == scene]
        room = ChangeableRoom(facts.get(scene), partial(_read_scene, files, of_scene[0]))
        for question in of_scene:
            families[question.id] = _family(changes, question, room, config.seed)
    members = [member for question in questions for member in families[question.id]]
    if len(members) == len(questions):
        reasons = "; ".join(f"{reason} ({n})" for (_, reason), n in left_out(members).items())
        raise QuestionsError(f"--change yields no counterpart for any question: {reasons}")
    ids = Counter(question.id for question in members)
    if duplicates := [id_ for id_, count in ids.items() if count > 1]:
        raise QuestionsError(
            f"a counterpart would have the id of another question, {duplicates[0]!r}. Rename that question."
        )
    return members


def left_out(questions: Sequence[Question]) -> Counter[tuple[str, str]]:
    """Count the missing counterparts by (change, reason)."""
    return Counter(entry for question in questions for entry in question.left_out)


def _family(
    changes: Sequence[ChangePlan], question: Question, room: ChangeableRoom, seed: int
) -> list[Question]:
    members, reasons = [], []
    for plan in changes:
        try:
            members.append(plan.counterpart(question, room, seed))
        except NoCounterpartError as reason:
            reasons.append((plan.label, str(reason)))
    return [replace(question, left_out=tuple(reasons)), *members]


def _read_scene(files: SceneReader, question: Question) -> Scene:
    if question.scan is None:
        raise SceneError("the scan was not found")
    return files.read(question.scan, question.scene)
