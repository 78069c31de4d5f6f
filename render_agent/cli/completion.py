"""What the shell completes: names of runs, engines, kinds of view, models, question types, files.

A function here is the `shell_complete` of an option or argument: it takes click's context, the parameter and
the word so far. It reads names of files at the most, so that a press of Tab takes no longer than `--help`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import Field
from pathlib import Path
from typing import Any, TypeAlias

import click
from click.shell_completion import CompletionItem, get_completion_class

from render_agent import registry

SHELLS = ("bash", "zsh", "fish")

INSTALL = {
    "bash": "render-agent completion bash > ~/.render-agent.bash && echo '. ~/.render-agent.bash' >> ~/.bashrc",
    "zsh": "render-agent completion zsh > ~/.render-agent.zsh && echo '. ~/.render-agent.zsh' >> ~/.zshrc",
    "fish": "mkdir -p ~/.config/fish/completions"
    " && render-agent completion fish > ~/.config/fish/completions/render-agent.fish",
}
"""What to type once for each shell."""

MENDED = {
    "bash": ("", ""),
    "zsh": (
        "#compdef render-agent\n",
        "#compdef render-agent\n"
        "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }\n",
    ),
    "fish": ('string split ","', 'string split --max 1 ","'),
}
"""By shell, what of click's script is replaced by what: a zsh of no settings completes nothing until told to,
and a completion may have commas of its own."""

VARIABLE = "_RENDER_AGENT_COMPLETE"
"""The variable by which the shell's script asks the program; click makes it of the program's name."""

Items: TypeAlias = list[CompletionItem]
Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], Items]


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Have the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def folders(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Have the shell complete the name of a folder."""
    return [CompletionItem(incomplete, type="dir")]


def runs(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return `recent`, then the runs that lie where the command looks, the newest first; else a folder."""
    return _runs(context.params.get("output"), incomplete)


def lists_of(kind: registry.Kind) -> Complete:
    """Return what completes lists of parts of a kind that begin as the list so far."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
        before, comma, _ = incomplete.rpartition(",")
        rest = [name for name in registry.names(kind) if name not in before.split(",")]
        return _beginning([f"{before}{comma}{name}" for name in rest], incomplete)

    return complete


def models(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the models that have a name or lie in the hub's cache; else a folder or file."""
    if context.params.get("engine") == "scripted":
        return _either(registry.names("scripted policy"), incomplete, "file")
    kept = _hub_cache().glob("models--*--*")
    names = sorted("/".join(path.name.split("--")[1:]) for path in kept)
    return _either(["small", *names], incomplete, "dir")


def benchmarks(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the benchmarks that have a name; else a file."""
    return _either(registry.names("benchmark"), incomplete, "file")


def question_types(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return VSI-Bench's types of questions."""
    from render_agent.score.official import TYPES

    return _beginning(TYPES, incomplete)


def data_sets(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return VSI-Bench's data sets."""
    return _beginning(("scannet", "scannetpp", "arkitscenes"), incomplete)


def rubrics(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the rubric that is shipped; else a file."""
    return _either(("view",), incomplete, "file")


BY_NAME: dict[str, Complete] = {
    "kinds": lists_of("kind of view"),
    "probe": lists_of("probe"),
    "model": models,
    "benchmark": benchmarks,
    "type": question_types,
    "dataset": data_sets,
    "rubric": rubrics,
}
"""What completes an option of a run; any other is completed by what its metavar says."""


def completes(entry: Field[Any]) -> Complete | None:
    """Return what completes an option of a run, None where its type does, or nothing."""
    return BY_NAME.get(entry.name) or by_metavar(entry.metadata.get("metavar", ""))


def by_metavar(metavar: str) -> Complete | None:
    """Return what completes a value that a help page calls so: a file, a folder, a run; None for any other."""
    words = {"FILE": files, "DIR": folders, "RUN": runs}
    return next((complete for word, complete in words.items() if word in metavar), None)


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(context: click.Context, /, shell: str) -> None:
    """Print the script by which SHELL completes commands, options, files and names of runs.

    Its last line says how to install it.

    \b
    Examples:
      render-agent completion bash
    """
    program = context.find_root().command
    writer = get_completion_class(shell)
    assert writer is not None, "each of SHELLS is one of click's"
    script = writer(program, {}, "render-agent", VARIABLE).source()
    mended = script.rstrip().replace(*MENDED[shell])
    click.echo(f"{mended}\n\n# To install it, type: {INSTALL[shell]}")


def _runs(where: Any, incomplete: str) -> Items:
    """Return `recent` and the runs in a folder, the newest first."""
    folder = Path(str(where or "experiment_logs"))
    try:
        names_of_runs = [path.name for path in folder.iterdir() if (path / "config.json").is_file()]
    except OSError:
        names_of_runs = []
    names = [name for name in sorted(names_of_runs, reverse=True) if not name.startswith(".")]
    return _either(["recent", *names], incomplete, "dir")


def _beginning(names: Iterable[str], incomplete: str) -> Items:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _either(names: Iterable[str], incomplete: str, path: str) -> Items:
    """Return the matching names, after an item that has the shell complete a path too."""
    return [CompletionItem(incomplete, type=path), *_beginning(names, incomplete)]


def _hub_cache() -> Path:
    """Return where huggingface_hub keeps models, found without loading it."""
    if folder := os.environ.get("HF_HUB_CACHE"):
        return Path(folder)
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or str(Path(cache) / "huggingface")
    return Path(home).expanduser() / "hub"
