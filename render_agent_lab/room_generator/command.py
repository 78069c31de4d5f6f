"""The `make-rooms` command: writes furnished rooms with ground truth and questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from render_agent.cli.shared_options import option, to_folder
from render_agent.errors import SetupError, os_errors

if TYPE_CHECKING:
    from render_agent.tasks.boxes.room_ground_truth import RoomGroundTruth

COUNT, SEED, PER_TYPE, SPACING = 8, 1, 3, 0.07
QUESTIONS = "questions.jsonl"


def make_rooms(
    output: Path,
    count: int,
    seed: int,
    per_type: int,  # maximum number of questions per home and type; 0 writes none
    spacing: float = SPACING,  # vertex spacing of floors in metres
    as_scan: bool = False,
) -> list[Path]:
    """Make homes 0 to count - 1 of a seed. The same arguments write the same bytes.

    Each home is a scan `roomNN.ply` with its ground truth `roomNN.json`; `questions.jsonl` has the questions.
    """
    from render_agent_lab.room_generator.questions.balanced import balanced_questions
    from render_agent_lab.room_generator.write import write_questions

    with os_errors(SetupError, f"write rooms to {output}"):
        output.mkdir(parents=True, exist_ok=True)
        truths = [make_room(output, seed, number, spacing, as_scan) for number in range(count)]
        if per_type:
            write_questions(balanced_questions(truths, seed, per_type), output / QUESTIONS)
    files = [output / f"{truth.scene}{suffix}" for truth in truths for suffix in (".ply", ".json")]
    return [*files, output / QUESTIONS] if per_type else files


def make_room(
    folder: Path, seed: int, number: int, spacing: float, as_scan: bool = False
) -> RoomGroundTruth:
    """Write the scan and the ground truth of home `number` of a seed, and return the ground truth."""
    # imported here, so that the command line starts quickly
    import numpy as np

    from render_agent_lab.room_generator import scan, write
    from render_agent_lab.room_generator.build import build_home
    from render_agent_lab.room_generator.write import ground_truth_of

    home = build_home(seed, number, spacing)
    truth = ground_truth_of(home, f"room{number:02d}")
    mesh = (
        scan.simulate_scan(home, np.random.default_rng((seed, number, 8))) if as_scan else home.mesh
    )
    write.write_scan(mesh, folder / f"{truth.scene}.ply")
    write.write_truth(truth, folder / f"{truth.scene}.json")
    return truth


@click.command("make-rooms", panel="Other")
@to_folder("Folder to write the rooms to.", is_required=True)
@option("--count", type=click.IntRange(1, 9999), default=COUNT, help="Number of homes.")
@option(
    "--seed", type=click.IntRange(0), default=SEED, help="Seed; the same seed gives the same bytes."
)
@option(
    "--per-type",
    type=click.IntRange(0),
    default=PER_TYPE,
    help="Maximum number of questions per home and type; 0 writes none.",
)
@option(
    "--spacing",
    type=click.FloatRange(0.02, 0.5),
    default=SPACING,
    help="Vertex spacing of floors in metres.",
)
@option(
    "--as-scan",
    is_flag=True,
    help="Add noise, holes, unseen patches and colour drift, as in real scans.",
)
def make_rooms_command(
    folder: str, count: int, seed: int, per_type: int, spacing: float, as_scan: bool
) -> None:
    """Generate furnished rooms and questions about them.

    Rooms and flats have exact ground truth, and the questions have the types of VSI-Bench.

    \b
    Examples:
      render-agent make-rooms --to my_rooms --count 4 --seed 7
      render-agent --batch --benchmark my_rooms/questions.jsonl
    """
    from render_agent.util.display import count_noun

    files = make_rooms(Path(folder), count, seed, per_type, spacing, as_scan)
    size = sum(path.stat().st_size for path in files) / 1e6
    click.echo(f"{count_noun(count, 'home')} in {folder}: {len(files)} files, {size:.1f} MB")
