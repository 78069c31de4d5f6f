"""The run part of counterparts (`--change`): one for each change of a question, where possible, and scores of the pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.errors import QuestionsError, SceneError, UsageError
from render_agent.options import RunConfig
from render_agent.parts.counterfactual.causal import (
    OUTCOME_LABELS,
    causal_figures,
    find_pairs,
    parts_by_change,
)
from render_agent.parts.counterfactual.change_plan import ChangePlan
from render_agent.parts.counterfactual.room import ChangeableRoom, NoCounterpartError
from render_agent.runs.build import Parts, parse_parts
from render_agent.runs.run_part import RunPart
from render_agent.scans.scene import Scene
from render_agent.score.tables import figure, format_signed, interval_cell
from render_agent.tasks.ground_truth import load_facts
from render_agent.tasks.input_files import (
    InputFile,
    annotation_files,
    instance_labels,
    scan_files,
)
from render_agent.tasks.scene_reader import read_scene
from render_agent.tasks.selection import choose_questions
from render_agent.util.console import PlainTable

if TYPE_CHECKING:
    from render_agent.runs.read import RunData


class Counterparts(RunPart):
    """Every question with one change to the room or the wording."""

    def refuse_conflicts(self, parts: Parts) -> None:
        config, stress = parts.config, parts.image_stress
        _plans(config)
        if config.change and not config.batch:
            raise UsageError("--change needs --batch, because typed questions have no ground truth")
        if config.change and (stress.changes_ground_truth or not stress.shows_own_scene):
            raise UsageError(
                f"--change needs unchanged rooms, but --image-stress {config.image_stress} exchanges or mirrors them. Omit"
                " one of them."
            )

    def reads_boxes(self, config: RunConfig) -> bool:
        return bool(config.change)

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Return the labels of the objects in edited rooms."""
        return instance_labels(questions) if config.change else ()

    def question_inputs(self, parts: Parts) -> Iterator[InputFile]:
        if parts.config.change:
            questions = _with_scans(parts)
            yield from scan_files(questions)
            yield from annotation_files(parts.config, questions)

    def questions(self, parts: Parts, questions: list[Question]) -> list[Question]:
        """Return the questions of a run, each followed by its counterparts."""
        if plans := _plans(parts.config):
            questions = _with_scans(parts) if parts.blind else questions
            return with_counterparts(parts.config, questions, plans)
        return questions

    def results(
        self, run: RunData, states: Sequence[QuestionState], counterparts: Sequence[QuestionState]
    ) -> Mapping[str, Any]:
        """Return the scores of pairs under the key `causal` if there are counterparts.

        `left_out` counts the questions without a counterpart, by change and reason.
        """
        if not counterparts:
            return {}
        reasons: dict[str, dict[str, int]] = {}
        for (change, reason), number in left_out([state.question for state in states]).items():
            reasons.setdefault(change, {})[reason] = number
        return {"causal": {**causal_figures(find_pairs(states, counterparts)), "left_out": reasons}}

    def table(self, results: Mapping[str, Any]) -> PlainTable | None:
        return causal_table(results["causal"]) if "causal" in results else None


def _plans(config: RunConfig) -> tuple[ChangePlan, ...]:
    return parse_parts("change", config.change)


def _with_scans(parts: Parts) -> list[Question]:
    return choose_questions(parts.config, blind=parts.blind, needs_scans=True)


def with_counterparts(
    config: RunConfig, questions: Sequence[Question], changes: Sequence[ChangePlan]
) -> list[Question]:
    """Return the questions of a run, each followed by its counterparts.

    Counterparts depend only on the seed, the questions and their scenes. `Question.left_out` gives the reason for each
    missing one.
    """
    facts = load_facts(questions, config)
    families: dict[str, list[Question]] = {}
    for scene in dict.fromkeys(question.scene for question in questions):
        of_scene = [question for question in questions if question.scene == scene]
        room = ChangeableRoom(facts.get(scene), partial(_read_scene, of_scene[0], config))
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


def _read_scene(question: Question, config: RunConfig) -> Scene:
    if question.scan is None:
        raise SceneError("the scan was not found")
    return read_scene(question.scan, question.scene, *config.frame)


def causal_table(causal: Mapping[str, Any]) -> PlainTable:
    """Return the table of pairs by change. The caption lists skipped questions with the reasons."""
    title = "Pairs: original and changed question"
    table = PlainTable(title, "change", "n", "share", "95 % CI")
    for label, part in parts_by_change(causal).items():
        table.add_section()
        table.add_row(label, str(part["n"]), "", "")
        for name, words in OUTCOME_LABELS.items():
            if (row := part.get(name)) and row["n"]:
                table.add_row(f"  {words}", str(row["n"]), figure(row["share"]), interval_cell(row["interval"]))  # fmt: skip
        difference = part["difference"]
        table.add_row("  score, changed − original", str(part["n"]), format_signed(difference["points"]), interval_cell(difference["interval"]))  # fmt: skip
    lines = [
        f"- {number} skipped ({change}): {reason}"
        for change, reasons in causal["left_out"].items()
        for reason, number in reasons.items()
    ]
    table.caption = "\n".join(lines) or None
    return table
