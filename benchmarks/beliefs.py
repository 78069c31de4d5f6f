"""Does the diagnosis name what broke? Policies with one known fault, over all bundled rooms.

    python -m benchmarks.beliefs

Each policy of `render_agent_lab.oracles.believers` answers the questions of all bundled rooms, and is asked after each
turn for its map. The branch that each question belongs into follows from the policy: where all that the question names
was seen well, the policy's fault; where not, "never seen". Written are the questions by branch, and the share that is in
the one that it belongs into.

Two policies that know the whole room answer the same questions while it changes (`--change-at`): one revises its map and its
answer, the other clings to both.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from render_agent.analysis.diagnosis.diagnose import diagnose_run
from render_agent.analysis.diagnosis.failure_summary import failure_summary
from render_agent.analysis.diagnosis.model import Failure
from render_agent.beliefs.belief_summary import REVISION
from render_agent.beliefs.own_answer import SOLVED_TYPES
from render_agent.config import RunConfig
from render_agent.engines.scripted import ScriptedEngine
from render_agent.questions.mentions import kind_of
from render_agent.runs.log.reader import read_states
from render_agent.runs.phase_controller import Silent
from render_agent.runs.runner import start_run
from render_agent_lab.oracles.believers import Fault, Reviser, believer

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


def revised(output: Path, *, clings: bool, **options: Any) -> dict[str, Any]:
    """Return what a policy does that revises what it knows when its room changes, or clings to it: maps, then answers."""
    given = {
        "batch": True,
        "benchmark": "rooms",
        "image_size": (64, 48),
        "probe": ("map",),
        "max_turns": 4,
    }
    given |= {"change": ("move", "swap", "remove", "add"), "change_at": 2}
    run = start_run(RunConfig(engine="scripted", output=str(output), **given | options))
    try:
        results = run.go(
            Silent(), lambda c, asked: ScriptedEngine(Reviser(asked, c, clings=clings))
        )
    finally:
        run.close()
    parts = {"all": results["beliefs"]["revision"], **results["beliefs"]["changes"]}
    pairs = {"all": results["causal"], **results["causal"]["changes"]}
    return {
        f"{what}, {change}": {"n": own["revised"]["n"], **{n: own[n][value] for n in REVISION if n in own}}
        for what, value, some in (("maps", "value", parts), ("answers", "share", pairs))
        for change, own in some.items()
        if own.get("revised", {}).get("n")
    }  # fmt: skip


def main() -> None:
    """Run every policy, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--limit", type=int, default=None)
    options = vars(parser.parse_args())
    limit = {} if options["limit"] is None else {"limit": options["limit"], "shuffle": True}
    with tempfile.TemporaryDirectory() as scratch:
        found = {name: run_of(name, Path(scratch), **limit) for name in FAULTS}
        black = run_of("believer", Path(scratch) / "black", pictures="black", **limit)
        midway = {
            name: revised(Path(scratch) / name, clings=name == "clinger", **limit)
            for name in ("reviser", "clinger")
        }
    found["believer, black pictures"] = black
    branches = [str(f) for f in Failure if any(str(f) in row["branches"] for row in found.values())]
    lines = [
        "# Beliefs of policies with one known fault",
        "",
        "`python -m benchmarks.beliefs`: all questions of the bundled rooms, a map after every turn. A question"
        " belongs into its policy's branch where all that it names was seen well, else into `never seen`; of the"
        " policy without a fault, which guesses where it saw too little, the questions that it saw are counted.",
        "",
        f"| policy | questions | all seen | {' | '.join(branches)} | in the right branch | named objects on the last map, % | of those seen well, % | of the map invented, % |",
        "|" + "---|" * (len(branches) + 7),
    ]
    for name, row in found.items():
        cells = [str(row["branches"].get(branch, 0)) for branch in branches]
        share = (
            "–"
            if row["percent"] is None
            else f"{row['right']} of {row['expected']}, {row['percent']} %"
        )
        seen, invented = (
            "–" if row[part] is None else f"{row[part]:.0f}" for part in ("seen_found", "invented")
        )
        lines.append(
            f"| {name} | {row['questions']} | {row['seen']} | {' | '.join(cells)} | {share} | {row['found']:.0f} | {seen} | {invented} |"
        )
    lines += [
        "",
        "## A room that changes midway",
        "",
        "All questions of the bundled rooms with `--change move --change swap --change remove --change add --change-at 2`, four turns,"
        " a map after each. Both policies know the whole room; one revises its map and answer, the other clings to them. n: objects"
        " that changed, and pairs whose right answer did, of which the last map and the answer before were right.",
        "",
        "| of what, by which change | n | reviser: revised, % | left as it was, % | clinger: revised, % | left as it was, % |",
        "|---|--:|--:|--:|--:|--:|",
        *(
            f"| {part} | {row['n']} | "
            + " | ".join(f"{m[part][n]:g}" if n in m[part] else "–" for m in midway.values() for n in REVISION)
            + " |"
            for part, row in midway["reviser"].items()
        ),
    ]  # fmt: skip
    found |= midway
    options["output"].joinpath("beliefs.md").write_text("\n".join(lines) + "\n")
    options["output"].joinpath("beliefs.json").write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
