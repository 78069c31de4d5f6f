"""Options and arguments that several commands share."""

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

PANELS = {
    "questions": "Questions and scans",
    "engine": "Engine",
    "dialogue": "Views and dialogue",
    "choosing": "Choosing among several moves",
    "speed": "Speed",
    "place": "Places",
    "display": "Output",
}
"""Group of a run option -> heading in --help."""


class NewPath(click.Path):
    """A file or folder that a command writes at its end; refused up front if it cannot be written."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the path as it was typed. SetupError if nothing can be written there."""
        from render_agent.util.whole_files import refuse_unwritable

        if value:
            refuse_unwritable(Path(value))
        return value


def option(*names: str, **more: Any) -> Callable[[F], F]:
    """Declare an option as `click.option` does, but show its default unless it is empty or a flag's."""
    default = more.get("default")
    more.setdefault("show_default", default not in (None, "") and not isinstance(default, bool))
    return click.option(*names, **more)


def run_option(entry: Field[Any], **settings: Any) -> click.Option:
    """Return the option of the command line that a field of RunConfig declares; settings override it."""
    names, declared = flags.declaration(entry)
    settings = {"panel": PANELS[entry.metadata["group"]], **declared, **settings}
    return click.RichOption(names, **settings)


def complete_runs(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return `recent` and the names of the runs in --output, newest first, or else a folder."""
    folder = Path(str(context.params.get("output") or OPTIONS["output"].default))
    names = sorted((path.parent.name for path in folder.glob("*/config.json")), reverse=True)
    matching = [name for name in ("recent", *names) if name.startswith(incomplete)]
    return [CompletionItem(incomplete, type="dir"), *map(CompletionItem, matching)]


def to_folder(words: str, *, required: bool = False) -> Callable[[F], F]:
    """Declare `--to DIR`, also called `--output`, the parameter `folder`: where a command writes several files."""
    return option(
        "--to", "--output", "folder", type=NewPath(), metavar="DIR", required=required, help=words
    )


RUNS_FOLDER = option(
    "--runs",
    "--output",
    "output",
    default="experiment_logs",
    metavar="DIR",
    help="Folder of the runs.",
)
"""The option of every command that reads runs."""

AS_JSON = option("--json", "as_json", is_flag=True, help="Print JSON.")

RUN = click.argument("run", default="recent", shell_complete=complete_runs)
"""The run that a command reads: the newest unless another is named."""

PARSER = option(
    "--parser",
    type=click.Choice(["official", "lmms-eval", "vlmevalkit"]),
    default="official",
    help="Whose answer parser is used for the means and types.",
)

SET_HERE = ("batch", "ply", "question", "option", "max_turns")
"""Options of a run that commands with an engine set themselves."""


def engine_flags(f: F) -> F:
    """Declare the options of a command that asks a model outside a run."""
    for add in (
        option(
            "--batch-size",
            type=flags.OptionType(OPTIONS["batch_size"]),
            metavar="N",
            help="Requests per call (default: auto).",
        ),
        option("--model", metavar="NAME", help="Model (default: that of a run)."),
        option(
            "--engine",
            type=click.Choice(["transformers", "vllm", "openai", "scripted"]),
            help="Engine (default: that of a run).",
        ),
    ):
        f = add(f)
    return f


def engine_config(context: click.Context, given: dict[str, Any]) -> RunConfig:
    """Return the configuration of an engine: run options before the command, overridden by `given` ones."""
    before = {name: value for name, value in context.obj.items() if name not in SET_HERE}
    own = {name: value for name, value in given.items() if value is not None}
    return RunConfig(**{**before, **own, "batch": True, "max_turns": 1})
