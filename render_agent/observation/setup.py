"""How the dialogues of a run are worded and what shows its views, as the options have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from render_agent import registry
from render_agent.config import RunConfig
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.state import Question
from render_agent.errors import SceneError
from render_agent.observation.base import NoViews, ViewProvider
from render_agent.observation.free_views import FreeViews, PolicyViews
from render_agent.observation.picture_store import Pictures
from render_agent.observation.scene_graph import GraphTold
from render_agent.questions.ground_truth import known_facts
from render_agent.render.start_pose import parse_start
from render_agent.render.subprocess_renderer import make_guarded
from render_agent.render.views import Viewer
from render_agent.scene.cache import SceneCache

MakeViews = Callable[[RunConfig, SceneCache, Pictures, Sequence[Question]], ViewProvider]


def make_prompt(config: RunConfig) -> Prompt:
    """Return how the dialogues of a run are worded."""
    turns, field = config.max_turns, config.field_of_view
    if not config.passive:
        kinds = () if config.blind else config.kinds
        size = config.image_size if config.toolset.measures else None
        start = parse_start(config.start)
        # in a mirrored room the place that was asked for has other coordinates
        named = None if isinstance(start, str) or config.picture_stress.changes_truth else start[0]
        return Prompt(
            turns, field, kinds, picture_size=size, graph=config.toolset.graph, start=named
        )
    return Prompt(turns, field, config.opening_kinds, config.most_views)


def make_views(
    config: RunConfig, scenes: SceneCache, pictures: Pictures, questions: Sequence[Question]
) -> ViewProvider:
    """Return what draws the views of some questions; the renderer is made for the first of them.

    SetupError where what the choice of views depends on is not at hand.
    """
    if config.toolset.graph:
        return GraphTold(known_facts(questions, config.annotations))
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
    return FreeViews(make_viewer, scenes, shown, config.kinds, config.start, opening, facts)
