"""Commands on runs whose inputs have changed: each refuses, names the changed input, or is unaffected."""

import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from factories import TREE
from factories.rooms import RED, box, room
from factories.runs import finish_run, make_config, truncate_log
from PIL import Image

from render_agent.runs.runner import start_run

POLICY = """
from render_agent.engines.scripted.load_policy import ReplayPolicy

def policy(questions, seed):
    return ReplayPolicy({"*": ['{"rotation_angle_degrees": 30}', '{"answer": "%s", "done": true}']})
"""

REFUSED, NAMED, WORKS = "refused", "named", "works"

# Behaviour of each command if an input has changed. Show and ls print stored values.
CELLS = {
    "scan": {
        "continue": REFUSED,
        "merge": WORKS,  # each scan belongs to one shard
        "compare": REFUSED,
        "report": NAMED,
        "diagnose": NAMED,
        "export --diagnose": NAMED,
        "rescore": WORKS,
        "export": WORKS,
        "show": WORKS,
        "show a question": WORKS,
        "ls": WORKS,
    },
    "boxes": {
        "continue": WORKS,  # no part of the run uses them
        "merge": WORKS,
        "compare": NAMED,
        "report": NAMED,
        "diagnose": NAMED,
        "export --diagnose": NAMED,
        "export maps": NAMED,
        "rescore": WORKS,
        "show": WORKS,
        "ls": WORKS,
    },
    "questions of the run": {
        "show": WORKS,  # until it is rescored
        "continue": REFUSED,
        "merge": REFUSED,
        "compare": REFUSED,
        "report": NAMED,
        "diagnose": NAMED,
        "rescore": NAMED,
        "export": NAMED,
        "show a question": NAMED,
    },
    "question file": {
        "continue": WORKS,  # the run folder contains the questions
        "merge": REFUSED,
        "compare": REFUSED,
        "report": WORKS,
        "rescore": WORKS,
        "show": WORKS,
    },
    "policy": {
        "continue": REFUSED,
        "merge": REFUSED,
        "compare": NAMED,
        "report": WORKS,
        "diagnose": WORKS,
        "rescore": WORKS,
        "show": WORKS,
    },
}
CELLS["results of the run"] = {
    "show": NAMED,
    "show a question": NAMED,
    "report": NAMED,
    "export": NAMED,
    "ls": WORKS,  # it does not read the logs of all runs
}
CELLS["image"] = {"show": WORKS, "show a question": NAMED, "report": NAMED, "export": NAMED}
CELLS["texture"] = CELLS["scan"] | {"merge": REFUSED}  # all scans use it
CELLS["materials"] = {"continue": REFUSED, "merge": REFUSED, "compare": REFUSED, "report": NAMED}

SLOW = ("texture", "materials")  # files of a scan, too

COMMANDS = {
    "continue": "--continue {unfinished} --allow-code --output {runs}",
    "merge": "merge {shard} {later_shard} --runs {runs}",
    "compare": "compare {run} {later} --runs {runs}",
    "report": "report {run} --runs {runs} --processes 1",
    "diagnose": "diagnose {run} --runs {runs} --processes 1",
    "rescore": "rescore {run} --runs {runs}",
    "export": "export {run} --format csv --to {out} --force --runs {runs}",
    "export --diagnose": "export {run} --format csv --diagnose --to {out} --force --runs {runs}",
    "export maps": "export {run} --format maps --to {maps} --force --runs {runs}",
    "show": "show {run} --runs {runs}",
    "show a question": "show {run} 0 --runs {runs}",
    "ls": "ls --runs {runs}",
}


def write_textured(path: Path) -> None:
    """Write a room as OBJ with a material file and a texture, which rooms share."""
    scene = room(box((1, 0, 0), (2, 1, 0.8), RED))
    lines = ["mtllib paint.mtl", "usemtl paint", "vt 0.5 0.5"]
    lines += [f"v {x:.4f} {z:.4f} {-y:.4f}" for x, y, z in scene.points]
    lines += ["f " + " ".join(f"{corner + 1}/1" for corner in face) for face in scene.faces]
    path.write_text("\n".join(lines) + "\n")
    path.with_name("paint.mtl").write_text("newmtl paint\nmap_Kd paint.png\n")
    Image.fromarray(np.full((2, 2, 3), 200, np.uint8)).save(path.with_name("paint.png"))


class World:
    """A question file about two rooms of several files, and runs of it by a policy file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rows = []
        for number in range(4):
            name = f"room0{number % 2}"
            rows.append(
                {
                    "id": number,
                    "dataset": "rooms",
                    "scene_name": name,
                    "question_type": "object_counting",
                    "question": "How many chair(s) are in this room?",
                    "ground_truth": "3",
                }
            )
            write_textured(folder / f"{name}.obj")
            shutil.copy(TREE / "render_agent" / "bundled" / f"{name}.json", folder)
        self.questions = folder / "questions.jsonl"
        self.questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.policy = folder / "policy.py"
        self.policy.write_text(POLICY % 3)
        self.run, self.shard = self.play(), self.play(shard="1/2")
        self.unfinished = Path(shutil.copytree(self.run, folder / "unfinished"))
        truncate_log(self.unfinished, 3)
        self.later: dict[str, tuple[Path, Path]] = {}  # a run and a shard after each change

    def play(self, **options) -> Path:
        """Run all questions with the unchanged files."""
        options |= {"model": str(self.policy), "max_turns": 3}
        run = start_run(make_config(self.folder, self.questions, **options).absolute())
        finish_run(run)
        return run.path

    @contextmanager
    def changed(self, kind: str):
        """Change an input; yield its paths, one of which must be named."""
        files = {
            "scan": [self.folder / "room01.obj"],
            "texture": [self.folder / "paint.png"],
            "materials": [self.folder / "paint.mtl"],
            "boxes": [self.folder / "room01.json"],
            "questions of the run": [
                run / "questions.jsonl" for run in (self.run, self.shard, self.unfinished)
            ],
            "question file": [self.questions],
            "policy": [self.policy],
            "results of the run": [self.run / "results.json"],
            "image": sorted((self.run / "views").rglob("0_*.png"))[:1],
        }[kind]
        before = {file: file.read_bytes() for file in files}
        for file, content in before.items():
            file.write_bytes(edit(kind, content))
        yield files
        for file, content in before.items():
            file.write_bytes(content)


def edit(kind: str, content: bytes) -> bytes:
    """Return a file with another meaning that is as valid as before."""
    if kind in ("texture", "image"):
        return content + b"\0"
    old, new = {
        "scan": (b"v 1.0000 0.8000", b"v 1.1000 0.8000"),
        "materials": (b"map_Kd", b"Ke 0 0 0\nmap_Kd"),
        "boxes": (b'"chair":1', b'"chair":2'),
        "questions of the run": (b'"truth": "3"', b'"truth": "4"'),
        "question file": (b'"ground_truth": "3"', b'"ground_truth": "4"'),
        "policy": (b'"answer": "3"', b'"answer": "5"'),
        "results of the run": (b'"answer_text": "3"', b'"answer_text": "5"'),
    }[kind]
    assert old in content, (kind, content[:2000])
    return content.replace(old, new, 1)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def changed(world, request):
    """The arguments of `COMMANDS`, and the changed paths, with runs from before and after an input was changed."""
    with world.changed(request.param) as files:
        if request.param not in world.later:
            world.later[request.param] = world.play(), world.play(shard="2/2")
        later, later_shard = world.later[request.param]
        names = {
            "run": world.run,
            "shard": world.shard,
            "unfinished": world.unfinished,
            "later": later,
            "later_shard": later_shard,
            "runs": world.folder / "runs",
            "out": world.folder / "out.csv",
            "maps": world.folder / "maps",
        }
        yield names, files


@pytest.mark.parametrize(
    ("changed", "command"),
    [
        pytest.param(kind, command, marks=[pytest.mark.slow] if kind in SLOW else [])
        for kind, commands in CELLS.items()
        for command in commands
    ],
    indirect=["changed"],
)
def test_commands_on_changed_inputs(changed, command, request, type_in, tmp_path):
    names, files = changed
    kind = request.node.callspec.params["changed"]
    expected = CELLS[kind][command]
    unfinished = shutil.copytree(names["unfinished"], tmp_path / "unfinished")
    if kind == "questions of the run":
        files = [*files, unfinished / "questions.jsonl"]
    before = {path.name for path in names["runs"].iterdir()}
    arguments = COMMANDS[command].format(**{**names, "unfinished": unfinished}).split()
    code, output, errors = type_in(*arguments, folder=tmp_path)
    printed = (output + errors).replace("\n", " ")
    named_files = [file for file in files if str(file) in printed]
    assert bool(code) == (expected == REFUSED), printed
    assert bool(named_files) == (expected != WORKS), printed
    if expected == REFUSED:
        assert {path.name for path in names["runs"].iterdir()} == before
    if command == "report":
        page = (names["run"] / "report" / "index.html").read_text()
        is_named = "changed since the run started" in page or "is not of this run" in page
        assert is_named == (expected == NAMED)
        has_plan = (names["run"] / "report" / "plans" / "room01.png").exists()
        assert has_plan == (kind not in ("scan", "texture", "materials"))
