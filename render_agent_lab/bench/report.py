"""The report of a run: time to diagnose and write it, its size, and the time to load its index page.

    python -m render_agent_lab.bench.report RUN --output render_agent_lab/bench/results/report.md

RUN is a run folder, such as one with all 5,130 questions (see render_agent_lab/bench/full_scale.py). Its report is written twice: with
and without diagnosis.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import click

from render_agent.runs.read import RunData
from render_agent_lab.bench.harness import OUTPUT, machine, publish, table


def measure_report(name: str, run: Path, *options: str) -> list[object]:
    """Write the report in its own process; return a row: name, wall-clock seconds, CPU seconds."""
    before, started_at = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "render_agent", "report", str(run.resolve()), *options]
    subprocess.run(command, check=True, capture_output=True)
    seconds = time.perf_counter() - started_at
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [name, f"{seconds:.1f}", f"{cpu_seconds:.1f}"]


def measure_page_load(index: Path) -> str:
    """Return the time until Chromium has loaded the index page and shows its rows."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        return "not measured"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        started_at = time.perf_counter()
        page.goto(index.resolve().as_uri())
        page.locator("#table tbody tr").first.wait_for()
        seconds = time.perf_counter() - started_at
        browser.close()
    return f"{seconds:.2f} s"


@click.command()
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@OUTPUT
def main(run: Path, output: Path | None) -> None:
    """Measure the report of RUN."""
    folder, report = RunData(run), run / "report"
    questions = folder.questions
    shutil.rmtree(report, ignore_errors=True)
    rows = [measure_report("with diagnosis", run)]
    files = [path for path in report.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files) / 1e6
    opening = measure_page_load(report / "index.html")
    rows.append(measure_report("without diagnosis", run, "--no-diagnosis"))
    lines = [
        f"{len(questions):,} questions, {len(folder.lines()):,} turns,"
        f" {len({question.scene for question in questions})} scenes.",
        "",
        *table(["`render-agent report`", "seconds", "CPU seconds"], rows),
        "",
        f"{len(files):,} files, {size:.0f} MB. Chromium shows the index page after {opening}.",
    ]
    publish(output, "The report of a run", lines, machine("numpy", "matplotlib"))


if __name__ == "__main__":
    main()
