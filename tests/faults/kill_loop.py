"""Kills a real run again and again and continues it; run by `test_killed_runs.py` in its own process.

Usage: kill_loop.py FOLDER lines|moments KILLS SEED. Every attempt is a forked process that ends by
SIGKILL: after its first new line, or at a random moment. Each run is killed until it comes to its end
all the same, or the kills are used up. Prints the folders of the undisturbed run and of the killed
ones, as JSON.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from made_runs import Silent, make_config, make_questions, walking

from render_agent.run_log.folder import RunFolder, list_runs
from render_agent.runner import go_on, start

COUNT, TURNS = 5, 4


def work(runs: Path, config, kill_after_lines=None):
    """Start a run, or continue the one that is there, to its end; die after so many new lines."""
    found = list_runs(runs)
    run = go_on(RunFolder(found[-1]), {}) if found else start(config)
    if kill_after_lines is not None:
        append, left = run.log._append, [kill_after_lines]

        def append_and_die(line):
            append(line)
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

        run.log._append = append_and_die
    run.go(Silent(), lambda config, questions: walking(COUNT, TURNS, batch_size=2))
    run.close()


def attempt(runs: Path, config, kill_after_lines=None, kill_after_seconds=None) -> bool:
    """Work in a forked process that may be killed; return whether it came to its end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(runs, config, kill_after_lines)
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


def main(folder: Path, mode: str, kills: int, seed: int) -> None:
    questions = make_questions(folder, COUNT)
    chance = random.Random(seed)

    def config_for(name):
        return make_config(folder, questions, output=str(folder / name), max_turns=TURNS + 1)

    work(folder / "warm", config_for("warm"))  # so that what is loaded once is there in every fork
    began = time.perf_counter()
    attempt(folder / "whole", config_for("whole"))
    usual = time.perf_counter() - began
    killed = []
    while kills > 0:
        runs = folder / f"killed{len(killed)}"
        runs.mkdir()
        ended = False
        while not ended and kills > 0:
            if mode == "lines":
                ended = attempt(runs, config_for(runs.name), kill_after_lines=1)
            else:
                later = chance.uniform(0, usual)
                ended = attempt(runs, config_for(runs.name), kill_after_seconds=later)
            kills -= not ended
        assert ended or attempt(runs, config_for(runs.name))
        killed.append([str(path) for path in list_runs(runs)])
    json.dump({"whole": str(list_runs(folder / "whole")[0]), "killed": killed}, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
