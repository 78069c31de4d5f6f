"""Options and arguments shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click
from click.shell_completion import CompletionItem

from render_agent.cli import flags
from render_agent.options import OPTIONS, RunConfig

F = TypeVar("F", bound=Callable[..., Any])

PANELS = {  # group of run options -> heading in --help
    "questions": "Questions and scans",
    "engine": "Engine",
    "dialogue": "Views and dialogue",
    "choosing": "Choosing among several moves",
    "speed": "Speed",
    "place": "Files and folders",
    "display": "Output",
}


class NewPath(click.Path):
    """A file or folder that a command writes when it finishes. Rejected at once if it is not writable."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the path as typed. Raises SetupError if it is not writable."""
        from render_agent.util.atomic_files import check_writable

        if value:
            check_writable(Path(value))
        return value


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Declare an option like `click.option`, and show its default unless it is empty or that of a flag."""
    default = settings.get("default")
    settings.setdefault("show_default", default not in (None, "") and not isinstance(default, bool))
    return click.option(*names, **settings)


def run_option(entry: Field[Any], **settings: Any) -> click.Option:
    """Return the command-line option of a field of RunConfig; `settings` override its declaration."""
    names, attributes = flags.declaration(entry)
    settings = {"panel": PANELS[entry.metadata["group"]], **attributes, **settings}
    return click.RichOption(names, **settings)


def complete_runs(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete `recent`, the names of runs in --runs (newest first), and folders."""
    folder = Path(str(context.params.get("output") or OPTIONS["output"].default))
    names = sorted((path.parent.name for path in folder.glob("*/config.json")), reverse=True)
    matching = [name for name in ("recent", *names) if name.startswith(incomplete)]
    return [CompletionItem(incomplete, type="dir"), *map(CompletionItem, matching)]


def to_folder(help_text: str, *, is_required: bool = False) -> Callable[[F], F]:
    """Declare `--to DIR` (alias `--output`), stored as `folder`: where a command writes several files."""
    return option(
        "--to",
        "--output",
        "folder",
        type=NewPath(),
        metavar="DIR",
        required=is_required,
        help=help_text,
    )


# Declared by every command that reads runs.
RUNS_FOLDER = option(
    "--runs",
    "--output",
    "output",
    type=click.Path(path_type=Path),
    default="experiment_logs",
    metavar="DIR",
    help="Folder of the run folders.",
)

BROWSER = option(
    "--browser/--no-browser",
    default=True,
    help="Open the page in the browser if there is a display (default).",
)

AS_JSON = option("--json", "as_json", is_flag=True, help="Print JSON.")

RUN = click.argument("run", default="recent", shell_complete=complete_runs)  # newest by default

PARSER = option(
    "--parser",
    type=click.Choice(["official", "lmms-eval", "vlmevalkit"]),
    default="official",
    help="Answer parser used for the scores.",
)

# Options set by commands with an engine.
PRESET_OPTIONS = ("batch", "ply", "question", "option", "max_turns")


def engine_flags(f: F) -> F:
    """Declare the options of commands that query a model outside a run."""
    for add in (
        option(
            "--batch-size",
            type=flags.OptionType(OPTIONS["batch_size"]),
            metavar="N",
            help="Requests per call (default: auto).",
        ),
        option("--model", metavar="NAME", help="Model (default: as for runs)."),
        option(
            "--engine",
            type=click.Choice(
                ["transformers", "vllm", "openai", "anthropic", "gemini", "scripted"]
            ),
            help="Engine (default: as for runs).",
        ),
    ):
        f = add(f)
    return f


def engine_config(context: click.Context, command_options: dict[str, Any]) -> RunConfig:
    """Return the engine configuration: run options before the command, overridden by `command_options`."""
    run_options = {name: value for name, value in context.obj.items() if name not in PRESET_OPTIONS}
    overrides = {name: value for name, value in command_options.items() if value is not None}
    return RunConfig(**{**run_options, **overrides, "batch": True, "max_turns": 1})
