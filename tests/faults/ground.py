"""Where one fault is tried: a folder of its own, the same few questions, and what must be so afterwards."""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from child import PATIENCE, TREE, Child, Ended
from factories.runs import outcome, pictures, transcripts

from render_agent.runs.log.folder import RunFolder, list_runs

ROOMS = ("room07", "room05")
"""The smallest of the bundled rooms."""

QUESTIONS = 3
"""About each of them."""

KEPT_TOTALS = ("turns", "renders", "tokens")


class NotInjected(Exception):
    """The process ended before its fault was due: the attempt says nothing."""


class NotHere(Exception):
    """This machine cannot try the fault."""


def write_questions(folder: Path) -> list[str]:
    """Write questions about bundled rooms and a model of replies; return the words that ask them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, replies = [], []
    for number in range(len(ROOMS) * QUESTIONS):
        room, choice = ROOMS[number // QUESTIONS], number % 2
        rows.append(
            {
                "id": number,
                "dataset": "rooms",
                "scene_name": room,
                "question_type": "object_rel_direction_easy" if choice else "object_counting",
                "question": f"Question {number}: left or right?"
                if choice
                else f"How many, {number}?",
                "options": ["A. left", "B. right"] if choice else None,
                "ground_truth": "B" if choice else "3",
            }
        )
        steps = [
            {"rotation_angle_degrees": 25 * (number + turn), "forward_meters": 0.3, "view": view}
            for turn, view in enumerate(("ego", "top", "around")[: 1 + number % 3])
        ]
        done = {"answer": "AB"[number % 4 // 2] if choice else str(number), "done": True}
        replies.append({"id": number, "replies": [*steps, done]})
    for room in ROOMS:
        shutil.copyfile(TREE / "scenes" / f"{room}.ply", folder / f"{room}.ply")
    for name, entries in (("questions", rows), ("replies", replies)):
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (folder / f"{name}.jsonl").write_text(text, "utf-8")
    return [
        *("--batch", "--benchmark", str(folder / "questions.jsonl")),
        *("--engine", "scripted", "--model", str(folder / "replies.jsonl")),
        *("--image-size", "48x36", "--batch-size", "2", "--max-batched-turns", "2"),
        *("--max-turns", "5"),
    ]


@dataclass(frozen=True)
class Reference:
    """The undisturbed run: its folder, the words that asked for it, and its ticks of every sort.

    report: the ticks of writing its report, and `pages` the files of it.
    """

    path: Path
    words: list[str]
    ticks: dict[str, int]
    report: dict[str, int]
    fresh: bool
    pages: dict[str, bytes]


@dataclass
class Ground:
    """One attempt: its folder, what the undisturbed run came to, and what is drawn by chance.

    words: which start its run. always: what every process is given, where no fault is. whole: the run
    that it is held against, where that is not the reference's.
    """

    folder: Path
    reference: Reference
    chance: random.Random
    started: int = 0
    words: list[str] = field(default_factory=list)
    always: dict | None = None
    whole: Path | None = None

    def __post_init__(self) -> None:
        self.words = self.words or self.reference.words
        self.output.mkdir(parents=True)

    @property
    def output(self) -> Path:
        """Where its run lies."""
        return self.folder / "disk" / "runs"

    @property
    def note(self) -> Path:
        """What a fault writes when it is done."""
        return self.folder / "note"

    def moment(self, sort: str, *, last: int = 0, report: bool = False) -> dict:
        """Return a tick of one sort, any of those of the undisturbed run; `last`: but the last ones."""
        ticks = self.reference.report if report else self.reference.ticks
        return {"sort": sort, "at": self.chance.randint(1, max(1, ticks[sort] - last))}

    def start(self, *words: str, fault: dict | None = None) -> Child:
        """Start the program: a run of the questions where no words are given."""
        self.started += 1
        given = list(words) or [*self.words, "--output", str(self.output)]
        fault = fault or self.always
        if fault is not None and "deed" in fault:
            self.note.unlink(missing_ok=True)
            fault = {"below": str(self.output), "note": str(self.note), **fault}
        log = self.folder / f"said{self.started}"
        return Child(given, self.folder, log, fault, fresh=self.reference.fresh)

    def run(
        self, *words: str, fault: dict | None = None, seconds: float = PATIENCE, due: bool = True
    ) -> Ended:
        """Run the program to its end. NotInjected where its fault never was; it must not hang.

        due: whether the fault has to be done.
        """
        ended = self.start(*words, fault=fault).wait(seconds)
        assert not ended.hung, f"it hangs; it said: {ended.told}"
        if due and fault is not None and "deed" in fault and not self.note.exists():
            raise NotInjected(ended.told)
        return ended

    def go_on(self, **more) -> Ended:
        """Go on with the run that is there."""
        return self.run("--continue", "recent", "--output", str(self.output), **more)

    def path(self) -> Path | None:
        """The run folder, None where there is none."""
        runs = list_runs(self.output)
        assert len(runs) < 2, f"there are {len(runs)} runs"
        return runs[0] if runs else None

    def logged(self) -> list[bytes]:
        """The whole lines of the log so far."""
        path = self.path()
        log = path / "turns.jsonl" if path else None
        return log.read_bytes().split(b"\n")[:-1] if log and log.exists() else []

    def comes_to_its_end(self, before: list[bytes] | None = None) -> None:
        """Go on until the run is complete, and compare it with the undisturbed one.

        before: the lines that were logged when the fault came, by default those that are there.
        """
        before = self.logged() if before is None else before
        ended = self.run() if self.path() is None else self.go_on()
        assert ended.code == 0, f"it does not go on: {ended.code}, {ended.told}"
        self.equals_the_undisturbed(before)

    def equals_the_undisturbed(self, before: list[bytes]) -> None:
        """Nothing that was logged is lost, nothing is there twice, and all is as if nothing had been."""
        path, whole = self.path(), self.whole or self.reference.path
        assert path is not None, "there is no run"
        lines = self.logged()
        assert lines[: len(before)] == before, "lines that were logged are gone or changed"
        turns = [(x["question_id"], x["turn"]) for x in map(json.loads, lines) if not x["error"]]
        assert len(turns) == len(set(turns)), "a turn is there twice"
        assert transcripts(path) == transcripts(whole), "the transcripts differ"
        assert outcome(path) == outcome(whole), "the results differ"
        assert pictures(path) == pictures(whole), "the pictures differ"
        now, then = (RunFolder(place).results()["totals"] for place in (path, whole))
        for totals in (now, then):  # what a cache kept is gone with the process
            totals["tokens"].pop("from_cache", None)
        assert all(now[name] == then[name] for name in KEPT_TOTALS), "the totals differ"


def said(ended: Ended, code: int, *patterns: str) -> None:
    """The exit code is the one, every pattern is in what was said, and nothing looks like a crash."""
    assert ended.code == code, f"exit code {ended.code} instead of {code}: {ended.told}"
    for pattern in patterns:
        assert re.search(pattern, ended.told), f"{pattern!r} is not in: {ended.told}"
    assert "Traceback" not in ended.told, ended.told
    assert "Logging error" not in ended.told, ended.told


TO_GO_ON = r"stopped; nothing is lost\. To go on: "
TO_TRY_AGAIN = r"To try again: "


def stopped(ended: Ended) -> None:
    """A run that was stopped says how to go on with it, once it had begun."""
    if "run folder:" in ended.told:
        assert re.search(TO_GO_ON, ended.told), ended.told
