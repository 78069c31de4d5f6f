"""The `make-views` command: targets for questions of the type `reach_view`."""

from __future__ import annotations

from typing import Any

import rich_click as click

from render_agent.cli.shared_options import option, run_option
from render_agent.errors import UsageError
from render_agent.options import OPTIONS

FRAME_OPTIONS = ("up", "unit", "boxes_unit", "boxes_up")


@click.command(
    "make-views", panel="Other", params=[run_option(OPTIONS[name]) for name in FRAME_OPTIONS]
)
@click.argument("scans", nargs=-1, required=True, metavar="SCAN…")
@option("--to", "file", required=True, metavar="FILE", help="Question file, next to the scans.")
@option("--per-tier", type=click.IntRange(1), default=10, help="Targets per tier.")
@option("--limit", type=click.IntRange(1), help="At most N targets in all.", metavar="N")
@option(
    "--seed", type=click.IntRange(0), default=1, help="Seed; the same seed gives the same file."
)
def make_views_command(
    scans: tuple[str, ...], file: str, per_tier: int, limit: int | None, seed: int, **frame: Any
) -> None:
    """Write views in scans for the camera to reach.

    The tiers are rotation (the target is at the same place), translation (it has the same heading), near (a straight move
    leads there), far (something is in between), and described (a sentence instead of an image; only for scans with
    boxes). Targets show enough to be recognised, are reachable, and look like no other place.

    \b
    Examples:
      render-agent make-views scans/*.ply --to scans/views.jsonl
      render-agent --batch --benchmark scans/views.jsonl --model MODEL
    """
    from collections import Counter
    from pathlib import Path

    from render_agent.options import RunConfig
    from render_agent_lab.room_generator.write import write_questions
    from render_agent_lab.view_targets.draw_targets import TIERS
    from render_agent_lab.view_targets.make_targets import make_targets

    target = Path(file)
    for scan in scans:
        if Path(scan).parent.resolve() != target.parent.resolve():
            raise UsageError(f"--to {file} must be in the folder of the scan {scan}")
    config = RunConfig(batch=True, **frame)
    rows = make_targets([*map(Path, scans)], config, per_tier, seed)[:limit]
    if not rows:
        raise UsageError("no view of these scans can be a target: they show too little surface")
    write_questions(rows, target)
    counts = Counter(row["question_type"] for row in rows)
    for tier in TIERS:
        click.echo(f"{tier}: {counts[f'reach_view_{tier}']}", err=True)
    click.echo(file)
