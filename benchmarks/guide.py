"""Milliseconds that guiding adds to a step of decoding, by rows.

    python benchmarks/guide.py --tokenizer DIR --output benchmarks/results/guide

No model runs: scores are noise in which one token of each row stands out, so that every row writes a
reply of its own. Four ways take turns, and a figure is the best round's time a step:

plain    the likeliest token of every row is found, as greedy decoding does anyway
allowed  guided, every likeliest token is allowed: no mask is computed
refused  guided, in one step of ten the likeliest token of each row is not allowed: masks for those
masked   guided, a mask for every row in every step, as sampled rows need it

On a CPU it is the processor's time, which other work on the machine hardly changes.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import torch
from transformers import AutoTokenizer

from render_agent.dialogue.prompt import reply_schema
from render_agent.engines.transformers.constrained_decoding import Guides
from render_agent.engines.transformers.sampling import Truncation, Writing, choose_tokens

WAYS = ("plain", "allowed", "refused", "masked")
SCHEMA = reply_schema(("ego", "top", "around"))
WORDS = "the chair stands left of a table near the door and I turn to see what is behind it".split()


def reply(number: int) -> str:
    """Return one of many different replies of some 80 tokens."""
    told = " ".join(WORDS[(number + 3 * place) % len(WORDS)] for place in range(25 + number % 7))
    moves = {"rotation_angle_degrees": 5 * (number % 37), "forward_meters": 0.25 * (number % 5)}
    return json.dumps({"reasoning": told, **moves, "view": "ego", "answer": None, "done": False})


def milliseconds(
    guides: Guides, rows: int, device: str, noise: torch.Tensor, way: str
) -> tuple[float, int]:
    """Return how long a step takes, and how many steps were taken."""
    end = min(guides.ends)
    written = [[*guides.tokenizer.encode(reply(number)), end] for number in range(rows)]
    steps = max(map(len, written))
    ids = torch.tensor([[0, *row, *[end] * (steps - len(row))] for row in written], device=device)
    refused = guides.tokenizer.encode("}")[0]
    replies = [Writing(guide=guides.start(SCHEMA)) for _ in range(rows)]
    scores = noise[:rows].clone()
    spent = 0.0
    for step in range(steps):
        wanted = ids[:, step + 1 : step + 2]
        scores.scatter_(1, wanted, 100.0)
        if way == "refused" and step % 10 == 5:
            scores[:, refused] = 200.0
        synchronise(device)
        began = clock(device)
        best = scores.argmax(-1)
        if way == "plain":
            chosen = best.tolist()
        else:
            if way == "masked":  # no token has this number
                best.fill_(guides.vocabulary - 1)
            chosen = choose_tokens(scores, best, replies, Truncation())
            for row, token in zip(replies, wanted[:, 0].tolist(), strict=True):
                row.take(token)
        spent += clock(device) - began
        assert way in ("refused", "masked") or chosen == wanted[:, 0].tolist()
        scores.copy_(noise[:rows])
    return 1000 * spent / steps, steps


def clock(device: str) -> float:
    """Return the seconds by the clock that is meant."""
    return time.process_time() if device == "cpu" else time.perf_counter()


def synchronise(device: str) -> None:
    """Wait for a GPU, where it is one."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def compile_times(
    tokenizer: Any, vocabulary: int, ends: Sequence[int]
) -> tuple[Guides, float, float]:
    """Return guides, the seconds until the first one began, and those of one more schema."""
    guides = Guides(tokenizer, vocabulary, ends)
    began = time.process_time()
    guides.start(SCHEMA).mask()
    first = time.process_time()
    guides.start(reply_schema(("ego",))).mask()
    return guides, first - began, time.process_time() - first


@click.command()
@click.option("--tokenizer", "folder", required=True, help="A folder with a tokenizer.json.")
@click.option("--vocabulary", default=151_936, help="Width of the scores.")
@click.option("--rows", default="1,4,16,64", help="Rows side by side.")
@click.option("--rounds", default=5, help="The best of so many rounds counts.")
@click.option("--device", default="cpu")
@click.option("--output", help="Write OUTPUT.json and OUTPUT.md.")
def main(
    folder: str, vocabulary: int, rows: str, rounds: int, device: str, output: str | None
) -> None:
    """Measure what guided replies cost."""
    torch.set_num_threads(1)
    load_before = os.getloadavg()[0]
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    ends = [tokenizer.eos_token_id]
    guides, first, schema = compile_times(tokenizer, vocabulary, ends)
    found = []
    for count in map(int, rows.split(",")):
        noise = torch.randn(count, vocabulary, device=device)
        best: dict[str, float] = {}
        for _ in range(rounds):
            for way in WAYS:
                spent, steps = milliseconds(guides, count, device, noise, way)
                best[way] = min(spent, best.get(way, spent))
        found.append({"rows": count, "steps": steps, "milliseconds": best})
        click.echo(f"{count} rows: {best}", err=True)
    record = {
        "machine": {
            "when": datetime.now(UTC).isoformat(timespec="minutes"),
            "command": " ".join(["python", "benchmarks/guide.py", *sys.argv[1:]]),
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "device": torch.cuda.get_device_name()
            if device.startswith("cuda")
            else "cpu, 1 thread",
            "python": platform.python_version(),
            "versions": {name: version(name) for name in ("llguidance", "torch", "transformers")},
            "load": [load_before, os.getloadavg()[0]],
        },
        "vocabulary": vocabulary,
        "seconds_to_first_guide": first,
        "milliseconds_a_schema": 1000 * schema,
        "results": found,
    }
    text = table(record)
    click.echo(text)
    if output:
        Path(output + ".json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
        Path(output + ".md").write_text(text, "utf-8")


def table(record: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    machine, load = record["machine"], record["machine"]["load"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    lines = [
        "# What guided replies cost",
        "",
        f"Milliseconds{' of processor time' if machine['device'][:3] == 'cpu' else ''} a step at a vocabulary of {record['vocabulary']:,}, best round;"
        f" {machine['device']}; {machine['system']}, {machine['cores']} cores, Python"
        f" {machine['python']}, {versions}; {machine['when'][:10]}; load {load[0]:.1f} before,"
        f" {load[1]:.1f} after.",
        "",
        "| rows | not guided | guided, all allowed | guided, 1 step of 10 refused | a mask for every row |",
        "|---|---|---|---|---|",
    ]
    for entry in record["results"]:
        figures = " | ".join(f"{entry['milliseconds'][way]:.2f}" for way in WAYS)
        lines.append(f"| {entry['rows']} | {figures} |")
    lines += [
        "",
        '"Not guided" is finding the likeliest token, which the other columns hold twice: once to ask'
        " whether it is allowed, once to take it.",
        "",
        f"The first guide takes {record['seconds_to_first_guide']:.1f} s of processor time (the tokenizer is"
        f" compiled, once), a further schema {record['milliseconds_a_schema']:.1f} ms.",
        "",
        f"    {machine['command']}",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
