"""Runs with `--engine human`, answered by a test's browser."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from factories.runs import NullObserver, make_config
from factories.scenes import room, write_ply
from render_agent.runs.build import make_engine
from render_agent.runs.runner import start_run

# Answer to the number question; a text that appears nowhere else on the page.
TRUTH = "73731"


def ask_about_a_room(folder: Path, *types: str) -> Path:
    """Write a scan and a question of each type; return the question file."""
    write_ply(folder / "room.ply", *room())
    rows = []
    for number, kind in enumerate(types):
        options = ["A. left", "B. right"] if "direction" in kind else None
        rows.append(
            {
                "id": number,
                "dataset": "rooms",
                "scene_name": "room",
                "question_type": kind,
                "question": f"Question {number}: where is the <red> box?",
                "options": options,
                "ground_truth": "B" if options else TRUTH,
            }
        )
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class HumanRun:
    """A run with `--engine human` in a thread of this process."""

    def __init__(self, run):
        self.run = run
        self.path = run.path
        self.engine = None
        self.results = None
        self.error = None

    def make(self, config, questions):
        self.engine = make_engine(config, questions)
        return self.engine

    def go(self):
        try:
            self.results = self.run.go(NullObserver(), self.make)
        except BaseException as error:  # noqa: BLE001 - shown by the test's thread
            self.error = error
        finally:
            self.run.close()

    def lines(self):
        return [json.loads(line) for line in (self.path / "turns.jsonl").read_text().splitlines()]


def human_run(folder, questions, **options):
    """Serve the page of a new run; the test must answer all its questions."""
    options = {"image_size": (160, 120), "max_turns": 4} | options
    return serve_run(start_run(make_config(folder, questions, **options | {"engine": "human"})))


@contextmanager
def serve_run(run):
    """Serve the page of a run; the test must answer all its questions."""
    human = HumanRun(run)
    thread = Thread(target=human.go)
    thread.start()
    try:
        while human.engine is None and thread.is_alive():
            thread.join(0.01)
        assert human.engine is not None, human.error
        yield human
        thread.join(120)
        assert not thread.is_alive(), "not all questions were answered"
        assert human.error is None
    finally:
        while thread.is_alive():  # a failed test leaves questions unanswered
            if (waiting := human.engine.first()) is not None:
                human.engine.answer(waiting[0], '{"answer": "A", "done": true}')
            thread.join(0.05)


@contextmanager
def start_program(*words):
    """Start the program in a process; yield it and the URL of its page."""
    process = subprocess.Popen(
        [sys.executable, "-m", "render_agent", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        output = ""
        while not (url := re.search(r"http://127\.0\.0\.1:\d+/", output)):
            line = process.stderr.readline()
            assert line, output
            output += line
        yield process, url[0]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate(timeout=120)
