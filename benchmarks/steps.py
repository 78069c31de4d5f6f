"""What one call of a model costs: a token more for many rows, and the reading of a prompt.

    python benchmarks/steps.py --shape medium --output benchmarks/results/steps

The model is built from its shape with random weights. A step writes one token more for every row, each
of which has read so many before. Times are medians.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

ROWS = (1, 4, 16, 64)
PROMPTS = (250, 1500)


def measure(shape: str, read_before: int, repeats: int) -> dict[str, Any]:
    """Return milliseconds a step by rows, and seconds a prompt by tokens."""
    import torch
    from render_agent.engines.transformers.forward import Unread, read, write

    from render_agent.engines.transformers.families.inputs import PreparedPrompt
    from render_agent.engines.transformers.kv_cache import RowSlots
    from render_agent.engines.transformers.model.load import open_model
    from render_agent.engines.transformers.random_model import random_model

    loaded = open_model(shape, pretrained=random_model(shape))
    model, pad, axes = loaded.model, loaded.pad, loaded.inputs.family.axes

    def prompt(tokens: int) -> Unread:
        places = torch.arange(tokens)[None].expand(axes, -1)
        return Unread(PreparedPrompt("", ids=(pad,) * tokens), 0, 0, places)

    def median(call: Callable[[], Any]) -> float:
        call()
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    steps, prompts = {}, {}
    with torch.inference_mode():
        written = read(model, RowSlots(), [prompt(1)], pad)[1]
        for rows in ROWS:
            slots = RowSlots()
            slots.learn(written)
            slots.reserve(rows, read_before + 1)
            slots.lengths = [read_before] * rows
            last, places = [pad] * rows, [read_before] * rows
            steps[rows] = 1000 * median(
                lambda s=slots, t=last, p=places: write(model, s, t, p, axes)
            )
        for tokens in PROMPTS:
            prompts[tokens] = median(lambda n=tokens: read(model, RowSlots(), [prompt(n)], pad))
    weights = sum(parameter.numel() for parameter in model.parameters())
    return {"weights": weights, "step_ms": steps, "read_s": prompts}


@click.command()
@click.option("--shape", "shapes", multiple=True, default=("small", "medium"), show_default=True)
@click.option("--read-before", default=1500, show_default=True, help="Tokens in every row.")
@click.option("--threads", default=1, show_default=True)
@click.option("--repeats", default=9, show_default=True)
@click.option("--output", required=True, help="Without its suffix.")
def main(
    shapes: tuple[str, ...], read_before: int, threads: int, repeats: int, output: str
) -> None:
    """Measure and write the figures as JSON and as a table."""
    import torch

    torch.set_num_threads(threads)
    command = " ".join(
        [
            "python benchmarks/steps.py",
            *(f"--shape {shape}" for shape in shapes),
            f"--output {output}",
        ]
    )
    found = {shape: measure(shape, read_before, repeats) for shape in shapes}
    place = (
        f"{platform.platform()}, {os.cpu_count()} cores, {threads} thread(s), Python"
        f" {platform.python_version()}, torch {version('torch')}, transformers"
        f" {version('transformers')}; {datetime.now(UTC):%Y-%m-%d}; load {os.getloadavg()[0]:.1f}"
    )
    lines = [
        "# One call of a model",
        "",
        f"Every row has read {read_before} tokens; medians of {repeats}. {place}.",
        "",
        "| shape | weights | "
        + " | ".join(f"step, {rows} rows" for rows in ROWS)
        + " | "
        + " | ".join(f"reading {tokens}" for tokens in PROMPTS)
        + " |",
        "|---|--:|" + "--:|" * (len(ROWS) + len(PROMPTS)),
    ]
    for shape, figures in found.items():
        cells = [f"{figures['step_ms'][rows]:.1f} ms" for rows in ROWS]
        cells += [f"{figures['read_s'][tokens]:.2f} s" for tokens in PROMPTS]
        lines.append(f"| {shape} | {figures['weights'] / 1e6:.1f} M | " + " | ".join(cells) + " |")
    lines += ["", f"    {command}", ""]
    file = Path(output)
    file.with_suffix(".md").write_text("\n".join(lines), "utf-8")
    record = {"command": command, "place": place, "read_before": read_before, "shapes": found}
    file.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
