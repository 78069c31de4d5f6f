"""Repeatedly kills and resumes a run; executed in a subprocess by `test_killed_runs.py`.

Usage: kill_loop.py FOLDER SEED lines|moments|images,KILLS,AGENT … Every attempt is a forked process that ends by
SIGKILL: after its first new line, at a random moment, or after a random number of images. Each run is killed until it
completes anyway or the kills are used up. Prints, as JSON, the folders of the undisturbed and the killed runs of every
loop.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from factories.runs import NullObserver, make_config, make_questions, walking_engine
from factories.samples import agent_options, mixed_engine

from render_agent.runs.log import writer
from render_agent.runs.read import RunData, list_runs
from render_agent.runs.runner import resume_run, start_run

COUNT, TURNS = 3, 4


def make_engine(config, questions):
    if config.agent == "single":
        return walking_engine(COUNT, TURNS, batch_size=2)
    return mixed_engine(batch_size=2)


def kill_after(calls, write):
    """Wrap `write` to kill its process after a number of calls."""
    remaining = [calls]

    def write_then_kill(*args):
        write(*args)
        remaining[0] -= 1
        if remaining[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return write_then_kill


def complete_run(runs: Path, config, lines=None, images=None):
    """Start or resume a run and complete it, unless it is killed after a number of lines or images."""
    paths = list_runs(runs)
    run = resume_run(RunData(paths[-1]), {}, allow_code=True) if paths else start_run(config)
    if lines is not None:
        writer.write_all = kill_after(lines, writer.write_all)
    if images is not None:
        run.log.images._write = kill_after(images, run.log.images._write)
    run.go(NullObserver(), make_engine)
    run.close()


def attempt(runs: Path, config, seconds=None, **limits) -> bool:
    """Complete a run in a forked process that may be killed; return True if it completed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            complete_run(runs, config, **limits)
            code = 0
        finally:
            os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    was_killed = os.WIFSIGNALED(status)
    if not was_killed and os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"a run in {runs} failed instead of being killed")
    return not was_killed


def options(agent):
    """Return the number of questions of a loop, and the options of its runs."""
    if agent == "single":
        return COUNT, {"max_turns": TURNS + 1, "probe": ("map",)}
    return 2, agent_options(agent)


def loop(folder: Path, mode: str, kills: int, agent: str, chance: random.Random):
    """Kill runs a number of times; return the folders of the undisturbed and the killed runs."""
    folder.mkdir(parents=True)
    count, run_options = options(agent)
    questions = make_questions(folder, count)

    def config_for(name):
        return make_config(folder, questions, output=str(folder / name), **run_options)

    complete_run(folder / "warm", config_for("warm"))  # load everything once, before forking
    start = time.perf_counter()
    attempt(folder / "whole", config_for("whole"))
    duration = time.perf_counter() - start
    killed = []
    while kills > 0:
        runs = folder / f"killed{len(killed)}"
        runs.mkdir()
        config, completed = config_for(runs.name), False
        while not completed and kills > 0:
            limits = {
                "lines": {"lines": 1},
                "moments": {"seconds": chance.uniform(0, duration)},
                "images": {"images": chance.randint(1, 24)},
            }
            completed = attempt(runs, config, **limits[mode])
            kills -= not completed
        assert completed or attempt(runs, config)
        killed.append([str(path) for path in list_runs(runs)])
    return {"whole": str(list_runs(folder / "whole")[0]), "killed": killed}


def main(folder: Path, seed: int, jobs):
    chance = random.Random(seed)
    result = {}
    for number, job in enumerate(jobs):
        mode, kills, agent = job.split(",")
        result[job] = loop(folder / str(number), mode, int(kills), agent, chance)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
