"""The in-process engine on a processor, beside that of another checkout: the same commands, side by side.

    git worktree add --detach DIR COMMIT
    python benchmarks/processor.py --before DIR --output benchmarks/results/processor

Every command is run by both checkouts at the same time, so that other work on the machine slows both down alike. What counts
are the processor's seconds. The two may tell a model other words, so that tokens differ a little.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

SMALL = "--image-size 128x96 bench --small --reply-tokens 60 --threads 1"
MEDIUM = (
    "--image-size 320x240 bench --random-weights medium --reply-tokens 60 --threads 1 --turns 1-7"
)
COMMANDS = {
    "small": f"{SMALL} --schedules two-phase/none,refill/keys --reuse none,keys --batch-sizes 16 --questions 6",
    "medium": f"{MEDIUM} --schedules two-phase/none,refill/keys --reuse none,keys --batch-sizes 16 --questions 4",
}
"""What is run."""


def trials(checkouts: dict[str, Path], arguments: str) -> dict[str, list[dict[str, Any]]]:
    """Return the figures of all variants of one command, run by several checkouts at the same time."""
    command = [sys.executable, "-m", "render_agent", *shlex.split(arguments), "--json"]
    running = {
        side: subprocess.Popen(
            command,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdout=subprocess.PIPE,
        )
        for side, checkout in checkouts.items()
    }
    return {side: json.loads(one.communicate()[0])["variants"] for side, one in running.items()}


def row(name: str, sides: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return a row of the table: the medians of both sides' rounds, and the median of their ratios."""

    def median(side: str, name: str) -> float:
        return float(statistics.median(figures[name] for figures in sides[side]))

    ratios = [
        before["processor_seconds"] / now["processor_seconds"]
        for before, now in zip(sides["before"], sides["now"], strict=True)
    ]
    one = sides["now"][0]
    return {
        "model": name,
        "schedule": f"{one['schedule']}, {one['reuse']}, {one['batch_size']} rows",
        **{
            f"{side}_{name}": median(side, name)
            for side in sides
            for name in ("processor_seconds", "seconds", "drawing")
        },
        "times": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
        "trials": sides,
    }


def page(record: dict[str, Any]) -> str:
    """Return the page of the results."""
    lines = [
        "| model | schedule | before, s | now, s | times | in rounds | wall before, s | wall now, s | drawing before, s | now, s |",
        "| --- | --- | --: | --: | --: | --- | --: | --: | --: | --: |",
    ]
    lines += [
        f"| {one['model']} | {one['schedule']} | {one['before_processor_seconds']:.1f} |"
        f" {one['now_processor_seconds']:.1f} | **{one['times']:.2f}** | {one['least']:.2f} to {one['most']:.2f} |"
        f" {one['before_seconds']:.1f} | {one['now_seconds']:.1f} | {one['before_drawing']:.1f} | {one['now_drawing']:.1f} |"
        for one in record["rows"]
    ]
    commands = "\n".join(f"render-agent {arguments}" for arguments in record["commands"])
    return f"""# The engine on a processor, beside what it was before its KV cache lay in pages

`{record["command"]}`

Before: commit {record["before"]}. {record["rounds"]} round(s), both sides at the same time; medians of seconds of the
processor, of the wall, and of the wall while a view was being drawn. *times*: how many times less of the processor it takes
now, the median over rounds, the least and the most beside it. On a shared machine of {record["cores"]} cores, load {record["load"]:.1f} at the beginning.

{chr(10).join(lines)}

```
{commands}
```

{record["when"]}, {record["system"]}, Python {platform.python_version()}, torch {version("torch")}, transformers {version("transformers")}
"""


@click.command()
@click.option("--before", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--rounds", default=3, type=click.IntRange(1))
@click.option("--output", help="Write OUTPUT.json and OUTPUT.md.")
def main(before: Path, rounds: int, output: str | None) -> None:
    """Measure both checkouts."""
    here = Path(__file__).resolve().parent.parent
    load = os.getloadavg()[0]
    asked = ["git", "rev-parse", "--short", "HEAD"]
    head = subprocess.run(asked, cwd=before, stdout=subprocess.PIPE, text=True, check=True)
    commit = head.stdout.strip()
    found: dict[tuple[str, int], dict[str, list[dict[str, Any]]]] = {}
    for number in range(rounds):
        for name, words in COMMANDS.items():
            for side, variants in trials({"before": before, "now": here}, words).items():
                for place, figures in enumerate(variants):
                    sides = found.setdefault((name, place), {"before": [], "now": []})
                    sides[side].append(figures)
        record = {
            "command": "python benchmarks/processor.py --before DIR --output benchmarks/results/processor",
            "commands": list(COMMANDS.values()),
            "before": commit,
            "rounds": number + 1,
            "cores": os.cpu_count(),
            "load": load,
            "when": datetime.now(UTC).isoformat(timespec="minutes"),
            "system": platform.platform(),
            "rows": [row(name, sides) for (name, _), sides in found.items()],
        }
        if output:
            Path(f"{output}.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
            Path(f"{output}.md").write_text(page(record), "utf-8")
    click.echo(page(record))


if __name__ == "__main__":
    main()
