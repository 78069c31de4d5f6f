"""One command makes the model: in order, going on after a kill, with every hour told once."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from factories import TREE

import training.make as making
from training.card import TOLD, TRAINING, recipe_lines
from training.curves import draw_curves
from training.dialogue_file import DIALOGUES, Encoded, gathered
from training.make import QUICK, Recipe, Task, make, shipped, stages
from training.optimizer import WEIGHTS
from training.stage_timer import Clock, hours
from training.training_record import EVERY, STORY, write_story

SEEDS = (1000, 1001, 1002)


def piece(began, seconds, stage="rooms"):
    return {"stage": stage, "began": f"2026-11-21T{began}+00:00", "seconds": seconds}


def test_what_ran_side_by_side_counts_once():
    alone = [piece("18:00:00.000", 1800.0), piece("19:00:00.000", 900.0)]
    assert hours(alone) == pytest.approx(0.75)
    beside = [piece("18:10:00.000", 600.0), piece("18:20:00.000", 1200.0)]
    assert hours([*beside, *alone]) == pytest.approx(0.75 + 10 / 60)
    assert hours([]) == 0


def test_pieces_of_a_task_follow_each_other_and_add_up(tmp_path, monkeypatch):
    monkeypatch.setattr("training.stage_timer.PIECE", 0.02)
    clock = Clock(tmp_path / "clock.jsonl")
    began = time.monotonic()
    clock.run("rooms", ["sleep", "0.5"], os.environ)
    took = time.monotonic() - began
    with pytest.raises(subprocess.CalledProcessError):
        clock.run("pictures", ["false"], os.environ)
    lines = clock.lines()
    slept = [line for line in lines if line["stage"] == "rooms"]
    assert len(slept) >= 3
    assert [line["stage"] for line in lines if line not in slept] == ["pictures"]
    rounded = 0.001 * len(slept)  # each is noted in whole milliseconds
    assert 0.5 - rounded <= sum(line["seconds"] for line in slept) <= took + rounded
    assert 0.5 - rounded <= hours(slept) * 3600 <= took + rounded
    for line, after in pairwise(slept):
        gap = datetime.fromisoformat(after["began"]) - datetime.fromisoformat(line["began"])
        assert gap.total_seconds() == pytest.approx(line["seconds"], abs=0.002)


def test_stages_need_only_what_earlier_ones_made():
    work = Path("/nowhere/work")
    made = set()
    recipe = Recipe(visited=1)
    for name, tasks in stages(work, recipe, SEEDS).items():
        assert tasks
        for task in tasks:
            module = task.command[task.command.index("-m") + 1].split(".")
            assert (TREE / Path(*module)).with_suffix(".py").is_file() or (
                TREE / module[0]
            ).is_dir()
            needed = [word for word in task.command if word.endswith(".pt")]
            finished = {str(path).rsplit(".", 2)[0] for path in made if path.suffix == ".done"}
            assert {word.removesuffix(".pt") for word in needed} <= finished, name
        made |= {task.made for task in tasks}
    assert len(made) == sum(map(len, stages(work, recipe, SEEDS).values()))


def noted(folder, name, *, text="pass"):
    """Return a task that notes its name in a file."""
    made = folder / f"{name}.made"
    told = f"from pathlib import Path; {text}; Path({str(made)!r}).write_text('')"
    return Task([sys.executable, "-c", told], made)


@pytest.fixture
def light(tmp_path, monkeypatch):
    """Replace the tasks by light ones: one that fails unless `healed` is there, one that ships."""
    work = tmp_path / "work"
    ready = f"assert Path({str(tmp_path / 'healed')!r}).exists()"
    ships = (
        f"out = Path({str(shipped(work))!r}); out.mkdir();"
        f" (out / {WEIGHTS!r}).write_text('made'); (out / 'config.json').write_text('')"
    )
    light = {
        "rooms": [noted(tmp_path, "one"), noted(tmp_path, "two")],
        "joint": [noted(tmp_path, "three", text=ready)],
        "ship": [Task(noted(tmp_path, "four", text=ships).command, shipped(work) / WEIGHTS)],
    }
    monkeypatch.setattr(making, "stages", lambda *_: light)
    return work


def test_it_goes_on_where_it_stopped_and_then_has_nothing_to_do(light, tmp_path, capfd):
    model = tmp_path / "model"
    model.mkdir()
    (model / WEIGHTS).write_text("of an earlier making")
    (model / "README.md").write_text("a card")
    with pytest.raises(subprocess.CalledProcessError):
        make(light, QUICK, model, SEEDS)
    assert (model / WEIGHTS).read_text() == "of an earlier making"
    assert not (model / STORY).exists()
    (tmp_path / "healed").write_text("")
    make(light, QUICK, model, SEEDS)
    assert (model / WEIGHTS).read_text() == "made"
    assert (model / "README.md").read_text() == "a card"
    told = (model / STORY).read_text("utf-8")
    capfd.readouterr()
    make(light, QUICK, model, SEEDS)
    assert "0 of 2 to do" in capfd.readouterr().out
    assert (model / STORY).read_text("utf-8") == told
    clock = Clock(light / "clock.jsonl").lines()
    assert [line["stage"] for line in clock] == ["rooms", "rooms", "joint", "joint", "ship"]


def test_a_task_that_outlived_its_killed_making_is_waited_for(tmp_path):
    """A making killed outright leaves its task at work; the next begins no second one beside it."""
    release, made = tmp_path / "release", tmp_path / "long.made"
    begun = tmp_path / "begun"
    waits = (
        f"import time\nfrom pathlib import Path\nPath({str(begun)!r}).write_text('')\n"
        f"while not Path({str(release)!r}).exists(): time.sleep(0.02)\n"
        f"Path({str(made)!r}).write_text('')"
    )
    script = (
        "import os, sys\nfrom pathlib import Path\nimport training.make as making\n"
        f"work = Path({str(tmp_path)!r})\n"
        "with making._alone(work) as held:\n"
        f"    task = making.Task([sys.executable, '-c', {waits!r}], Path({str(made)!r}))\n"
        "    if task.made.is_file(): sys.exit(print('it is made'))\n"
        "    making._run(making.Clock(work / 'clock.jsonl'), held, 'joint', task)\n"
    )

    def started():
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", script],
            cwd=TREE,
            stdout=subprocess.PIPE,
            text=True,
        )

    first = started()
    await_(begun.exists)
    first.send_signal(signal.SIGKILL)
    first.wait()
    first.stdout.close()  # the task at work has it too
    with (tmp_path / "lock").open("a") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    second = started()
    assert second.stdout.readline().startswith("waiting for what is still at work")
    release.write_text("")
    out, _ = second.communicate(timeout=120)
    assert out == "it is made\n"


def await_(ready, seconds=120.0):
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_story_tells_what_the_card_asks_for(tmp_path):
    work, model = tmp_path / "work", tmp_path / "model"
    for folder in ("dialogues", "text", "choices", "names", "nearest", "practice", "perception"):
        (work / folder / "train-1000").mkdir(parents=True)
    (work / "model").mkdir()
    for name in ("train-1000", "train-1001", "validation-2000"):
        (work / "rooms" / name).mkdir(parents=True)
        (work / "rooms" / name / "room00.ply").write_text("")
    (work / "perception/train-1000/done").write_text("20")
    ids, learned = np.arange(9, dtype=np.int16), np.arange(9) > 5
    one = Encoded(ids, learned, (), "1", "room00", "object_counting", "free")
    for name, count in (
        ("dialogues", 3),
        ("perception", 4),
        ("text", 5),
        ("choices", 6),
        ("names", 7),
        ("nearest", 8),
        ("practice", 9),
    ):
        gathered(None, [one] * count).save(work / name / "train-1000" / DIALOGUES)
    pieces = [
        piece("18:00:00.000", 1800.0), piece("18:00:00.000", 900.0), piece("18:30:00.000", 3600.0, "joint"),
    ]  # fmt: skip
    (work / "clock.jsonl").write_text("".join(json.dumps(line) + "\n" for line in pieces))
    # killed behind step 300 and continued from step 250: what was made again counts once
    steps = [*range(25, 301, 25), *range(275, 501, 25)]
    lines = [
        {"step": step, "dialogues loss": 1 / step, "hours": number / 10}
        for number, step in enumerate(steps)
    ]
    (work / "model/joint.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    model.mkdir()
    write_story(work, QUICK, model, SEEDS, "make train")
    assert STORY == TRAINING
    told = json.loads((model / STORY).read_text("utf-8"))
    assert set(told) == set(TOLD)
    assert (told["began"], told["hours"]) == ("2026-11-21T18:00+00:00", 1.5)
    assert told["recipe"]["hours by stage"] == "rooms 0.50, joint 1.00"
    assert told["data"] == {
        "rooms for training": "2 homes",
        "rooms for validation": "1 homes",
        "labelled pictures": "20",
        "dialogues of the expert": "3 dialogues, 9 tokens learned",
        "inventories of pictures": "4 dialogues, 12 tokens learned",
        "arithmetic on text": "5 dialogues, 15 tokens learned",
        "choices on text": "6 dialogues, 18 tokens learned",
        "names on text": "7 dialogues, 21 tokens learned",
        "nearest on text": "8 dialogues, 24 tokens learned",
        "own dialogues, corrected": "9 dialogues, 27 tokens learned",
    }
    (curve,) = told["curves"]
    again = [line for line in lines[12:] if line["step"] % EVERY == 0]
    assert curve["values"] == [1 / step for step in range(EVERY, 501, EVERY)]
    assert curve["hours"] == [
        lines[3]["hours"],
        lines[7]["hours"],
        *(line["hours"] for line in again),
    ]
    draw_curves(told["curves"], tmp_path / "curves.svg")
    assert "| time | 1.5 hours, begun 2026-11-21T18:00+00:00 |" in recipe_lines(told)
