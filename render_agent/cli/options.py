"""The options of the commands: how one is declared, those that several have, and those of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field
from pathlib import Path
from typing import Any, TypeVar

import click

from render_agent.cli import completion
from render_agent.config import flags

F = TypeVar("F", bound=Callable[..., Any])


class NewPath(click.Path):
    """A file or folder that a command writes at its end; refused before it begins where it could not."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the path as it was typed. SetupError where nothing can be written there."""
        from render_agent.system.whole_files import refuse_unwritable

        if value:
            refuse_unwritable(Path(value))
        return value


def option(*names: str, **more: Any) -> Callable[[F], F]:
    """Declare an option as `click.option` does; what follows from its default, type and metavar need not be said.

    A default is shown. A number with bounds is N, or X where it need not be whole. The shell completes files, folders
    and runs where the metavar has the word FILE, DIR or RUN.
    """
    default, kind = more.get("default"), more.get("type")
    if isinstance(kind, click.IntRange | click.FloatRange):
        more.setdefault("metavar", "N" if isinstance(kind, click.IntRange) else "X")
    elif isinstance(kind, flags.Auto):
        more.setdefault("metavar", kind.name)  # click would write it in capitals
    more.setdefault("show_default", default not in (None, "") and not isinstance(default, bool))
    more.setdefault("shell_complete", completion.by_metavar(more.get("metavar", "")))
    return click.option(*names, **more)


def to_folder(words: str, *, required: bool = False) -> Callable[[F], F]:
    """Declare `--to DIR`, also called `--output`, the parameter `folder`: where a command writes several files."""
    return option(
        "--to", "--output", "folder", type=NewPath(), metavar="DIR", required=required, help=words
    )


WHERE_RUNS_LIE = option(
    "--output", default="experiment_logs", metavar="DIR", help="Where runs lie."
)
"""The option of every command that looks at runs."""

AS_JSON = option("--json", "as_json", is_flag=True, help="Print JSON.")

RUN = click.argument("run", default="recent", shell_complete=completion.runs)
"""The run that a command looks at: the newest, unless another is named."""


def run_option(entry: Field[Any], **settings: Any) -> click.Option:
    """Return the option of the command line that a field of RunConfig declares.

    settings: what else click is given, such as another `help`.
    """
    return flags.run_option(entry, shell_complete=completion.completes(entry), **settings)
