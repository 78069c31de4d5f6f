"""The command that trains a verifier on one's own runs."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from render_agent.cli.shared_options import complete_runs, option, to_folder
from render_agent.errors import UsageError


@click.command("train-verifier", panel="Other")
@click.argument("runs", nargs=-1, required=True, metavar="RUN…", shell_complete=complete_runs)
@to_folder("Where the verifier is written.", required=True)
@option(
    "--runs-in",
    "output",
    default="experiment_logs",
    metavar="DIR",
    help="Where runs lie that are given by name.",
)
@option(
    "--held-out",
    default="0.25",
    metavar="SHARE|SCENES",
    help="The share of scenes that are held out, or their names with commas.",
)
@option(
    "--encoder",
    default="pixels",
    metavar="pixels|siglip2[:MODEL]",
    help="What makes the features: pixels needs no weights.",
)
@option(
    "--members", type=click.IntRange(1, 64), default=3, help="How many members the ensemble has."
)
@option(
    "--epochs", type=click.IntRange(1), default=12, help="How often every decision is learned from."
)
@option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=1e-3,
    help="The highest rate of learning.",
)
@option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    help="Of the split, the first weights and the order.",
)
@option("--device", default="auto", metavar="NAME", help="Where it is trained.")
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
    """Train a verifier on the decisions of RUN… (recent, names or paths), for --verifier learned:DIR.

    \b
    Examples:
      render-agent train-verifier recent --to my_verifier
    """
    from render_agent.runs.read import find_run
    from render_agent_lab.verifier_training.card import spanned, standing
    from render_agent_lab.verifier_training.fit import Settings
    from render_agent_lab.verifier_training.train import Wishes, train

    wishes = Wishes(
        encoder,
        _held_out(held_out),
        device,
        Settings(members=members, epochs=epochs, rate=rate, seed=seed),
    )
    folders = [find_run(Path(output), run) for run in dict.fromkeys(runs)]
    learned = train(folders, Path(folder), wishes, lambda line: click.echo(line, err=True))
    held = learned["held_out"]
    for title, figures in (("good moves", held["good"]), ("named things found", held["named"])):
        if figures:
            click.echo(f"{title}, {figures['decisions']} decisions in scenes held out:")
            for name, row in figures["success"].items():
                click.echo(f"  {name:<12} {100 * row['mean']:5.1f} %  ({spanned(row)})")
            for line in standing(figures):
                click.echo(f"  {line}")
    click.echo(f"{folder}: verifier and card; use it with --verifier learned:{folder}")


def _held_out(text: str) -> float | tuple[str, ...]:
    """Return a share of scenes, or their names. UsageError where it is a number that is no share."""
    try:
        share = float(text)
    except ValueError:
        return tuple(name.strip() for name in text.split(",") if name.strip())
    if not 0 < share < 1:
        raise UsageError("--held-out is a share between 0 and 1, such as 0.25, or names of scenes")
    return share
