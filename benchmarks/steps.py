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

    from render_agent.engines.transformers.decode import Decoder
    from render_agent.engines.transformers.kv_cache import Sequence
    from render_agent.engines.transformers.model.inputs import PreparedPrompt
    from render_agent.engines.transformers.model.load import open_model
    from render_agent.engines.transformers.prefill import Unread, new_cache, read
    from render_agent.engines.transformers.sequences import Sample
    from render_agent_lab.random_models.random_model import random_model

    loaded = open_model(shape, pretrained=random_model(shape))
    model, axes = loaded.model, loaded.inputs.family.axes
    cache = new_cache(loaded)
    decoder = Decoder(model, cache, axes, loaded.suppressed)

    def sequence(tokens: int) -> Sequence:
        found = Sequence("", pinned=True)
        cache.sequences.append(found)
        cache.reserve(found, 0, tokens + 1)
        return found

    def median(call: Callable[[], Any]) -> float:
        call()
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    steps, prompts = {}, {}
    for rows in ROWS:
        written = []
        for _ in range(rows):
            own = sequence(read_before)
            own.ids = [loaded.pad] * read_before
            written.append(Sample(None, 0, own, written=[loaded.pad]))  # type: ignore[arg-type]
        with torch.inference_mode():
            for layer in cache.layers:
                layer.keys.normal_()  # numbers that are next to nothing are slow
                layer.values.normal_()
        steps[rows] = 1000 * median(lambda rows=written: decoder.step(rows)[1].tolist())
        for sample in written:
            cache.evict(sample.sequence)
    for tokens in PROMPTS:
        entry = Unread(PreparedPrompt("", ids=(loaded.pad,) * tokens), sequence(tokens))
        prompts[tokens] = median(lambda entry=entry: read(model, cache, [entry], axes))
        cache.evict(entry.sequence)
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
