"""Data of a question for the templates: outcome, turns, visibility and choice of candidates."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.chat import Message, View, split_thinking
from render_agent.dialogue.events import RESTATED, describe_event
from render_agent.dialogue.question import TARGET, Question
from render_agent.dialogue.reply import Malformed, describe_action
from render_agent.dialogue.state import STATUS_LABELS, QuestionState
from render_agent.dialogue.turn import Candidate, Evidence, Turn
from render_agent.report.candidate_scores import (
    CandidateScore,
    candidate_scores,
    explain_choice,
    members,
)
from render_agent.report.diagnosis.model import (
    HIGH_SCORE,
    Cause,
    Diagnosis,
    NamedBox,
    TurnDiagnosis,
    group_name,
    name_of,
)
from render_agent.report.pages.maps.floor_plan import FloorPlanCache, ScenePlan
from render_agent.report.pages.maps.path_marks import (
    CandidateMark,
    MapMarks,
    candidate_marks,
    describe_pose,
    path_marks,
)
from render_agent.report.pages.maps.target_marks import (
    TargetMarks,
    TargetPath,
    target_marks,
    target_path,
)
from render_agent.report.pages.view3d.page_data import view_data
from render_agent.report.report_part import Section, report_parts
from render_agent.report.sentences.causes import describe_cause, explain_wrong_answer
from render_agent.report.sentences.labels import outcome_label, result_label
from render_agent.runs.build import Parts
from render_agent.runs.log.row import Row
from render_agent.scans.camera import MapCamera
from render_agent.tasks.question_types import type_label
from render_agent.util.safe_parse import parse_json
from render_agent.visibility.object_visibility import (
    MIN_CLEAR_AREA,
    MIN_CLEAR_SHARE,
    ObjectSighting,
)

LONG_CHARACTERS = 160  # longer questions are set in a smaller font
ENDLESS_CHARACTERS = 1500  # longer questions scroll


class VisibilityCell(NamedTuple):
    """Visible share in percent; None if not measured."""

    share: float | None
    is_clear: bool = False
    """True if clearly visible."""


class VisibilityTable(NamedTuple):
    """Table of visibility. Its columns are turns, or views if they were preselected."""

    column: str
    numbers: Sequence[int]
    rows: Sequence[tuple[str, int | None, Sequence[VisibilityCell]]]
    """Name of the needed object, category index (None for the room's surface), and one cell per column."""


@dataclass(frozen=True)
class QuestionView:
    """A question of a run."""

    state: QuestionState
    row: Row
    """Row of the results."""
    diagnosis: Diagnosis | None
    plan: ScenePlan | None
    """Floor plan of its scene; None if it has no poses."""
    parts: Parts
    target: TargetPath | None = None

    @property
    def question(self) -> Question:
        return self.state.question

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of its views in pixels."""
        return self.parts.config.image_size

    @property
    def passive(self) -> bool:
        """True if its views were preselected and all shown at once."""
        return self.parts.passive

    @property
    def outcome(self) -> str:
        """`right`, `wrong` or `open`."""
        return outcome_label(self.row)

    @property
    def result(self) -> str:
        """The result in words; see `result_label`."""
        return result_label(self.question, self.state.answer_text, self.row.score)

    @property
    def type(self) -> str:
        return type_label(self.question.type)

    @property
    def status(self) -> str:
        return STATUS_LABELS[self.state.status]

    @property
    def length(self) -> str:
        """`long` or `endless` for long texts, otherwise empty."""
        characters = len(self.question.text)
        if characters > ENDLESS_CHARACTERS:
            return "endless"
        return "long" if characters > LONG_CHARACTERS else ""

    @property
    def cause(self) -> str | None:
        """Description of the cause; None if it adds nothing to the result and the status."""
        if self.diagnosis is None or self.question.answer_form == "pose":
            return None
        words = describe_cause(self.diagnosis, self.parts)
        is_result = words == HIGH_SCORE and self.outcome == "right"  # not if the room is mirrored
        return None if is_result or words in (Cause.ERROR, Cause.OPEN) else words

    @property
    def headline(self) -> str | None:
        """Why the score is low, as a sentence; None if it is not."""
        return None if self.diagnosis is None else explain_wrong_answer(self.diagnosis, self.size)

    @property
    def error(self) -> str | None:
        """Last line of the error that stopped it."""
        return None if self.state.error is None else self.state.error.strip().splitlines()[-1]

    @property
    def mirrored(self) -> str | None:
        """Ground truth in the mirrored room if it differs; "" if unknown, None if it is the same."""
        stress, truth = self.parts.image_stress, self.question.ground_truth
        if truth is None or not stress.changes_ground_truth:
            return None
        mirrored_truth = stress.ground_truth(self.question)
        return None if mirrored_truth == truth else mirrored_truth or ""

    @property
    def options(self) -> list[tuple[str, bool, bool]]:
        """(text, is the ground truth, is the answer) of each option."""
        options = self.question.options
        truth, answer = _letter(self.question.ground_truth), _letter(self.state.answer)
        return [
            (text, letter == truth, letter == answer)
            for letter, text in zip(options_by_letter(options), options, strict=False)
        ]

    @property
    def messages(self) -> Iterator[tuple[int, Message]]:
        """(turn from 1, message) for each message of the prompt, with the turn that added it."""
        return (
            (turn.number + 1, entry)
            for turn in self.state.turns
            for messages, _ in turn.exchanges
            for entry in messages
        )

    @property
    def boxes(self) -> Sequence[NamedBox]:
        return () if self.diagnosis is None else self.diagnosis.boxes

    @cached_property
    def marks(self) -> MapMarks | None:
        if self.plan is None:
            return None
        return path_marks(self.state, self.plan, self.size, self.diagnosis, passive=self.passive)

    @property
    def target_marks(self) -> TargetMarks | None:
        if self.plan is None or self.target is None:
            return None
        return target_marks(self.target, self.plan, self.size)

    @property
    def target_image(self) -> str | None:
        """File of the target image, relative to the run folder; None if it was not shown."""
        return next((view.file for view in self.state.views if view.kind == TARGET), None)

    @property
    def candidates(self) -> dict[str, list[CandidateMark]]:
        """Poses of rejected candidates on the floor plan, by the HTML id of the turn."""
        return {} if self.plan is None else candidate_marks(self.state, self.plan)

    @cached_property
    def sections(self) -> list[Section]:
        return [data for part in report_parts().values() for data in part.sections(self)]

    def in_3d(self, images: str) -> str | None:
        """Return the data of its 3D view as JSON; None if there is none."""
        if self.plan is None or self.plan.scene is None:
            return None
        data = view_data(self.state, self.diagnosis, self.size, images, passive=self.passive)
        return None if data is None else json.dumps(data)

    def name(self, box: NamedBox) -> str:
        """Return the display name of a box."""
        return name_of(box, self.boxes)

    @cached_property
    def visibility(self) -> VisibilityTable | None:
        """Table of visibility; None if nothing was measured."""
        diagnosis = self.diagnosis
        if diagnosis is None:
            return None
        coverage = [turn.coverage for turn in diagnosis.turns]
        sightings = [s for turn in diagnosis.turns for s in turn.sightings]
        rows: list[tuple[str, int | None, Sequence[VisibilityCell]]] = []
        if self.passive:
            column, numbers = "view", sorted({s.view for s in sightings})
            groups = [[s for s in sightings if s.view == number] for number in numbers]
        else:
            column, numbers = "turn", [turn.turn + 1 for turn in diagnosis.turns]
            groups = [list(turn.sightings) for turn in diagnosis.turns]
            cells = [VisibilityCell(None if share is None else 100 * share) for share in coverage]
            rows.append(("room so far", None, cells))
        categories = {name: number for number, name in enumerate(diagnosis.named)}
        rows += [
            (
                group_name(needed, self.boxes),
                categories[self.boxes[needed[0]].category],
                [self._cell(group, needed) for group in groups],
            )
            for needed in diagnosis.needed
        ]
        is_measured = any(cell.share is not None for *_, cells in rows for cell in cells)
        return VisibilityTable(column, numbers, rows) if is_measured else None

    @property
    def one_suffices(self) -> bool:
        """True if a row of the table is for several objects, one of which must be seen."""
        return self.diagnosis is not None and any(len(group) > 1 for group in self.diagnosis.needed)

    @property
    def clear_rule(self) -> str:
        """When an object counts as clearly visible."""
        width, height = self.parts.config.image_size
        pixels = math.ceil(MIN_CLEAR_AREA * width * height)
        return (
            f"at least {100 * MIN_CLEAR_SHARE:.0f} % of it, in at least {pixels:,} pixels of a view"
        )

    def _cell(
        self, group: Sequence[ObjectSighting], group_boxes: Collection[int]
    ) -> VisibilityCell:
        sightings = [s for s in group if s.box in group_boxes]
        if not sightings:
            return VisibilityCell(None)
        is_clear = any(s.is_clear(self.size) for s in sightings)
        return VisibilityCell(100 * max(s.share for s in sightings), is_clear)

    def turn_diagnosis(self, turn: Turn) -> TurnDiagnosis:
        """Return the diagnosis of a turn; an empty one if there is none."""
        turns = () if self.diagnosis is None else self.diagnosis.turns
        return next((t for t in turns if t.turn == turn.number), TurnDiagnosis(turn.number))

    def visible_objects(self, turn: TurnDiagnosis) -> list[tuple[str, ObjectSighting]]:
        """Return (name, sighting) of the boxes visible in a turn, most visible first."""
        visible = [s for s in turn.sightings if s.area > 0]
        visible.sort(key=lambda s: (-s.share, s.box, s.view))
        return [(self.name(self.boxes[s.box]), s) for s in visible]

    def invisible_names(self, turn: TurnDiagnosis) -> list[str]:
        """Return the names of the boxes that were not visible in a turn."""
        visible = {s.box for s in turn.sightings if s.area > 0}
        return [self.name(self.boxes[n]) for n in sorted({s.box for s in turn.sightings} - visible)]

    def is_new(self, view: View, turn: Turn) -> bool:
        """Return True if no earlier turn showed the view."""
        earlier = (v.number for t in self.state.turns[: turn.number] for v in t.views)
        return view.number not in earlier

    def describe_view_camera(self, view: View, turn: Turn) -> str:
        """Describe the pose from which a view was taken, or the scale of a map."""
        if isinstance(view.camera, MapCamera):
            return f"{1 / view.camera.metres_per_pixel:.0f} pixels per metre"
        if view.camera is None:
            return "the target"
        words = describe_pose(view.camera)
        evidence = self.state.turns[turn.number - 1].evidence if turn.number else None
        if evidence is not None:
            sources = [c.number for c in evidence.candidates if c.view and c.view.file == view.file]
            if sources and evidence.chosen not in sources:
                words += f" (rejected candidate {sources[0] + 1})"
        return words

    def remarks(self, turn: Turn) -> list[str]:
        """Return remarks about a turn: engine events, truncation, backtracking, blocked moves."""
        diagnosis = self.turn_diagnosis(turn)
        events = (event for event in turn.events if event != RESTATED)
        remarks = [f"engine: {describe_event(event)}" for event in events]
        if turn.finish == "length":
            remarks.append("reply truncated by the token limit")
        if diagnosis.returned:
            remarks.append("backtracked")
        if diagnosis.blocked:
            remarks.append("move blocked or limited")
        return remarks

    # The static methods below are here because templates can only call methods of `q`.

    @staticmethod
    def percent(share: float | None) -> str:
        """Format a share in percent."""
        if share is None:
            return "–"
        return "<1" if 0 < share < 1 else f"{share:.0f}"

    @staticmethod
    def reply(turn: Turn) -> tuple[list[str], str, str | None]:
        """Return the thinking blocks of a reply, the rest of it, and its JSON object pretty-printed."""
        blocks, text = split_thinking(turn.reply)
        text = text.strip("\n")
        return [block.strip() for block in blocks if block.strip()], text, _pretty(text)

    describe_action = staticmethod(describe_action)
    describe_pose = staticmethod(describe_pose)
    candidate_scores = staticmethod(candidate_scores)
    explain_choice = staticmethod(explain_choice)

    @staticmethod
    def is_malformed(entry: Turn | Candidate) -> bool:
        """Return True if the reply was unreadable."""
        return isinstance(entry.action, Malformed)

    @staticmethod
    def verifier_labels(evidence: Evidence) -> list[str]:
        """Return the labels of the verifiers that scored the candidates of a turn."""
        return [member.label for member in members(evidence)]

    @staticmethod
    def blocked_feedback(scored: CandidateScore) -> str | None:
        """Return the feedback on a candidate's move if it was blocked or limited; otherwise None."""
        outcome = scored.candidate.outcome
        return scored.candidate.feedback if outcome is not None and outcome.is_short else None

    @staticmethod
    def votes(evidence: Evidence) -> list[tuple[str, int]]:
        """Return (answer, number of votes), most frequent first."""
        votes = evidence.ballot.votes if evidence.ballot else ()
        return Counter("no answer" if vote is None else vote for vote in votes).most_common()


def question_view(
    state: QuestionState,
    row: Row,
    diagnosis: Diagnosis | None,
    plans: FloorPlanCache,
    parts: Parts,
) -> QuestionView:
    """Return the view of a question of a run on its floor plan."""
    config = parts.config
    target = target_path(state, plans.scenes, config.image_size, config.field_of_view)
    return QuestionView(state, row, diagnosis, plans.of(state, diagnosis), parts, target)


def _pretty(text: str) -> str | None:
    """Pretty-print the JSON object in a reply; return None if there is none or it is already formatted."""
    start, end = text.find("{"), text.rfind("}")
    try:
        answer = parse_json(text[start : end + 1], strict=False)
        if not isinstance(answer, Mapping):
            return None
        pretty = json.dumps(answer, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):  # json.dumps may exceed the recursion limit
        return None
    return None if pretty == text.strip() else pretty


def _letter(answer: str | None) -> str | None:
    return None if answer is None else answer.strip().upper()
