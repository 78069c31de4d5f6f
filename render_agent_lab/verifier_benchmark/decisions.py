"""Logged decisions: the candidates of a turn, and how much of what is named each would have shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from render_agent.agents.verifiers.base import FloatArray, TurnContext
from render_agent.dialogue.state import Candidate, Evidence, Judgement, QuestionState
from render_agent.observation.picture_store import Pictures
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.reader import read_states
from render_agent_lab.oracles.question_visibility import QuestionVisibility


@dataclass(frozen=True, eq=False)
class Decision:
    """One turn in which a move was chosen among several, all drawn.

    found: (K,), how many things that the question names and no view has shown well each candidate's
    view shows well. logged: what the verifiers of the run said of these candidates.
    """

    context: TurnContext
    candidates: tuple[Candidate, ...]
    found: FloatArray
    logged: tuple[Judgement, ...] = ()

    @property
    def scene(self) -> str:
        """The scene, which decisions are drawn anew by."""
        return self.context.state.question.scene

    @property
    def good(self) -> FloatArray:
        """1 for each candidate whose view shows something that is named and new, 0 for others, (K,)."""
        return (self.found > 0).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Left:
    """What of a run's log is no decision to be measured, and why.

    unknown: questions of which nobody can tell what has to be seen. shown: decisions after all of it was
    seen. undrawn: turns whose candidates were not drawn or too few.
    """

    unknown: int = 0
    shown: int = 0
    undrawn: int = 0

    def __add__(self, other: Left) -> Left:
        return Left(
            self.unknown + other.unknown, self.shown + other.shown, self.undrawn + other.undrawn
        )


def decisions_of(
    folder: RunFolder, eyes: QuestionVisibility, pictures: Pictures
) -> tuple[list[Decision], Left]:
    """Return the decisions of a run, scene by scene, and what was left out.

    pictures: those of the run. RunLogError where its log is damaged, SceneError or RenderError where a
    scene cannot be read or drawn.
    """
    states = read_states(folder, scenes=eyes.scenes)
    decisions: list[Decision] = []
    left = Left()
    for state in sorted(states, key=lambda state: (state.question.scene, state.id)):
        if not eyes.things(state.question):
            left += Left(unknown=1)
            continue
        for decision, why in _of_question(state, eyes, pictures):
            decisions += [decision] if decision else []
            left += why
    return decisions, left


def moves_until_found(state: QuestionState, eyes: QuestionVisibility) -> int:
    """Return how many moves a dialogue made until its views had shown well all that is named.

    The opening shows it after 0 moves; where it was never shown, `max_turns` counts. ValueError where
    nobody can tell what has to be seen. RenderError where a view cannot be drawn.
    """
    wanted = eyes.things(state.question)
    if not wanted:
        raise ValueError(f"nobody can tell what question {state.id} has to be shown")
    for turn in state.turns:
        wanted -= eyes.seen(state.question, turn.views)
        if not wanted:
            return turn.number
    return state.max_turns


def _of_question(
    state: QuestionState, eyes: QuestionVisibility, pictures: Pictures
) -> Iterator[tuple[Decision | None, Left]]:
    question, wanted = state.question, eyes.things(state.question)
    for turn in state.turns:
        wanted -= eyes.seen(question, turn.views)
        drawn = _drawn(turn.evidence)
        if turn.evidence is None or turn.evidence.weighed == ():
            continue
        if len(drawn) < 2:
            yield None, Left(undrawn=1)
        elif not wanted:
            yield None, Left(shown=1)
        else:
            shown = np.array(
                [len(wanted & eyes.seen(question, [c.view])) for c in drawn if c.view],
                np.float64,
            )
            space = eyes.scenes.space(question)
            context = TurnContext.logged(state, turn, space, pictures.get)
            logged = tuple(_of_these(turn.evidence, judged, drawn) for judged in turn.evidence.judgements)  # fmt: skip
            yield Decision(context, drawn, shown, logged), Left()


def _drawn(evidence: Evidence | None) -> tuple[Candidate, ...]:
    """Return the turn's own candidates that verifiers scored and whose view was drawn."""
    if evidence is None:
        return ()
    weighed = set(evidence.weighed)
    return tuple(
        c
        for c in evidence.candidates
        if c.number in weighed and c.follows is None and c.view is not None
    )


def _of_these(evidence: Evidence, judged: Judgement, candidates: Iterable[Candidate]) -> Judgement:
    """Return a judgement on some of the candidates that were weighed."""
    places: Mapping[int, int] = {number: place for place, number in enumerate(evidence.weighed)}
    kept = [places[candidate.number] for candidate in candidates]
    return replace(
        judged,
        scores=tuple(tuple(row[place] for place in kept) for row in judged.scores),
        reasons=tuple(judged.reasons[place] for place in kept),
    )
