"""The program: run options, commands, and the only place where the program exits."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import rich_click as click
from click.core import ParameterSource

from render_agent import __version__, registry
from render_agent.cli.flags import given_options
from render_agent.cli.shared_options import complete_runs, run_option
from render_agent.cli.short_help import short_help
from render_agent.errors import RenderAgentError, UsageError
from render_agent.options import BENCHMARK_OPTIONS, OPTIONS, RunConfig
from render_agent.util.interrupts import INTERRUPTED, Terminated, exit_code, install
from render_agent.util.reasons import did_you_mean, short_repr
from render_agent.util.sanitize import escape_unsafe, redact_keys

PREFIX = "RENDER_AGENT_"

MIN_SIMILARITY = 0.93  # similarity above which an environment variable counts as a misspelt option

# Errors of redirected output on a full disk.
DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)

EPILOG = f"""\
Exit codes: 0 complete, 1 a question, the setup or the engine failed, 2 usage error, 130 interrupted, 143 terminated.

Every run option can also be set in the environment ({PREFIX}MAX_TURNS=6) or in a --config file (max_turns: 6).
A flag overrides the environment, and the environment overrides the file. Values of repeatable options are
separated by semicolons in the environment.

Environment: {PREFIX}API_KEY or OPENAI_API_KEY and OPENAI_BASE_URL for --engine openai; ANTHROPIC_API_KEY
for --engine anthropic; GEMINI_API_KEY or GOOGLE_API_KEY for --engine gemini; HF_HOME and HF_HUB_OFFLINE
for models; NUMBA_CACHE_DIR for compiled kernels; NO_COLOR. Shell completion:
https://click.palletsprojects.com/en/stable/shell-completion/
"""


def from_file(context: click.Context, parameter: click.Parameter, file: str | None) -> None:
    """Read option defaults from a YAML file."""
    if file is not None:
        from render_agent.cli.flags import options_of_file

        context.default_map = {**(context.default_map or {}), **options_of_file(file)}


def show_everything(context: click.Context, parameter: click.Parameter, is_requested: bool) -> None:
    if is_requested:
        context.meta["all"] = True
        click.echo(context.get_help())
        context.exit()


OWN_OPTIONS = (
    click.RichOption(
        ["--continue", "continue_run"],
        metavar="recent|NAME|PATH",
        envvar=f"{PREFIX}CONTINUE",
        help="Resume a run: the newest, a name in --output, or a path.",
        shell_complete=complete_runs,
    ),
    click.RichOption(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show_everything,
        help="Show all options and commands and exit.",
    ),
    click.RichOption(
        ["--dry-run"],
        is_flag=True,
        help="Choose the questions, render the first view and print the first prompt; load no model.",
    ),
    click.RichOption(
        ["--allow-code"],
        is_flag=True,
        help="Run the policy (.py) that the --config file or the resumed run names.",
    ),
    click.RichOption(
        ["--config"],
        metavar="FILE.yaml",
        type=click.Path(),
        is_eager=True,
        expose_value=False,
        callback=from_file,
        help="Read options from a file.",
    ),
)


class RunGroup(click.RichGroup):
    """The program: run options, and the commands of the registry, imported on use."""

    def get_help(self, ctx: click.Context) -> str:
        """Return the short help, or the full help for `--help-all`."""
        return super().get_help(ctx) if ctx.meta.get("all") else short_help(self, ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return registry.names("command")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None if there is none with that name."""
        if cmd_name not in registry.names("command"):
            return None
        command: click.Command = registry.load("command", cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name and object of the command, and its arguments. Raises UsageError if there is none."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            suggestion = did_you_mean(args[0], self.list_commands(ctx))
            raise UsageError(
                f"no such command {short_repr(args[0])}{suggestion or '. See render-agent --help.'}"
            )
        return super().resolve_command(ctx, args)


@click.group(
    cls=RunGroup,
    invoke_without_command=True,
    epilog=EPILOG,
    params=[*map(run_option, OPTIONS.values()), *OWN_OPTIONS],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.rich_config({"commands_before_options": True})
@click.version_option(__version__)
@click.pass_context
def cli(context: click.Context, /, **options: Any) -> None:
    """A vision-language model explores a 3D scan and answers spatial questions about it.

    Run a benchmark (run, or --batch), ask about one scan (ask, or --ply), or use another command.

    \b
    Examples:
      render-agent --batch --benchmark rooms --engine scripted   # run a benchmark
      render-agent --ply SCAN.ply --question "How many chairs?"  # ask a question
      render-agent --continue recent                             # resume a run
      render-agent report recent                                 # write a report
      render-agent doctor                                        # check a machine
    """
    _refuse_misspelt()
    _refuse_threads()
    if context.invoked_subcommand is not None:
        from render_agent.util.console import plain_console
        from render_agent.util.display import display_on

        context.obj = {name: options[name] for name in OPTIONS}
        # options of a command default to those before it, in the environment or in a file
        given_before = given_options(context)
        defaults = {**given_before, "as_json": given_before.get("json")}
        context.default_map = {context.invoked_subcommand: defaults}
        if context.invoked_subcommand not in RUN_COMMANDS:  # runs show their own progress
            context.with_resource(display_on(plain_console(stderr=True)))
        return
    is_resumed = options["continue_run"] is not None
    if not (is_resumed or options["dry_run"] or given_options(context)):
        click.echo(context.get_help())
        context.exit(0)
    context.exit(_run(context, **options))


RUN_COMMANDS = ("run", "ask")


def _params(*excluded: str, hidden: Sequence[str] = ()) -> list[click.Parameter]:
    run_options = (run_option(OPTIONS[name], hidden=name in hidden) for name in OPTIONS)
    return [
        option
        for option in (*run_options, *OWN_OPTIONS)
        if option.name not in ("help_all", *excluded)
    ]


@click.command(params=_params("batch", "ply", "question", "option"))
@click.pass_context
def run_command(context: click.Context, /, **options: Any) -> None:
    """Run a benchmark.

    The same as --batch.

    \b
    Example:
      render-agent run --benchmark rooms --model small
    """
    context.exit(_run(context, **options, batch=True))


@click.command(
    params=[
        click.Argument(["ply"], metavar="SCAN"),
        click.Argument(["question"]),
        *_params("batch", "ply", "question", "continue_run", hidden=BENCHMARK_OPTIONS),
    ]
)
@click.pass_context
def ask_command(context: click.Context, /, **options: Any) -> None:
    """Ask one question about one scan.

    The same as --ply with --question.

    \b
    Example:
      render-agent ask SCAN.ply "How many chairs are there?"
    """
    context.exit(_run(context, **options))


def _run(
    context: click.Context,
    *,
    dry_run: bool,
    allow_code: bool,
    continue_run: str | None = None,
    **options: Any,
) -> int:
    """Start, preview or resume a run; return the exit code."""
    if _is_typed(context, "quiet") and _is_typed(context, "verbose"):
        raise UsageError("--quiet and --verbose contradict each other. Omit one of them.")
    if continue_run is not None:
        changes = given_options(context)
        changes.pop("batch", None)  # already set for a resumed run
        # a --config file or the environment does not name the policy again
        allow_code = allow_code or _is_typed(context, "model")
        output = Path(options["output"])
        if dry_run:
            from render_agent.cli.dry_run import dry_continue

            return dry_continue(output, continue_run, changes)
        from render_agent.cli.run import resume_saved_run

        return resume_saved_run(output, continue_run, changes, allow_code=allow_code)
    from render_agent.engines.make_engine import reject_code
    from render_agent.runs.build import build
    from render_agent.runs.conflicts import refuse_idle_options

    config = RunConfig(**options)
    typed_options = [name for name in options if _is_typed(context, name)]
    refuse_idle_options(build(config), typed_options)
    if not (dry_run or allow_code or context.get_parameter_source("model") in NAMED_BY_USER):
        reject_code(config, "the --config file")
    if dry_run:
        from render_agent.cli.dry_run import dry_run as preview

        return preview(config)
    from render_agent.cli.run import new_run

    return new_run(config)


def _refuse_misspelt() -> None:
    """Raise UsageError if an environment variable looks like a misspelt option, which would be ignored."""
    variables = [PREFIX + name.upper() for name in OPTIONS]
    for name in os.environ:
        similar = (
            get_close_matches(name, variables, 1, MIN_SIMILARITY) if name.startswith(PREFIX) else []
        )
        if similar and name not in variables:
            raise UsageError(f"{name} is not an option; did you mean {similar[0]}?")


def _refuse_threads() -> None:
    """Raise UsageError if numba, which compiles the renderer, could not read its number of threads."""
    name = "NUMBA_NUM_THREADS"
    value = os.environ.get(name)
    if value is not None and not (value.strip().isdecimal() and int(value) > 0):
        raise UsageError(
            f"{name} is {short_repr(value)}, not a positive whole number. Correct or unset it."
        )


# sources of a policy file's name that permit running it without --allow-code
NAMED_BY_USER = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def _is_typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def main() -> NoReturn:
    """Run the command line and exit: 0 complete, 1 failed, 2 usage error, 130 interrupted, 143 terminated."""
    install()
    sys.excepthook = _print_crash
    warnings = _Warnings(logging.WARNING)
    logging.getLogger().addHandler(warnings)
    try:
        code = cli.main(
            prog_name="render-agent", auto_envvar_prefix=PREFIX.rstrip("_"), standalone_mode=False
        )
    except click.ClickException as error:
        _say(f"error: {' '.join(error.format_message().split())}{_error_source(error)}")
        code = error.exit_code
    except RenderAgentError as error:
        _say(f"error: {error}")
        code = 2 if isinstance(error, UsageError) else 1
    except MemoryError:
        _say("error: out of memory. Give the program more memory, or lower --batch-size.")
        code = 1
    except (KeyboardInterrupt, click.Abort, Terminated) as stop:
        code = exit_code(stop)
        _say(f"stopped by {'Ctrl-C' if code == INTERRUPTED else 'SIGTERM'}")
    except BrokenPipeError:  # the reader of our output has closed it
        sys.stdout = None
        code = 1
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            _say(f"error: cannot open {short_repr(error.filename)}: the name is too long")
        elif error.filename is not None or error.errno not in DISK_FULL_ERRORS:
            raise
        else:
            _say(
                f"error: cannot write standard output: {error.strerror}. Free some space, or write elsewhere."
            )
            sys.stdout = None
        code = 1
    finally:
        logging.getLogger().removeHandler(warnings)
    sys.exit(code or 0)


class _Warnings(logging.Handler):
    """Prints the warnings of all commands except runs, which write them to `run.log`."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(f"warning: {self.format(record)}")


def _error_source(error: click.ClickException) -> str:
    """Return the source of an invalid value, unless it was typed."""
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None:
        return ""
    name = error.param.name or ""
    source = error.ctx.get_parameter_source(name)
    if source is ParameterSource.ENVIRONMENT:
        return f" (from {PREFIX}{name.upper()})"
    return f" ({name} of --config)" if source is ParameterSource.DEFAULT_MAP else ""


def _print_crash(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an uncaught exception as the interpreter does, but without keys and control characters."""
    import traceback

    _say("".join(traceback.format_exception(kind, error, trace)).rstrip())


def _say(text: str) -> None:
    click.echo(escape_unsafe(redact_keys(text)), err=True)
