"""What the report makes of scans alone, made while its run goes on, in a process that gets idle time only.

A run waits for its model most of the time, and its report for scans: the file in 3D, the plan, the visible surface,
which surface belongs to which box. They are kept in the user's cache, where the report finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from render_agent.analysis.live.run import Tail
from render_agent.analysis.report.maps.floor_plan import first_cameras, keep_scene
from render_agent.errors import RenderError, SceneError
from render_agent.questions.ground_truth import known_facts, placed
from render_agent.render.base import colourless
from render_agent.render.registry import make_renderer
from render_agent.render.visibility.room_visibility import NOTHING, Room
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.lines import replay
from render_agent.runs.log.reader import read_states
from render_agent.system.kept_files import can_keep, remove_oldest

POLL_SECONDS = 2.0
"""Seconds between two looks at which scenes the run has come to."""


def precompute(folder: RunFolder, over: Callable[[float], object]) -> None:
    """Make and keep what the report of a run in progress needs of each scene, as the run comes to it.

    over: waits so many seconds at the most, and tells whether to stop. It also stops where nothing can be kept, as on a
    full disk. RunLogError where the log is damaged.
    """
    config, states = folder.config, read_states(folder, [])
    by_id, tail = {state.id: state for state in states}, Tail(folder.path / "turns.jsonl")
    left = {state.question.scene: state.question for state in states}
    facts = known_facts(left.values(), config.annotations)
    scenes = config.picture_stress.scenes(config, list(left.values()), limit=0)  # one at a time
    renderer = make_renderer("rasteriser")
    try:
        while left and not over(POLL_SECONDS):
            replay(tail.new_lines(), by_id)
            cameras = first_cameras(states)
            for name in [name for name in cameras if name in left]:
                if over(0.0) or not can_keep():
                    return
                question = left.pop(name)
                with suppress(SceneError, RenderError):  # its questions fail, and say why
                    scene = scenes.get(question)
                    keep_scene(scene, cameras[name], renderer)
                    space, known = partial(scenes.space, question), facts.get(name, NOTHING)
                    room = Room(scene, space, placed(known, scene), config.image_size)
                    room.covered((), colourless(renderer))
    finally:
        renderer.close()
    remove_oldest()
