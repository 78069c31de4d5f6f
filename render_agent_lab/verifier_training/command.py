"""The `train-verifier` command: trains a verifier on the user's own runs."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from render_agent.cli.shared_options import complete_runs, option, to_folder
from render_agent.errors import UsageError


@click.command("train-verifier", panel="Other")
@click.argument("runs", nargs=-1, required=True, metavar="RUN…", shell_complete=complete_runs)
@to_folder("Folder to write the verifier to.", is_required=True)
@option(
    "--runs-in",
    "output",
    default="experiment_logs",
    metavar="DIR",
    help="Folder in which runs are looked up by name.",
)
@option(
    "--held-out",
    default="0.25",
    metavar="SHARE|SCENES",
    help="Share of scenes to hold out, or comma-separated scene names.",
)
@option(
    "--encoder",
    default="pixels",
    metavar="pixels|siglip2[:MODEL]",
    help="Feature encoder; pixels needs no weights.",
)
@option("--members", type=click.IntRange(1, 64), default=3, help="Number of ensemble members.")
@option(
    "--epochs",
    type=click.IntRange(1),
    default=12,
    help="Number of passes over the training decisions.",
)
@option("--rate", type=click.FloatRange(0, min_open=True), default=1e-3, help="Peak learning rate.")
@option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    help="Seed of the split, the initial weights and the data order.",
)
@option("--device", default="auto", metavar="NAME", help="Device to train on.")
def train_verifier_command(
    runs: tuple[str, ...],
    folder: str,
    output: str,
    held_out: str,
    encoder: str,
    members: int,
    epochs: int,
    rate: float,
    seed: int,
    device: str,
) -> None:
    """Train a verifier on the decisions of runs.

    RUN is recent, a name or a path. Use the verifier with --verifier learned:DIR.

    \b
    Examples:
      render-agent train-verifier recent --to my_verifier
    """
    from render_agent.runs.read import find_run
    from render_agent_lab.verifier_training.card import comparison_sentences, format_interval
    from render_agent_lab.verifier_training.fit import Settings
    from render_agent_lab.verifier_training.train import TrainingOptions, train

    wishes = TrainingOptions(
        encoder,
        _held_out(held_out),
        device,
        Settings(members=members, epochs=epochs, rate=rate, seed=seed),
    )
    remedy = "Start one with --batch, or pass --runs-in DIR."
    folders = [find_run(Path(output), run, remedy) for run in dict.fromkeys(runs)]
    learned = train(folders, Path(folder), wishes, lambda line: click.echo(line, err=True))
    held_out_figures = learned["held_out"]
    for title, figures in (
        ("good moves", held_out_figures["good"]),
        ("named objects found", held_out_figures["named"]),
    ):
        if figures:
            click.echo(f"{title}, {figures['decisions']} decisions in held-out scenes:")
            for name, row in figures["success"].items():
                click.echo(f"  {name:<12} {100 * row['mean']:5.1f} %  ({format_interval(row)})")
            for line in comparison_sentences(figures):
                click.echo(f"  {line}")
    click.echo(f"wrote verifier and card to {folder}; use it with --verifier learned:{folder}")


def _held_out(text: str) -> float | tuple[str, ...]:
    """Parse a share of scenes or their names. Raises UsageError for a number outside 0 to 1."""
    try:
        share = float(text)
    except ValueError:
        return tuple(name.strip() for name in text.split(",") if name.strip())
    if not 0 < share < 1:
        raise UsageError("--held-out must be a share between 0 and 1, such as 0.25, or scene names")
    return share
