"""The command that writes the true cognitive maps of a benchmark's scenes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from render_agent.cli.options import NewPath, option

if TYPE_CHECKING:
    from render_agent.questions.ground_truth import Facts


@click.command("maps")
@option(
    "--benchmark",
    type=click.Choice(["vsibench", "rooms"]),
    default="vsibench",
    help="Whose scenes.",
)
@option(
    "--annotations",
    metavar="DIR",
    envvar="RENDER_AGENT_ANNOTATIONS",
    help="VSI-Bench's official annotations (…_meta_info_val.json).",
)
@option("--to", type=NewPath(), metavar="DIR", help="Where grid.json and metric.json are written.")
@option("--json", "as_json", is_flag=True, help="Print both maps of every scene as JSON.")
def maps_command(benchmark: str, annotations: str | None, to: str | None, as_json: bool) -> None:
    """Write the true cognitive map of every scene, on a grid of 10 × 10 and in metres.

    They are what VSI-Bench's authors describe and did not release: by category, the cells of its objects. Each scene's
    grid is the smallest square around the boxes of its objects.

    \b
    Examples:
      render-agent maps --benchmark rooms --json
      render-agent maps --annotations VSI-Bench/meta_info --to maps
    """
    from render_agent.beliefs.true_map import grid_map, metric_map
    from render_agent.system.whole_files import make_folders, write_whole
    from render_agent.text.safe_parse import encode
    from render_agent.text.sanitize import json_text

    scenes = sorted(_facts(benchmark, annotations).items())
    maps = {
        "grid": {scene: grid_map(known) for scene, known in scenes},
        "metric": {scene: metric_map(known) for scene, known in scenes},
    }
    if to is not None:
        folder = Path(to)
        make_folders(folder, durable=False)
        for form, by_scene in maps.items():
            write_whole(folder / f"{form}.json", encode(by_scene), durable=False)
    if as_json:
        click.echo(json_text(maps))
        return
    objects = sum(len(cells) for scene in maps["grid"].values() for cells in scene.values())
    where = (
        "nothing is written: give --to DIR"
        if to is None
        else f"written to {to}: grid.json, metric.json"
    )
    click.echo(f"{len(scenes):,} scenes with {objects:,} objects; {where}")


def _facts(benchmark: str, annotations: str | None) -> dict[str, Facts]:
    """Return the boxes of the scenes of a benchmark. UsageError where no annotations are named, QuestionsError as in `read_annotations`."""
    from render_agent.errors import UsageError
    from render_agent.questions.ground_truth import annotated_facts, known_facts
    from render_agent.questions.rooms import bundled

    if benchmark == "rooms":
        if annotations is not None:
            raise UsageError("--annotations belongs to --benchmark vsibench: leave it out")
        return known_facts(bundled())
    if annotations is None:
        raise UsageError(
            "the maps of VSI-Bench's scenes are made from its official annotations, which are not here: download"
            " the three …_meta_info_val.json of thinking-in-space and name their folder by --annotations DIR, or"
            " take the bundled rooms by --benchmark rooms"
        )
    return annotated_facts(Path(annotations))
