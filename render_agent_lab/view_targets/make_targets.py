"""Draws targets in several scans, balanced by tier and scan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.options import RunConfig
from render_agent.render.make_renderer import make_renderer
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.tasks.ground_truth import load_facts, place_facts
from render_agent.tasks.scene_reader import read_scene
from render_agent_lab.view_targets.draw_targets import TIERS, draw_targets
from render_agent_lab.view_targets.target_room import TargetRoom


def make_targets(
    scans: Sequence[Path],
    config: RunConfig,  # the frame of the scans
    per_tier: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Return the rows of a question file, one tier after the other in turn.

    The targets of a tier are drawn from the scans in turn; scans without further targets are left out.
    """
    renderer = make_renderer()
    rooms = [_open(scan, config, renderer) for scan in scans]
    chosen: dict[str, list[dict[str, Any]]] = {}
    for tier in TIERS:
        rows = chosen[tier] = []
        draws = [draw_targets(room, tier, seed, room.scene.origin) for room in rooms]
        while draws and len(rows) < per_tier:
            for draw in list(draws):
                row = next(draw, None)
                if row is None:
                    draws.remove(draw)
                elif len(rows) < per_tier:
                    rows.append(row)
    return [
        rows[number] for number in range(per_tier) for rows in chosen.values() if number < len(rows)
    ]


def _open(scan: Path, config: RunConfig, renderer: Any) -> TargetRoom:
    scene = read_scene(scan, scan.stem, *config.frame)
    question = Question(scan.stem, "views", "own", scan.stem, "", "", "pose", scan=scan)
    facts = load_facts([question], config).get(scan.stem)
    placed = None if facts is None else place_facts(facts, scene)
    return TargetRoom(scene, FreeSpace.of(scene), placed, renderer)
