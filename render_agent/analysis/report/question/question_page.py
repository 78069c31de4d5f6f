"""The pages of the questions: what each asks, what was seen, said and done, and how it ended."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render_agent.analysis.diagnosis.diagnose import worthwhile
from render_agent.analysis.diagnosis.model import Cause, Diagnosis, NamedBox
from render_agent.analysis.report.data import ReportData, neighbours, page_of, write_page
from render_agent.analysis.report.maps.belief_marks import BeliefMap, belief_maps, verdict
from render_agent.analysis.report.maps.floor_plan import Plan, Plans
from render_agent.analysis.report.maps.path_marks import (
    MapMarks,
    TurnMarks,
    candidate_marks,
    marks,
    name_of,
)
from render_agent.analysis.report.question.turns import (
    Seeing,
    TurnPart,
    seeing,
    turn_parts,
    well_seen,
)
from render_agent.analysis.report.view3d.page_data import view_data
from render_agent.analysis.report.words import STATUS_WORDS, outcome, type_words
from render_agent.config import RunConfig
from render_agent.dialogue.answer import letters
from render_agent.dialogue.chat import Message
from render_agent.dialogue.state import Question, QuestionState
from render_agent.runs.log.results import row
from render_agent.score.official import CHOICE_TYPES
from render_agent.system.processes import map_in_processes
from render_agent.text.display import listed, stage

LONG_CHARACTERS = 160
"""A question of more characters is set smaller."""

ENDLESS_CHARACTERS = 1500
"""One of more characters scrolls in its place, so that the rest of the page is not far below it."""


@dataclass(frozen=True, slots=True)
class OptionPart:
    """A choice, and whether it is the truth and the answer."""

    text: str
    truth: bool
    given: bool


@dataclass(frozen=True, slots=True)
class QuestionPart:
    """What a page needs of one question in one run.

    outcome: `right`, `wrong` or `open`. score: percent. why: its cause in words, None where it was not
    diagnosed. headline: of a wrong one, why it is wrong, in a sentence. messages: of the prompt, each behind the turn (from 1) that it was new in. mirrored: what is right in the mirrored room where that is another answer, "" where
    nobody can tell, None where the truth is the same. candidates: poses that were not taken, over the
    plan. passive: whether its views were chosen for it, and shown at once.
    """

    state: QuestionState
    row: Mapping[str, Any]
    diagnosis: Diagnosis | None
    outcome: str
    score: float | None
    why: str | None
    headline: str | None
    mirrored: str | None
    options: tuple[OptionPart, ...]
    turns: tuple[TurnPart, ...]
    plan: Plan | None
    marks: MapMarks | None
    candidates: Sequence[TurnMarks]
    seeing: Seeing | None
    messages: Sequence[tuple[int, Message]]
    passive: bool
    max_turns: int
    size: tuple[int, int]

    @property
    def beliefs(self) -> list[BeliefMap]:
        """What it said that it believes, over the plan; nothing where it was not asked."""
        return belief_maps(self.state, self.diagnosis, self.plan, self.size)

    @property
    def verdict(self) -> str:
        """What broke first, by its beliefs."""
        belief = None if self.diagnosis is None else self.diagnosis.belief
        return "" if belief is None else verdict(belief, self.state.answer)

    def in_3d(self, pictures: str) -> str | None:
        """Return the data of its 3D view as JSON, None where there is none; pictures: the way to the folder that holds `views`."""
        if self.plan is None or self.plan.scene is None:
            return None
        data = view_data(self.state, self.diagnosis, self.size, pictures, passive=self.passive)
        return None if data is None else json.dumps(data)

    @property
    def question(self) -> Question:
        """The question."""
        return self.state.question

    @property
    def type(self) -> str:
        """Its type in words."""
        return type_words(self.question.type)

    @property
    def status(self) -> str:
        """How it ended, in words."""
        return STATUS_WORDS[self.state.status]

    @property
    def long(self) -> bool:
        """Whether its text is long."""
        return len(self.question.text) > LONG_CHARACTERS

    @property
    def endless(self) -> bool:
        """Whether its text is so long that it scrolls."""
        return len(self.question.text) > ENDLESS_CHARACTERS

    @property
    def named_boxes(self) -> list[str]:
        """The named boxes with their middle and size in metres, in words."""
        boxes = () if self.diagnosis is None else self.diagnosis.boxes
        return [f"{name_of(box, boxes)}: {_placed(box)}" for box in boxes]

    @property
    def error(self) -> str | None:
        """The error that stopped it, its last line."""
        return None if self.state.error is None else self.state.error.strip().splitlines()[-1]


def question_part(
    state: QuestionState,
    row: Mapping[str, Any],
    diagnosis: Diagnosis | None,
    plan: Plan | None,
    config: RunConfig,
) -> QuestionPart:
    """Return what a page needs of a question; row: of the results; config: of its run."""
    size, passive = config.image_size, config.passive
    well = well_seen(diagnosis, size)
    return QuestionPart(
        state=state,
        row=row,
        diagnosis=diagnosis,
        outcome=outcome(row),
        score=None if row["score"] is None else 100 * row["score"],
        why=None if diagnosis is None else cause_words(diagnosis, config),
        headline=None if diagnosis is None else wrong_because(diagnosis, config),
        mirrored=_mirrored(state.question, config) if config.picture_stress.changes_truth else None,
        options=_options(state),
        turns=tuple(turn_parts(state, size, diagnosis)),
        plan=plan,
        marks=marks(state, plan, size, diagnosis, passive=passive, well_seen=well)
        if plan
        else None,
        candidates=candidate_marks(state, plan) if plan else [],
        seeing=seeing(state, diagnosis, size, passive=passive),
        messages=[(turn.number + 1, entry) for turn in state.turns for entry in turn.messages],
        passive=passive,
        max_turns=state.max_turns,
        size=size,
    )


def cause_words(diagnosis: Diagnosis, config: RunConfig) -> str:
    """Return why a question went as it did, with what it never saw or why nobody can tell."""
    if diagnosis.cause is Cause.UNKNOWN and config.blind:
        return "unknown: it was shown nothing"
    if diagnosis.cause is Cause.UNKNOWN and not config.faithful:
        return "unknown: its pictures did not show its scene"
    lacking = ", ".join(_missed(diagnosis, config.image_size))
    if lacking and diagnosis.cause is Cause.RIGHT:
        return f"right, without having seen well: {lacking}"
    if lacking and diagnosis.cause not in (Cause.ERROR, Cause.OPEN):
        return f"{diagnosis.cause} (never seen well: {lacking})"
    if diagnosis.cause is Cause.UNKNOWN:
        return "unknown: nothing tells what it would have had to see"
    return str(diagnosis.cause)


def wrong_because(diagnosis: Diagnosis, config: RunConfig) -> str | None:
    """Return why an answer is wrong, as a sentence; None where it is not wrong or nobody can tell."""
    missed = listed(_missed(diagnosis, config.image_size))
    lacking = f"{missed} well" if missed else "enough of the room"  # whose size it was asked for
    return {
        Cause.STOPPED_EARLY: f"Wrong: it stopped with turns left before it had seen {lacking}.",
        Cause.NEVER_LOOKED: f"Wrong: it used its turns and never saw {lacking}.",
        Cause.MISJUDGED: "Wrong: it had seen everything named well, and misjudged it.",
        Cause.NO_ANSWER: "Wrong: no answer could be read from what it said.",
    }.get(diagnosis.cause)


def _missed(diagnosis: Diagnosis, size: tuple[int, int]) -> list[str]:
    """Return what was never seen well: a category, or its boxes where others of it were (when counting)."""
    seen = well_seen(diagnosis, size)
    boxes = list(enumerate(diagnosis.boxes))
    missed: list[str] = []
    for category in diagnosis.never_seen:
        own = [(number, box) for number, box in boxes if box.category == category]
        some = any(number in seen for number, _ in own)
        left = [name_of(box, diagnosis.boxes) for number, box in own if number not in seen]
        missed += left if some else [category]
    return missed


def _options(state: QuestionState) -> tuple[OptionPart, ...]:
    question = state.question
    if question.type not in CHOICE_TYPES and not question.options:
        return ()
    return tuple(
        OptionPart(text, _is(letter, question.truth), _is(letter, state.answer))
        for letter, text in zip(letters(question.options), question.options, strict=False)
    )


def _placed(box: NamedBox) -> str:
    middle, size = (
        separator.join(f"{value:.2f}" for value in values)
        for separator, values in ((", ", box.centre), (" × ", box.size))
    )
    return f"middle ({middle}) m, size {size} m"


def _mirrored(question: Question, config: RunConfig) -> str | None:
    """Return what is right in the mirrored room, None where it is the truth itself."""
    if question.truth is None:
        return None
    truth = config.picture_stress.truth(question)
    return None if truth == question.truth else truth or ""


def _is(letter: str, answer: str | None) -> bool:
    return answer is not None and answer.strip().upper() == letter


@dataclass(frozen=True, eq=False)
class PageTask:
    """The questions about one scene, whose pages one process writes.

    folder: of the report. frame: what all pages share. questions: all of the run where they tell which scenes are
    shown. beside: the files of the pages beside its own, by question id.
    """

    config: RunConfig
    folder: Path
    frame: Mapping[str, Any]
    states: Sequence[QuestionState]
    questions: Sequence[Question]
    diagnoses: Mapping[str, Diagnosis]
    beside: Mapping[str, tuple[str | None, str | None]]


def write_pages(report: ReportData, folder: Path, processes: int | None = None) -> None:
    """Write the pages of a run's questions into the `questions` of its report's folder.

    processes: how many write at once; None chooses by the number of scenes.
    """
    beside = neighbours(state.id for state in report.states)
    questions = [state.question for state in report.states]
    scenes = defaultdict(list)
    for state in report.states:
        scenes[state.question.scene].append(state)
    tasks = [
        PageTask(
            report.config,
            folder,
            report.frame,
            own,
            # which scene stands in the place of another depends on all of them
            [s.question for s in own] if report.config.faithful else questions,
            {s.id: report.diagnoses[s.id] for s in own if s.id in report.diagnoses},
            {s.id: beside[s.id] for s in own},
        )
        for own in sorted(scenes.values(), key=len, reverse=True)
    ]
    count = min(processes or worthwhile(questions), len(tasks) or 1)
    with stage("writing pages", len(questions)) as shown:
        for task, _ in zip(tasks, map_in_processes(_write, tasks, count), strict=True):
            shown.advance(len(task.states))


def plans_of(report: ReportData, folder: Path) -> Plans:
    """Return the plans of a run's scenes, drawn into `folder` as they are asked for."""
    questions = [state.question for state in report.states]
    scenes = report.config.picture_stress.scenes(report.config, questions)
    return Plans(folder, scenes, report.states)


def _write(task: PageTask) -> None:
    config = task.config
    scenes = config.picture_stress.scenes(config, task.questions)
    with closing(Plans(task.folder, scenes, task.states)) as plans:
        for state in task.states:
            diagnosis = task.diagnoses.get(state.id)
            part = question_part(state, row(state), diagnosis, plans.of(state, diagnosis), config)
            before, after = task.beside[state.id]
            write_page(
                task.folder / page_of(state.id),
                "question.html",
                task.frame,
                root="../",
                pictures="../../",
                q=part,
                before=before,
                after=after,
            )
