"""`play`: a person answers in the browser instead of a model."""

from __future__ import annotations

from typing import Any

import rich_click as click

from render_agent.cli.flags import given_options
from render_agent.cli.shared_options import BROWSER, option, run_option
from render_agent.options import OPTIONS, RunConfig

# Options that select questions; without any of them, play uses the bundled rooms.
QUESTION_SOURCES = ("benchmark", "questions", "scannet", "scannetpp", "arkitscenes", "annotations")

# Groups of options that concern a player, and those in them that `play` sets itself or does not need.
GROUPS = ("questions", "dialogue", "place", "display")
EXCLUDED = ("batch", "shard")
PLAYED = [
    entry
    for name, entry in OPTIONS.items()
    if entry.metadata["group"] in GROUPS
    and name not in EXCLUDED
    and not entry.metadata.get("of_model")
]

DEFAULT_QUESTION = "What is this place, and what is in it?"  # default question about a scan

# Default questions: five types in five rooms, easiest first.
DEFAULT_IDS = ("0", "27", "63", "89", "134")


def chosen_options(command_line: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a run in which a person answers; by default, a few questions about the bundled rooms."""
    defaults = {name: value for name, value in defaults.items() if name != "model"}
    options = {**defaults, **command_line, "engine": "human"}
    if options.get("ply") is not None:
        return {**options, "question": options.get("question") or DEFAULT_QUESTION, "batch": False}
    options["batch"] = True
    if not any(name in options for name in QUESTION_SOURCES):
        options["benchmark"] = "rooms"
        if not any(name in options for name in ("limit", "type", "scene", "id")):
            options["id"] = DEFAULT_IDS
    return options


@click.command(
    "play",
    panel="Other",
    params=[run_option(entry) for entry in PLAYED],
)
@option("--model", metavar="NAME", help="Name of the player in the run's record (default: person).")
@BROWSER
@click.pass_context
def play_command(
    context: click.Context, /, model: str | None, browser: bool, **options: Any
) -> None:
    """Answer questions yourself, in the browser.

    You see what a model would see, move the camera and answer, on a page that is served on localhost only. This makes a
    run like any other, with the same log and the same score. Without options, it asks five questions about the bundled
    rooms.

    \b
    Examples:
      render-agent play
      render-agent play --limit 20 --type object_counting --model "our lab"
      render-agent play --ply SCAN.ply --question "How many chairs are there?"
    """
    from render_agent.cli.run import new_run

    command_line = given_options(context)
    if model is not None:
        command_line["model"] = model
    config = RunConfig(**chosen_options(command_line, given_options(context.parent)))
    context.exit(new_run(config, browser=browser))
