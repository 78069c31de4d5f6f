"""Everything to measure when a GPU is at hand, in order of importance and within 15 minutes.

    python -m render_agent_lab.bench.gpu_session --output render_agent_lab/bench/results

Runs the start check with each part broken once, `gpu --reproducible`, `gpu_faults`, and three rows of `gpu` in bfloat16: the
default schedule, and two identical runs. Each is a process of its own, which is killed when its share of the time is up, and
writes its own page after every step. To try the command without a GPU, which takes a few minutes:

    python -m render_agent_lab.bench.gpu_session --device cpu --model small --questions 2 --image-size 64x48
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import click

START_SHARE = 0.8  # of its time, in which a module with `--minutes` starts further measurements

# module, share of the time, arguments, and page
STEPS: tuple[tuple[str, float, tuple[str, ...], str], ...] = (
    ("gpu_start_check", 0.2, (), "gpu_start_check.md"),
    ("gpu", 0.35, ("--reproducible",), "gpu_reproducible.md"),
    ("gpu_faults", 0.25, (), "gpu_faults.md"),
    (
        "gpu",
        0.2,
        (
            "--only",
            "generated replies|generated replies, again|four batched turns (the default)",
        ),
        "gpu_repeated.md",
    ),
)


def step_command(
    module: str, device: str, model: str | None, questions: int | None, image_size: str
) -> list[str]:
    """Return the command of one module, with sizes for all of its runs."""
    command = [sys.executable, "-m", f"render_agent_lab.bench.{module}", "--device", device]
    command += ["--model", model] if model else []
    if module == "gpu":
        command += ["--image-size", image_size, *(["--many", str(questions)] if questions else [])]
    if module == "gpu_faults":
        command += ["--image-size", image_size.partition("x")[0]]
        command += ["--questions", str(questions)] if questions else []
    return command


@click.command()
@click.option("--output", type=click.Path(path_type=Path), help="Write the pages to this folder.")
@click.option("--minutes", default=15.0, show_default=True, help="Time for everything.")
@click.option("--device", default="cuda", show_default=True)
@click.option("--model", help="Use this model shape for all steps.")
@click.option("--questions", type=int, help="Concurrent questions, instead of each step's default.")
@click.option("--image-size", default="640x480", show_default=True)
def main(
    output: Path | None,
    minutes: float,
    device: str,
    model: str | None,
    questions: int | None,
    image_size: str,
) -> None:
    """Run all GPU measurements; exit with 1 if one failed or was cut off."""
    outcomes = []
    for module, share, arguments, page in STEPS:
        command = [*step_command(module, device, model, questions, image_size), *arguments]
        if module != "gpu_start_check":
            command += ["--minutes", f"{START_SHARE * share * minutes:.2f}"]
        command += ["--output", str(output / page)] if output else []
        started_at = time.perf_counter()
        try:
            code = subprocess.run(command, timeout=60 * share * minutes, check=False).returncode
            outcome = "complete" if code == 0 else f"failed with exit code {code}"
        except subprocess.TimeoutExpired:
            outcome = "cut off"
        outcomes.append(f"{page}: {outcome}, {time.perf_counter() - started_at:.0f} s")
        click.echo(outcomes[-1], err=True)
    click.echo("\n".join(outcomes))
    if not all(": complete" in outcome for outcome in outcomes):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
