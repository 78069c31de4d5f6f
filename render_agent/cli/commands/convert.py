"""The command that makes a scan of one kind from one of another, where only one kind exists."""

from __future__ import annotations

from pathlib import Path

import click

from render_agent.cli import completion
from render_agent.cli.options import NewPath, option
from render_agent.config.questions import SCAN_KINDS


@click.command("convert")
@click.argument("scan", metavar="SCAN", shell_complete=completion.files)
@click.argument("output", type=NewPath(), metavar="OUTPUT.ply", shell_complete=completion.files)
@option(
    "--kind", "--to", "kind", type=click.Choice(SCAN_KINDS), required=True, help="What is made."
)
@option(
    "--samples",
    type=click.IntRange(1, 20_000_000),
    default=1_000_000,
    help="Points or Gaussians that a mesh becomes.",
)
@option("--force", is_flag=True, help="Replace what is there.")
def convert_command(scan: str, output: str, kind: str, samples: int, force: bool) -> None:
    """Make a mesh, cloud or splat of SCAN, for trying and for pairs to compare.

    A mesh becomes a cloud by sampling, or a splat of one flat Gaussian a sample; a splat becomes a cloud of
    the centres that absorb more than half of the light. Nothing becomes a mesh but a mesh. It is a
    conversion, not a capture, and its file says so.

    \b
    Examples:
      render-agent convert room.glb room_splat.ply --kind splat --samples 300000
      render-agent convert capture.spz capture_cloud.ply --kind cloud
    """
    from render_agent.errors import UsageError
    from render_agent.scene.conversion import convert, written
    from render_agent.scene.formats.load import load_scene
    from render_agent.system.whole_files import write_whole

    path = Path(output)
    if path.suffix.lower() != ".ply":
        raise UsageError(f"{output} does not end in .ply, in which scans are written")
    if path.exists() and not force:
        raise UsageError(f"{output} is there already: give another name, or --force to replace it")
    made = convert(load_scene(Path(scan)), kind, samples)
    write_whole(path, written(made))
    click.echo(f"{output}: {made.notes[-1]}, {len(made.points):,} of them; not a capture")
