"""Views that cover the room: each shows as much new surface as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from render_agent.dialogue.question import Question
from render_agent.options import RunConfig
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.standing import farthest_point_sample
from render_agent.views.view_policies.view_policy import ScenePlanner, ViewContext, ViewPolicy
from render_agent.visibility.coverage import REACH_METRES, Surface
from render_agent.visibility.panorama import visible_points
from render_agent.visibility.start_pose import EYE_HEIGHT_METRES, HEADINGS

PLACES = 40  # places compared, besides that of the first view
PITCHES_DEGREES = (0.0, -20.0)  # level, and tilted down to nearby objects


class CoverageViews(ViewPolicy):
    """Each view shows the most surface not yet seen."""

    name = "coverage"
    description = "{count}, each with the most surface not yet seen"
    shared = True

    def build(self, config: RunConfig, questions: Sequence[Question]) -> ScenePlanner:
        return ScenePlanner(cover, config.max_turns - 1)


def cover(context: ViewContext, count: int) -> list[Camera]:
    """Return `count` cameras, each with the most surface that neither the first view nor an earlier one shows.

    Candidates are HEADINGS headings at each place. Surface is counted as for the share of the room seen in the
    report. Once everything visible has been seen, counting restarts.
    """
    if not count:
        return []
    scene, renderer, start = context.scene, context.renderer, context.start
    points = Surface.of(scene, context.space, renderer).points
    free = context.space.standing_places(EYE_HEIGHT_METRES)
    places = [start.position, *farthest_point_sample(free, start.position, PLACES)]
    headings = [
        replace(start, yaw=360.0 * number / HEADINGS - 180.0, pitch=pitch)
        for pitch in PITCHES_DEGREES
        for number in range(HEADINGS)
    ]
    aspect = context.size[0] / context.size[1]
    at_places = ([heading.at(place) for heading in headings] for place in places)
    groups = [
        [start],
        *([camera for camera in cameras if camera != start] for cameras in at_places),
    ]
    candidates = [camera for cameras in groups for camera in cameras]
    visible_patches = np.concatenate(
        [
            visible_points(scene, renderer, cameras, aspect, points, REACH_METRES)
            for cameras in groups
        ]
    )
    seen_patches, chosen_cameras = visible_patches[0].copy(), []
    visible_patches[0] = False
    for _ in range(count):
        gains = np.count_nonzero(visible_patches & ~seen_patches, axis=1)
        if not gains.any():
            seen_patches[:] = False
            gains = np.count_nonzero(visible_patches, axis=1)
        index = int(gains.argmax())
        seen_patches |= visible_patches[index]
        visible_patches[index] = False  # no camera is chosen twice
        chosen_cameras.append(candidates[index])
    return chosen_cameras
