"""Writes the run folders that a release leaves behind for those after it, into `formats/N` beside this file.

    .venv/bin/python tests/upgrades/make_format.py

N is the number of the form that this version writes. To be typed once a form, when it is released: what
lies there is never written again. Each holds a scan, two questions about it, and runs that are finished,
finished with moves chosen among several, cut off, and cut off before their questions were written. Files
name their folder by {HERE}, and no machine.
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from factories.runs import Silent  # noqa: E402
from factories.samples import mixed_engine, options_of  # noqa: E402
from factories.scenes import RED, box, joined, write_ply  # noqa: E402

from render_agent.config import RunConfig  # noqa: E402
from render_agent.engines.registry import make_engine  # noqa: E402
from render_agent.runs.log.formats import FORMAT  # noqa: E402
from render_agent.runs.runner import start  # noqa: E402

QUICK = {"image_size": (48, 36), "max_turns": 3, "engine": "scripted"}

MACHINE = {"system": "Linux", "processor": "x86_64", "cores": 2, "python": "3.11"}

CUT_AFTER = 3
"""Lines of the log that are left of the run that was cut off."""


def write_questions(folder):
    """Write a scan and two questions about it."""
    walls = box((0, 0, 0), (4, 3, 2.5), (200, 196, 188))
    write_ply(folder / "room.ply", *joined(walls, box((3, 2, 0), (3.6, 2.6, 0.7), RED)))
    about = {"dataset": "rooms", "scene_name": "room"}
    rows = [
        {"id": 0, "question_type": "object_counting", "question": "How many box(s) are in this room?",
         "options": None, "ground_truth": "1"},
        {"id": "../odd", "question_type": "object_rel_direction_easy", "question": "Is the box left or right?",
         "options": ["A. left", "B. right"], "ground_truth": "B"},
    ]  # fmt: skip
    lines = [json.dumps(row | about) + "\n" for row in rows]
    (folder / "questions.jsonl").write_text("".join(lines))


def run(folder, name, engine=make_engine, **options):
    """Run the questions to the end and give the run folder its name; return it."""
    given = {"batch": True, "benchmark": "questions.jsonl", "output": "runs", **QUICK, **options}
    going = start(RunConfig(**given))
    try:
        going.go(Silent(), engine)
    finally:
        going.close()
    return going.path.rename(folder / "runs" / name)


def nameless(file, folder):
    """Take the machine out of a file: its paths, and in a record what it is."""
    text = file.read_text("utf-8").replace(str(folder), "{HERE}")
    if file.name == "config.json":
        record = json.loads(text)
        text = json.dumps(record | {"machine": MACHINE, "commit": None}, indent=1) + "\n"
    file.write_text(text, "utf-8")


def make(folder):
    """Write the scan, the questions and the runs into a folder that is there."""
    write_questions(folder)
    os.chdir(folder)
    run(folder, "20260101T000000_batched")
    chosen = options_of("lookahead:3")
    run(folder, "20260101T000001_batched", lambda config, asked: mixed_engine(), **chosen)
    cut = run(folder, "20260101T000002_batched", model="wanderer")
    lines = (cut / "turns.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) > CUT_AFTER
    (cut / "turns.jsonl").write_text("".join(lines[:CUT_AFTER]) + lines[CUT_AFTER][:40])
    bare = folder / "runs" / "20260101T000003_batched"
    bare.mkdir()
    shutil.copy(cut / "config.json", bare)
    for name in ("results.json", "results.csv"):
        (cut / name).unlink()
    for file in folder.rglob("*"):
        if file.suffix in (".json", ".jsonl", ".csv"):
            nameless(file, folder)
        if file.name == "run.lock":
            file.write_text("process 1 on a machine\n")


def main():
    """Write the folder of the present form, unless it is there."""
    place = HERE / "formats" / str(FORMAT)
    if place.exists():
        sys.exit(f"{place} is there already: a form that was released stays as it is")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "made").resolve()
        folder.mkdir()
        make(folder)
        os.chdir(HERE)
        place.parent.mkdir(exist_ok=True)
        shutil.copytree(folder, place)


if __name__ == "__main__":
    main()
