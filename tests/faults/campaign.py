"""Faults in real processes of the program, by the table of KINDS, so many times each.

    python tests/faults/campaign.py --times 100 --seed 1 --output faults.json

Every attempt has a seed of its own, made of --seed, the kind and its number: --only KIND --seed S --first N
--times 1 tries one again. Each runs the program in a process of its own, disturbs it, goes on with its run, and
holds it against the undisturbed one. Written are how often each fault was injected and survived, and what was not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shlex
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

import disk_faults
import drawing_faults
import memory_faults
import outside_faults
import process_faults
from child import Child
from ground import Ground, NotHere, NotInjected, Reference, write_questions

from render_agent.runs.log.folder import list_runs

KINDS = {
    **process_faults.KINDS,
    **disk_faults.KINDS,
    **memory_faults.KINDS,
    **drawing_faults.KINDS,
    **outside_faults.KINDS,
}

TRIES = 5
"""Moments that are drawn until one comes before the process ends."""


def main() -> int:
    """Run the campaign; exit code 1 where a fault was not survived."""
    given = options()
    typed = shlex.join(["python", *sys.argv])  # a run in this process has an argv of its own
    if given.output:
        typed = typed.replace(given.output, Path(given.output).name)
    kinds = {name: kind for name, kind in KINDS.items() if not given.only or name in given.only}
    # no TemporaryDirectory: it would be removed by every process that is forked off this one and ends
    place = Path(tempfile.mkdtemp(prefix="faults-")).resolve()
    try:
        found = {"command": typed, **campaign(place, kinds, given)}
    finally:
        shutil.rmtree(place, ignore_errors=True)
    text = json.dumps(found, indent=1) + "\n"
    if given.output:
        Path(given.output).write_text(text, "utf-8")
    sys.stdout.write(table(found))
    return 1 if any(row["not_survived"] for row in found["kinds"].values()) else 0


def options() -> argparse.Namespace:
    """Return what was typed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=2, help="attempts of every kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first attempt")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", choices=sorted(KINDS), metavar="KIND")
    parser.add_argument("--fresh", action="store_true", help="start every process anew: slower")
    parser.add_argument("--output", metavar="FILE.json")
    parser.add_argument("--list", action="store_true", help="list the kinds and end")
    given = parser.parse_args()
    if given.list:
        sys.stdout.write("".join(f"{name}\n" for name in KINDS))
        sys.exit(0)
    return given


def campaign(place: Path, kinds: dict, given: argparse.Namespace) -> dict:
    """Try every kind so many times; return the counts."""
    began = time.time()
    reported = process_faults.kill_report in kinds.values()
    whole = undisturbed(place / "undisturbed", fresh=given.fresh, reported=reported)
    rows = {}
    for name, kind in kinds.items():
        rows[name] = row = Counter(injected=0, survived=0, not_injected=0)
        wrong, lacking = [], None
        since = time.monotonic()
        for number in range(given.first, given.first + given.times):
            seed = f"{given.seed}/{name}/{number}"
            try:
                row["injected"] += 1
                attempt(place / "attempt", whole, kind, seed)
                row["survived"] += 1
            except NotInjected:
                row["injected"] -= 1
                row["not_injected"] += 1
            except NotHere as reason:
                row["injected"] -= 1
                lacking = str(reason)
                break
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its seed
                told = f"{type(error).__name__}: {error}"
                if not isinstance(error, AssertionError):
                    told = traceback.format_exc()
                told = told.replace(str(place), "PLACE")
                wrong.append({"number": number, "seed": given.seed, "what": told[-1500:]})
                sys.stderr.write(f"{name}, {number}: {told}\n")
        rows[name] = {
            **row,
            "not_survived": wrong,
            "not_here": lacking,
            "seconds": round(time.monotonic() - since, 1),
        }
        sys.stderr.write(f"{name}: {row['survived']} of {row['injected']}\n")
    return {
        "machine": f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "date": time.strftime("%Y-%m-%d", time.gmtime(began)),
        "seconds": round(time.time() - began, 1),
        "seed": given.seed,
        "fresh": given.fresh,
        "injected": sum(row["injected"] for row in rows.values()),
        "survived": sum(row["survived"] for row in rows.values()),
        "kinds": rows,
    }


def undisturbed(place: Path, *, fresh: bool, reported: bool) -> Reference:
    """Take the questions to their end twice, so that what is loaded once is there, and count the ticks.

    reported: whether its report is written, too.
    """
    words = write_questions(place)
    if not fresh:
        load(place, words)
    note = place / "note"
    ticks = {}
    for name in ("runs", "report")[: 1 + reported]:
        fault = {"deed": "kill", "at": 0, "sort": "writes", "below": str(place), "note": str(note)}
        typed = [*words, "--output", str(place / "runs")]
        if name == "report":
            typed = ["report", "recent", "--processes", "1", "--output", str(place / "runs")]
        ended = Child(typed, place, place / "said", fault, fresh=fresh).wait()
        assert ended.code == 0, ended.told
        ticks[name] = json.loads(note.read_text())
    (path,) = list_runs(place / "runs")
    pages = process_faults.files_of(path / "report")
    return Reference(path, words, ticks["runs"], ticks.get("report", {}), fresh, pages)


def load(place: Path, words: list[str]) -> None:
    """Load whatever the program loads, in this process, so that those forked off it have it."""
    import child

    code = child.run([*words, "--output", str(place / "loading"), "--quiet"], None, ends=False)
    assert code == 0


def attempt(place: Path, whole: Reference, kind, seed: str) -> None:
    """Try one fault once; AssertionError where it was not survived."""
    for again in range(TRIES):
        shutil.rmtree(place, ignore_errors=True)
        ground = Ground(place, whole, random.Random(f"{seed}/{again}"))
        try:
            kind(ground)
        except NotInjected:
            if again == TRIES - 1:
                raise
        else:
            return


def table(found: dict) -> str:
    """Return the counts as lines of text."""
    lines = []
    for name, row in found["kinds"].items():
        told = f"{row['survived']} of {row['injected']} survived"
        if row["not_here"]:
            told = f"not tried here: {row['not_here']}"
        lines.append(f"{name}: {told}\n")
        lines += [f"    number {one['number']}: {one['what']}\n" for one in row["not_survived"]]
    lines.append(f"{found['survived']} of {found['injected']} survived\n")
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
