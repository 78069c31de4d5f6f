"""Reads decisions from run logs, and labels their candidates by what each would show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import groupby

import numpy as np

from render_agent.agents.verifiers.geometry import GeometryVerifier
from render_agent.agents.verifiers.verifier import FloatArray, TurnContext
from render_agent.dialogue.chat import View
from render_agent.dialogue.moves import apply_action, describe_outcome
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Candidate, Turn
from render_agent.dialogue.wording import general
from render_agent.errors import SetupError
from render_agent.render.renderer import Renderer
from render_agent.runs.read import RunData
from render_agent.scans.cache import SceneCache
from render_agent.score.comparison import RIGHT
from render_agent.score.questions import is_scorable, score_answer
from render_agent.views.image_store import ImageStore
from render_agent.visibility.room_visibility import (
    NO_FACTS,
    RoomVisibility,
    clearly_visible_boxes,
    named_boxes,
)
from render_agent_lab.oracles.question_visibility import Thing, as_things
from render_agent_lab.verifier_training.decision import Decision, good_moves

NUM_BORROWED = 7  # moves of other turns used as candidates if a run logged none


def read_decisions(
    folder: RunData, report: Callable[[str], None] = lambda scene: None
) -> list[Decision]:
    """Read and label the decisions of a run, for all scenes with available scans.

    Candidates are those that the run logged with their views. If it logged none, they are the move made and moves of
    other turns in the same scene, applied at the current camera.
    """
    parts = folder.parts
    if not (parts.free and parts.faithful):
        raise SetupError(
            f"cannot learn moves from {folder.path}: it needs --views free with unmodified views of the scenes"
        )
    folder.refuse_changes(scenes=True)
    questions = folder.questions
    scenes = parts.scenes(questions)
    states = [
        state for state in folder.read_states(scenes) if state.turns and _has_scan(state.question)
    ]
    states_by_scene = sorted(states, key=lambda state: state.question.scene)
    decisions: list[Decision] = []
    with closing(GeometryVerifier().open(folder.config, questions)) as geometry:
        reading = DecisionReader(folder, scenes, geometry)
        for name, group in groupby(states_by_scene, key=lambda state: state.question.scene):
            report(name)
            decisions += reading.scene(list(group))
    return decisions


def _has_scan(question: Question) -> bool:
    return question.scan is not None and question.scan.exists()


class DecisionReader:
    """Reads the decisions of one run, scene by scene."""

    def __init__(self, folder: RunData, scenes: SceneCache, geometry: GeometryVerifier) -> None:
        self.run = str(folder.path)
        self.scenes = scenes
        self.geometry = geometry
        # shared by all contexts, because features are cached per image loader
        self._load_image = ImageStore(folder.path).get

    def scene(self, states: Sequence[QuestionState]) -> list[Decision]:
        """Return the decisions of the questions about one scene."""
        moves = [
            turn.action
            for state in states
            for turn in state.turns
            if isinstance(turn.action, Action) and not turn.action.done
        ]
        decisions = []
        for state in states:
            for turn in state.turns[: state.max_turns - 1]:
                if not isinstance(turn.action, Action) or turn.action.done:
                    continue
                space = self.scenes.space(state.question)
                context = TurnContext.logged(state, turn, space, self._load_image)
                candidates, chosen = _candidates(context, turn, moves)
                if len(candidates) < 2:
                    continue
                found, surface, geometry = self._label(context, candidates)
                right = chosen if _is_right(state) else None
                good = good_moves(state.question, found, surface, right)
                decisions.append(
                    Decision(self.run, context, candidates, chosen, found, surface, geometry, good)
                )
        return decisions

    def _label(
        self, context: TurnContext, candidates: Sequence[Candidate]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return `found`, `surface` and `geometry` of a `Decision`, (K,) each."""
        state, space = context.state, context.observation.space
        assert space is not None, "the scan is available"
        facts = self.geometry.facts.get(state.question.scene, NO_FACTS)
        room = self.geometry.rooms.room(
            state.question.scene, lambda: state.scene, lambda: space, facts
        )
        scores = self.geometry.score(context, candidates).scores[0]
        return *_gains(room, self.geometry.renderer, context, candidates), scores


def _candidates(
    context: TurnContext, turn: Turn, moves: Sequence[Action]
) -> tuple[tuple[Candidate, ...], int | None]:
    """Return the candidates of a turn with their views, and the index of the move made."""
    evidence = turn.evidence
    if evidence is not None:
        logged_candidates = tuple(
            candidate
            for candidate in evidence.candidates
            if candidate.view is not None and candidate.continues_dialogue
        )
        if len(logged_candidates) > 1:
            places = [p for p, c in enumerate(logged_candidates) if c.number == evidence.chosen]
            return logged_candidates, places[0] if places else None
    assert isinstance(turn.action, Action), "checked by the caller"
    key = f"{context.state.id} {context.turn}".encode()
    rng = np.random.default_rng(list(key))
    other_moves = [move for move in dict.fromkeys(moves) if move != turn.action]
    indices = rng.permutation(len(other_moves))[:NUM_BORROWED]
    return tuple(
        _apply_move(context, number, action)
        for number, action in enumerate([turn.action, *(other_moves[place] for place in indices)])
    ), 0


def _apply_move(context: TurnContext, number: int, action: Action) -> Candidate:
    """Return a move as a candidate. Its image was never rendered; only its camera is known."""
    observation = context.observation
    assert observation.space is not None, "the scan is available"
    camera, outcome = apply_action(action, observation.camera, observation.space)
    description = describe_outcome(action, observation.camera, camera, outcome, general())
    kind = action.view if isinstance(action.view, str) else "ego"
    view = None
    if kind in ("ego", "around") and not isinstance(action.view, int):
        view = View(len(context.views), kind, "", camera)
    return Candidate(number, "", action, description, camera, outcome, view)


def _gains(
    room: RoomVisibility, renderer: Renderer, context: TurnContext, candidates: Sequence[Candidate]
) -> tuple[FloatArray, FloatArray]:
    """Return for each candidate the number of named things and the share of surface it would show for the first time."""
    question = context.state.question

    def things(views: Sequence[View]) -> frozenset[Thing]:
        return as_things(question, room, clearly_visible_boxes(question, room, views, renderer))

    has_boxes = bool(named_boxes(question, room))
    shown_things = things(context.views)
    covered_points = room.covered(context.views, renderer)
    gains = np.full(len(candidates), np.nan)
    surface = np.zeros(len(candidates))
    for place, candidate in enumerate(candidates):
        views = [] if candidate.view is None else [candidate.view]
        if has_boxes:
            gains[place] = len(things(views) - shown_things)
        fresh = room.covered(views, renderer) & ~covered_points
        surface[place] = fresh.mean() if len(fresh) else 0.0
    return gains, surface


def _is_right(state: QuestionState) -> bool:
    return is_scorable(state.question) and score_answer(state.question, state.answer) >= RIGHT
