"""The runs of one row of a sweep taken together: those of all its seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.analysis.sweep.grid import is_complete
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.reader import results_of
from render_agent.runs.log.results import per_question
from render_agent.score.comparison import Side
from render_agent.score.means import Scored
from render_agent.score.summary import OFFICIAL, summary


def side_of(folders: Sequence[RunFolder]) -> Side:
    """Return the runs of a row as one side of a comparison. RunLogError where a log is damaged.

    Of several runs that differ in their seeds, a question counts once for every seed, and questions are
    paired seed by seed; intervals resample scenes, with all that was answered about each.
    """
    found = [_results(folder) for folder in folders]
    subset = {"--subset": folders[0].config.subset}
    name = " ".join(folder.name for folder in folders)
    if len(folders) == 1:
        return Side(name, found[0], subset)
    seeds = [folder.config.seed for folder in folders]
    return Side(name, pooled(dict(zip(seeds, found, strict=True))), subset)


def _results(folder: RunFolder) -> Mapping[str, Any]:
    # results.json may be older than the log where a run was continued and cut off again, and that of
    # an older version does not tell what a question took
    found = folder.results() if is_complete(folder) else None
    told = found is not None and "per_question" in found["totals"]
    return found if found is not None and told else results_of(folder)


def pooled(found: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the results of several runs as those of one, as far as a sweep needs them; found: by seed."""
    rows = [
        {**row, "question_id": f"{row['question_id']} seed {seed}"}
        for seed, results in found.items()
        for row in results["questions"]
    ]
    told = summary(
        [
            Scored(row["type"], row["dataset"], row["scene"], row["score"])
            for row in rows
            if row["score"] is not None
        ]
    )
    return {
        "official_over_scored": {"score": told[OFFICIAL], "n": told["n"]},
        "intervals": told["intervals"],
        "counts": _summed([results["counts"] for results in found.values()]),
        "notes": list(dict.fromkeys(note for one in found.values() for note in one["notes"])),
        "questions": rows,
        "totals": _totals([results["totals"] for results in found.values()], rows),
    }


def _totals(
    found: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    calls = sum(totals["calls"] for totals in found)
    return {
        "calls": calls,
        "seconds": _summed([totals["seconds"] for totals in found]),
        "per_question": per_question([row for row in rows if row["turns"]], calls),
    }


def _summed(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    for entry in found:
        total.update(entry)
    return dict(total)
