"""The row of a question. Its fields are the columns of `results.json`, `results.csv`, data frames, exports and pages."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from msgspec import Struct

from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import SCORED, QuestionState
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.turn import Turn
from render_agent.runs.log.columns import Column, columns_of
from render_agent.score.means import Scored
from render_agent.score.questions import is_scorable, score_answer, scored_question
from render_agent.score.summary import OFFICIAL
from render_agent.util.safe_parse import Count, Number
from render_agent.views.stress.image_stress import PictureStress

Score = Number | None
Marks = Mapping[str, float]
"""A judge's scores, 0 to 1, by question id."""

NO_MARKS: Marks = {}


class Cost(Struct, frozen=True, kw_only=True):
    """The columns of what turns took. Seconds of generating are a turn's share of its batch."""

    pictures_shown: Count = 0
    places_measured: Count = 0
    tokens_in: Annotated[Count, Column(saved=True)]
    tokens_out: Annotated[Count, Column(saved=True)]
    tokens_from_cache: Count = 0
    seconds_rendering: Number = 0.0
    seconds_waiting: Number = 0.0
    seconds_generating: Number = 0.0


def cost_of(turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the columns of `Cost`. Tokens are those of all samples and verifiers, those from a cache too."""
    tokens = Tokens.total(turn.tokens for turn in turns)
    actions = [turn.action for turn in turns if isinstance(turn.action, Action)]
    generating = sum(turn.seconds.generating / turn.batch_size for turn in turns)
    return {
        "pictures_shown": sum(len(turn.views) for turn in turns),
        "places_measured": sum(len(action.measure) for action in actions),
        "tokens_in": tokens.prompt,
        "tokens_out": tokens.reply,
        "tokens_from_cache": tokens.cached,
        "seconds_rendering": round(sum(turn.seconds.rendering for turn in turns), 4),
        "seconds_waiting": round(sum(turn.seconds.waiting for turn in turns), 4),
        "seconds_generating": round(generating, 4),
    }


class Row(Cost, frozen=True, kw_only=True):
    """A question of a run: its answer, its score, and what it took."""

    question_id: Annotated[str, Column("Question", saved=True, cell="question")]
    type: Annotated[str, Column("Type", saved=True, cell="text", wide_only=True, filter=True)]
    dataset: Annotated[str, Column("Data set", saved=True, filter=True)]
    scene: Annotated[str, Column("Scene", saved=True, cell="text", wide_only=True, filter=True)]
    question: str = ""
    options: str | None = None
    status: Annotated[str, Column("Status", saved=True, filter=True)]
    answer_text: Annotated[str | None, Column(saved=True)]
    """The answer as given."""
    answer: Annotated[str | None, Column("Answer", saved=True, cell="answer")]
    """The answer in canonical form."""
    truth: Annotated[str | None, Column("Ground truth", saved=True, cell="answer")]
    score: Annotated[Score, Column("Score (%)", saved=True, cell="mark", decimals=1)]
    """0 to 1; None if the question is not scored, as counterparts are not."""
    truth_as_shown: str | None = None
    """The truth in the room as it was shown, which may be mirrored; None if it is unknown."""
    score_as_shown: Score = None
    turns: Annotated[Count, Column("Turns", saved=True, cell="number", wide_only=True, filter=True)]
    repairs: Count = 0
    """Replies that could not be read."""
    renders: Annotated[Count, Column(saved=True)]
    """Distinct pictures drawn, those of candidates included; one shared by several questions counts for each."""
    error: str | None = None
    change: Annotated[str | None, Column(saved=True)] = None
    """The change that makes the question the counterpart of another."""

    def to_json(self) -> dict[str, Any]:
        """Return the row as `results.json` has it: the saved columns, optional ones only if they have a value."""
        values = {column.name: getattr(self, column.name) for column in SAVED_COLUMNS}
        return {
            name: value for name, value in values.items() if value is not None or name in COLUMNS
        }


SAVED_COLUMNS = tuple(column for column in columns_of(Row) if column.saved)
COLUMNS = tuple(column.name for column in SAVED_COLUMNS if not column.optional)
"""The columns of `results.csv`; optional ones follow if a row has them."""


def row_of(
    state: QuestionState,
    *,
    parser: str = OFFICIAL,
    marks: Marks = NO_MARKS,
    stress: PictureStress | None = None,
) -> Row:
    """Return the row of a question.

    Args:
        state: The question with its turns.
        parser: Reads the answer; one of PARSERS.
        marks: A judge's scores by question id.
        stress: What the pictures showed, if not the room as it is.
    """
    question, score = state.question, score_of(state, parser, marks=marks)
    shown, shown_score = question.truth, score
    if stress is not None and (shown := stress.truth(question)) != question.truth:
        known = shown is not None and score is not None
        shown_score = score_answer(replace(question, truth=shown), state.answer) if known else None
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
        truth=question.truth,
        score=score,
        truth_as_shown=shown,
        score_as_shown=shown_score,
        turns=len(state.turns),
        repairs=state.repairs,
        renders=len({file for turn in state.turns for file in turn.drawn}),
        error=state.error,
        change=None if state.change is None else state.change.asked,
        **cost_of(state.turns),
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
    """Return whether answers to the question can be scored: its truth is known, or a judge marked it."""
    return state.change is None and (state.id in marks or is_scorable(state.question))


def score_of(
    state: QuestionState, parser: str = OFFICIAL, *, raw: bool = False, marks: Marks = NO_MARKS
) -> float | None:
    """Return the score of a question, 0 to 1; None if it is not finished, a counterpart, or cannot be scored.

    Args:
        state: The question with its turns.
        parser: Reads the answer; all but the official one read it as given.
        raw: Have the official parser read the answer as given, too, instead of in canonical form.
        marks: A judge's scores by question id.
    """
    if state.status not in SCORED or not can_score(state, marks):
        return None
    if state.id in marks:
        return marks[state.id]
    answer = state.answer_text if raw or parser != OFFICIAL else state.answer
    return score_answer(state.question, answer, parser)


def scored_answers(
    states: Iterable[QuestionState],
    parser: str = OFFICIAL,
    *,
    raw: bool = False,
    marks: Marks = NO_MARKS,
) -> list[Scored]:
    """Return the scores of the questions that have one; arguments as in `score_of`."""
    scores = ((state, score_of(state, parser, raw=raw, marks=marks)) for state in states)
    return [scored_question(state.question, score) for state, score in scores if score is not None]
