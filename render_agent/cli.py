"""The command line: every command, and the only place where the program exits."""

from __future__ import annotations

import signal
import sys
from dataclasses import Field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from render_agent.bench.command import bench_command
from render_agent.config import AUTO, OPTIONS, RunConfig
from render_agent.config_file import options_of_file
from render_agent.errors import RenderAgentError, UsageError
from render_agent.rooms.command import make_rooms_command

INTERRUPTED, TERMINATED = 130, 143


class Terminated(BaseException):
    """SIGTERM arrived, as a cluster's time limit sends it."""


class Size(click.ParamType[tuple[int, int]]):
    """A picture's size, written 640x480."""

    name = "WxH"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        """Return (width, height)."""
        if isinstance(value, tuple):
            return value
        width, _, height = str(value).lower().partition("x")
        if not (width.isdecimal() and height.isdecimal()):
            self.fail(f"{value!r} is no size: write it as 640x480")
        if not all(32 <= int(side) <= 4096 for side in (width, height)):
            self.fail("both sides must be 32 to 4096 pixels")
        return int(width), int(height)


class Kinds(click.ParamType[tuple[str, ...]]):
    """Kinds of view, written ego,top,around."""

    name = "LIST"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Return the kinds in the order given."""
        from render_agent.action import KINDS

        if isinstance(value, tuple):
            return value
        kinds = tuple(dict.fromkeys(kind.strip() for kind in value.split(",")))
        if wrong := [kind for kind in kinds if kind not in KINDS]:
            self.fail(f"{','.join(wrong)!r} is no kind of view: choose from {','.join(KINDS)}")
        return kinds


class Parts(click.ParamType[tuple[str, ...]]):
    """Names with commas between them."""

    name = "LIST"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Return the names in the order given."""
        if isinstance(value, tuple):
            return value
        return tuple(part for part in (part.strip() for part in value.split(",")) if part)


class Texts(click.types.StringParamType):
    """One of several texts; in the environment they stand side by side, split at semicolons."""

    envvar_list_splitter = ";"


class Auto(click.ParamType[int | str]):
    """A whole number, or auto."""

    name = "N|auto"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | str:
        """Return the number or "auto"."""
        if value == AUTO:
            return AUTO
        return click.IntRange(min=1).convert(value, param, ctx)


TYPES: dict[str, click.ParamType[Any]] = {
    "image_size": Size(),
    "kinds": Kinds(),
    "devices": Parts(),
    "finish_together": Auto(),
    "batch_size": Auto(),
    "field_of_view": click.FloatRange(20, 140),
    "limit": click.IntRange(min=1),
    "max_model_len": click.IntRange(min=1),
    "temperature": click.FloatRange(min=0),
}


def run_option(entry: Field[Any]) -> click.Option:
    """Return the option of the command line that a field of RunConfig declares."""
    declared = entry.metadata
    flag = "--" + entry.name.replace("_", "-")
    more: dict[str, Any] = {
        "help": declared["text"],
        "default": entry.default,
        "show_default": True,
    }
    if declared.get("flag"):
        return click.Option([flag, entry.name], is_flag=True, **more | {"show_default": False})
    if "separator" in declared:
        more["default"] = declared["separator"].join(map(str, entry.default))  # type: ignore[arg-type]
    elif isinstance(entry.default, tuple):
        more |= {"multiple": True, "type": Texts()}
    if "choices" in declared:
        more["type"] = click.Choice(declared["choices"])
    elif entry.name in TYPES:
        more["type"] = TYPES[entry.name]
    elif isinstance(entry.default, int):
        more["type"] = click.IntRange(declared["minimum"]) if "minimum" in declared else click.INT
    if "metavar" in declared:
        more["metavar"] = declared["metavar"]
    return click.Option([flag, entry.name], **more)


def from_file(context: click.Context, parameter: click.Parameter, file: str | None) -> None:
    """Take the defaults of a run from a YAML file. UsageError where it holds no options."""
    if file is not None:
        context.default_map = {**(context.default_map or {}), **options_of_file(file)}


CONTINUE = click.Option(
    ["--continue", "continue_run"],
    metavar="recent|NAME|PATH",
    help="Go on with a run: the newest, a name in --output, or a path.",
)
DRY_RUN = click.Option(
    ["--dry-run"],
    is_flag=True,
    help="Choose the questions, draw the first view, print the first prompt; load no model.",
)
CONFIG = click.Option(
    ["--config"],
    metavar="FILE.yaml",
    is_eager=True,
    expose_value=False,
    callback=from_file,
    help="Options from a file; flags and RENDER_AGENT_… in the environment beat it.",
)


class RunGroup(click.Group):
    """The program: run options of its own, and commands."""

    def __init__(self, params: list[click.Parameter] | None = None, **more: Any) -> None:
        options = [run_option(entry) for entry in OPTIONS.values()]
        super().__init__(params=[CONFIG, *options, CONTINUE, DRY_RUN, *(params or [])], **more)


@click.group(
    cls=RunGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="render_agent")
@click.pass_context
def cli(context: click.Context, /, continue_run: str | None, dry_run: bool, **options: Any) -> None:
    """A vision-language model explores a 3D scan and answers spatial questions about it.

    \b
    render-agent --batch --benchmark rooms --engine scripted    run a benchmark
    render-agent --ply SCAN.ply --question "How many chairs?"   ask one question of one scan
    render-agent --continue recent                              go on with a run that was cut off
    """
    if context.invoked_subcommand is not None:
        context.obj = options
        return
    from render_agent import commands

    if continue_run is not None:
        given = {
            name: value
            for name, value in options.items()
            if _given(context, name) and not (name == "batch" and value)
        }
        context.exit(commands.continue_run(Path(options["output"]), continue_run, given))
    asked = dry_run or options["batch"] or options["ply"] or options["question"]
    if not asked and not any(_typed(context, name) for name in options):
        click.echo(context.get_help())
        context.exit(0)
    config = RunConfig(**options)
    context.exit(commands.dry_run(config) if dry_run else commands.new_run(config))


def _given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def _typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


OUTPUT = click.option(
    "--output", default="experiment_logs", show_default=True, metavar="DIR", help="Where runs lie."
)
PARSER = click.option(
    "--parser",
    type=click.Choice(["official", "lmms-eval", "vlmevalkit"]),
    default="official",
    show_default=True,
    help="Whose way of reading an answer is used for the means and types.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@cli.command()
@OUTPUT
@AS_JSON
def ls(output: str, as_json: bool) -> None:
    """List the runs, the newest last."""
    from render_agent import commands

    commands.list_them(Path(output), as_json=as_json)


@cli.command()
@click.argument("run")
@click.argument("question", required=False)
@OUTPUT
@AS_JSON
def show(run: str, question: str | None, output: str, as_json: bool) -> None:
    """Show RUN (recent, a name or a path): its scores, or the dialogue of one QUESTION (its id)."""
    from render_agent import commands

    commands.show(Path(output), run, question, as_json=as_json)


@cli.command()
@click.argument("run")
@PARSER
@OUTPUT
@AS_JSON
def rescore(run: str, parser: str, output: str, as_json: bool) -> None:
    """Compute the results of RUN anew from its log, also of one that is unfinished.

    The official ones of a finished run replace its results.json; those of another parser are written
    beside it.
    """
    from render_agent import scoring

    scoring.rescore(Path(output), run, parser, as_json=as_json)


@cli.command()
@click.argument("predictions", metavar="PREDICTIONS.jsonl")
@click.option(
    "--questions", metavar="FILE|NAME", help="VSI-Bench's own questions (default: found)."
)
@PARSER
@AS_JSON
def score(predictions: str, questions: str | None, parser: str, as_json: bool) -> None:
    """Score anybody's answers to VSI-Bench: lines {"id": 0, "prediction": "A"}.

    A question without a prediction scores 0, and is counted.
    """
    from render_agent import scoring

    scoring.score_file(Path(predictions), questions, parser, as_json=as_json)


@cli.command()
@click.argument("a")
@click.argument("b")
@click.option("--anyway", is_flag=True, help="Compare the questions in common of unlike runs.")
@OUTPUT
@AS_JSON
def compare(a: str, b: str, anyway: bool, output: str, as_json: bool) -> None:
    """Compare run B with run A over the same questions: differences, how sure they are, and where."""
    from render_agent import scoring

    scoring.compare_runs(Path(output), a, b, anyway=anyway, as_json=as_json)


@cli.command()
@click.argument("runs", nargs=-1, required=True)
@OUTPUT
def merge(runs: tuple[str, ...], output: str) -> None:
    """Join RUNS, the shards I/N of one run, into a new run folder; it can be continued like any other."""
    from render_agent import commands

    commands.merge_runs(Path(output), runs)


@cli.command()
@AS_JSON
@click.option(
    "--probe",
    is_flag=True,
    help="Let a small model of each family answer, and --model where it is here.",
)
@click.pass_context
def doctor(context: click.Context, as_json: bool, probe: bool) -> None:
    """Say what this machine can do: renderers, engines, memory, data, and what to install."""
    from render_agent.doctor.examine import examine

    context.exit(examine(context.obj, as_json=as_json, probe=probe))


cli.add_command(make_rooms_command)
cli.add_command(bench_command)


def main() -> NoReturn:
    """Run the command line and exit: 0 complete, 1 failed, 2 usage, 130 interrupted, 143 terminated."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = cli.main(
            prog_name="render-agent", auto_envvar_prefix="RENDER_AGENT", standalone_mode=False
        )
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except RenderAgentError as error:
        _say(f"error: {error}")
        code = 2 if isinstance(error, UsageError) else 1
    except (KeyboardInterrupt, click.Abort):
        code = INTERRUPTED
    except Terminated:
        code = TERMINATED
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stdout = None
        code = 1
    sys.exit(code or 0)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


def _say(words: str) -> None:
    click.echo(words, err=True)
