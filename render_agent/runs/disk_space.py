"""What a run will need of the disk, and whether it is there."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from render_agent.config import RunConfig
from render_agent.config.choosing_budget import pictures_of_moves, weighed_by_turn
from render_agent.dialogue.state import Question
from render_agent.errors import SetupError
from render_agent.text.display import size

BYTES_A_PIXEL = 0.6
"""Of a stored picture: views of textured scans take about 0.3, maps 0.9."""

BYTES_A_TURN = 4_000
"""Of a turn's line in the log; the first, with the instructions, is about as long as two."""

BYTES_A_CANDIDATE = 1_500
"""Of a reply that was not taken, with where it would have led and how it was scored."""


def pictures_needed(config: RunConfig, questions: Sequence[Question]) -> int:
    """Return how many pictures a run draws at the most: every question uses all its turns.

    The pictures of the opening are shared by the questions of a scene, and so are the further ones of
    a policy that looks at the scene alone. Those of moves that are drawn to be chosen are counted, made
    or not.
    """
    scenes = len({(question.dataset, question.scene) for question in questions})
    opening = len(config.opening_kinds)
    if config.free:
        return scenes * opening + pictures_of_moves(config) * len(questions)
    further = config.most_views - opening
    shared = config.view_policy.shared
    return scenes * opening + further * (scenes if shared else len(questions))


def disk_needed(
    config: RunConfig, questions: Sequence[Question], bytes_a_pixel: float = BYTES_A_PIXEL
) -> int:
    """Return how many bytes a run takes at the most: every question uses all its turns."""
    width, height = config.image_size
    pictures = pictures_needed(config, questions)
    plan, turns = config.agent_plan, config.max_turns
    lines = len(questions) * (turns + 1) * BYTES_A_TURN
    others = turns * plan.candidates if plan.chooses else 0
    if plan.depth > 1:  # second moves
        others += sum(weighed_by_turn(config)) - (turns - 1) * plan.candidates
    lines += len(questions) * others * BYTES_A_CANDIDATE
    return round(pictures * width * height * bytes_a_pixel) + lines


def refuse_a_full_disk(config: RunConfig, questions: Sequence[Question]) -> None:
    """SetupError where a run does not fit the disk of its output folder, before it begins."""
    output = Path(config.output).absolute()
    there = next(folder for folder in (output, *output.parents) if folder.exists())
    free, needed = shutil.disk_usage(there).free, disk_needed(config, questions)
    if needed > free:
        raise SetupError(
            f"the run may need {size(needed)} and {there} has {size(free)} free: name a larger disk by"
            " --output, or lower --image-size, --max-turns or --limit"
        )
