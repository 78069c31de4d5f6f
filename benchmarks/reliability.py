"""What the program holds under fire: faults injected, inputs tried, hours of soak, by one command.

    python benchmarks/reliability.py --output benchmarks/results/reliability

Runs every part of PARTS and writes one table with their figures. --only PART runs that part alone and takes the others
from the JSON that is there, so that parts may be measured one after the other. What is not survived is named.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

TREE = Path(__file__).parents[1]

MOST_SYNC_PERCENT = 3.0
"""Of a run at the speed of the default engine, what it may cost that its lines are durable."""

MENDED = "; {} not at first, mended since and tried again"

NOT_HELD = (
    "A thread is started while the process has no memory left: Python waits without end for it to say that it has begun"
    " (https://github.com/python/cpython/issues/140746). `system/threads.py` makes sure of the room first, and the program waits"
    " for half a minute and then stops in a sentence. In Python programs that import the package the wait is Python's.",
    "A server may say anything: what is a whole answer of a chat is taken for one, and only its length and keys are looked at.",
    "HTTP/1.1 gives answers no numbers: on a connection that is kept, one that comes late or twice would be taken for the next"
    " question's. So each request has a connection of its own, and costs what the table says.",
    "A chat template is a program. It is tried over dialogues of up to 40 turns; one that loops at certain words alone is not found,"
    " and neither is one that vLLM reads, which writes dialogues in a thread of its own.",
    "vLLM's engine met no fault: it needs a GPU.",
)
"""What cannot be held, or was not tried, and why."""

FAULTS = (
    "tests/faults/test_killed_runs.py",
    "tests/runs/workers/test_workers.py",
    "tests/engines/openai/test_openai_server.py",
    "tests/engines/transformers/test_transformers_faults.py",
    "tests/runs/test_failures.py",
    "tests/runs/log/test_folder_lock.py",
)
"""Tests that inject what the campaign does not: Ray workers and servers that die, a device out of memory."""

NEWCOMER = (
    "tests/project/test_readme.py",
    "tests/cli/test_help.py",
    "tests/cli/test_completion.py",
    "tests/project/test_docs.py",
    "tests/cli/test_doctor.py",
    "tests/extending",
)
"""Tests of what is printed for whoever begins: commands, pages of help, completion, pages of the documentation with what
they say of a benchmark, an engine, a renderer, a kind of view."""


@dataclass(frozen=True)
class Part:
    """One measurement: its command, which writes {output}, and how its figures are told.

    command: words, in which {python}, {output} and the counts of `main` are filled in. read: makes the record of
    what the command wrote. tell: makes rows of the table, (figure, tried, held), and what was not survived.
    """

    title: str
    command: str
    read: Callable[[Path], dict[str, Any]]
    tell: Callable[[Mapping[str, Any]], tuple[list[tuple[str, str, str]], list[str]]]


def read_json(path: Path) -> dict[str, Any]:
    """Return what a command wrote as JSON."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    found.pop("samples", None)  # they stand in the soak's own file
    found.pop("command", None)  # it names the file that it wrote; how to type it stands beside
    return found


def read_tests(path: Path) -> dict[str, Any]:
    """Return the counts of a run of pytest, by file, and what failed."""
    counts: dict[str, dict[str, int]] = {}
    failed = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("classname", "").replace(".", "/") + ".py"
        row = counts.setdefault(name, {"passed": 0, "failed": 0, "skipped": 0})
        if case.find("failure") is not None or case.find("error") is not None:
            row["failed"] += 1
            failed.append(f"{name}: {case.get('name')}")
        else:
            row["skipped" if case.find("skipped") is not None else "passed"] += 1
    return {"files": counts, "failed": failed}


def tell_faults(found: Mapping[str, Any]) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return a row for every kind of fault. `mended`: how many were not survived first, and were tried again."""
    rows, lost = [], []
    for name, row in found["kinds"].items():
        held = (
            f"not tried here: {row['not_here']}"
            if row["not_here"]
            else f"{row['survived']} survived{MENDED.format(row['mended']) if row.get('mended') else ''}"
        )
        rows.append((name, f"{row['injected']} injected", held))
        lost += [
            f"{name}, seed {one['seed']}, number {one['number']}: {one['what'].strip()[:300]}"
            for one in row["not_survived"]
        ]
    return rows, lost


def tell_tests(found: Mapping[str, Any]) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return a row for every file of tests."""
    rows = []
    for name, row in sorted(found["files"].items()):
        skipped = f", {row['skipped']} skipped" if row["skipped"] else ""
        rows.append(
            (name, f"{row['passed'] + row['failed']} tests{skipped}", f"{row['passed']} passed")
        )
    return rows, list(found["failed"])


def tell_soak(found: Mapping[str, Any]) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return a row for every figure of the soak."""
    rows, lost = [], []
    tried = f"{found['turns']:,} turns, {found['seconds'] / 3600:.2f} hours"
    for name, row in found["figures"].items():
        flat = "flat" if row["flat"] else "NOT flat"
        held = f"{flat}: {row['first']:,} … {row['last']:,}, {row['a_1000_turns']:+} in 1,000 turns"
        rows.append((name.replace("_", " "), tried, held))
        if not row["flat"]:
            lost.append(f"{name} grows by {row['a_1000_turns']} in 1,000 turns of the soak")
    return rows, lost


def tell_inputs(found: Mapping[str, Any]) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return a row for every target of the fuzzers, and one for the bounds that were held to.

    `mended`, where a target has it: how many failures it found that were mended since; it was tried again, in a row
    of its own.
    """
    rows, lost = [], []
    for name, row in found["targets"].items():
        tried = f"{row['tried']:,} inputs in {row['seconds'] / 3600:.2f} hours"
        held = (
            f"{row['taken']:,} taken, {row['refused']:,} refused in a sentence; at most"
            f" {row['slowest_seconds']} s and {row['most_memory'] / 1e6:.0f} MB"
        )
        if row.get("mended"):
            held += MENDED.format(row["mended"])
        rows.append((name, tried, held))
        lost += [f"{name}: {failure['told'][:300]}" for failure in row["failures"]]
    bounds = ", ".join(
        f"{name.replace('_', ' ')} {value:,}"
        for name, value in found["bounds"].items()
        if isinstance(value, int | float)
    )
    rows.append(("bounds", bounds, f"{found['failures']} failures"))
    return rows, lost


def tell_syncs(found: Mapping[str, Any]) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return a row for every pace at which the cost of the syncs was measured."""
    rows, lost = [], []
    for pace, row in found["paces"].items():
        middle, low, high = row["percent"]
        tried = f"{row['repeats']} pairs of runs, {row['turns']} turns, {row['syncs']} syncs each"
        held = (
            f"{middle} % of the run waited for the disk ({low} to {high}); {row['seconds'][0]} s with,"
            f" {row['seconds'][1]} s without"
        )
        rows.append((pace, tried, held))
        if pace == "as an H100" and middle > MOST_SYNC_PERCENT:
            lost.append(f"the syncs cost {middle} % at the speed of the default engine")
    rows.append(("one sync", "50 of a small file", f"{found['sync_milliseconds']} ms, the median"))
    return rows, lost


def tell_connections(found: Mapping[str, Any]) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return a row for each kind of connection: what a new one for every request costs."""
    words = "{new} ms with a new connection, {kept} ms with kept ones"
    return [
        (
            kind,
            f"{row['requests']} requests of 200 kB each",
            f"processor: {words.format(**row['processor'])}; in all, median: {words.format(**row['milliseconds'])}",
        )
        for kind, row in found["connections"].items()
    ], []


def tell_bounded(found: Mapping[str, Any]) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return a row for every kind, with what the worst of it took."""
    rows, lost = tell_faults(found)
    return [
        (
            what,
            tried,
            f"{held}; at most {row['most_seconds']} s and {row['most_bytes'] / 1e6:,.0f} MB",
        )
        for (what, tried, held), row in zip(rows, found["kinds"].values(), strict=True)
    ], lost


def of_tests(title: str, *files: str) -> Part:
    """Return the part that runs tests and counts them by file."""
    command = "{python} -m pytest -p no:cacheprovider --junitxml {output} " + " ".join(files)
    return Part(title, command, read_tests, tell_tests)


PARTS = {
    "faults": Part(
        "Faults injected in a real process",
        "{python} tests/faults/campaign.py --times {times} --seed {seed} --output {output}",
        read_json,
        tell_faults,
    ),
    "power": Part(
        "Power cuts",
        "{python} tests/faults/power_cuts.py --cuts {cuts} --seed {seed} --output {output}",
        read_json,
        tell_faults,
    ),
    "durability": Part(
        "What it costs that lines and pictures are durable",
        "{python} benchmarks/durability.py --repeats {repeats} --output {output}",
        read_json,
        tell_syncs,
    ),
    "workers": Part(
        "Deeds against workers",
        "{python} tests/faults/worker_deeds.py --deeds {deeds} --each 5 --seed {seed} --output {output}",
        read_json,
        tell_faults,
    ),
    "servers": Part(
        "Behaviours of a server",
        "{python} tests/faults/server_behaviours.py --cases {cases} --seed {seed} --output {output}",
        read_json,
        tell_bounded,
    ),
    "connections": Part(
        "What it costs that no connection to a server is used twice",
        "{python} benchmarks/connections.py --output {output}",
        read_json,
        tell_connections,
    ),
    "runs": Part(
        "Hostile run folders in a browser",
        "{python} tests/security/hostile_runs.py --output {output}",
        read_json,
        tell_faults,
    ),
    "commands": Part(
        "Damaged run folders, read by every command",
        "{python} tests/security/damaged_runs.py --seconds 300 --seed {seed} --output {output}",
        read_json,
        tell_faults,
    ),
    "scans": Part(
        "Hostile scans",
        "{python} tests/fuzz/hostile_scans.py --output {output}",
        read_json,
        tell_bounded,
    ),
    "tests": of_tests("Faults injected by tests", *FAULTS),
    "inputs": Part(
        "Inputs that nobody wrote",
        "{python} tests/fuzz/fuzz_campaign.py --seconds {seconds} --seed {seed} --output {output}",
        read_json,
        tell_inputs,
    ),
    "soak": Part(
        "Soak",
        "{python} benchmarks/soak.py --turns {turns} --output {output}",
        read_json,
        tell_soak,
    ),
    "security": of_tests("Security", "tests/security"),
    "upgrades": of_tests("Run folders of older formats", "tests/upgrades"),
    "newcomer": of_tests("What a newcomer types and reads", *NEWCOMER),
}
"""The parts by name."""


def injected(found: Mapping[str, Any]) -> int:
    """Return how many faults a campaign injected; those that were tried again once they were mended count once."""
    kinds = found["kinds"].items()
    return sum(row["injected"] for name, row in kinds if not name.endswith(" again"))


ASKED: dict[str, tuple[float, str, Callable[[Mapping[str, Any]], float]]] = {
    "power cuts": (200, "power", injected),
    "faults in system calls and processes, on fresh and continued runs of every engine": (
        1000,
        "faults",
        injected,
    ),
    "deeds against workers": (100, "workers", injected),
    "hostile scans": (60, "scans", injected),
    "hours of fuzzing": (3, "inputs", lambda found: round(found["seconds"] / 3600, 1)),
    "turns of soak": (100_000, "soak", lambda found: found["turns"]),
    "behaviours of a server": (150, "servers", injected),
    "hostile run folders in a browser": (40, "runs", injected),
}
"""What a full campaign is: how many, the part that does it, and how many it did."""


def measure(part: Part, given: Mapping[str, Any]) -> dict[str, Any]:
    """Run the command of a part; return its record. SystemExit where it wrote nothing."""
    with tempfile.TemporaryDirectory(prefix="reliability-") as folder:
        output = Path(folder) / "found.json"
        words = [
            word.format(python=sys.executable, output=output, **given)
            for word in shlex.split(part.command)
        ]
        began = time.perf_counter()
        done = subprocess.run(words, cwd=TREE, env={**os.environ, "PYTHONPATH": str(TREE)})
        if not output.exists():
            raise SystemExit(f"{shlex.join(words)} wrote nothing: exit code {done.returncode}")
        found = part.read(output)
    typed = part.command.format(python="python", output="FILE.json", **given)
    return {
        "command": typed,
        "exit_code": done.returncode,
        "seconds": round(time.perf_counter() - began, 1),
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "found": found,
    }


def table(record: Mapping[str, Any]) -> str:
    """Return the figures of all parts as Markdown."""
    lines = ["# Under fire", ""]
    lost: list[str] = []
    for name, part in PARTS.items():
        lines += [f"## {part.title}", ""]
        if name not in record["parts"]:
            lines += ["Not measured yet.", ""]
            continue
        one = record["parts"][name]
        rows, wrong = part.tell(one["found"])
        lost += wrong
        lines += ["| what | tried | held |", "|---|---|---|"]
        lines += [f"| {what} | {tried} | {held} |" for what, tried, held in rows]
        lines += ["", f"    {one['command']}", ""]
        lines += [f"{one['seconds']:,.0f} s; {one['machine']}; {one['date']}.", ""]
    lines += ["## Done of what a full campaign is", "", "| what | done | asked |", "|---|---|---|"]
    for what, (most, name, count) in ASKED.items():
        measured = record["parts"].get(name)
        done = "not counted" if measured is None else f"{count(measured['found']):,}"
        lines.append(f"| {what} | {done} | {most:,} |")
    lines += ["", "## What cannot be held", "", *(f"- {told}" for told in NOT_HELD), ""]
    lines += ["## Not survived", ""]
    lines += [f"- {' '.join(told.replace('|', ' ').split())}" for told in lost] or [
        "Nothing of the above."
    ]
    return "\n".join([*lines, ""])


@click.command()
@click.option("--times", default=100, show_default=True, help="Faults of every kind.")
@click.option(
    "--seconds", default=7200, show_default=True, help="Of fuzzing, all targets together."
)
@click.option("--turns", default=50_000, show_default=True, help="Turns of the soak.")
@click.option("--cuts", default=200, show_default=True, help="Power cuts.")
@click.option("--cases", default=248, show_default=True, help="Behaviours of a server.")
@click.option("--deeds", default=100, show_default=True, help="Deeds against workers.")
@click.option("--repeats", default=5, show_default=True, help="Pairs of runs for the syncs' cost.")
@click.option("--seed", default=1, show_default=True)
@click.option("--only", multiple=True, type=click.Choice(sorted(PARTS)), help="These parts alone.")
@click.option("--output", type=Path, required=True, help="Written as OUTPUT.md and OUTPUT.json.")
def main(only: tuple[str, ...], output: Path, **given: int) -> None:
    """Measure every part, and write the table; exit code 1 where something was not survived."""
    kept = output.with_suffix(".json")
    record: dict[str, Any] = {"parts": {}}
    if only and kept.exists():
        record = json.loads(kept.read_text("utf-8"))
    for name in only or PARTS:
        record["parts"][name] = measure(PARTS[name], given)
        kept.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
        text = table(record)
        output.with_suffix(".md").write_text(text, "utf-8")
    click.echo(text)
    sys.exit(0 if text.rstrip().endswith("Nothing of the above.") else 1)


if __name__ == "__main__":
    main()
