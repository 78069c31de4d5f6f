"""The short `--help`: three uses, common options and commands. `--help-all` lists everything."""

from __future__ import annotations

from textwrap import wrap

import click

from render_agent import registry
from render_agent.cli.flags import declaration
from render_agent.options import OPTIONS

ABOUT = "Let a vision-language model explore a 3D scan and answer questions about it."

USES = {
    "run --benchmark rooms --model small": "run a benchmark (or --batch)",
    'ask SCAN.ply "How many chairs?"': "ask one question (or --ply)",
    "--continue recent": "resume a run",
}  # fmt: skip

OPTION_GROUPS = {  # heading -> option -> description of at most 52 characters
    "Questions": {
        "benchmark": "vsibench (default), rooms (bundled), a file …",
        "scannet": "ScanNet (also --scannetpp, --arkitscenes)",
        "option": "an answer choice; repeatable",
        "limit": "run at most N questions",
        "type": "only this question type",
        "scene": "only this scene",
    },
    "Model": {
        "engine": "transformers (default), vllm, openai, scripted …",
        "model": "Hugging Face name, folder, or small (bundled)",
        "base_url": "server of --engine openai",
        "temperature": "0 (default) is greedy",
        "max_new_tokens": "token limit of a reply (default: 512)",
        "seed": "seed of all randomness (default: 0)",
    },
    "Dialogue": {
        "max_turns": "turns per question (default: 9)",
        "views": "free (default), none, start, four, top, tour …",
        "view_types": "view types that the model may request",
        "image_size": "size of the views (default: 640x480)",
        "agent": "single (default), vote:K, lookahead:K …",
    },
    "Running": {
        "max_batched_turns": "turns that all questions take together (default: 4)",
        "finish_together": "questions in progress at once afterwards",
        "batch_size": "requests per model call (default: auto)",
        "output": "folder for runs (default: experiment_logs)",
        "json": "print the results as JSON",
    },
}

USUAL_COMMANDS = ("doctor", "ls", "show", "report", "view", "diagnose", "compare", "export", "score", "sweep", "play", "boxes", "mcp", "make-rooms", "make-questions", "make-views")  # fmt: skip

INDENT = 25  # columns of the names


def short_help(group: click.Group, context: click.Context) -> str:
    """Return the help of the program on at most 60 lines of 80 characters."""
    lines = ["Usage: render-agent [OPTIONS] [COMMAND] ...", "", ABOUT, ""]
    lines += [f"  render-agent {words:<36} {use}" for words, use in USES.items()]
    for title, options in OPTION_GROUPS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {_flag(name):<{INDENT}} {meaning}" for name, meaning in options.items()]
    lines += ["", "Commands:"]
    for name in USUAL_COMMANDS:
        command = group.get_command(context, name)
        if command is not None:
            lines.append(f"  {name:<{INDENT}} {command.get_short_help_str(54).rstrip('.')}")
    other_commands = [name for name in registry.names("command") if name not in USUAL_COMMANDS]
    also = f"  also: {', '.join(other_commands)}"
    lines += wrap(also, 80, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join([*lines, "", "Every option: render-agent --help-all, or COMMAND --help"])


def _flag(name: str) -> str:
    """Return a flag with its value, unless the value is one of several words."""
    (flag, *_), settings = declaration(OPTIONS[name])
    value = settings.get("metavar", "")
    return flag if "|" in value and value != "N|auto" else f"{flag} {value}"
