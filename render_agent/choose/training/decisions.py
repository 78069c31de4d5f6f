"""Decisions read from run logs, their candidates judged by what each would have shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
from PIL import Image

from render_agent.action import Action
from render_agent.choose.seam import Situation
from render_agent.choose.training.decision import Decision, FloatArray, good_moves
from render_agent.choose.training.witnessed import WitnessedScene
from render_agent.errors import SetupError
from render_agent.facts import Facts, known_facts, placed
from render_agent.look import Look
from render_agent.moves import carry_out
from render_agent.render.choose import make_renderer
from render_agent.render.seam import Renderer
from render_agent.run_log.folder import RunFolder
from render_agent.run_log.reading import read_states
from render_agent.scene.cache import SceneCache
from render_agent.score.official import score_answer
from render_agent.state import Candidate, QuestionState, Turn, View
from render_agent.stress.scenes import scenes_of

FAITHFUL = ("real", "mirrored")
"""The --pictures that show what a question is about."""

BORROWED = 7
"""Moves of other turns that are weighed beside the one that was made, where a run logged no candidates."""

RIGHT = 0.5
"""The score from which on an answer counts as right."""


def read_decisions(
    folder: RunFolder, told: Callable[[str], None] = lambda scene: None
) -> list[Decision]:
    """Return the decisions of a run, judged; of all its scenes whose scans are at hand.

    Candidates are those that the run logged with their views. Where it logged none they are the move that
    was made and moves of other turns about the same scene, carried out from here. told: is given the name
    of every scene that is begun with. SetupError where the run shows nothing that could be judged, or
    its model did not choose its views.
    """
    config = folder.config
    if config.blind or config.views != "free" or config.pictures not in FAITHFUL:
        raise SetupError(
            f"{folder.path} teaches no moves: a run with --views free is needed that shows the scenes as"
            " they are"
        )
    states = [state for state in read_states(folder) if state.question.scan is not None]
    scenes = scenes_of(config, [state.question for state in states])
    facts = known_facts([state.question for state in states], config.annotations)
    ordered = sorted(states, key=lambda state: state.question.scene)
    found: list[Decision] = []
    renderer = make_renderer()
    try:
        for name, group in groupby(ordered, key=lambda state: state.question.scene):
            told(name)
            found += _of_scene(folder, list(group), scenes, facts.get(name), renderer)
    finally:
        renderer.close()
    return found


def _of_scene(
    folder: RunFolder,
    states: Sequence[QuestionState],
    scenes: SceneCache,
    known: Facts | None,
    renderer: Renderer,
) -> Iterator[Decision]:
    question = states[0].question
    if not any(state.turns for state in states) or (
        question.scan is not None and not question.scan.exists()
    ):
        return
    scene, space = scenes.get(question), scenes.space(question)
    room = WitnessedScene(
        scene,
        space,
        None if known is None else placed(known, scene),
        folder.config.image_size,
        renderer,
    )
    moves = [
        turn.action
        for state in states
        for turn in state.turns
        if isinstance(turn.action, Action) and not turn.action.done
    ]
    for state in states:
        right = _right(state)
        for number, turn in enumerate(state.turns):
            if number + 1 == state.max_turns or not _moved(turn):
                continue
            before = replace(
                state, scenes=scenes, turns=state.turns[:number], error=None, lost_events=()
            )
            look = Look(turn.views, turn.stood, space)
            situation = Situation(before, look, partial(_picture, folder.path))
            candidates, chosen = _candidates(situation, turn, moves)
            if len(candidates) > 1:
                gains = _gains(room, situation, candidates)
                good = good_moves(state.question, *gains, chosen if right else None)
                yield Decision(str(folder.path), situation, candidates, chosen, *gains, good)


def _moved(turn: Turn) -> bool:
    return isinstance(turn.action, Action) and not turn.action.done


def _candidates(
    situation: Situation, turn: Turn, moves: Sequence[Action]
) -> tuple[tuple[Candidate, ...], int | None]:
    """Return the candidates of a turn with their views, and the place of the one that was made."""
    evidence = turn.evidence
    if evidence is not None:
        logged = tuple(
            candidate
            for candidate in evidence.candidates
            if candidate.view is not None and candidate.follows is None and candidate.goes_on
        )
        if len(logged) > 1:
            places = [p for p, c in enumerate(logged) if c.number == evidence.chosen]
            return logged, places[0] if places else None
    assert isinstance(turn.action, Action), "it was asked before"
    key = f"{situation.state.id} {situation.turn}".encode()
    chance = np.random.default_rng(list(key))
    others = [move for move in dict.fromkeys(moves) if move != turn.action]
    picked = chance.permutation(len(others))[:BORROWED]
    return tuple(
        _carried_out(situation, number, action)
        for number, action in enumerate([turn.action, *(others[place] for place in picked)])
    ), 0


def _carried_out(situation: Situation, number: int, action: Action) -> Candidate:
    """Return a move as a candidate; its picture was never drawn, only its camera is known."""
    look = situation.look
    assert look.space is not None, "the scene is at hand"
    moved = carry_out(action, look.camera, look.space)
    kind = action.view if isinstance(action.view, str) else "ego"
    view = None
    if kind in ("ego", "around") and not isinstance(action.view, int):
        view = View(len(situation.views), kind, "", moved.camera)
    return Candidate(number, "", action, moved.happened, moved.camera, view)


def _gains(
    room: WitnessedScene, situation: Situation, candidates: Sequence[Candidate]
) -> tuple[FloatArray, FloatArray]:
    """Return what each candidate would show for the first time: named things, and share of the surface."""
    question = situation.state.question
    shown = room.shown(question, situation.views)
    covered = room.surface(situation.views)
    found = np.full(len(candidates), np.nan)
    surface = np.zeros(len(candidates))
    for place, candidate in enumerate(candidates):
        views = [] if candidate.view is None else [candidate.view]
        if room.knows(question):
            found[place] = len(room.shown(question, views) - shown)
        fresh = room.surface(views) & ~covered
        surface[place] = fresh.mean() if len(fresh) else 0.0
    return found, surface


def _right(state: QuestionState) -> bool:
    truth = state.question.truth
    return (
        truth is not None and score_answer(state.question.type, state.answer, truth) >= RIGHT
    )


def _picture(run: Path, file: str) -> Image.Image:
    with Image.open(run / file) as picture:
        return picture.convert("RGB")
