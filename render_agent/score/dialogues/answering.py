"""How answers develop over the turns of a dialogue: any-time score, changes, and calibration of the stated confidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import SCORED, QuestionState
from render_agent.score.comparison import RIGHT
from render_agent.score.questions import is_scorable, score_answer
from render_agent.score.terms import Term, compare_terms, equal_mass_bins, summarize_terms

# figures and their labels in tables and pages
LABELS = {
    "area": "any-time score, mean over turns (%)",
    "became_right": "answers that a change made right (%)",
    "became_wrong": "answers that a change made wrong (%)",
    "confidence": "mean confidence (%)",
    "right": "right answers among those with a confidence (%)",
    "ece": "expected calibration error (%)",
}

CONFIDENCE = ("confidence", "right", "ece")  # figures of answers with a confidence

Scene = tuple[str, str]  # data set, name


@dataclass(frozen=True, slots=True)
class AnswerSoFar:
    """The answer of a question if its dialogue had ended after a turn."""

    scene: Scene
    answer: str | None = None  # in canonical form
    score: float = 0.0  # 0 to 1
    confidence: float | None = None  # 0 to 1; None if it was not stated with the answer

    @property
    def is_right(self) -> bool:
        return self.score >= RIGHT


Answers = Mapping[str, Sequence[AnswerSoFar]]  # by question id; after each turn that it could have


def answers_by_turn(states: Iterable[QuestionState]) -> dict[str, list[AnswerSoFar]]:
    """Return the answers so far of every scored question. A dialogue that has ended keeps its last answer."""
    return {
        state.id: _answers(state)
        for state in states
        if state.status in SCORED and is_scorable(state.question)
    }


def _answers(state: QuestionState) -> list[AnswerSoFar]:
    scene = state.question.dataset, state.question.scene
    answers = [AnswerSoFar(scene)]
    for turn in state.turns:
        answers.append(answers[-1])
        if turn.answer is not None:
            score = score_answer(state.question, turn.answer_text)
            sure = turn.action.confidence if isinstance(turn.action, Action) else None
            confidence = None if sure is None or turn.is_restated else sure / 100
            answers[-1] = AnswerSoFar(scene, turn.answer, score, confidence)
    return answers[1:] + answers[-1:] * (state.max_turns - len(state.turns))


def answering_terms(answers: Answers) -> dict[str, list[Term]]:
    """Return the terms of every figure. An answer is right if it scores at least 50 %."""
    changes = [
        (before, after)
        for entries in answers.values()
        for before, after in pairwise(entries)
        if before.answer is not None and after.answer != before.answer
    ]
    return {
        "area": [Term(e[0].scene, sum(a.score for a in e) / len(e)) for e in answers.values()],
        "became_right": [Term(b.scene, b.is_right > a.is_right) for a, b in changes],
        "became_wrong": [Term(b.scene, b.is_right < a.is_right) for a, b in changes],
        **confidence_terms([entries[-1] for entries in answers.values()]),
    }


def confidence_terms(answers: Sequence[AnswerSoFar]) -> dict[str, list[Term]]:
    """Return the terms of the figures of the answers that have a confidence."""
    stated = [(a.scene, a.confidence, a.is_right) for a in answers if a.confidence is not None]
    bins = equal_mass_bins([sure for _, sure, _ in stated])
    return {
        "confidence": [Term(scene, sure) for scene, sure, _ in stated],
        "right": [Term(scene, is_right) for scene, _, is_right in stated],
        "ece": [
            Term(scene, is_right - sure, bin=bins[index])
            for index, (scene, sure, is_right) in enumerate(stated)
        ],
    }


def answering_figures(states: Sequence[QuestionState]) -> dict[str, Any] | None:
    """Return the entry `answering` of `results.json`; None if all questions ended in their first turn without a confidence."""
    answers = answers_by_turn(states)
    figures = _summaries(answering_terms(answers))
    has_turns = any(len(state.turns) > 1 for state in states if state.id in answers)
    if not (has_turns or "confidence" in figures):
        return None
    turns = []
    for number in range(max(map(len, answers.values()), default=0)):
        now = [entries[min(number, len(entries) - 1)] for entries in answers.values()]
        terms = {"score": [Term(a.scene, a.score) for a in now], **confidence_terms(now)}
        answered = sum(a.answer is not None for a in now)
        turns.append({"turn": number, "answered": answered, **_summaries(terms)})
    return {
        "questions": len(answers),
        **figures,
        "turns": turns,
        "calibration": _reliability([entries[-1] for entries in answers.values()]),
    }


def _summaries(terms: Mapping[str, Sequence[Term]]) -> dict[str, Any]:
    summaries = {name: summarize_terms(entries) for name, entries in terms.items()}
    return {name: entry for name, entry in summaries.items() if entry is not None}


def _reliability(answers: Sequence[AnswerSoFar]) -> list[dict[str, Any]]:
    """Return the mean confidence and the share of right answers by bin, the points of a reliability diagram."""
    terms = confidence_terms(answers)
    bins = [term.bin for term in terms["ece"]]
    return [
        _summaries(
            {
                name: [t for t, own in zip(terms[name], bins, strict=True) if own == number]
                for name in ("confidence", "right")
            }
        )
        for number in sorted({number for number in bins if number is not None})
    ]


def compare_answering(
    a: Sequence[QuestionState], b: Sequence[QuestionState]
) -> dict[str, dict[str, Any]]:
    """Return the differences between the figures of two runs over the questions that both have scored.

    If all dialogues have one turn, they are those of the confidence; empty without one.
    """
    has_turns = any(len(state.turns) > 1 for state in (*a, *b))
    answers = [answers_by_turn(states) for states in (a, b)]
    shared = answers[0].keys() & answers[1].keys()
    in_a, in_b = (
        answering_terms({name: entries for name, entries in side.items() if name in shared})
        for side in answers
    )
    names = LABELS if has_turns else CONFIDENCE
    pairs = {name: compare_terms(in_a[name], in_b[name]) for name in names}
    return {name: entry for name, entry in pairs.items() if entry is not None}
