"""How the dialogues of a run are worded and what shows its views, as the options have it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from render_agent import registry
from render_agent.config import RunConfig
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.question import Question
from render_agent.dialogue.wording import FILE_NAME, Wording, general, load_wording
from render_agent.errors import SceneError
from render_agent.models import bundled_model
from render_agent.render.start_pose import parse_start
from render_agent.render.subprocess_renderer import make_guarded
from render_agent.render.viewer import Viewer
from render_agent.scans.cache import SceneCache
from render_agent.tasks.ground_truth import known_facts
from render_agent.views.free_views import FreeViews, PolicyViews
from render_agent.views.picture_store import Pictures
from render_agent.views.provider import NoViews, ViewProvider
from render_agent.views.scene_graph import GraphTold

MakeViews = Callable[[RunConfig, SceneCache, Pictures, Sequence[Question]], ViewProvider]


def wording_of(config: RunConfig) -> Wording:
    """Return the sentences that the model of a run reads: its own if it is a local model that brings them.

    SetupError if those cannot be used.
    """
    if config.holds_weights:
        file = (
            bundled_model(config.model_name) or Path(config.model_name).expanduser()
        ) / FILE_NAME
        if os.path.lexists(file):  # a broken link is an error, too
            return load_wording(file)
    return general()


def make_prompt(config: RunConfig) -> Prompt:
    """Return how the dialogues of a run are worded. SetupError as `wording_of`."""
    turns, field, wording = config.max_turns, config.field_of_view, wording_of(config)
    if not config.passive:
        kinds = () if config.blind else config.kinds
        size = config.image_size if config.toolset.measures else None
        start = parse_start(config.start)
        # in a mirrored room the place that was asked for has other coordinates
        named = None if isinstance(start, str) or config.picture_stress.changes_truth else start[0]
        graph = config.toolset.graph
        return Prompt(
            turns,
            field,
            kinds,
            picture_size=size,
            graph=graph,
            start=named,
            wording=wording,
        )
    return Prompt(turns, field, config.opening_kinds, config.most_views, wording=wording)


def make_views(
    config: RunConfig, scenes: SceneCache, pictures: Pictures, questions: Sequence[Question]
) -> ViewProvider:
    """Return what draws the views of some questions; the renderer is made for the first of them.

    SetupError where what the choice of views depends on is not at hand.
    """
    if config.toolset.graph:
        return GraphTold(known_facts(questions, config.annotations), wording_of(config))
    if config.blind:
        return NoViews()

    prepare = getattr(registry.load("renderer", config.renderer), "prepare", None)
    if prepare is not None and questions:
        with suppress(SceneError):  # its question fails alone, later
            prepare(partial(scenes.get, questions[0]))

    def make_viewer() -> Viewer:
        return Viewer(make_guarded(config.renderer), config.image_size, config.field_of_view)

    shown = config.picture_stress.painted(pictures, config.seed)
    opening = config.opening_kinds
    if config.passive:
        policy = config.view_policy.build(config, questions)
        return PolicyViews(
            make_viewer, scenes, shown, opening, config.start, opening, policy=policy
        )
    facts = known_facts(questions, config.annotations) if config.toolset.measures else None
    wording = wording_of(config)
    return FreeViews(
        make_viewer, scenes, shown, config.kinds, config.start, opening, facts, wording
    )
