"""Does the diagnosis name what broke? Policies with one known fault, over all bundled rooms.

    python -m benchmarks.beliefs --output benchmarks/results/beliefs.md

Each policy of `render_agent_lab.oracles.believers` answers the questions of all bundled rooms, and is asked after each
turn for its map. The branch that each question belongs into follows from the policy: where all that the question names
was seen well, the policy's fault; where not, "never seen". Written are the questions by branch, and the share that is in
the one that it belongs into.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import click

from benchmarks.harness import OUTPUT, machine, publish, table
from render_agent.analysis.diagnosis.diagnose import diagnose_run
from render_agent.analysis.diagnosis.failure_summary import failure_summary
from render_agent.analysis.diagnosis.model import Failure
from render_agent.beliefs.own_answer import SOLVED_TYPES
from render_agent.config import RunConfig
from render_agent.engines.scripted import ScriptedEngine
from render_agent.questions.mentions import kind_of
from render_agent.runs.log.reader import read_states
from render_agent.runs.phase_controller import Silent
from render_agent.runs.runner import start_run
from render_agent_lab.oracles.believers import Fault, believer

FAULTS = {
    "believer": (Fault(), Failure.RIGHT),
    "forgetful": (Fault(forgets=True), Failure.MEMORY),
    "misperceiver": (Fault(misperceives=True), Failure.PERCEPTION),
    "misreasoner": (Fault(misreasons=True), Failure.REASONING),
}
"""By policy: its fault, and the branch of the questions whose objects it saw."""


def run_of(name: str, output: Path, **options: Any) -> dict[str, Any]:
    """Return by branch how many questions of a policy there are, and how many are in the right one.

    A policy that has no fault guesses where it saw too little, and at routes, which no box answers: these are left out.
    """
    given = {"batch": True, "benchmark": "rooms", "image_size": (160, 120), "probe": ("map",)}
    config = RunConfig(engine="scripted", output=str(output / name), **given | options)
    fault, branch = FAULTS[name]

    def make(config: RunConfig, questions: Any) -> ScriptedEngine:
        return ScriptedEngine(partial(believer, fault=fault)(questions, 0, config))

    run = start_run(config)
    try:
        results = run.go(Silent(), make)
    finally:
        run.close()
    states = read_states(run.log.folder)
    diagnoses = diagnose_run(run.log.folder, 1, states)
    branches: Counter[str] = Counter()
    expected = right = 0
    for state in states:
        found = diagnoses[state.id]
        if found.belief is None or found.belief.failure is None:
            raise SystemExit(f"question {state.id} was not judged")
        branches[str(found.belief.failure)] += 1
        if not fault.any and not (found.shown and kind_of(state.question) in SOLVED_TYPES):
            continue
        expected += 1
        right += found.belief.failure is (branch if found.shown else Failure.NEVER_SEEN)
    last = results["beliefs"]["last"]
    summary = failure_summary(states, diagnoses, config.image_size)
    seen_found = summary and summary["all"]["seen_found"]
    return {
        "branches": dict(branches),
        "seen": sum(bool(d.shown) for d in diagnoses.values()),
        "questions": len(states),
        "expected": expected,
        "right": right,
        "percent": round(100 * right / expected, 1) if expected else None,
        "found": last["found"]["value"],
        "seen_found": seen_found and seen_found["value"],
        "invented": last["invented"]["value"] if "invented" in last else None,
    }


@click.command()
@click.option("--limit", type=int, help="Ask only N questions.")
@OUTPUT
def main(limit: int | None, output: Path | None) -> None:
    """Run every policy, and one more with black pictures."""
    options: dict[str, Any] = {} if limit is None else {"limit": limit, "shuffle": True}
    with tempfile.TemporaryDirectory() as scratch:
        found = {name: run_of(name, Path(scratch), **options) for name in FAULTS}
        black = run_of("believer", Path(scratch) / "black", pictures="black", **options)
    found["believer, black pictures"] = black
    branches = [str(f) for f in Failure if any(str(f) in row["branches"] for row in found.values())]
    rows = [
        [
            name,
            row["questions"],
            row["seen"],
            *(row["branches"].get(branch, 0) for branch in branches),
        ]
        + [None if row["percent"] is None else f"{row['right']} of {row['expected']}"]
        + [
            None if row[part] is None else f"{row[part]:.0f}"
            for part in ("found", "seen_found", "invented")
        ]
        for name, row in found.items()
    ]
    last = [
        "in the right branch",
        "named objects on the last map, %",
        "of those seen well, %",
        "of the map invented, %",
    ]
    lines = [
        "All questions of the bundled rooms, a map after every turn. A question belongs to its policy's branch if all that"
        " it names was seen well, else to `never seen`; of the policy without a fault, which guesses if it saw too little,"
        " the questions that it saw are counted.",
        "",
        *table(["policy", "questions", "all seen", *branches, *last], rows),
    ]
    publish(output, "Beliefs of policies with one known fault", lines, machine("numpy", "numba"))


if __name__ == "__main__":
    main()
