"""Do the controls come out in the order in which they must, and do mirrored rooms flip left and right?

    python benchmarks/fair_controls.py --output benchmarks/results/fair_controls

The witness answers from the truth once its views have shown well what a question names, and guesses
otherwise. So whoever chooses its views well makes it right, and where nothing of the room is shown it
is as right as chance. The bundled rooms are asked more questions than come with them, by the same
rules, since a single view seldom shows all that one of them names.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np

from render_agent.config import RunConfig
from render_agent.dialogue.state import Question
from render_agent.engines.registry import MakeEngine
from render_agent.observation.stress.mirrored import mirrored_truth, names_sides
from render_agent.questions.rooms import BUNDLED
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.phase_controller import Silent
from render_agent.runs.runner import make_engine, start_run
from render_agent.scene.room_truth import read_truth
from render_agent.score.comparison import Side, compare
from render_agent.score.summary import OFFICIAL
from render_agent_lab.room_generator.questions.balanced import ask
from render_agent_lab.room_generator.write import write_questions

VIEWS = ("none", "top", "start", "four", "random-walk", "free", "tour", "oracle")

ORDER = (
    ("none", "start"),
    ("start", "free"),
    ("start", "tour"),
    ("free", "oracle"),
    ("tour", "oracle"),
)
"""Pairs of --views of which the second must come out better."""

Results = Mapping[str, Any]


LACKING = (
    "; none is given here: those of before were of the percentile bootstrap, too narrow over eight rooms,"
    " and so were p; the runs are not kept"
)
"""What a record says whose intervals were taken off."""


def ask_bundled(folder: Path, each: int, seed: int = 1) -> Path:
    """Ask `each` questions of every bundled room; return their file, links to the rooms beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    truths = sorted(BUNDLED.glob("room*.json"))
    for truth in truths:
        for file in (truth, truth.with_suffix(".ply")):
            (folder / file.name).symlink_to(file.resolve())
    path = folder / "questions.jsonl"
    write_questions(ask([read_truth(truth) for truth in truths], seed, each), path)
    return path


def play(
    questions: Path, output: Path, make: MakeEngine = make_engine, **options: Any
) -> tuple[RunFolder, dict[str, Any]]:
    """Let the witness answer the questions of a file; return the run and its results."""
    config = RunConfig(
        batch=True,
        benchmark=str(questions),
        output=str(output),
        engine="scripted",
        model="witness",
        **options,
    )
    run = start_run(config)
    try:
        return run.log.folder, run.go(Silent(), make)
    finally:
        run.close()


def pooled(name: str, runs: Sequence[Results]) -> Side:
    """Return one side of a comparison: every question with its mean score over runs of several seeds."""
    scores = np.mean([[row["score"] for row in run["questions"]] for run in runs], axis=0)
    rows = [row | {"score": float(s)} for row, s in zip(runs[0]["questions"], scores, strict=True)]
    return Side(name, {"questions": rows}, {})


def steps(runs: Mapping[str, Sequence[Results]]) -> list[dict[str, Any]]:
    """Return how much better the second of every pair of ORDER is: the paired difference, in points."""
    found = []
    for worse, better in ORDER:
        both = compare(pooled(worse, runs[worse]), pooled(better, runs[better]))
        entry = both["differences"][OFFICIAL]
        found.append({"worse": worse, "better": better, "n": both["n"], **entry})
    return found


def of_sides(real: Results, questions: Sequence[Question]) -> float:
    """Return the mean score, in percent, of the questions that `results["mirrored"]` is about."""
    asked = {q.id for q in questions if names_sides(q) and mirrored_truth(q) is not None}
    scores = [row["score"] for row in real["questions"] if row["question_id"] in asked]
    return 100 * float(np.mean(scores))


@click.command()
@click.option("--each", default=120, show_default=True, help="Questions about each of the 8 rooms.")
@click.option("--seeds", default=3, show_default=True, help="Runs of each control.")
@click.option("--size", default="128x96", show_default=True, help="Pixels of a view.")
@click.option("--output", help="Write OUTPUT.json and OUTPUT.md.")
def main(each: int, seeds: int, size: str, output: str | None) -> None:
    """Run every control and the stress tests with the witness, and set them against each other."""
    width, height = map(int, size.split("x"))
    began = time.process_time()
    with tempfile.TemporaryDirectory() as scratch:
        questions = ask_bundled(Path(scratch) / "rooms", each)

        def run(**options: Any) -> tuple[RunFolder, dict[str, Any]]:
            found = play(questions, Path(scratch), image_size=(width, height), **options)
            click.echo(f"{options}: {found[1]['official']:.1f}", err=True)
            return found

        runs = {views: [run(views=views, seed=seed)[1] for seed in range(seeds)] for views in VIEWS}
        stress = {
            kind: run(views="free", pictures=kind)[1] for kind in ("black", "noise", "shuffled")
        }
        mirrored = {}
        for views in ("free", "oracle"):
            folder, turned = run(views=views, pictures="mirrored")
            mirrored[views] = {
                "real": of_sides(runs[views][0], folder.questions()),
                **turned["mirrored"],
            }
    controls = {views: pooled_figures(found) for views, found in runs.items()}
    record = {
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "command": " ".join(["python", "benchmarks/fair_controls.py", *sys.argv[1:]]),
        "machine": f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "processor_seconds": round(time.process_time() - began),
        "questions": len(runs["none"][0]["questions"]),
        "seeds": seeds,
        "size": size,
        "controls": controls,
        "steps": steps(runs),
        "stress": {
            name: {
                "official": found["official"],
                "interval": found["intervals"]["official"],
                "same_answers_as_none": answers(found) == answers(runs["none"][0]),
            }
            for name, found in stress.items()
        },
        "mirrored": mirrored,
    }
    text = table(record)
    click.echo(text)
    if output:
        Path(output + ".json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
        Path(output + ".md").write_text(text, "utf-8")


def answers(found: Results) -> dict[str, str | None]:
    """Return the answers of a run by the ids of its questions."""
    return {row["question_id"]: row["answer"] for row in found["questions"]}


def pooled_figures(runs: Sequence[Results]) -> dict[str, Any]:
    """Return the official score over several seeds with its interval, and what it was shown."""
    side = pooled("a", runs)
    nothing = Side(
        "0", {"questions": [row | {"score": 0.0} for row in side.results["questions"]]}, {}
    )
    entry = compare(nothing, side)["differences"][OFFICIAL]
    turns = sum(found["totals"]["turns"] for found in runs) / len(runs)
    return {"official": entry["b"], "interval": entry["interval"], "turns": turns}


def table(record: Mapping[str, Any]) -> str:
    """Return the figures as Markdown."""
    count = record["questions"]
    lines = [
        "# Controls and stress tests with the witness",
        "",
        f"The 8 bundled rooms, {count} questions, {record['seeds']} seeds, views of {record['size']}"
        " pixels, at most 9 turns. The official score in percent with its 95 % interval over rooms"
        f"{LACKING if record['steps'][0]['interval'] is None else ''}.",
        "",
        "| `--views` | score | 95 % interval | turns a question |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{name}` | {entry['official']:.1f} | {within(entry['interval'])} |"
        f" {entry['turns'] / count:.1f} |"
        for name, entry in record["controls"].items()
    ]
    lines += [
        "",
        "Each pair on the same questions, in points:",
        "",
        "| better than | by | 95 % interval | p |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{entry['better']}` than `{entry['worse']}` | {entry['difference']:.1f} |"
        f" {within(entry['interval'])} | {probability(entry['p'])} |"
        for entry in record["steps"]
    ]
    lines += [
        "",
        "With `--views free` and one seed: "
        + "; ".join(
            f"`--pictures {name}` {entry['official']:.1f}, "
            + ("the very answers" if entry["same_answers_as_none"] else "other answers than those")
            + " of `--views none`"
            for name, entry in record["stress"].items()
        )
        + ".",
        "",
        "Mirrored rooms: questions whose options name left or right, mean of questions in percent; the"
        " turns of routes, which no box tells, are guessed.",
        "",
        "| `--views` | n | real room | mirrored, against the mirrored truth | mirrored, against the"
        " original truth | answers that turned, of those that should |",
        "|---|---|---|---|---|---|",
    ]
    for name, entry in record["mirrored"].items():
        truths = " | ".join(
            f"{entry[truth]['micro']:.1f} ({within(entry[truth]['intervals']['micro'])})"
            for truth in ("mirrored", "original")
        )
        share = entry["turned"]["mirrored"]
        turned = f"{share['share']:.1f} ({within(share['interval'])}) of {entry['turned']['n']}"
        lines.append(f"| `{name}` | {entry['n']} | {entry['real']:.1f} | {truths} | {turned} |")
    lines += [
        "",
        f"{record['machine']}; {record['when'][:10]}; {record['processor_seconds']} s of processor time.",
        "",
        f"    {record['command']}",
        "",
    ]
    return "\n".join(lines)


def within(interval: Sequence[float] | None) -> str:
    """Return an interval as it is written."""
    return "–" if interval is None else f"{interval[0]:.1f} … {interval[1]:.1f}"


def probability(p: float | None) -> str:
    """Return a probability as it is written."""
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


if __name__ == "__main__":
    main()
