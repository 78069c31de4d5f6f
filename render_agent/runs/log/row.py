"""The result row of a question: the columns of `results.json`, `results.csv`, data frames, exports and pages."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from msgspec import Struct

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import SCORED, QuestionState
from render_agent.dialogue.tokens import reported_total
from render_agent.dialogue.turn import Turn
from render_agent.runs.cost.billing import UNPRICED, Billing
from render_agent.runs.log.columns import Column, columns_of
from render_agent.score.dialogues.reached_views import view_columns
from render_agent.score.means import AnswerScore
from render_agent.score.official import first_word
from render_agent.score.questions import is_scorable, score_answer, scored_question
from render_agent.score.summary import OFFICIAL
from render_agent.util.numbers import is_number
from render_agent.util.safe_parse import Count, Number
from render_agent.views.stress.image_stress import ImageStress

Score = Number | None
Marks = Mapping[str, float]  # question id -> score from a judge, 0 to 1

NO_MARKS: Marks = {}
NO_STRESS = ImageStress()


class Cost(Struct, frozen=True, kw_only=True):
    """Columns with the cost of turns. Generation time is a turn's share of its batch."""

    pictures_shown: Count = 0
    places_measured: Count = 0
    tokens_in: Annotated[Count | None, Column(saved=True)]
    """None if the engine reports no tokens; the same holds for the next two."""
    tokens_out: Annotated[Count | None, Column(saved=True)]
    tokens_from_cache: Count | None = 0
    seconds_rendering: Number = 0.0
    seconds_waiting: Number = 0.0
    seconds_generating: Number = 0.0
    cost_usd: Annotated[Number | None, Column(saved=True)] = None
    """None if the price of the model is unknown."""


def cost_of(turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the columns of `Cost`. Tokens include all samples and verifiers, and cached tokens."""
    tokens = reported_total(turn.tokens for turn in turns)
    actions = [turn.action for turn in turns if isinstance(turn.action, Action)]
    generating = sum(turn.seconds.generating / turn.batch_size for turn in turns)
    return {
        "pictures_shown": sum(len(turn.views) for turn in turns),
        "places_measured": sum(len(action.measure) for action in actions),
        "tokens_in": tokens["in"],
        "tokens_out": tokens["out"],
        "tokens_from_cache": tokens["from_cache"],
        "seconds_rendering": round(sum(turn.seconds.rendering for turn in turns), 4),
        "seconds_waiting": round(sum(turn.seconds.waiting for turn in turns), 4),
        "seconds_generating": round(generating, 4),
    }


class Row(Cost, frozen=True, kw_only=True):
    """A question of a run: its answer, score and cost."""

    question_id: Annotated[str, Column("Question", saved=True, cell="question")]
    type: Annotated[str, Column("Type", saved=True, cell="text", wide_only=True, filter=True)]
    dataset: Annotated[str, Column("Data set", saved=True, filter=True)]
    scene: Annotated[str, Column("Scene", saved=True, cell="text", wide_only=True, filter=True)]
    question: str = ""
    options: str | None = None
    status: Annotated[str, Column("Status", saved=True, filter=True)]
    answer_text: Annotated[str | None, Column(saved=True)]
    """The answer in the model's words."""
    answer: Annotated[str | None, Column("Answer", saved=True, cell="answer")]
    """The answer in canonical form."""
    truth: Annotated[str | None, Column("Ground truth", saved=True, cell="answer")]
    score: Annotated[Score, Column("Score (%)", saved=True, cell="mark", decimals=1)]
    """From 0 to 1, of `answer_text`; None if not scored, as for counterparts."""
    score_parsed: Annotated[Score, Column("Score, parsed more leniently", saved=True)] = None
    """The same of `answer`; None in older runs."""
    truth_as_shown: str | None = None
    """Ground truth for the room as shown, e.g. mirrored; None if unknown."""
    score_as_shown: Score = None
    turns: Annotated[Count, Column("Turns", saved=True, cell="number", wide_only=True, filter=True)]
    repairs: Count = 0
    """Number of unreadable replies."""
    renders: Annotated[Count, Column(saved=True)]
    """Number of distinct images rendered, including candidates; shared images count for each question."""
    error: str | None = None
    position_metres: Annotated[Number | None, Column(saved=True)] = None
    """Errors of the last pose, if the answer is a pose; the same holds for the next four."""
    heading_degrees: Annotated[Number | None, Column(saved=True)] = None
    pitch_degrees: Annotated[Number | None, Column(saved=True)] = None
    overlap: Annotated[Number | None, Column(saved=True)] = None
    spl: Annotated[Number | None, Column(saved=True)] = None
    change: Annotated[str | None, Column(saved=True)] = None
    """The change that makes this question a counterpart of another."""

    def to_json(self) -> dict[str, Any]:
        """Return the row for `results.json`: the saved columns, optional ones only if set."""
        values = {column.name: getattr(self, column.name) for column in SAVED_COLUMNS}
        return {
            name: value for name, value in values.items() if value is not None or name in COLUMNS
        }


SAVED_COLUMNS = tuple(column for column in columns_of(Row) if column.saved)
# The columns of `results.csv`. Optional columns follow if any row has them.
COLUMNS = tuple(column.name for column in SAVED_COLUMNS if not column.optional)


def row_of(
    state: QuestionState,
    stress: ImageStress = NO_STRESS,
    billing: Billing = UNPRICED,
    parser: str = OFFICIAL,
    marks: Marks = NO_MARKS,
) -> Row:
    question, score = state.question, score_of(state, parser, marks=marks)
    shown_truth, shown_score = stress.ground_truth(question), score
    if shown_truth != question.ground_truth:
        is_known = shown_truth is not None and score is not None
        shown_question = replace(question, ground_truth=shown_truth)
        shown_score = score_answer(shown_question, state.answer_text) if is_known else None
    return Row(
        question_id=state.id,
        type=question.type,
        dataset=question.dataset,
        scene=question.scene,
        question=question.text,
        options=" | ".join(question.options) or None,
        status=str(state.status),
        answer_text=state.answer_text,
        answer=state.answer,
        truth=question.ground_truth,
        score=score,
        score_parsed=score_of(state, parsed=True, marks=marks),
        truth_as_shown=shown_truth,
        score_as_shown=shown_score,
        turns=len(state.turns),
        repairs=state.repairs,
        renders=len({file for turn in state.turns for file in turn.image_files}),
        error=state.error,
        change=None if question.change is None else question.change.kind,
        **view_columns(state.target_errors),
        **cost_of(state.turns),
        cost_usd=billing.total([state]),
    )


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of `results.json` as CSV."""
    optional = [column.name for column in SAVED_COLUMNS if column.optional]
    names = [*COLUMNS, *(name for name in optional if any(name in row for row in rows))]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def can_score(state: QuestionState, marks: Marks = NO_MARKS) -> bool:
    """Return True if the question can be scored: its ground truth is known, or a judge scored the answer."""
    return not state.question.is_counterpart and (state.id in marks or is_scorable(state.question))


def score_of(
    state: QuestionState, parser: str = OFFICIAL, *, parsed: bool = False, marks: Marks = NO_MARKS
) -> float | None:
    """Return the score of a question, 0 to 1; None if it is unfinished, a counterpart, or cannot be scored.

    The parser reads the answer as the model wrote it, or in canonical form if `parsed` is True.
    """
    if state.status not in SCORED or not can_score(state, marks):
        return None
    if state.id in marks:
        return marks[state.id]
    return score_answer(state.question, state.answer if parsed else state.answer_text, parser)


def is_read_differently(state: QuestionState) -> bool:
    """Return True if VSI-Bench's script reads another answer, or none, from the text of a scored question's answer."""
    question, word = state.question, first_word(state.answer_text or "")
    if state.status not in SCORED or not can_score(state) or question.answer_form == "text":
        return False
    if question.answer_form == "number":
        read, parsed = (float(x) if is_number(x) else None for x in (word, state.answer or ""))
        return read != parsed
    letters = options_by_letter(question.options)
    return state.answer != (word.upper() if word.upper() in letters else None)


def scored_answers(
    states: Iterable[QuestionState],
    parser: str = OFFICIAL,
    *,
    parsed: bool = False,
    marks: Marks = NO_MARKS,
) -> list[AnswerScore]:
    """Return the scores of all scored questions; see `score_of`."""
    scores = ((state, score_of(state, parser, parsed=parsed, marks=marks)) for state in states)
    return [scored_question(state.question, score) for state, score in scores if score is not None]
