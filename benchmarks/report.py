"""The report of a run: the time to diagnose and write it, its size, and the time to open its index.

    python benchmarks/report.py RUN --output results/report

RUN is a run folder, such as one of all 5,130 questions that benchmarks/full_scale.py describes. It is
made anew by its own config, as it makes what its report needs of scans while it goes on: by the scripted
engine that takes minutes. Then its report is written anew four times: twice diagnosing all questions, as
the first report after its run and as a later one, once with the diagnosis kept, once without any.

    python benchmarks/report.py RUN --against TREE RUN2 --rounds 2 --output results/report_versions

TREE is a work tree of another version of the program, and RUN2 the same run with the options in its
config.json that this version knows. The reports of both are written anew in turn, that of this version
twice: where nothing was kept of these scans, and after its run on the same machine.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from render_agent.runs.log.folder import RunFolder

MACHINE = f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}"

TREE = Path(__file__).resolve().parents[1]
"""The work tree of this version."""


def built(run: Path, scans: str, *options: str, tree: Path = TREE) -> dict[str, float]:
    """Write the report in a process of its own, by the program in `tree`; return its wall and processor seconds.

    scans: the folder in which it keeps what it makes of scans.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    command = [sys.executable, "-m", "render_agent", "report", str(run.resolve()), *options]
    subprocess.run(
        command,
        check=True,
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree.resolve()), "RENDER_AGENT_SCAN_CACHE": scans},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(seconds, 1), "processor_seconds": round(used, 1)}


def keep_what_a_run_leaves(run: Path, scans: Path) -> None:
    """Have the program make a run anew, by its own config and questions, into a folder that is thrown away.

    scans: where it keeps what it leaves of scans.
    """
    with TemporaryDirectory() as place:
        again = Path(place) / run.resolve().name
        again.mkdir()
        for name in ("config.json", "questions.jsonl"):
            shutil.copy(run / name, again / name)
        subprocess.run(
            [sys.executable, "-m", "render_agent", "--batch", "--continue", str(again)],
            check=True,
            cwd=TREE,
            env=os.environ | {"PYTHONPATH": str(TREE), "RENDER_AGENT_SCAN_CACHE": str(scans)},
            capture_output=True,
        )


def sizes(report: Path) -> dict[str, float]:
    """Return the megabytes of a report by kind of file, and how many files there are."""
    files = [path for path in report.rglob("*") if path.is_file()]
    files = [path for path in files if path.relative_to(report).parts[0] != "views"]  # links
    found: dict[str, float] = {"files": len(files)}
    for path in files:
        kind = path.suffix.lstrip(".") or path.name
        found[kind] = found.get(kind, 0.0) + path.stat().st_size / 1e6
    return {kind: round(value, 2) for kind, value in found.items()}


def opened(index: Path) -> float | None:
    """Return the seconds until a browser has loaded the index and shows its rows; None without one."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        return None
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        began = time.perf_counter()
        page.goto(index.resolve().as_uri())
        page.locator("#table tbody tr").first.wait_for()
        seconds = time.perf_counter() - began
        browser.close()
    return round(seconds, 2)


def compile_kernels(tree: Path) -> None:
    """Have the program in a tree run and report two questions: what it compiles is kept by the tree's path."""
    with TemporaryDirectory() as output:
        run = ("--batch", "--benchmark", "rooms", "--engine", "scripted", "--limit", "2")
        for options in (run, ("report", "recent")):
            subprocess.run(
                [sys.executable, "-m", "render_agent", *options, "--output", output],
                check=True,
                cwd=tree,
                env=os.environ | {"PYTHONPATH": str(tree.resolve())},
                capture_output=True,
            )


KINDS = {
    "other": "the other version",
    "cold": "nothing kept",
    "first": "after its run",
}
"""What is written in turn, in this order."""


def in_turn(run: Path, tree: Path, other_run: Path, rounds: int) -> list[dict[str, Any]]:
    """Write the reports of one run by the program in `tree` and by this one in turn; return what each took.

    This one writes it twice: see KINDS.
    """
    taken = []
    for place in (tree, TREE):
        compile_kernels(place)
    with TemporaryDirectory() as temporary:
        left = Path(temporary) / "left"
        keep_what_a_run_leaves(run, left)
        for number in range(1, rounds + 1):
            empty, after = (Path(temporary) / f"{kind} {number}" for kind in ("empty", "after"))
            shutil.copytree(left, after)  # each of them is the first report after the run
            for kind in KINDS:
                place, its_run = (tree, other_run) if kind == "other" else (TREE, run)
                shutil.rmtree(its_run / "report", ignore_errors=True)
                told = ["git", "-C", str(place), "rev-parse", "--short", "HEAD"]
                name = subprocess.run(
                    told, check=True, capture_output=True, text=True
                ).stdout.strip()
                load = round(os.getloadavg()[0], 1)
                scans = after if kind == "first" else empty
                taken.append(
                    {"round": number, "version": name, "report": kind, "load": load}
                    | built(its_run, str(scans), tree=place)
                )
                click.echo(json.dumps(taken[-1]), err=True)
    return taken


def compared(found: dict[str, Any]) -> str:
    """Return the figures of two versions as a page."""
    taken = found["taken"]
    rounds = [taken[n : n + len(KINDS)] for n in range(0, len(taken), len(KINDS))]
    rows = [
        f"| {old['round']} | {old['seconds']} ({old['load']}) | {old['processor_seconds']}"
        + "".join(
            f" | {new['seconds']} ({new['load']}) | {old['seconds'] / new['seconds']:.2f}"
            f" | {new['processor_seconds']} | {old['processor_seconds'] / new['processor_seconds']:.2f}"
            for new in others
        )
        + " |"
        for old, *others in rounds
    ]
    old, new = (entry["version"] for entry in taken[:2])
    heads = "".join(
        f" {new}, {words}: seconds | times faster | processor | times less |"
        for kind, words in KINDS.items()
        if kind != "other"
    )
    return "\n".join(
        [
            "# The report by two versions in turn",
            "",
            f"{found['questions']} questions, {found['scenes']} scenes; everything diagnosed and written anew. Nothing kept:"
            " neither a run nor a report was made of these scans before on this machine; after its run: what a run makes for"
            " its report while it goes on was there. In brackets the load as it began: more than the number of cores where other"
            " programs had their share.",
            "",
            f"| round | {old}: seconds | processor |{heads}",
            "|--:|--:|--:|" + "--:|--:|--:|--:|" * (len(KINDS) - 1),
            *rows,
            "",
            f"{found['machine']}.",
            "",
            f"    {found['command']}",
            "",
        ]
    )


def markdown(found: dict[str, Any]) -> str:
    """Return the figures as a page."""
    rows = [
        f"| {name} | {found[key]['seconds']} | {found[key]['processor_seconds']} |"
        for name, key in (
            ("diagnosed anew, the first after its run", "diagnosed"),
            ("diagnosed anew, a later one", "later"),
            ("diagnosis kept", "kept"),
            ("without diagnosis", "without"),
        )
    ]
    kinds = ", ".join(
        f"{kind} {size} MB" for kind, size in found["size"].items() if kind != "files"
    )
    opening = found["index_opens_in"]
    told = "not measured" if opening is None else f"{opening} s"
    return "\n".join(
        [
            "# The report of a run",
            "",
            f"{found['questions']} questions, {found['turns']} turns, {found['scenes']} scenes.",
            "",
            "| `render-agent report` | seconds | processor seconds |",
            "|---|---|---|",
            *rows,
            "",
            f"{found['size']['files']} files: {kinds}. Pictures are those of the run, linked and not copied.",
            f"A browser has loaded the index and shows its rows in {told}.",
            "",
            f"{found['machine']}; load {found['load']} at the start.",
            "",
            f"    {found['command']}",
            "",
        ]
    )


@click.command()
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@click.option("--against", type=(click.Path(exists=True, path_type=Path),) * 2, help="TREE RUN2")
@click.option("--rounds", type=click.IntRange(1), default=1)
@click.option("--output", type=click.Path(path_type=Path), required=True)
def main(run: Path, against: tuple[Path, Path] | None, rounds: int, output: Path) -> None:
    """Measure the report of RUN."""
    folder = RunFolder(run)
    if against is not None:
        questions = folder.questions()
        pair = {
            "questions": len(questions),
            "scenes": len({question.scene for question in questions}),
            "taken": in_turn(run, *against, rounds),
            "machine": MACHINE,
            "command": shlex.join(
                [
                    *("python", "benchmarks/report.py", "RUN", "--against", "TREE", "RUN2"),
                    *("--rounds", str(rounds), "--output", str(output)),
                ]
            ),
        }
        write(output, pair, compared(pair))
        return
    load = round(os.getloadavg()[0], 1)
    report = run / "report"
    shutil.rmtree(report, ignore_errors=True)
    questions = folder.questions()
    with TemporaryDirectory() as scans:
        keep_what_a_run_leaves(run, Path(scans))
        first = built(run, scans)
        shutil.rmtree(report)
        found: dict[str, Any] = {
            "questions": len(questions),
            "turns": len(folder.lines()),
            "scenes": len({question.scene for question in questions}),
            "diagnosed": first,
            "later": built(run, scans),
            "size": sizes(report),
            "index_opens_in": opened(report / "index.html"),
            "kept": built(run, scans),
            "without": built(run, scans, "--no-diagnosis"),
            "load": load,
            "machine": MACHINE,
            "command": shlex.join(
                ["python", "benchmarks/report.py", "RUN", "--output", str(output)]
            ),
        }
    write(output, found, markdown(found))


def write(output: Path, found: dict[str, Any], page: str) -> None:
    """Write the figures and their page, and print that."""
    output.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    output.with_suffix(".md").write_text(page)
    click.echo(page)


if __name__ == "__main__":
    main()
