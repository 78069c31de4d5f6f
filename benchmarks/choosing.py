"""Do verifiers find what questions name in fewer moves than chance does?

    python benchmarks/choosing.py --output benchmarks/results/choosing

The policy `seeker` makes random moves until its views have shown well all that a question names. With
`--agent lookahead:K` it proposes K of them a turn, all are made and drawn, and a verifier chooses. So
verifiers meet the same proposals, and what differs is the choice alone. They are measured in the bundled
rooms; the learned one is trained on runs in other rooms, which are made here, with random choice.
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
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np

from render_agent.cli.main import cli
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.reader import read_states
from render_agent.runs.log.results import question_work
from render_agent_lab.oracles.question_visibility import QuestionVisibility
from render_agent_lab.verifier_benchmark.decisions import moves_until_found
from render_agent_lab.verifier_benchmark.resampling import estimate
from render_agent_lab.verifier_benchmark.walks import made_rooms, walk
from render_agent_lab.verifier_training.card import spanned

RANDOM = "random"
PLAIN = (RANDOM, "geometry:unnamed", "geometry")
LEARNED = "learned"

TRAINING_SEED = 2000
"""The seed of the rooms that are learned from; the bundled ones are of another."""

LACKING = (
    "those of before were of the percentile bootstrap, too narrow over few scenes, and the runs are not kept, from"
    " which others could be computed"
)
"""What a record says whose intervals were taken off."""

Row = Mapping[str, Any]


def explored(runs: Path, label: str, verifier: str, seed: int, **options: Any) -> RunFolder:
    """Return a finished run with a verifier and a seed, made now where it is not there yet."""
    place = runs / f"{label.replace(':', '-')}-{seed}"
    for folder in sorted(place.glob("*/results.json")):
        return RunFolder(folder.parent)
    began = time.perf_counter()
    folder = walk(place, verifier=verifier, seed=seed, **options)
    click.echo(f"{label}, seed {seed}: {time.perf_counter() - began:.0f} s", err=True)
    return folder


def trained(runs: Path, rooms: int, questions: int, encoder: str, **options: Any) -> Path:
    """Return a learned verifier, trained on a run in rooms made for it, by the shipped command."""
    head = runs / "head"
    if (head / "verifier.json").is_file():
        return head
    asked = runs / "rooms" / "questions.jsonl"
    if not asked.is_file():
        made_rooms(asked.parent, rooms, TRAINING_SEED)
    about = {"benchmark": str(asked), "agent": "lookahead:8", "limit": questions, "shuffle": True}
    folders = [explored(runs, "training", RANDOM, 0, **options, **about).path]
    words = [*map(str, folders), "--output", str(head), "--encoder", encoder]
    began = time.perf_counter()
    cli.main(["train-verifier", *words], standalone_mode=False)
    click.echo(f"trained: {time.perf_counter() - began:.0f} s", err=True)
    return head


def rows_of(folder: RunFolder) -> dict[str, Row]:
    """Return what `found_in` tells of a run; it is kept beside the run."""
    kept = folder.path.with_name("rows.json")
    if not kept.is_file():
        kept.write_text(json.dumps(found_in(folder)), "utf-8")
    rows: dict[str, Row] = json.loads(kept.read_text("utf-8"))
    return rows


def found_in(folder: RunFolder) -> dict[str, Row]:
    """Return for every question of which it is known what has to be seen what its dialogue came to.

    moves: until all of it was seen well, `max_turns` where it never was. decisions: turns in which a
    verifier chose. renders: pictures that were drawn. tokens: read and written, those of verifiers too.
    """
    config = folder.config
    eyes = QuestionVisibility.of(config, folder.questions())
    states = read_states(folder, scenes=eyes.scenes)
    found = {}
    for state in sorted(states, key=lambda state: state.question.scene):
        if not eyes.things(state.question):
            continue
        work = question_work(state)
        moves = moves_until_found(state, eyes)
        found[state.id] = {
            "scene": state.question.scene,
            "moves": moves,
            "found": moves < config.max_turns,
            "decisions": sum(bool(t.evidence and t.evidence.weighed) for t in state.turns),
            "renders": work["renders"],
            "tokens": work["tokens_in"] + work["tokens_out"],
        }
    eyes.close()
    return found


def over_seeds(runs: Sequence[Mapping[str, Row]]) -> dict[str, dict[str, Any]]:
    """Return every question's figures, their means over runs of several seeds."""
    names = ("moves", "found", "decisions", "renders", "tokens")
    return {
        one: {"scene": runs[0][one]["scene"]}
        | {name: float(np.mean([run[one][name] for run in runs])) for name in names}
        for one in runs[0]
    }


def arm(rows: Mapping[str, Row], seeds: int) -> dict[str, Any]:
    """Return the figures of one verifier over all questions.

    by_scene: sums over a scene's questions, from which intervals can be computed anew.
    """
    scenes = [row["scene"] for row in rows.values()]

    def mean(name: str) -> Any:
        return estimate([row[name] for row in rows.values()], scenes)

    return {
        "moves": mean("moves"),
        "found": mean("found"),
        "renders": mean("renders"),
        "tokens": mean("tokens"),
        "decisions": round(seeds * sum(row["decisions"] for row in rows.values())),
        "questions": len(rows),
        "by_scene": {
            scene: {"questions": len(part)}
            | {name: sum(row[name] for row in part) for name in ("moves", "found")}
            for scene in dict.fromkeys(scenes)
            for part in ([row for row in rows.values() if row["scene"] == scene],)
        },
    }


def fewer(better: Mapping[str, Row], worse: Mapping[str, Row]) -> dict[str, Any]:
    """Return how many fewer moves one verifier takes than another, paired, by both kinds of interval.

    p: exact, over all ways to exchange the two in whole scenes.
    """
    saved = [worse[one]["moves"] - better[one]["moves"] for one in worse]
    scenes = [worse[one]["scene"] for one in worse]
    by_scene = estimate(saved, scenes)
    by_question = estimate(saved, list(worse))
    assert by_scene is not None, "there are questions"
    assert by_question is not None, "there are questions"
    return {
        "fewer": by_scene["mean"],
        "over_scenes": by_scene["interval"],
        "over_questions": by_question["interval"],
        "p": by_exchange(saved, scenes),
        "questions": by_scene["n"],
    }


def by_exchange(saved: Sequence[float], scenes: Sequence[str]) -> float:
    """Return the share of all ways to exchange the sides of whole scenes that differ at least as much.

    It is exact however few scenes there are, and no less than 2 / 2^scenes.
    Beyond 16 scenes it is that of 65,536 ways drawn at random, and the way it was.
    """
    _, places = np.unique(list(scenes), return_inverse=True)
    sums = np.bincount(places, saved)
    if len(sums) <= 16:
        ways = np.array(list(product((-1, 1), repeat=len(sums))))
    else:
        ways = np.random.default_rng(0).choice((-1, 1), (2**16, len(sums)))
        ways[0] = 1
    return float((np.abs(ways @ sums) >= abs(sums.sum()) - 1e-9).mean())


@click.command()
@click.option("--candidates", default=4, show_default=True, help="Moves proposed a turn.")
@click.option("--seeds", default=3, show_default=True, help="Runs of each verifier.")
@click.option("--size", default="320x240", show_default=True, help="Pixels of a view.")
@click.option("--limit", type=int, help="Questions of the bundled rooms; all by default.")
@click.option("--rooms", default=24, show_default=True, help="Rooms to learn from; 0: none.")
@click.option("--training-questions", default=240, show_default=True, help="Asked in these rooms.")
@click.option(
    "--encoder", default="pixels", show_default=True, help="Whose features are learned on."
)
@click.option("--runs", help="Where the runs are kept; those that are there are not made again.")
@click.option("--output", help="Write OUTPUT.json and OUTPUT.md.")
def main(
    candidates: int,
    seeds: int,
    size: str,
    limit: int | None,
    rooms: int,
    training_questions: int,
    encoder: str,
    runs: str | None,
    output: str | None,
) -> None:
    """Explore the bundled rooms with every verifier, and set them against each other."""
    width, height = map(int, size.split("x"))
    options: dict[str, Any] = {"image_size": (width, height)}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(runs or scratch)
        verifiers = {name: name for name in PLAIN}
        card: Any = None
        if rooms:
            head = trained(place, rooms, training_questions, encoder, **options)
            verifiers[LEARNED] = f"{LEARNED}:{head}"
            card = json.loads((head / "verifier.json").read_text("utf-8"))["learned"]
        options |= {"benchmark": "rooms", "agent": f"lookahead:{candidates}", "limit": limit}
        options |= {"shuffle": limit is not None}
        found = {}
        for label, verifier in verifiers.items():
            kept = [explored(place, label, verifier, seed, **options) for seed in range(seeds)]
            found[label] = over_seeds([rows_of(folder) for folder in kept])
            unknown = len(kept[0].questions()) - len(found[label])
    pairs = [(b, w) for n, b in enumerate(found) for w in list(found)[:n]]
    record = {
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "command": " ".join(["python", "benchmarks/choosing.py", *told_of(sys.argv[1:])]),
        "machine": f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "seconds": None if runs else round(time.perf_counter() - began),
        "candidates": candidates,
        "seeds": seeds,
        "size": size,
        "unknown": unknown,
        "scenes": len({row["scene"] for row in found[RANDOM].values()}),
        "max_turns": kept[0].config.max_turns,
        "verifiers": {name: arm(rows, seeds) for name, rows in found.items()},
        "differences": [{"better": b, "worse": w, **fewer(found[b], found[w])} for b, w in pairs],
        "card": card,
    }
    text = table(record)
    click.echo(text)
    if output:
        Path(output + ".json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
        Path(output + ".md").write_text(text, "utf-8")


def told_of(words: Sequence[str]) -> list[str]:
    """Return the words of the command without where runs are kept, on which no figure depends."""
    kept = list(words)
    if "--runs" in kept:
        place = kept.index("--runs")
        del kept[place : place + 2]
    return kept


def table(record: Mapping[str, Any]) -> str:
    """Return the figures as Markdown."""
    first = record["verifiers"][RANDOM]
    told = f"In brackets 95 % intervals over {record['scenes']} scenes, by the jackknife"
    if first["moves"]["interval"] is None:
        told = "Without intervals: " + LACKING
    lines = [
        "# Choosing among moves: which verifier finds things sooner",
        "",
        f"The bundled rooms, {first['questions']} questions whose named objects have boxes"
        f" ({record['unknown']} others left out), {record['seeds']} seeds, views of {record['size']} pixels,"
        f" `--model seeker --agent lookahead:{record['candidates']}`. Moves: until the views had shown well"
        f" all that a question names, {record['max_turns']} where they never did. {told};"
        " p is exact, over all ways to exchange the sides of whole scenes. Renders and tokens are those of a question, means; tokens of the"
        " scripted policy are words.",
        "",
        "| `--verifier` | moves | all found, % | decisions | renders | tokens |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| `{name}` | {figure(entry['moves'], 1, '.2f')} | {figure(entry['found'], 100, '.1f')} |"
        f" {entry['decisions']} | {entry['renders']['mean']:.1f} | {entry['tokens']['mean']:.0f} |"
        for name, entry in record["verifiers"].items()
    ]
    lines += [
        "",
        "Each pair on the same questions, moves that the first saves:",
        "",
        "| | fewer moves | 95 %, over scenes | p | 95 %, over questions |",
        "|---|--:|--:|--:|--:|",
    ]
    lines += [
        f"| `{entry['better']}` than `{entry['worse']}` | {entry['fewer']:+.2f} |"
        f" {within(entry['over_scenes'])} | {entry['p']:.3f} | {within(entry['over_questions'])} |"
        for entry in record["differences"]
    ]
    lines += [
        "",
        "`geometry` knows the boxes by which it is measured here; `geometry:unnamed` and `learned` know"
        " none.",
        "",
        *([learned_from(record["card"]), ""] if record["card"] else []),
        f"{record['machine']}; {record['when'][:10]}"
        + (f"; {record['seconds']} s." if record["seconds"] else "."),
        "",
        f"    {record['command']}",
        "",
    ]
    return "\n".join(lines)


def learned_from(card: Mapping[str, Any]) -> str:
    """Return what the learned verifier learned from, and how it chose in rooms held out there."""
    learned, held = card["learned_from"], card["held_out"]["good"]
    told = ", ".join(
        f"{name} {100 * row['mean']:.1f} %" + ("" if row["low"] is None else f" ({spanned(row)})")
        for name in ("learned", "geometry", "random")
        for row in (held["success"][name],)
    )
    return (
        f"`learned` was trained on {learned['decisions']} decisions of {learned['questions']} questions in"
        f" {len(learned['scenes'])} rooms that were made for it, from a run with random choice, with the"
        f" features `{card['encoder']['label']}`. Of {held['decisions']} decisions in"
        f" {held['scenes']} other such rooms the share of good choices was: {told}."
    )


def figure(entry: Mapping[str, Any], scale: float, form: str) -> str:
    """Return a mean with its interval as they are written."""
    mean = format(scale * entry["mean"], form)
    if entry["interval"] is None:
        return mean
    low, high = (format(scale * end, form) for end in entry["interval"])
    return f"{mean} ({low} … {high})"


def within(interval: Sequence[float] | None) -> str:
    """Return an interval as it is written."""
    return "–" if interval is None else f"{interval[0]:+.2f} … {interval[1]:+.2f}"


if __name__ == "__main__":
    main()
