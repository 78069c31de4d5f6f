"""Deeds against the workers of a run and Ray's own processes: real runs by --workers 2, disturbed and gone on with.

    python tests/faults/worker_deeds.py --deeds 100 --each 4 --seed 1 --output FILE.json

Each has to end by itself with exit code 0, or with a sentence that says how to go on; afterwards the run goes on to the
transcripts of one process, and nothing of it is left in the folder of temporary files.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

import psutil
from factories.runs import transcripts

from render_agent.runs.log.folder import RunFolder, list_runs

TREE = Path(__file__).parents[2]

MOST_SECONDS = 600.0
"""After which a run counts as one that hangs."""

POLICY = """
import time
from render_agent.engines.scripted.blind_policies import Explorer

class Slow(Explorer):
    def reply(self, request):
        time.sleep(0.2)
        return super().reply(request)

policy = Slow
"""

PATIENCE = """
from render_agent.runs.workers import driver
driver.MIN_SILENT_SECONDS, driver.MAX_SILENT_TIMES = 15.0, 3
from render_agent.__main__ import main
main()
"""
"""The program, but for how long a worker may tell nothing."""


def named(*names: str) -> Callable[[psutil.Process], bool]:
    """Return what tells processes whose names begin so."""
    return lambda process: process.name().startswith(names)


WORKER = named("ray::Worker")

DEEDS: dict[str, tuple[Callable[[psutil.Process], bool], int, bool]] = {
    "a worker is killed": (WORKER, signal.SIGKILL, False),
    "a worker is stopped": (WORKER, signal.SIGSTOP, False),
    "all workers are killed": (WORKER, signal.SIGKILL, True),
    "a worker aborts": (WORKER, signal.SIGABRT, False),
    "a worker is asked to end": (WORKER, signal.SIGTERM, False),
    "the raylet is killed": (named("raylet"), signal.SIGKILL, True),
    "Ray's agents are killed": (named("ray::DashboardAgent", "ray::Runtime"), signal.SIGKILL, True),
    "Ray's keeper is killed": (named("gcs_server"), signal.SIGKILL, True),
    "all but the driver are killed": (lambda process: True, signal.SIGKILL, True),
}
"""By name: to which of the driver's processes what is sent, and whether to all of those."""

MILD = [name for name, (which, _, every) in DEEDS.items() if which is WORKER and not every]
"""Those that leave a worker."""


def words(folder: Path, *more: str) -> list[str]:
    """Return what is typed for the run of a folder."""
    return [
        *("--batch", "--benchmark", "rooms", "--engine", "scripted", "--image-size", "48x36"),
        *("--model", str(folder / "slow.py"), "--scene", "room00", "--scene", "room01"),
        *("--type", "object_counting", "--type", "route_planning", "--max-turns", "5"),
        *("--output", str(folder / "runs"), *more),
    ]


def started(folder: Path, *typed: str) -> subprocess.Popen[str]:
    """Start the program."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "slow.py").write_text(POLICY)
    given = {"PYTHONPATH": str(TREE), "RAY_prestart_worker_first_driver": "0"}
    return subprocess.Popen(
        [sys.executable, "-c", PATIENCE, *typed],
        env={**os.environ, **given},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def turns(folder: Path) -> int:
    """Return the turns that the one run of a folder has."""
    return sum(log.read_bytes().count(b"\n") for log in folder.glob("runs/*/turns.jsonl"))


def attempt(folder: Path, deeds: Sequence[str], chance: random.Random, whole: dict) -> list[str]:
    """Try deeds at moments drawn by chance; return those that were done before the run ended.

    AssertionError where they were not survived.
    """
    done = []
    scratch = set(Path(tempfile.gettempdir()).glob("render-agent-*"))
    with started(folder, *words(folder, "--workers", "2")) as run:
        for deed, at in zip(deeds, sorted(chance.sample(range(1, 31), len(deeds))), strict=True):
            while turns(folder) < at and run.poll() is None:
                time.sleep(0.1)
            done += [deed] if do(run.pid, deed, chance) else []
        try:
            _, told = run.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            for process in psutil.Process(run.pid).children(recursive=True):
                with suppress(psutil.Error):
                    process.kill()
            run.kill()
            raise AssertionError("it hangs") from None
    assert done, "there was no such process"
    assert run.returncode in (0, 1), f"exit code {run.returncode}: {told[-500:]}"
    assert "Traceback" not in told, told[-2000:]
    said = "--continue" in told and ("error: " in told or " failed (see " in told)
    assert run.returncode == 0 or said, told[-500:]
    (path,) = list_runs(folder / "runs")
    if run.returncode:
        with started(folder, "--continue", str(path), "--workers", "1", "--allow-code") as again:
            _, told = again.communicate(timeout=MOST_SECONDS)
        assert again.returncode == 0, told[-500:]
    assert transcripts(path) == whole, "the transcripts differ"
    assert not RunFolder(path).results()["counts"]["failed"]
    time.sleep(1)
    left = set(Path(tempfile.gettempdir()).glob("render-agent-*")) - scratch
    assert not left, f"left: {left}"
    return done


def do(driver: int, deed: str, chance: random.Random) -> int:
    """Do a deed to the processes of a driver; return to how many."""
    which, number, every = DEEDS[deed]
    mine = []
    with suppress(psutil.Error):
        for process in psutil.Process(driver).children(recursive=True):
            with suppress(psutil.Error):
                mine += [process] if which(process) else []
    chance.shuffle(mine)
    sent = 0
    for process in mine if every else mine[:1]:
        with suppress(psutil.Error):
            process.send_signal(number)
            sent += 1
    return sent


def main() -> int:
    """Try so many deeds; exit code 1 where one was not survived."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--deeds", type=int, default=9)
    parser.add_argument("--each", type=int, default=1, help="deeds against one run")
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=DEEDS)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    began, names = time.monotonic(), given.only or [*DEEDS]
    kinds = {
        name: {"injected": 0, "survived": 0, "not_survived": [], "not_here": None} for name in DEEDS
    }
    with tempfile.TemporaryDirectory(prefix="deeds-", ignore_cleanup_errors=True) as place:
        alone = Path(place) / "alone"
        with started(alone, *words(alone)) as run:
            _, told = run.communicate()
        assert run.returncode == 0, told
        whole = transcripts(*list_runs(alone / "runs"))
        tried = given.first
        while sum(row["injected"] for row in kinds.values()) < given.deeds:
            seed = f"{given.seed}/{tried}"
            chance = random.Random(seed)
            # the processes of Ray may end the run, so theirs is the last
            deeds = [chance.choice(MILD) for _ in range(given.each - 1)]
            deeds.append(names[tried % len(names)])
            try:
                done, said = attempt(Path(place) / str(tried), deeds, chance, whole), ""
            except AssertionError as error:
                done, said = deeds, str(error)
                wrong = {"seed": seed, "number": tried, "what": f"{deeds}: {said}"}
                kinds[deeds[-1]]["not_survived"].append(wrong)
            for deed in done:
                kinds[deed]["injected"] += 1
                kinds[deed]["survived"] += not said
            tried += 1
            sys.stderr.write(f"{seed} {done}: {said or 'survived'}\n")
            if given.output:
                seconds = round(time.monotonic() - began, 1)
                found = {"machine": platform.platform(), "seconds": seconds, "kinds": kinds}
                given.output.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return any(row["not_survived"] for row in kinds.values())


if __name__ == "__main__":
    sys.exit(main())
