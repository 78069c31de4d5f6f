"""The command `bench`: what is compared, and where the figures go."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from render_agent.cli.options import AS_JSON, option, to_folder
from render_agent.config.flags import Parts, given_options
from render_agent.errors import SetupError, UsageError, os_errors
from render_agent.extras import require

if TYPE_CHECKING:
    from render_agent.config import RunConfig
    from render_agent_lab.bench.script import Lengths

DECIDED_HERE = ("batch", "ply", "question", "max_batched_turns", "finish_together", "batch_size")
"""Options of a run that bench sets itself."""


class TurnRange(click.ParamType[tuple[int, int]]):
    """How many turns questions take, written 9 or 1-9."""

    name = "N|A-B"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        """Return the least and the most."""
        if isinstance(value, tuple):
            return value
        least, _, most = str(value).partition("-")
        most = most or least
        if not (least.isdecimal() and most.isdecimal() and 1 <= int(least) <= int(most)):
            self.fail(f"{value!r} is no range of turns: write it as 9 or 1-9")
        return int(least), int(most)


_list = partial(option, type=Parts())


@click.command("bench")
@option("--questions", type=click.IntRange(1), default=64, help="How many questions.")
@option(
    "--turns",
    type=TurnRange(),
    default="1-9",
    help="Turns of a question; every number of a range is as likely.",
)
@option(
    "--reply-tokens",
    type=click.FloatRange(1),
    default=120,
    metavar="N",
    help="Median of a reply's tokens; they are distributed log-normally.",
)
@_list(
    "--schedules",
    default="sequential,two-phase,lockstep,refill",
    help="Which schedules; NAME/REUSE for one way of reuse only.",
)
@_list(
    "--engines", default="transformers", help="Which engines; scripted needs no time and no model."
)
@_list(
    "--reuse",
    default="none,keys",
    help="With what kept over the turns of a question (transformers).",
)
@_list(
    "--batch-sizes",
    default="16,64",
    help="Of lockstep and refill, or auto; sequential has 1, two-phase 16.",
)
@_list("--renderers", default="rasteriser", help="Which renderers.")
@option(
    "--random-weights",
    metavar="NAME|DIR",
    help="Build the model with random weights: Qwen/Qwen3-VL-2B, -4B or -8B-Instruct, small, a small one of a"
    " family such as qwen3_5 or glm46v, or a folder with a model's files but its weights.",
)
@option("--small", is_flag=True, help="The same as --random-weights small.")
@option("--own-replies", is_flag=True, help="Let the model write its own replies.")
@option(
    "--rounds",
    type=click.IntRange(1),
    default=1,
    help="How often each is measured; the median counts.",
)
@option("--threads", type=click.IntRange(1), help="Threads of PyTorch.")
@to_folder("Where bench.json, bench.md and bench.svg are written.")
@option("--notes", metavar="FILE", help="Markdown to put behind the table of bench.md.")
@AS_JSON
@click.pass_context
def bench_command(context: click.Context, /, as_json: bool, **options: Any) -> None:
    """Measure schedules and engines side by side on this machine, with the same questions.

    Options of a run stand before the command. Questions are those of the bundled rooms, unless
    --benchmark names others. Replies are written beforehand, so that every schedule does the same
    work, and the model computes every token of them; --own-replies lets it choose.

    \b
    Examples:
      render-agent bench --small
      render-agent --device cuda --dtype bfloat16 bench --random-weights Qwen/Qwen3-VL-8B-Instruct
    """
    from render_agent.text.console import plain_console
    from render_agent.text.sanitize import json_text
    from render_agent_lab.bench.report import table

    config = _config(context, options)
    notes = _ready_to_write(options["notes"]) if options["folder"] else ""
    progress = plain_console(stderr=True)
    figures = compare(config, options, lambda words: progress.print(words, soft_wrap=True))
    if options["folder"]:
        write(figures, options["folder"], notes)
    if as_json:
        click.echo(json_text(figures))
    else:
        plain_console().print(table(figures["variants"]))


def compare(config: RunConfig, options: dict[str, Any], report: Any) -> dict[str, Any]:
    """Return the figures of all variants, and all that they depend on.

    options: the options of the command, by name. report: is given a line on what goes on. SetupError where the
    model or the questions are not at hand.
    """
    from render_agent.questions.selection import choose_questions
    from render_agent_lab.bench.compared_engines import Engines, load, tokenizing
    from render_agent_lab.bench.measure import Bench
    from render_agent_lab.bench.report import circumstances
    from render_agent_lab.bench.script import Lengths, ScriptedWalk
    from render_agent_lab.bench.variants import variants

    ways = variants(
        options["engines"],
        options["schedules"],
        options["reuse"],
        [_size(size) for size in options["batch_sizes"]],
        options["renderers"],
    )
    if options["threads"] is not None:
        _hold_threads(options["threads"])
    random_weights = "small" if options["small"] else options["random_weights"]
    pretrained = load(config, random_weights) if "transformers" in options["engines"] else None
    lengths = Lengths(options["turns"], options["reply_tokens"], most=config.max_new_tokens)
    questions = choose_questions(config)
    script = ScriptedWalk(questions, lengths, tokenizing(pretrained), config.seed)
    engines = Engines(config, pretrained, None if options["own_replies"] else script)
    rows = Bench(config, engines, report).compare(ways, options["rounds"])
    return {
        **circumstances(
            shlex.join(["render-agent", *sys.argv[1:]]),
            about(pretrained, random_weights or config.model_name),
            workload=_workload(len(questions), config, options, lengths),
        ),
        "rounds": options["rounds"],
        "variants": rows,
    }


def _ready_to_write(notes: str | None) -> str:
    """Return the text of the file `--notes`; SetupError before anything is measured that could not be written."""
    from pathlib import Path

    require("a plot", "matplotlib", instead="leave --to out")
    if notes is None:
        return ""
    with os_errors(SetupError, f"read {notes}"):
        return Path(notes).read_text("utf-8")


def write(figures: dict[str, Any], folder: str, notes: str) -> None:
    """Write the figures into a folder as JSON, as a page with the notes, and as a plot.

    SetupError where that fails.
    """
    import json
    from pathlib import Path

    from render_agent_lab.bench.plot import plot
    from render_agent_lab.bench.report import markdown

    target = Path(folder)
    with os_errors(SetupError, f"write to {folder}"):
        target.mkdir(parents=True, exist_ok=True)
        (target / "bench.json").write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
        (target / "bench.md").write_text(markdown(figures, notes), "utf-8")
        model = f"{figures['model']['name']} on {figures['model'].get('device', 'no device')}"
        plot(figures["variants"], f"Questions an hour: {model}", target / "bench.svg")


def _config(context: click.Context, chosen: dict[str, Any]) -> RunConfig:
    """Return the options of all runs. UsageError where one is given that bench decides."""
    from render_agent.config import RunConfig

    parent = context.parent
    assert parent is not None
    options, given = dict(context.obj), given_options(parent)
    if wrong := [name for name in DECIDED_HERE if name in given]:
        flag = "--" + wrong[0].replace("_", "-")
        raise UsageError(f"{flag} goes with a run: bench has --schedules and --batch-sizes")
    if "benchmark" not in given:
        options["benchmark"] = "rooms"
    if "max_turns" not in given:
        options["max_turns"] = chosen["turns"][1]
    decided = {"batch": True, "shuffle": True, "limit": chosen["questions"], "no_guide": True}
    return RunConfig(**options | decided).absolute()


def _size(text: str) -> int | str:
    if text == "auto":
        return text
    if not (text.isdecimal() and int(text)):
        raise UsageError(f"--batch-sizes: {text!r} is no number of requests")
    return int(text)


def _hold_threads(number: int) -> None:
    import torch

    torch.set_num_threads(number)


def about(pretrained: Any, name: str) -> dict[str, Any]:
    """Describe a model beside figures: its size, number format and device."""
    if pretrained is None:
        return {"name": name}
    model = pretrained.model
    return {
        "name": name,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": _device_name(model.device),
    }


def _device_name(device: Any) -> str:
    import torch

    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"{device} ({torch.get_num_threads()} threads)"


def _workload(count: int, config: RunConfig, options: dict[str, Any], lengths: Lengths) -> str:
    least, most = lengths.turns
    width, height = config.image_size
    replies = (
        "the model's own"
        if options["own_replies"]
        else f"given beforehand, log-normal with median {lengths.reply_tokens:g} tokens and σ"
        f" {lengths.spread}"
    )
    turns = f"{least} to {most}" if least < most else str(most)
    return (
        f"{count} questions of {turns} turns, views of {width} × {height}; replies of at most"
        f" {config.max_new_tokens} tokens, {replies}; medians of {options['rounds']} round(s)."
    )
