"""The command `bench verifiers`: its options, the runs and verifiers to measure, and its output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from render_agent.cli import completion
from render_agent.cli.options import AS_JSON, option, to_folder
from render_agent.config.flags import given_options
from render_agent.errors import SetupError, UsageError, os_errors

if TYPE_CHECKING:
    from render_agent.config.agent_plan import VerifierPlan
    from render_agent.runs.log.folder import RunFolder
    from render_agent_lab.verifier_benchmark.measure import Judging

Report = Callable[[str], None]

DEFAULT = ("random", "geometry", "geometry:unnamed")

TRAINED_HERE = "learned (trained here)"
"""How the head is called that is trained on the spot."""

DECIDED_HERE = ("batch", "ply", "question", "benchmark", "agent", "verifier", "temperature")
"""Options of a run that the bench sets itself."""

FOR_THE_WALK = ("image_size", "max_turns", "seed", "renderer")
"""Options of a run that hold for the walks of the bench, too."""


@click.command("verifiers")
@click.argument("runs", nargs=-1, metavar="[RUN]…", shell_complete=completion.runs)
@option(
    "--verifier",
    "names",
    multiple=True,
    metavar="NAME",
    help="What scores the candidates; may be given more than once (default: random, geometry and"
    " geometry:unnamed; without a RUN a head trained on the spot, too).",
)
@option(
    "--candidates",
    type=click.IntRange(2, 64),
    default=8,
    metavar="K",
    help="Candidates of a decision, where no RUN is given.",
)
@option(
    "--questions",
    type=click.IntRange(1),
    default=80,
    help="Questions of the bundled rooms, where no RUN is given.",
)
@option(
    "--train-rooms",
    type=click.IntRange(0),
    default=12,
    help="Rooms that are made to train a head in, where neither RUN nor --verifier is given.",
)
@to_folder("Where bench.json and bench.md are written.")
@AS_JSON
@click.pass_context
def verifiers_command(
    context: click.Context, /, runs: tuple[str, ...], as_json: bool, **chosen: Any
) -> None:
    """Measure verifiers side by side over the logged decisions of RUNs, or in the bundled rooms.

    \b
    Examples:
      render-agent bench verifiers
      render-agent bench verifiers results/RUN --verifier geometry --verifier learned:heads/first

    Of a RUN those decisions count whose candidates were drawn (--agent lookahead:K), in scenes whose boxes
    are known. Without one, a policy explores the bundled rooms with K random candidates a turn. Options
    of the model that a judge asks stand before the command.
    """

    from render_agent.text.console import plain_console
    from render_agent.text.sanitize import json_text
    from render_agent_lab.verifier_benchmark.sheets import about, printed, sheets

    progress = plain_console(stderr=True)
    options = given_options(context.find_root())
    if wrong := [name for name in DECIDED_HERE if name in options]:
        flag = "--" + wrong[0].replace("_", "-")
        raise UsageError(f"{flag} goes with a run: bench verifiers has options of its own")
    figures = compare(options, runs, chosen, lambda words: progress.print(words, soft_wrap=True))
    if chosen["folder"]:
        write(figures, chosen["folder"])
    if as_json:
        click.echo(json_text(figures))
        return
    console = plain_console()
    console.print(about(figures))
    for sheet in sheets(figures):
        console.print()
        console.print(printed(sheet))


def compare(
    options: Mapping[str, Any], runs: tuple[str, ...], chosen: Mapping[str, Any], report: Report
) -> dict[str, Any]:
    """Return the figures of all verifiers, and all that they depend on.

    options: those of a run that were given. runs: paths, or names. chosen: the options of the command.
    SetupError where something is missing.
    """
    import shlex
    import sys
    import tempfile
    import time

    from render_agent.config.choice import parsed
    from render_agent_lab.bench.report import circumstances
    from render_agent_lab.verifier_benchmark.measure import measure, opened
    from render_agent_lab.verifier_benchmark.walks import trained_here

    began = time.perf_counter()
    plans = {
        plan.label: plan for plan in parsed("verifier", "--verifier", chosen["names"] or DEFAULT)
    }
    trains = not (runs or chosen["names"]) and chosen["train_rooms"]
    with (
        tempfile.TemporaryDirectory(prefix="render_agent-") as scratch,
        _judging(options, plans.values()) as judging,
    ):
        folder = Path(scratch)
        walked = {name: options[name] for name in FOR_THE_WALK if name in options}
        if trains:
            head = trained_here(folder / "training", chosen["train_rooms"], report, **walked)
            plans[TRAINED_HERE] = parsed("verifier", "--verifier", [f"learned:{head}"])[0]
        folders, workload = _runs(folder, options, runs, chosen, report, walked)
        with opened(folders) as sources:
            figures = measure(sources, plans, judging, report, logged=bool(runs))
    return {
        **circumstances(shlex.join(["render-agent", *sys.argv[1:]]), {}, workload=workload),
        "seconds": time.perf_counter() - began,
        **figures,
    }


def write(figures: dict[str, Any], folder: str) -> None:
    """Write the figures into a folder as JSON and as a page. SetupError where that fails."""
    import json

    from render_agent_lab.verifier_benchmark.sheets import markdown

    target = Path(folder)
    with os_errors(SetupError, f"write to {folder}"):
        target.mkdir(parents=True, exist_ok=True)
        (target / "bench.json").write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
        (target / "bench.md").write_text(markdown(figures), "utf-8")


def _runs(
    place: Path,
    options: Mapping[str, Any],
    runs: tuple[str, ...],
    chosen: Mapping[str, Any],
    report: Report,
    walked: Mapping[str, Any],
) -> tuple[list[RunFolder], str]:
    """Return the runs whose decisions are measured, and in words what they are; walked: options of a walk."""
    from render_agent.config import OPTIONS
    from render_agent.runs.log.folder import find_run
    from render_agent_lab.verifier_benchmark.walks import walk

    if runs:
        output = Path(options.get("output", OPTIONS["output"].default))
        return [find_run(output, run) for run in runs], f"The runs {', '.join(runs)}."
    count = chosen["candidates"]
    report(f"the bundled rooms are explored, {count} candidates a turn")
    more = {"limit": chosen["questions"], "shuffle": True, **walked}
    folder = walk(place / "runs", "rooms", f"lookahead:{count}", "random", **more)
    return [folder], f"The bundled rooms, explored at random with {count} candidates a turn."


@contextmanager
def _judging(options: Mapping[str, Any], plans: Iterable[VerifierPlan]) -> Iterator[Judging]:
    """Give the options and the engine that judges are built with.

    SetupError where what a verifier needs is not at hand.
    """
    from contextlib import closing
    from dataclasses import replace

    from render_agent.config import RunConfig
    from render_agent.engines.registry import make_engine
    from render_agent_lab.verifier_benchmark.measure import Judging

    plans = list(plans)
    asks = any(plan.asks_model and plan.own_model is None for plan in plans)
    own = {} if asks else {"engine": "scripted", "model": "explorer"}
    decided = {"batch": True, "benchmark": "rooms", "agent": "single", "verifier": ()}
    unwanted = {"ply", "question", "option", "verifier_weights"}
    kept = {name: value for name, value in options.items() if name not in unwanted}
    config = RunConfig(**kept | own | decided).absolute()
    named = tuple(plan.label for plan in plans)
    choosing = replace(config, agent="lookahead:2", temperature=1.0, verifier=named)
    for plan in choosing.verifiers:
        plan.check(choosing, [])
    with closing(make_engine(config, [])) as engine:
        yield Judging(config, engine)
