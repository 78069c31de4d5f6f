"""The command that lets a person take the model's turns in the browser."""

from __future__ import annotations

from typing import Any

import rich_click as click

from render_agent.cli.options import run_option
from render_agent.config import OPTIONS, RunConfig
from render_agent.config.flags import given_options

NAMES_QUESTIONS = (
    "benchmark",
    "questions",
    "scannet",
    "scannetpp",
    "arkitscenes",
    "annotations",
)
"""Options without any of which it is the bundled rooms that are asked about."""

OFFERED = (
    "ply",
    "question",
    "option",
    *NAMES_QUESTIONS,
    "limit",
    "type",
    "scene",
    "id",
    "shuffle",
    "seed",
    "max_turns",
    "views",
    "kinds",
    "pictures",
    "image_size",
    "field_of_view",
    "start",
    "port",
    "output",
    "json",
    "quiet",
    "verbose",
)
"""Options of a run that can be given after `play`; all others can be given before it."""

OWN_DEFAULTS = {
    "benchmark": {
        "help": f"{OPTIONS['benchmark'].metadata['text'].removesuffix('.')}"
        " (default: rooms, or vsibench where its questions or scans are named).",
        "show_default": False,
    }
}
"""What is said of an option whose default is another one here."""

LOOK_AROUND = "What is this place, and what is in it?"
"""The question of a scan where none is asked."""

A_FEW = ("0", "27", "63", "89", "134")
"""Questions of a sitting where nothing is asked for: five kinds in five rooms, an easy one first."""


def chosen_options(typed: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a run that a person plays.

    typed: those typed after `play`, before: those of the program, typed ahead of it, in the
    environment or a file, of which a model's name is none of a person. With nothing asked for, it is a
    few of the bundled rooms' questions.
    """
    before = {name: value for name, value in before.items() if name != "model"}
    options = {**before, **typed, "engine": "human"}
    if options.get("ply") is not None:
        return {**options, "question": options.get("question") or LOOK_AROUND, "batch": False}
    options["batch"] = True
    if not any(name in options for name in NAMES_QUESTIONS):
        options["benchmark"] = "rooms"
        if not any(name in options for name in ("limit", "type", "scene", "id")):
            options["id"] = A_FEW
    return options


@click.pass_context
def play(context: click.Context, /, model: str | None, browser: bool, **options: Any) -> None:
    """Be the model: see its views, take its turns, answer; in the browser, on this machine alone.

    A run like any other comes of it, with the same log and the same score. With nothing given it
    asks five questions about the bundled rooms. All options of a run hold, also before `play`.

    \b
    Examples:
      render-agent play
      render-agent play --limit 20 --type object_counting --model "our lab"
      render-agent play --ply SCAN.ply --question "How many chairs are there?"
    """
    from render_agent.cli.commands.run import new_run

    typed = given_options(context)
    if model is not None:
        typed["model"] = model
    config = RunConfig(**chosen_options(typed, given_options(context.parent)))
    context.exit(new_run(config, browser=browser))


play_command = click.RichCommand(
    name="play",
    panel="Other",
    callback=play,
    help=play.__doc__,
    params=[
        click.RichOption(
            ["--model"], metavar="NAME", help="Who plays, as the run records it (person)."
        ),
        *(run_option(OPTIONS[name], **OWN_DEFAULTS.get(name, {})) for name in OFFERED),
        click.RichOption(
            ["--browser/--no-browser"],
            default=True,
            help="Open the page in the browser, where there is a display (default).",
        ),
    ],
)
