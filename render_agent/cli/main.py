"""The command line: every command, and the only place where the program exits."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from render_agent import __version__, registry
from render_agent.cli import completion, help_page
from render_agent.cli.options import AS_JSON, RUN, WHERE_RUNS_LIE, NewPath, option, run_option
from render_agent.config import OPTIONS, RunConfig
from render_agent.config.engine import refuse_code
from render_agent.config.flags import given_options
from render_agent.config.option import did_you_mean
from render_agent.errors import RenderAgentError, SetupError, UsageError
from render_agent.system.interrupts import Terminated, exit_code, install
from render_agent.text.reasons import short_repr
from render_agent.text.redact import without_keys
from render_agent.text.sanitize import visible

PREFIX, NEARLY = "RENDER_AGENT_", 0.93
"""How the environment calls options; a name so like one of them is taken for a slip."""

PLAIN_TYPES = {"valid float": "number", "valid integer": "whole number", "number range": "number"}
"""What the library calls types of values, and how people do; in this order."""

PLAIN_RANGES = {
    r"is not in the range (\S+?)<=x<=(\S+)": r"is not from \1 to \2",
    r"is not in the range x>=(\S+)": r"is less than \1",
    r"is not in the range x<=(\S+)": r"is more than \1",
}
"""How the library tells bounds of a number, and how people do."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""What a disk answers that takes no more of what is printed."""


def from_file(context: click.Context, parameter: click.Parameter, file: str | None) -> None:
    """Take the defaults of a run from a YAML file. UsageError where it holds no options."""
    if file is not None:
        from render_agent.config.file import options_of_file

        context.default_map = {**(context.default_map or {}), **options_of_file(file)}


CONTINUE = click.Option(
    ["--continue", "continue_run"],
    metavar="recent|NAME|PATH",
    envvar=f"{PREFIX}CONTINUE",
    help="Go on with a run: the newest, a name in --output, or a path.",
    shell_complete=completion.runs,
)
DRY_RUN = click.Option(
    ["--dry-run"],
    is_flag=True,
    help="Choose the questions, draw the first view, print the first prompt; load no model.",
)
ALLOW_CODE = click.Option(
    ["--allow-code"],
    is_flag=True,
    help="Run the policy (.py) that a file of options, or the run to go on with, names.",
)
CONFIG = click.Option(
    ["--config"],
    metavar="FILE.yaml",
    is_eager=True,
    expose_value=False,
    callback=from_file,
    shell_complete=completion.files,
    help="Options from a file; flags and RENDER_AGENT_… in the environment beat it.",
)


NO_COMMANDS = {
    "batch": "a benchmark is run by render-agent --batch",
    "run": "a benchmark is run by render-agent --batch, one question by --ply SCAN --question TEXT",
    "ask": "one question is asked by render-agent --ply SCAN --question TEXT",
    "continue": "a run goes on by render-agent --continue recent",
    "help": "all commands and options are told by render-agent --help",
}
"""Words that people type for a command, and what does it."""


class RunGroup(click.Group):
    """The program: run options of its own, and the commands of the registry, imported as they are used."""

    def __init__(self, params: list[click.Parameter] | None = None, **more: Any) -> None:
        options = [run_option(entry) for entry in OPTIONS.values()]
        super().__init__(
            params=[*options, CONTINUE, DRY_RUN, ALLOW_CODE, CONFIG, *(params or [])], **more
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write commands and options under headings, then exit codes, environment and files."""
        help_page.write_commands(formatter, self.list_commands(ctx))
        help_page.write_options(ctx, formatter, self.get_params(ctx))
        help_page.write_rest(formatter)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in order."""
        return sorted(registry.names("command"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named, its name and what follows. UsageError where there is none."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            hint = NO_COMMANDS.get(name) or did_you_mean(name, self.list_commands(ctx)).lstrip("; ")
            hint = hint or "render-agent --help has all of them"
            raise UsageError(f"there is no command {short_repr(name)}: {hint}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, None where there is none. SetupError where its package cannot be imported."""
        if not registry.is_known("command", cmd_name):
            return None
        command = registry.load("command", cmd_name)
        if not isinstance(command, click.Command):
            raise SetupError(
                f"the command {cmd_name!r} is not a command of click but {short_repr(command)}"
            )
        return command


@click.group(
    cls=RunGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__)
@click.pass_context
def cli(
    context: click.Context,
    /,
    continue_run: str | None,
    dry_run: bool,
    allow_code: bool,
    **options: Any,
) -> None:
    """A vision-language model explores a 3D scan and answers spatial questions about it.

    Give --batch to run a benchmark, --ply to ask about one scan, or a command; COMMAND --help explains it.

    \b
    Examples:
      render-agent --batch --benchmark rooms --engine scripted    # run a benchmark
      render-agent --ply SCAN.ply --question "How many chairs?"   # ask one question of one scan
      render-agent --continue recent                              # go on with a run that was cut off
      render-agent report recent                                  # write the pages that explain it
      render-agent doctor                                         # what works on this machine
    """
    _refuse_misspelt(options)
    if context.invoked_subcommand is not None:
        context.obj = options
        _hand_on(context)
        context.with_resource(_shown())
        return
    from render_agent.cli.commands import runs as commands

    if continue_run is not None:
        changed = given_options(context)
        if options["batch"]:  # it only repeats what the run is
            del changed["batch"]
        go_on = commands.dry_continue if dry_run else commands.continue_run
        more = {} if dry_run else {"allow_code": allow_code}
        context.exit(go_on(Path(options["output"]), continue_run, changed, **more))
    starts = dry_run or options["batch"] or options["ply"] or options["question"]
    if not starts and not any(_typed(context, name) for name in options):
        click.echo(help_page.overview(context))
        context.exit(0)
    from render_agent.runs.preflight import refuse_idle_options

    config, typed = RunConfig(**options), [name for name in options if _typed(context, name)]
    refuse_idle_options(config, typed)
    if not (dry_run or allow_code or context.get_parameter_source("model") in SAID):
        refuse_code(config, "the file of --config")
    context.exit(commands.dry_run(config) if dry_run else commands.new_run(config))


def _refuse_misspelt(options: Iterable[str]) -> None:
    """UsageError where a variable of the environment has nearly the name of an option, and would be ignored."""
    known = [PREFIX + name.upper() for name in options]
    for name in os.environ:
        near = get_close_matches(name, known, 1, NEARLY) if name.startswith(PREFIX) else []
        if near and name not in known:
            raise UsageError(f"{name} is no option; did you mean {near[0]}?")


def _hand_on(context: click.Context) -> None:
    """Have a command begin with the options of its name that were given before it, or come from a file.

    Those of the environment as well: RENDER_AGENT_OUTPUT is where every command looks for runs.
    """
    name = context.invoked_subcommand or ""
    command = context.command.get_command(context, name)  # type: ignore[attr-defined]
    own = [p for p in (command.params if command else ()) if isinstance(p, click.Option)]
    options = given_options(context)
    inherited = {}
    for parameter in own:
        key = "json" if parameter.name == "as_json" else parameter.name or ""
        # doctor --probe is a flag, --probe of a run is not
        if key in options and parameter.is_flag == isinstance(OPTIONS[key].default, bool):
            inherited[parameter.name] = options[key]
    context.default_map = {**(context.default_map or {}), name: inherited}


@contextmanager
def _shown() -> Iterator[None]:
    """Have a command show on standard error how far it is."""
    from render_agent.text.console import plain_console
    from render_agent.text.display import shown_on

    with shown_on(plain_console(stderr=True)):
        yield


SAID = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
"""Where a policy's file may be named for it to be run: by whoever starts the program."""


def _typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


PARSER = option(
    "--parser",
    type=click.Choice(["official", "lmms-eval", "vlmevalkit"]),
    default="official",
    help="Whose way of reading an answer is used for the means and types.",
)


@click.command()
@WHERE_RUNS_LIE
@AS_JSON
def ls(output: str, as_json: bool) -> None:
    """List the runs, the newest last.

    \b
    Examples:
      render-agent ls
      render-agent ls --output results --json
    """
    from render_agent.cli.commands import runs as commands

    commands.list_them(Path(output), as_json=as_json)


@click.command()
@RUN
@click.argument("question", required=False)
@WHERE_RUNS_LIE
@AS_JSON
def show(run: str, question: str | None, output: str, as_json: bool) -> None:
    """Show RUN (recent, a name or a path): its scores, or the dialogue of one QUESTION (its id).

    \b
    Examples:
      render-agent show recent
      render-agent show recent 3
    """
    from render_agent.cli.commands import runs as commands

    commands.show(Path(output), run, question, as_json=as_json)


@click.command()
@RUN
@PARSER
@WHERE_RUNS_LIE
@AS_JSON
def rescore(run: str, parser: str, output: str, as_json: bool) -> None:
    """Compute the results of RUN anew from its log, also of one that is unfinished.

    The official ones of a finished run replace its results.json; those of another parser are written
    beside it.

    \b
    Examples:
      render-agent rescore recent
      render-agent rescore recent --parser vlmevalkit
    """
    from render_agent.cli.commands import score as scoring

    scoring.rescore(Path(output), run, parser, as_json=as_json)


@click.command()
@click.argument("predictions", metavar="PREDICTIONS.jsonl", shell_complete=completion.files)
@option("--questions", metavar="FILE|NAME", help="VSI-Bench's own questions (default: found).")
@PARSER
@AS_JSON
def score(predictions: str, questions: str | None, parser: str, as_json: bool) -> None:
    """Score anybody's answers to VSI-Bench: lines {"id": 0, "prediction": "A"}.

    A question without a prediction scores 0, and is counted.

    \b
    Examples:
      render-agent score predictions.jsonl --questions test.jsonl
    """
    from render_agent.cli.commands import score as scoring

    scoring.score_file(Path(predictions), questions, parser, as_json=as_json)


@click.command()
@click.argument(
    "runs", nargs=-1, required=True, metavar="RUN_A RUN_B …", shell_complete=completion.runs
)
@option("--anyway", is_flag=True, help="Compare the questions in common of unlike runs.")
@option(
    "--page",
    type=NewPath(),
    is_flag=False,
    flag_value="",
    metavar="[DIR]",
    help="Write it as pages too (into compare/ beside RUN_A unless DIR is given), dialogues side by side.",
)
@option("--no-diagnosis", is_flag=True, help="Leave out of the pages what the cameras saw.")
@WHERE_RUNS_LIE
@AS_JSON
def compare(
    runs: tuple[str, ...],
    anyway: bool,
    page: str | None,
    no_diagnosis: bool,
    output: str,
    as_json: bool,
) -> None:
    """Compare runs with RUN_A over the same questions: differences, how sure they are, and where.

    \b
    Examples:
      render-agent compare RUN_A RUN_B
      render-agent compare RUN_A RUN_B RUN_C --page
    """
    from render_agent.cli.commands import score as scoring

    scoring.compare_runs(
        Path(output),
        runs,
        anyway=anyway,
        as_json=as_json,
        page=None if page is None else Path(page),
        diagnose=not no_diagnosis,
    )


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUNS…", shell_complete=completion.runs)
@WHERE_RUNS_LIE
def merge(runs: tuple[str, ...], output: str) -> None:
    """Join RUNS, the shards I/N of one run, into a new run folder; it can be continued like any other.

    \b
    Examples:
      render-agent merge SHARD_1 SHARD_2
    """
    from render_agent.cli.commands import runs as commands

    commands.merge_runs(Path(output), runs)


@click.command()
@AS_JSON
@option(
    "--probe",
    is_flag=True,
    help="Let the bundled model answer, and --model if it is on this machine.",
)
@click.pass_context
def doctor(context: click.Context, as_json: bool, probe: bool) -> None:
    """Say what this machine can do: renderers, engines, memory, data, and what to install.

    Exit code 1 where no run is possible.

    \b
    Examples:
      render-agent doctor
      render-agent doctor --probe
    """
    from render_agent.cli.commands.doctor.examine import examine

    context.exit(examine(context.obj, as_json=as_json, probe=probe))


def main() -> NoReturn:
    """Run the command line and exit: 0 complete, 1 failed, 2 usage, 130 interrupted, 143 terminated."""
    install()
    sys.excepthook = _crashed
    try:
        code = cli.main(
            prog_name="render-agent", auto_envvar_prefix=PREFIX.rstrip("_"), standalone_mode=False
        )
    except click.ClickException as error:
        _say(f"error: {_sentence(_with_source(error))}")
        code = error.exit_code
    except RenderAgentError as error:
        _say(f"error: {error}")
        code = 2 if isinstance(error, UsageError) else 1
    except MemoryError:
        _say("error: this machine's memory ran out; give the program more, or lower --batch-size")
        code = 1
    except (KeyboardInterrupt, click.Abort, Terminated) as stop:
        code = exit_code(stop)
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stdout = None
        code = 1
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            _say(f"error: no file is named {short_repr(error.filename)}: the name is too long")
        elif error.filename is not None or error.errno not in NO_ROOM:
            raise
        else:
            _say(
                f"error: cannot write standard output: {error.strerror}; make room, or write elsewhere"
            )
            sys.stdout = None
        code = 1
    sys.exit(code or 0)


def _with_source(error: click.ClickException) -> click.ClickException:
    """Return a usage error with the source of the option's value, or the command that the option belongs to."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.NoSuchOption) and context is not None and context.parent is not None:
        name = error.option_name.lstrip("-").replace("-", "_")
        if name in OPTIONS:
            return click.UsageError(
                f"{error.option_name} belongs to a run (render-agent --batch …), not to the command"
                f" {context.info_name}",
                context,
            )
        if any(error.option_name in each.opts for each in context.find_root().command.params):
            return click.UsageError(
                f"{error.option_name} goes before the command {context.info_name}", context
            )
    elif isinstance(error, click.MissingParameter):
        return click.UsageError(" ".join(error.format_message().split()), context)
    elif isinstance(error, click.BadParameter) and context is not None and error.param is not None:
        name = error.param.name or ""
        message, hint = error.message, error.param_hint
        for library, plain in PLAIN_TYPES.items():
            message = message.replace(library, plain)
        source = context.get_parameter_source(name)
        if source is ParameterSource.ENVIRONMENT:
            hint = f"{context.auto_envvar_prefix}_{name.upper()}"
        elif source is ParameterSource.DEFAULT_MAP:
            hint = f"{name} of --config"
        return click.BadParameter(message, context, error.param, hint)
    return error


def _sentence(error: click.ClickException) -> str:
    """Return what click says of a command that cannot be read, as our own errors are told."""
    words = " ".join(error.format_message().split()).rstrip(".")
    for pattern, plain in PLAIN_RANGES.items():
        words = re.sub(pattern, plain, words)
    context = error.ctx if isinstance(error, click.UsageError) else None
    way_out = f"; {context.command_path} --help explains it" if context is not None else ""
    return f"{words[:1].lower()}{words[1:]}{way_out}"


def _crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say where the program crashed, as the interpreter does."""
    import traceback

    _say("".join(traceback.format_exception(kind, error, trace)).rstrip())


def _say(words: str) -> None:
    click.echo(visible(without_keys(words)), err=True)
