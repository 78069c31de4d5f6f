"""Cuts the power of a run at moments drawn by a seed, and goes on with what a disk may then hold.

    python tests/faults/power_cuts.py --cuts 200 --seed 1 --output cuts.json

A run is recorded: every file that it makes, renames, fills and syncs below its folder. At a cut a disk holds of each
file what was synced and any part of what was not, and of each folder's names those that were synced and any first
ones of those that were not, in their order. Such disks are made while the run goes on; afterwards each has to hold
every picture, whole, that a line of its log names, and to go on to the transcripts of the run itself.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from factories.runs import Silent, make_config, make_questions, outcome, pictures, transcripts
from factories.samples import options_of

from render_agent.dialogue.chat import pictures as pictures_of
from render_agent.engines.base import BatchingEngine, Capabilities, Reply
from render_agent.engines.registry import make_engine
from render_agent.runs.log.folder import RunFolder, list_runs
from render_agent.runs.runner import resume_run, start_run

KINDS = {
    "one reply": (5, {"max_turns": 5}),
    "look-ahead": (2, options_of("lookahead:3:2")),
    "the small model": (3, {"engine": "transformers", "model": "small", "max_turns": 3}),
}
"""What is recorded: how many questions, and the options of the run."""


class Reading(BatchingEngine):
    """Answers by rule, and by every pixel of all pictures that it is shown."""

    name = "reading"
    capabilities = Capabilities()

    def answer(self, requests):
        return [
            Reply(tuple(self.sample(r, n) for n in range(r.samples)), batch_size=len(requests))
            for r in requests
        ]

    def sample(self, request, number):
        seen = hashlib.sha256(f"{request.question_id} {number}".encode())
        for file in pictures_of(list(request.messages)):
            seen.update(np.asarray(request.picture(file)).tobytes())
        byte = seen.digest()[0]
        if request.last or request.turn > len(request.about or request.question_id) + byte % 3:
            return json.dumps({"answer": "AB"[byte % 2], "done": True})
        view = ("ego", "top", "around")[byte % 3]
        step = {"rotation_angle_degrees": byte, "forward_meters": 0.2, "view": view}
        return json.dumps(step | {"reasoning": seen.hexdigest()})


def engine_of(config, questions):
    """Return the engine of a recorded run, or of one that goes on."""
    return make_engine(config, questions) if config.asks_model else Reading(batch_size=3)


class Disk:
    """What a disk would hold of a folder after a power cut: below `root`, from `install` on.

    A node is a file or a folder by a number of its own. names: by folder, what happened to its names, in order:
    (name, node), the node None where the name is gone. kept: by folder, how many of those are synced. synced: by file,
    what is synced of it.
    """

    def __init__(self, root: Path, due: dict[int, int], chance: random.Random) -> None:
        self.root, self.due, self.chance = Path(os.path.realpath(root)), due, chance
        self.ticks, self.images = 0, 0
        self.nodes: dict[str, int] = {str(self.root): 0}
        self.names: dict[int, list[tuple[str, int | None]]] = {0: []}
        self.kept: dict[int, int] = {0: 0}
        self.synced: dict[int, bytes] = {}
        self.lock = threading.RLock()
        self.opened, self.fsynced = io.open, os.fsync
        self.inside = False

    def install(self) -> None:
        """Record from now on, in this process."""
        import builtins

        self.after(os, "mkdir", lambda path, *_, **__: self.made(path, folder=True))
        for name in ("rename", "replace"):
            self.after(os, name, lambda source, target, **__: self.renamed(source, target))
        self.after(os, "link", lambda source, target, **__: self.linked(source, target))
        self.after(os, "unlink", lambda path, **__: self.gone(path))
        self.after(os, "open", lambda path, *_, **__: self.made(path))
        self.after(io, "open", lambda path, *_, **__: self.made(path))
        builtins.open = io.open
        self.after(os, "fsync", self.sync)

    def after(self, module, name: str, record) -> None:
        """Have a function of the system recorded once it is done, and nothing else recorded meanwhile."""
        call = getattr(module, name)

        def recorded(*given, **named):
            with self.lock:
                found = call(*given, **named)
                if not self.inside and record(*given, **named):
                    self.tick()
                return found

        setattr(module, name, recorded)

    def path_of(self, place) -> str | None:
        """Return a path as nodes have it, None of what is not below the root."""
        if isinstance(place, int):
            place = f"/proc/self/fd/{place}"
            path = os.path.realpath(place)
        else:
            folder, name = os.path.split(os.fspath(place))
            path = f"{os.path.realpath(folder)}/{os.fsdecode(name)}"
        return path if path == str(self.root) or path.startswith(f"{self.root}/") else None

    def named(self, path: str, node: int | None) -> bool:
        folder, name = os.path.split(path)
        self.names[self.nodes[folder]].append((name, node))
        if node is None:
            del self.nodes[path]
        else:
            self.nodes[path] = node
        return True

    def made(self, place, *, folder: bool = False) -> bool:
        path = None if isinstance(place, int) else self.path_of(place)
        if path is None or path in self.nodes or not os.path.lexists(path):
            return False
        node = len(self.names) + len(self.synced) + 1
        self.named(path, node)
        if folder:
            self.names[node], self.kept[node] = [], 0
        else:
            self.synced[node] = b""
        return True

    def renamed(self, source, target) -> bool:
        old, new = self.path_of(source), self.path_of(target)
        if old is None or new is None:
            return False
        node = self.nodes[old]
        moved = {path: n for path, n in self.nodes.items() if path.startswith(f"{old}/")}
        self.named(new, node)
        self.named(old, None)
        for path, inner in moved.items():
            del self.nodes[path]
            self.nodes[new + path[len(old) :]] = inner
        return True

    def linked(self, source, target) -> bool:
        old, new = self.path_of(source), self.path_of(target)
        return old is not None and new is not None and self.named(new, self.nodes[old])

    def gone(self, place) -> bool:
        path = self.path_of(place)
        return path is not None and path in self.nodes and self.named(path, None)

    def sync(self, number: int) -> bool:
        path = self.path_of(number)
        if path is None or path not in self.nodes:
            return False
        node = self.nodes[path]
        if node in self.names:
            self.kept[node] = len(self.names[node])
        else:
            self.synced[node] = self.read(path)
        return True

    def read(self, path: str) -> bytes:
        with self.opened(path, "rb") as file:
            return file.read()

    def tick(self) -> None:
        """Cut the power as often as is due now: make the disks that may be left."""
        self.ticks += 1
        self.inside = True
        try:
            for _ in range(self.due.get(self.ticks, 0)):
                self.cut(self.root.parent / "images" / str(self.images))
                self.images += 1
        finally:
            self.inside = False

    def cut(self, image: Path) -> None:
        """Make one disk."""
        now = {node: path for path, node in self.nodes.items()}
        lazy = self.chance.random()  # how much a disk has done unasked

        def fill(node: int, place: Path) -> None:
            if node not in self.names:
                place.write_bytes(self.content(node, now.get(node), lazy))
                return
            place.mkdir(parents=True)
            changes, kept = self.names[node], self.kept[node]
            if self.chance.random() < lazy:
                kept = self.chance.randint(kept, len(changes))
            for name, inner in dict(changes[:kept]).items():
                if inner is not None:
                    fill(inner, place / name)

        fill(0, image)

    def content(self, node: int, path: str | None, lazy: float) -> bytes:
        """Return what is left of a file: what was synced, or what is there now, or a part of that."""
        synced = self.synced[node]
        if path is None or self.chance.random() >= lazy:
            return synced
        whole = self.read(path)
        if not whole.startswith(synced):
            return self.chance.choice((synced, whole))
        end = self.chance.choice((len(whole), self.chance.randint(len(synced), len(whole))))
        torn = whole[:end]
        if (
            end > len(synced) and self.chance.random() < 0.3
        ):  # the length was kept, what is in it not
            torn = synced + bytes(len(torn) - len(synced))
        return torn


def record(place: Path, config_for, due: dict[int, int], seed: str) -> tuple[int, int]:
    """Take a run to its end in a forked process, cutting the power as is due; return its ticks and cuts."""
    note = place / "note"
    (place / "runs").mkdir(parents=True)
    child = os.fork()
    if child == 0:
        try:
            disk = Disk(place / "runs", due, random.Random(seed))
            disk.install()
            run = start_run(config_for("runs"))
            run.go(Silent(), engine_of)
            run.close()
            disk.inside = True
            note.write_text(json.dumps([disk.ticks, disk.images]))
        except BaseException:  # noqa: BLE001 - the process ends here
            traceback.print_exc()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    ticks, images = json.loads(note.read_text())
    return ticks, images


def names_nothing_lost(path: Path) -> None:
    """Every picture that a whole line of a log names is there, and the one that was shown."""
    log = path / "turns.jsonl"
    for line in log.read_bytes().split(b"\n")[:-1] if log.exists() else ():
        if line.strip(b"\0"):
            turn = json.loads(line)
            assert {view["file"] for view in turn["views"]} <= set(turn["sha256"])
            for file, digest in turn["sha256"].items():
                there = path / file
                assert there.exists(), f"a durable line names {file}, which is not there"
                found = hashlib.sha256(there.read_bytes()).hexdigest()
                assert found == digest, f"a durable line names {file}, which is torn"


def goes_on(runs: Path, config, whole: Path) -> str:
    """Take what a cut left to its end, and hold it against the recorded run; return where it was cut."""
    found = list_runs(runs)
    for path in found:
        names_nothing_lost(path)
    where = "before there was a run"
    if found:
        log = found[0] / "turns.jsonl"
        where = f"after {len(log.read_bytes().splitlines()) if log.exists() else 0} lines"
        run = resume_run(RunFolder(found[0]), {})
    else:
        run = start_run(config)
    run.go(Silent(), engine_of)
    run.close()
    assert transcripts(run.path) == transcripts(whole), "the transcripts differ"
    assert outcome(run.path) == outcome(whole), "the results differ"
    assert pictures(run.path) == pictures(whole), "the pictures differ"
    left = {path.name for path in run.path.rglob(".*") if not path.name.startswith(".run.owner.")}
    assert not left, f"left behind: {left}"
    return where


def campaign(place: Path, kind: str, cuts: int, seed: int) -> dict:
    """Cut the power of one kind of run so often; return what was survived, and what was not."""
    count, given = KINDS[kind]
    place.mkdir(parents=True)
    questions = make_questions(place, count)
    chance = random.Random(f"{seed}/{kind}")

    def config_for(name, folder=place):
        return make_config(place, questions, output=str(folder / name), **given)

    ticks, _ = record(place / "counted", lambda name: config_for(name, place / "counted"), {}, "")
    due: dict[int, int] = {}
    for _ in range(cuts):
        at = chance.randint(1, ticks)
        due[at] = due.get(at, 0) + 1
    record(
        place / "cut", lambda name: config_for(name, place / "cut"), due, f"{seed}/{kind}/content"
    )
    (whole,) = list_runs(place / "cut" / "runs")
    wrong, places = [], []
    images = sorted((place / "cut" / "images").iterdir(), key=lambda path: int(path.name))
    for image in images:
        try:
            config = config_for(image.name, place / "cut" / "images")
            places.append(goes_on(image, config, whole))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its number
            told = f"{type(error).__name__}: {error}".replace(str(place), "PLACE")
            wrong.append({"number": int(image.name), "seed": seed, "what": told[-1500:]})
    return {
        "injected": len(images),
        "survived": len(images) - len(wrong),
        "not_injected": 0,
        "not_survived": wrong,
        "not_here": None,
        "moments": ticks,
        "before_a_run": places.count("before there was a run"),
        "after_lines": len(set(places) - {"before there was a run"}),
    }


def main() -> int:
    """Cut the power of every kind of run; exit code 1 where one did not go on as it was."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cuts", type=int, default=200, help="over all kinds of runs together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", choices=[*KINDS])
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    kinds = given.only or [*KINDS]
    began, rows = time.time(), {}
    place = Path(tempfile.mkdtemp(prefix="power-cuts-")).resolve()
    try:
        for index, kind in enumerate(kinds):
            cuts = given.cuts // len(kinds) + (index < given.cuts % len(kinds))
            since = time.monotonic()
            row = campaign(place / str(index), kind, cuts, given.seed)
            rows[f"power cut: {kind}"] = row | {"seconds": round(time.monotonic() - since, 1)}
            sys.stderr.write(f"{kind}: {row}\n")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    found = {
        "machine": f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "seconds": round(time.time() - began, 1),
        "seed": given.seed,
        "kinds": rows,
    }
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return 1 if any(row["not_survived"] for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
