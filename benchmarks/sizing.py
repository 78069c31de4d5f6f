"""Bytes that batches were said to need against the peak that was measured, over batch shapes.

    python benchmarks/sizing.py --output benchmarks/results/sizing

The model is a small Qwen3-VL in float32, built by the tests; the memory is that of the process.
Two probes of one new token come first, as in a run; each batch is predicted from all before it, then
run, and noted. A shape is rows × tokens, padding and reply included. The memory of the process is
counted in pages by the system, and other threads' work is in it.
"""

from __future__ import annotations

import json
import os
import platform
import random
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

TESTS = Path(__file__).resolve().parents[1] / "tests"
ROWS = (1, 2, 4, 8, 16)
WORDS = (50, 200, 500)
NEW_TOKENS = 8
MEGABYTE = 2**20


def measure(seed: int) -> list[dict[str, Any]]:
    """Return what every batch was predicted to need, and what it did."""
    sys.path.insert(0, str(TESTS))
    from factories.models import small_model, speckled_file

    from render_agent.dialogue import chat
    from render_agent.engines.base import Request
    from render_agent.engines.transformers.generate_engine import TransformersEngine
    from render_agent.engines.transformers.memory.sizing import Sizing

    def request(words: int, number: int) -> Request:
        said = chat.text(f"{number} " + "word " * words)
        shown = [chat.picture(f"96x64-{number}{k}.png") for k in range(2)]
        content = [chat.message("user", said, *shown)]
        return Request(f"q{number}", 0, content, speckled_file, max_new_tokens=NEW_TOKENS)

    class Noting(Sizing):
        """Keeps the newest observation at hand."""

        def observe(self, tokens: int, needed: int) -> None:
            self.newest = (tokens, needed)
            super().observe(tokens, needed)

    engine = TransformersEngine(str(small_model()), dtype="float32", device="cpu")
    engine.generate([request(WORDS[0], 0)])  # libraries fill their caches
    engine.sizing = Noting(engine.memory, most_rows=max(ROWS))
    engine.generate([request(WORDS[0], number) for number in range(4)])  # two probes, and a batch
    shapes = [(count, words) for count in ROWS for words in WORDS]
    random.Random(seed).shuffle(shapes)
    rows = []
    for count, words in shapes:
        line = engine.sizing.line
        assert line is not None
        replies = engine.generate([request(words, number) for number in range(count)])
        if {reply.batch_size for reply in replies} != {count}:
            continue  # so large a step was not dared at once
        tokens, needed = engine.sizing.newest
        said = round(line.needed(tokens))
        rows.append({"rows": count, "tokens": tokens, "predicted": said, "measured": needed})
    return rows


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the rows as Markdown, in the order in which they were run."""
    lines = ["| rows | tokens | predicted MB | measured MB | predicted / measured |"]
    lines.append("|---|---|---|---|---|")
    for row in rows:
        said, needed = row["predicted"] / MEGABYTE, row["measured"] / MEGABYTE
        lines.append(
            f"| {row['rows']} | {row['tokens']:,} | {said:.1f} | {needed:.1f} | {said / needed:.2f} |"
        )
    return lines


@click.command()
@click.option("--output", required=True, help="Where the .json and .md go, without their ending.")
@click.option("--seed", default=0, help="Of the order of the shapes.")
def main(output: str, seed: int) -> None:
    """Measure, and write a table."""
    rows = measure(seed)
    command = f"python benchmarks/sizing.py --output {output}" + (f" --seed {seed}" if seed else "")
    machine = {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "torch": version("torch"),
        "transformers": version("transformers"),
        "date": datetime.now(UTC).date().isoformat(),
    }
    ratios = sorted(row["predicted"] / row["measured"] for row in rows)
    under = sum(ratio < 1 for ratio in ratios)
    record = {"command": command, "machine": machine, "new_tokens": NEW_TOKENS, "batches": rows}
    Path(f"{output}.json").write_text(json.dumps(record, indent=1) + "\n")
    text = [
        "# Bytes that batches were said to need, and did",
        "",
        f"A small Qwen3-VL in float32 on a CPU, two pictures a prompt, {NEW_TOKENS} new tokens;"
        f" {machine['platform']}, {machine['cores']} cores, Python {machine['python']}, torch"
        f" {machine['torch']}, transformers {machine['transformers']}; {machine['date']}; load"
        f" {machine['load']}. In the order in which they were run, each predicted from those before.",
        "",
        *table(rows),
        "",
        f"Predicted / measured: {ratios[0]:.2f} to {ratios[-1]:.2f}, median"
        f" {ratios[len(ratios) // 2]:.2f}; below 1 in {under} of {len(ratios)} batches.",
        "",
        f"    {command}",
        "",
    ]
    Path(f"{output}.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
