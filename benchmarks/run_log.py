"""How long a run folder as large as VSI-Bench takes to be written and read back.

    python benchmarks/run_log.py --output benchmarks/results/run_log

Writes the turns of so many questions through `RunLog`, as a run does, then reads them as `show`, `report`
and `--continue` do. Every turn has one view, two messages and a reply as long as those of the small model;
one in ten chose its move among four candidates. Runs in the checkout that is imported, so that two can be
compared.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

QUESTIONS, TURNS = 5130, 5
"""25,650 turns: the whole benchmark took 25,601."""

TRIES = 3
"""The quickest of so many is told."""


def questions() -> list[Any]:
    """Return questions as long as VSI-Bench's."""
    from render_agent.dialogue.state import Question

    options = ("A. front-left", "B. front-right", "C. back-left", "D. back-right")
    text = "If I am standing by the sofa and facing the lamp, where is the table? " * 3
    return [
        Question(str(n), "vsibench", "scannet", f"scene{n % 288:04}_00", "object_rel_direction_hard",
                 text, "letter", options, "B", Path(f"/scans/scene{n % 288:04}_00.ply"))
        for n in range(QUESTIONS)
    ]  # fmt: skip


def turn_of(question: str, number: int) -> Any:
    """Return a turn as long as those of a run."""
    from render_agent.dialogue import chat
    from render_agent.dialogue.reply import Action
    from render_agent.dialogue.state import (
        Candidate,
        Evidence,
        Judgement,
        Seconds,
        Tokens,
        Turn,
        View,
    )
    from render_agent.geometry.camera import Camera

    stood = Camera((1.25 + number / 7, -0.5, 1.6), 33.3, -10.0)
    camera = Camera((1.75 + number / 7, -0.25, 1.6), 78.3, -10.0)
    last = number == TURNS - 1
    action = (
        Action(answer="B", answer_text="B", done=True)
        if last
        else Action(45.0, 0.0, 0.5, view="ego")
    )
    file = f"views/{question}/{number}_ego.png"
    told = chat.message(
        "user", chat.text("View 3 (ego), from (1.25, -0.50, 1.60). " * 12), chat.picture(file)
    )
    system = chat.message("system", chat.text("You explore a room by rendered views. " * 40))
    reply = json.dumps({"reasoning": "The sofa is on the left. " * 12, "forward_meters": 0.5})
    evidence = None
    if int(question) % 10 == 0:
        views = [
            View(number + 1, "ego", f"views/{question}/{number}_{n}.png", camera) for n in range(4)
        ]
        candidates = tuple(
            Candidate(n, reply, action, "moved 0.5 m forward", camera, views[n]) for n in range(4)
        )
        scores = ((0.1, 0.7, None, 0.4),)
        evidence = Evidence(
            "lookahead:4", candidates, 1, (0, 1, 2, 3),
            (Judgement("geometry", ("geometry",), scores, ("", "", "nothing is named", "")),),
            (0.1, 0.7, 0.0, 0.4), tokens=Tokens(900, 300, 100), calls=0.75,
        )  # fmt: skip
    return Turn(
        number, "batched" if number < 4 else "finishing", (View(number, "ego", file, stood),),
        (told,) if number else (system, told), reply, action, "moved 0.5 m forward", stood, camera,
        Tokens(2100, 120, 900), Seconds(0.031, 0.002, 0.41), 8, evidence=evidence,
    )  # fmt: skip


def measured(folder: Path) -> dict[str, float]:
    """Return the processor seconds of writing and of reading a run in a folder."""
    from render_agent.config import RunConfig
    from render_agent.runs.log.folder import RunFolder, RunLog
    from render_agent.runs.log.reader import read_states

    config = RunConfig(batch=True)
    record = {
        "program": "0", "config": config.to_json(), "fingerprint": config.fingerprint,
        "engine": {"name": "scripted", "model": None}, "sha256": {"questions": {}, "scans": {}},
    }  # fmt: skip
    asked = questions()
    turns = [(q.id, turn_of(q.id, number)) for number in range(TURNS) for q in asked]
    log = RunLog.create(folder, "batched", record)
    began = time.process_time()
    log.write_questions(asked)
    for question_id, turn in turns:
        log.append(question_id, turn)
    written = time.process_time() - began
    log.close()
    began = time.process_time()
    states = read_states(RunFolder(log.path))
    read = time.process_time() - began
    assert [(s.id, turn) for s in states for turn in s.turns] == sorted(
        turns, key=lambda pair: (int(pair[0]), pair[1].number)
    )
    size = (log.path / "turns.jsonl").stat().st_size / 1e6
    return {"writing_seconds": written, "reading_seconds": read, "megabytes": size}


@click.command()
@click.option("--output", type=Path, help="Written as OUTPUT.json and OUTPUT.md.")
@click.option(
    "--beside", type=Path, help="OUTPUT.json of another checkout, shown beside this one's."
)
def main(output: Path | None, beside: Path | None) -> None:
    """Measure writing and reading of a run as large as VSI-Bench."""
    tries = []
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="run-log-") as folder:
            tries.append(measured(Path(folder)))
    found = {
        "command": " ".join(["python", "benchmarks/run_log.py", *sys.argv[1:]]),
        "machine": f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "date": time.strftime("%Y-%m-%d"),
        "load": os.getloadavg(),
        "questions": QUESTIONS,
        "turns": QUESTIONS * TURNS,
        "best": {name: min(one[name] for one in tries) for name in tries[0]},
        "tries": tries,
    }
    if beside is not None:
        found["before"] = json.loads(beside.read_text())
    text = report(found)
    sys.stdout.write(text)
    if output is not None:
        output.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
        output.with_suffix(".md").write_text(text)


def report(found: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    columns = [("before", found["before"]["best"])] if "before" in found else []
    columns.append(("now", found["best"]))
    rows = [
        "# The run folder, written and read",
        "",
        f"{found['turns']:,} turns of {found['questions']:,} questions; the quickest of {TRIES}, seconds of the processor. {found['machine']},"
        f" {found['date']}, load {found['load'][0]:.1f}.",
        "",
        f"    {found['command']}",
        "",
        "| | " + " | ".join(name for name, _ in columns) + " |",
        "|---" + "|---:" * len(columns) + "|",
    ]
    for name, words in (
        ("writing_seconds", "writing, s"),
        ("reading_seconds", "reading, s"),
        ("megabytes", "turns.jsonl, MB"),
    ):
        rows.append(f"| {words} | " + " | ".join(f"{best[name]:.2f}" for _, best in columns) + " |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
