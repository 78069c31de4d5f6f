"""The report of a run: time to diagnose and write it, its size, and the time to load its index page.

    python -m render_agent_lab.bench.report RUN --output render_agent_lab/bench/results/report.md

RUN is a run folder, such as one with all 5,130 questions (see render_agent_lab/bench/full_scale.py). Its report is written three times:
with and without diagnosis, and by one process whose time is divided by part.
"""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import click

from render_agent.report.diagnosis.visibility_pass import measure_scene
from render_agent.report.pages.build import build_report
from render_agent.report.pages.index.index_page import write_index
from render_agent.report.pages.maps.floor_plan import FloorPlanCache
from render_agent.report.pages.page import frame, write_page
from render_agent.runs.read import RunData
from render_agent.scans.cache import SceneCache
from render_agent_lab.bench.harness import OUTPUT, machine, publish, table

SAMPLE_SECONDS = 0.01  # processor time between two samples

PARTS: dict[str, Any] = {  # part -> the function whose calls it consists of, innermost first
    "reading scans": SceneCache.get,
    "free space and visibility": measure_scene,
    "floor plans and 3D files": FloorPlanCache.of,
    "index page": write_index,
    "question pages": write_page,
    "scores and caveats": frame,
}


def measure_parts(run: Path) -> list[list[object]]:
    """Write the report in this process; return rows: part, CPU seconds, percent. Samples the call stack."""
    parts = {function.__code__: part for part, function in PARTS.items()}
    samples: Counter[str] = Counter()

    def sample(_: int, frame: FrameType | None) -> None:
        codes = []
        while frame is not None:
            codes.append(frame.f_code)
            frame = frame.f_back
        samples[next((parts[code] for code in codes if code in parts), "other")] += 1

    signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
    started_at = time.process_time()
    build_report(RunData(run), processes=1)
    seconds = time.process_time() - started_at
    signal.setitimer(signal.ITIMER_PROF, 0)
    shares = [(part, count / samples.total()) for part, count in samples.most_common()]
    rows: list[list[object]] = [
        [part, f"{share * seconds:.1f}", f"{100 * share:.0f}"] for part, share in shares
    ]
    return [*rows, ["all", f"{seconds:.1f}", "100"]]


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
        "By one process:",
        "",
        *table(["part", "CPU seconds", "%"], measure_parts(run)),
        "",
        f"{len(files):,} files, {size:.0f} MB. Chromium shows the index page after {opening}.",
    ]
    publish(output, "The report of a run", lines, machine("numpy", "matplotlib"))


if __name__ == "__main__":
    main()
