"""The command `bench verifiers`: which runs, which verifiers, and where the figures go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from render_agent.errors import SetupError, UsageError

if TYPE_CHECKING:
    from render_agent.agent_plan import VerifierPlan
    from render_agent.bench.verifiers.measure import Judging
    from render_agent.run_log.folder import RunFolder

DEFAULT = ("random", "geometry", "geometry:unnamed")

FOR_THE_WALK = ("image_size", "max_turns", "seed", "fov", "renderer", "start", "first_view")
"""Options of a run that hold for the walks of the bench, too."""


@click.command("verifiers")
@click.argument("runs", nargs=-1, metavar="[RUN]…")
@click.option(
    "--verifier",
    "names",
    multiple=True,
    metavar="NAME",
    help="What scores the candidates; may be given more than once (default: random, geometry and"
    " geometry:unnamed; without a RUN a head trained on the spot, too).",
)
@click.option(
    "--candidates",
    type=click.IntRange(2, 64),
    default=8,
    show_default=True,
    metavar="K",
    help="Candidates of a decision, where no RUN is given.",
)
@click.option(
    "--questions",
    type=click.IntRange(1),
    default=160,
    show_default=True,
    metavar="N",
    help="Questions of the bundled rooms, where no RUN is given.",
)
@click.option("--output", metavar="DIR", help="Write bench.json and bench.md there.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def verifiers_command(
    context: click.Context, /, runs: tuple[str, ...], as_json: bool, **given: Any
) -> None:
    """Measure verifiers side by side over the logged decisions of RUNs, or in the bundled rooms.

    \b
    render-agent bench verifiers
    render-agent bench verifiers results/RUN --verifier geometry --verifier learned:heads/first

    Of a RUN those decisions count whose candidates were drawn (--agent lookahead:K), in scenes whose boxes
    are known. Without one, a policy explores the bundled rooms with K random candidates a turn. Options
    of the model that a judge asks stand before the command.
    """
    import json

    from rich.console import Console

    from render_agent.bench.verifiers.tables import about, printed, sheets

    heard = Console(stderr=True, highlight=False)
    found = compare(
        context.obj or {}, runs, given, lambda words: heard.print(words, soft_wrap=True)
    )
    if given["output"]:
        write(found, given["output"])
    if as_json:
        click.echo(json.dumps(found, indent=1, ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(about(found))
    for sheet in sheets(found):
        console.print()
        console.print(printed(sheet))


def compare(
    options: dict[str, Any], runs: tuple[str, ...], given: dict[str, Any], told: Any
) -> dict[str, Any]:
    """Return the figures of all verifiers, and all that they depend on.

    options: of a run. runs: paths. given: the options of the command. SetupError where something is
    missing.
    """
    import shlex
    import sys
    import time

    from render_agent.agent_plan import verifier_plans
    from render_agent.bench.report import circumstances
    from render_agent.bench.verifiers.measure import measure, opened

    began = time.perf_counter()
    plans = list(verifier_plans(given["names"] or DEFAULT))
    with (
        _runs(options, runs, given, told) as (folders, said),
        _judging(options, plans) as judging,
        opened(folders) as sources,
    ):
        found = measure(sources, plans, judging, told, logged=bool(runs))
    return {
        **circumstances(shlex.join(["render-agent", *sys.argv[1:]]), {}, workload=said),
        "seconds": time.perf_counter() - began,
        **found,
    }


def write(found: dict[str, Any], folder: str) -> None:
    """Write the figures into a folder as JSON and as a page. SetupError where that fails."""
    import json

    from render_agent.bench.verifiers.tables import markdown

    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / "bench.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        (place / "bench.md").write_text(markdown(found), "utf-8")
    except OSError as error:
        raise SetupError(f"cannot write to {folder}: {error.strerror}") from error


@contextmanager
def _runs(
    options: dict[str, Any],
    runs: tuple[str, ...],
    given: dict[str, Any],
    told: Any,
) -> Iterator[tuple[list[RunFolder], str]]:
    """Give the runs whose decisions are measured, and in words what they are."""
    import tempfile

    from render_agent.bench.verifiers.walks import walk
    from render_agent.run_log.folder import RunFolder

    if runs:
        yield [RunFolder(Path(path)) for path in runs], f"The runs {', '.join(runs)}."
        return
    kept = {name: options[name] for name in FOR_THE_WALK if name in options}
    with tempfile.TemporaryDirectory(prefix="render_agent-") as scratch:
        count = given["candidates"]
        told(f"the bundled rooms are explored, {count} candidates a turn")
        more = {"limit": given["questions"], "shuffle": True, **kept}
        folder = walk(Path(scratch), "rooms", f"lookahead:{count}", "random", **more)
        yield [folder], f"The bundled rooms, explored at random with {count} candidates a turn."


@contextmanager
def _judging(options: dict[str, Any], plans: list[VerifierPlan]) -> Iterator[Judging]:
    """Give what a judge asks: the engine of the options where one needs it."""
    from contextlib import closing

    from render_agent.bench.verifiers.measure import Judging
    from render_agent.config import RunConfig
    from render_agent.engines.choose import make_engine

    asks = any(plan.name == "judge" and plan.argument is None for plan in plans)
    own = {} if asks else {"engine": "scripted", "model": "explorer"}
    config = RunConfig(**{**_plain(options), **own, "batch": True, "benchmark": "rooms"})
    with closing(make_engine(config, [])) as engine:
        yield Judging(config, engine)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of a run without those that the bench sets. UsageError where they choose moves."""
    if options.get("verifier") or options.get("agent", "single") != "single":
        raise UsageError(
            "--agent and --verifier go with a run: bench verifiers has its own --verifier"
        )
    unwanted = ("batch", "ply", "question", "option", "benchmark")
    return {name: value for name, value in options.items() if name not in unwanted}
