"""Every question of a run with its counterparts, one for each value of `--change` that it can have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError, SceneError
from render_agent.options import RunConfig
from render_agent.scans.cache import SceneFiles
from render_agent.scans.scene import Scene
from render_agent.tasks.counterfactual.change_plan import ChangePlan
from render_agent.tasks.counterfactual.room import ChangeableRoom, NoPair
from render_agent.tasks.ground_truth import known_facts


def with_counterparts(
    config: RunConfig, questions: Sequence[Question], changes: Sequence[ChangePlan]
) -> list[Question]:
    """Return the questions of a run, each followed by its counterparts; `left_out` says why it lacks one.

    They depend on the seed, the questions and their scenes alone. QuestionsError where no question has any.
    """
    facts = known_facts(questions, config.annotations)
    files = SceneFiles(*config.frame)
    families: dict[str, list[Question]] = {}
    for scene in dict.fromkeys(question.scene for question in questions):
        own = [question for question in questions if question.scene == scene]
        room = ChangeableRoom(facts.get(scene), partial(_read, files, own[0]))
        for question in own:
            families[question.id] = _family(changes, question, room, config.seed)
    members = [member for question in questions for member in families[question.id]]
    if len(members) == len(questions):
        reasons = "; ".join(f"{reason} ({n})" for (_, reason), n in left_out(members).items())
        raise QuestionsError(f"no question has a counterpart by --change: {reasons}")
    if len({question.id for question in members}) < len(members):
        raise QuestionsError("a counterpart has the id of another question: rename the questions")
    return members


def left_out(questions: Sequence[Question]) -> Counter[tuple[str, str]]:
    """Return how many questions have no counterpart, by the change that was asked for and by the reason."""
    return Counter(entry for question in questions for entry in question.left_out)


def _family(
    changes: Sequence[ChangePlan], question: Question, room: ChangeableRoom, seed: int
) -> list[Question]:
    members, reasons = [], []
    for plan in changes:
        try:
            members.append(plan.counterpart(question, room, seed))
        except NoPair as reason:
            reasons.append((plan.label, str(reason)))
    return [replace(question, left_out=tuple(reasons)), *members]


def _read(files: SceneFiles, question: Question) -> Scene:
    if question.scan is None:
        raise SceneError("there is no scan")
    return files.read(question.scan, question.scene)
