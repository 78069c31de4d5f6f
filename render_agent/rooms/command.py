"""The command that makes furnished rooms with their truths and questions."""

from __future__ import annotations

from pathlib import Path

import click

from render_agent.errors import SetupError

COUNT, SEED, QUESTIONS, SPACING = 8, 1, 20, 0.07


def make_rooms(
    output: Path,
    count: int = COUNT,
    seed: int = SEED,
    questions: int = QUESTIONS,
    spacing: float = SPACING,
    as_scan: bool = False,
) -> list[Path]:
    """Make homes 0 … count - 1 of a seed and return the files that were written.

    Each home is a scan `roomNN.ply` and its truth `roomNN.json`; `questions.jsonl` asks about all of
    them, at most `questions` each. spacing: metres between the vertices of a floor. as_scan: with the
    faults of a hand-held scan. The same arguments write the same bytes. Errors: SetupError where the
    folder cannot be written.
    """
    # the generator is loaded when it is used, so that the command line starts quickly
    import numpy as np

    from render_agent.rooms.annotate import truth_of
    from render_agent.rooms.ask import ask
    from render_agent.rooms.build import build_home
    from render_agent.rooms.scan import as_scan as scanned
    from render_agent.rooms.write import write_questions, write_scan, write_truth

    written, truths = [], []
    try:
        output.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            home = build_home(seed, number, spacing)
            scene = f"room{number:02d}"
            truth = truth_of(home, scene)
            mesh = scanned(home, np.random.default_rng((seed, number, 8))) if as_scan else home.mesh
            write_scan(mesh, output / f"{scene}.ply")
            write_truth(truth, output / f"{scene}.json")
            written += [output / f"{scene}.ply", output / f"{scene}.json"]
            truths.append(truth)
        if questions:
            write_questions(ask(truths, seed, questions), output / "questions.jsonl")
            written.append(output / "questions.jsonl")
    except OSError as error:
        raise SetupError(f"cannot write rooms to {output}: {error.strerror}") from error
    return written


@click.command("make-rooms")
@click.option("--output", required=True, metavar="DIR", help="Where the rooms are written.")
@click.option(
    "--count",
    type=click.IntRange(1, 9999),
    default=COUNT,
    show_default=True,
    help="How many homes.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=SEED,
    show_default=True,
    help="Which homes: the same seed, the same bytes.",
)
@click.option(
    "--questions",
    type=click.IntRange(0),
    default=QUESTIONS,
    show_default=True,
    help="How many questions about each home at most.",
)
@click.option(
    "--spacing",
    type=click.FloatRange(0.02, 0.5),
    default=SPACING,
    show_default=True,
    help="Metres between the vertices of a floor.",
)
@click.option(
    "--as-scan",
    is_flag=True,
    help="With noise, holes, unseen patches and drifting colours, as scans have them.",
)
def make_rooms_command(
    output: str, count: int, seed: int, questions: int, spacing: float, as_scan: bool
) -> None:
    """Make furnished rooms and flats with exact truths and VSI-Bench's questions about them.

    \b
    render-agent make-rooms --output my_rooms --count 4 --seed 7
    render-agent --batch --benchmark my_rooms/questions.jsonl
    """
    written = make_rooms(Path(output), count, seed, questions, spacing, as_scan)
    size = sum(path.stat().st_size for path in written) / 1e6
    click.echo(f"{count} homes in {output}, {len(written)} files, {size:.1f} MB")
