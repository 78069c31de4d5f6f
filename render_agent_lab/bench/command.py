"""The `bench` command: options, comparison and output."""

from __future__ import annotations

import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from render_agent.cli.flags import given_options
from render_agent.cli.shared_options import AS_JSON, option, to_folder
from render_agent.errors import SetupError, UsageError, os_errors

if TYPE_CHECKING:
    from render_agent.options import RunConfig
    from render_agent_lab.bench.schedules.script import LengthDistributions

# run options that bench sets itself
RESERVED_OPTIONS = (
    "batch",
    "ply",
    "question",
    "max_batched_turns",
    "finish_together",
    "batch_size",
)


class WordList(click.ParamType[tuple[str, ...]]):
    """Comma-separated words."""

    name = "LIST"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Return the words in order, without duplicates."""
        words = value.split(",") if isinstance(value, str) else value
        return tuple(dict.fromkeys(str(word).strip() for word in words if str(word).strip()))


_list = partial(option, type=WordList())


@click.command("bench", panel="Other")
@option("--questions", type=click.IntRange(1), default=64, help="Number of questions.")
@option(
    "--reply-tokens",
    type=click.FloatRange(1),
    default=120,
    metavar="N",
    help="Median reply length in tokens (log-normal).",
)
@_list(
    "--schedules",
    default="sequential,two-phase,lockstep,refill",
    help="Schedules to compare, comma-separated.",
)
@_list("--engines", default="transformers", help="Engines to compare; scripted needs no model.")
@_list("--reuse", default="none,keys", help="What transformers caches between turns.")
@_list(
    "--batch-sizes",
    default="16,64",
    help="Batch sizes of lockstep and refill, or auto. Sequential uses 1, two-phase 16.",
)
@option(
    "--random-weights",
    metavar="NAME|DIR",
    help="Use random weights: Qwen/Qwen3-VL-2B, -4B or -8B-Instruct, small, or a folder with a model's files"
    " (weights not needed).",
)
@option("--small", is_flag=True, help="Same as --random-weights small.")
@option("--own-replies", is_flag=True, help="Let the model write its own replies.")
@option(
    "--rounds",
    type=click.IntRange(1),
    default=1,
    help="Measure each variant N times; show medians.",
)
@to_folder("Write bench.json and bench.md here.")
@AS_JSON
@click.pass_context
def bench_command(context: click.Context, /, as_json: bool, **options: Any) -> None:
    """Compare schedules and engines on this machine with the same questions.

    Put run options before the command. The questions come from the bundled rooms unless --benchmark names
    others; each takes 1 to --max-turns turns. Replies are scripted so that every schedule does the same work,
    but the model still computes every token. Pass --own-replies to let it write its own.

    \b
    Examples:
      render-agent bench --small
      render-agent --device cuda bench --random-weights Qwen/Qwen3-VL-8B-Instruct
    """
    from render_agent.util.console import plain_console
    from render_agent.util.sanitize import printable_json
    from render_agent_lab.bench.schedules.report import markdown, table

    config = _run_config(context, options)
    progress = plain_console(stderr=True)
    figures = measure_variants(config, options, lambda words: progress.print(words, soft_wrap=True))
    if options["folder"]:
        target = Path(options["folder"])
        with os_errors(SetupError, f"write to {target}"):
            target.mkdir(parents=True, exist_ok=True)
            (target / "bench.json").write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
            (target / "bench.md").write_text(markdown(figures), "utf-8")
    if as_json:
        click.echo(printable_json(figures))
    else:
        plain_console().print(table(figures["variants"]))


def measure_variants(config: RunConfig, options: dict[str, Any], report: Any) -> dict[str, Any]:
    """Measure all variants."""
    from render_agent.runs.build import build
    from render_agent_lab.bench.schedules.compared_engines import (
        EngineFactory,
        load_benchmark_model,
        make_tokenize,
    )
    from render_agent_lab.bench.schedules.measure import Bench
    from render_agent_lab.bench.schedules.report import describe_environment
    from render_agent_lab.bench.schedules.script import LengthDistributions, ScriptedWalk
    from render_agent_lab.bench.schedules.variants import make_variants

    sizes = [_parse_batch_size(size) for size in options["batch_sizes"]]
    ways = make_variants(options["engines"], options["schedules"], options["reuse"], sizes)
    random_weights = "small" if options["small"] else options["random_weights"]
    pretrained = (
        load_benchmark_model(config, random_weights)
        if "transformers" in options["engines"]
        else None
    )
    lengths = LengthDistributions(
        (1, config.max_turns), options["reply_tokens"], most=config.max_new_tokens
    )
    parts = build(config)
    questions = parts.questions()
    script = ScriptedWalk(questions, lengths, make_tokenize(pretrained), config.seed)
    engines = EngineFactory(config, pretrained, None if options["own_replies"] else script)
    rows = Bench(config, engines, report).compare(ways, options["rounds"])
    return {
        **describe_environment(
            shlex.join(["render-agent", *sys.argv[1:]]),
            model_summary(pretrained, random_weights or parts.model_name),
            workload=_describe_workload(len(questions), config, options, lengths),
        ),
        "rounds": options["rounds"],
        "variants": rows,
    }


def _run_config(context: click.Context, bench_options: dict[str, Any]) -> RunConfig:
    """Return the options shared by all runs. Raises UsageError if one of them is set by bench."""
    from render_agent.options import RunConfig

    parent = context.parent
    assert parent is not None
    options, run_options = dict(context.obj), given_options(parent)
    if wrong := [name for name in RESERVED_OPTIONS if name in run_options]:
        flag = "--" + wrong[0].replace("_", "-")
        raise UsageError(
            f"{flag} is a run option. bench uses --schedules and --batch-sizes instead."
        )
    if "benchmark" not in run_options:
        options["benchmark"] = "rooms"
    preset = {"batch": True, "shuffle": True, "limit": bench_options["questions"], "no_guide": True}
    return RunConfig(**options | preset).absolute()


def _parse_batch_size(text: str) -> int | str:
    if text == "auto":
        return text
    if not (text.isdecimal() and int(text)):
        raise UsageError(
            f"--batch-sizes: {text!r} is not a batch size. Use positive integers or auto."
        )
    return int(text)


def model_summary(pretrained: Any, name: str) -> dict[str, Any]:
    """Describe a model for the results: size, dtype and device."""
    if pretrained is None:
        return {"name": name}
    import torch

    model = pretrained.model
    device = str(model.device)
    kind = (
        torch.cuda.get_device_name(model.device)
        if model.device.type == "cuda"
        else f"{torch.get_num_threads()} threads"
    )
    return {
        "name": name,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": f"{device} ({kind})",
    }


def _describe_workload(
    count: int, config: RunConfig, options: dict[str, Any], lengths: LengthDistributions
) -> str:
    width, height = config.image_size
    replies = (
        "the model's own"
        if options["own_replies"]
        else f"scripted, log-normal with median {lengths.reply_tokens:g} tokens and σ {lengths.spread}"
    )
    return (
        f"{count} questions of 1 to {config.max_turns} turns, views of {width} × {height}; replies of at most"
        f" {config.max_new_tokens} tokens, {replies}; medians of {options['rounds']} round(s)."
    )
