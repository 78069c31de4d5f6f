"""Repeatedly kills and resumes a run; executed in a subprocess by `test_killed_runs.py`.

Usage: kill_loop.py FOLDER SEED lines|moments|pictures,KILLS,AGENT … Every attempt is a forked process that ends by
SIGKILL: after its first new lines, at a random moment, or after a random number of images. Each run is killed until it
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


def dying(write, times):
    """Wrap `write` to kill its process after a number of calls."""
    left = [times]

    def write_and_die(*args):
        write(*args)
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return write_and_die


def work(runs: Path, config, kill_after_lines=None, kill_after_images=None):
    """Start or resume a run and complete it; die after a number of lines or images."""
    result = list_runs(runs)
    run = resume_run(RunData(result[-1]), {}) if result else start_run(config)
    if kill_after_lines is not None:
        writer.write_all = dying(writer.write_all, kill_after_lines)
    if kill_after_images is not None:
        run.log.images._write = dying(run.log.images._write, kill_after_images)
    run.go(NullObserver(), make_engine)
    run.close()


def attempt(runs: Path, config, kill_after_seconds=None, **kill_after) -> bool:
    """Work in a forked process that may be killed; return True if it completed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(runs, config, **kill_after)
            code = 0
        finally:
            os._exit(code)
    if kill_after_seconds is not None:
        time.sleep(kill_after_seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status)
    if not killed and os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"a run in {runs} failed instead of being killed")
    return not killed


def options(agent):
    """Return the number of questions of a loop, and the options of its runs."""
    if agent == "single":
        return COUNT, {"max_turns": TURNS + 1, "probe": ("map",)}
    return 2, agent_options(agent)


def loop(folder: Path, mode: str, kills: int, agent: str, chance: random.Random):
    """Kill runs a number of times; return the folders of the undisturbed and the killed runs."""
    folder.mkdir(parents=True)
    count, given = options(agent)
    questions = make_questions(folder, count)

    def config_for(name):
        return make_config(folder, questions, output=str(folder / name), **given)

    work(folder / "warm", config_for("warm"))  # load everything once, before forking
    began = time.perf_counter()
    attempt(folder / "whole", config_for("whole"))
    usual = time.perf_counter() - began
    killed = []
    while kills > 0:
        runs = folder / f"killed{len(killed)}"
        runs.mkdir()
        config, ended = config_for(runs.name), False
        while not ended and kills > 0:
            later = {
                "lines": {"kill_after_lines": 1},
                "moments": {"kill_after_seconds": chance.uniform(0, usual)},
                "pictures": {"kill_after_images": chance.randint(1, 24)},
            }
            ended = attempt(runs, config, **later[mode])
            kills -= not ended
        assert ended or attempt(runs, config)
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
