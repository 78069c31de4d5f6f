"""The figures of a sweep: a row for every cell, over the runs of all its seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from render_agent.analysis.sweep.grid import is_complete
from render_agent.analysis.sweep.plan import COSTS, Cell, Sweep
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.reader import results_of
from render_agent.runs.log.results import per_question
from render_agent.score.comparison import Side, compare, incomparable
from render_agent.score.intervals import add_holm
from render_agent.score.means import Scored
from render_agent.score.summary import OFFICIAL, summary

COLUMNS = (
    "label", "run", "status", "questions", "scored", "official", "official_low", "official_high",
    "difference", "difference_low", "difference_high", "p", "p_holm",
    "answered", "exhausted", "failed", "missing", "active",
    "turns_per_question", "pictures_per_question", "renders_per_question", "tokens_in_per_question",
    "tokens_out_per_question", "calls_per_question", "seconds_per_question",
    "renders_of_baseline", "tokens_of_baseline",
)  # fmt: skip
"""The figures of a row, over the runs of all its seeds. Scores and differences are in points of percent;
pictures are those that the model was shown, renders the distinct ones that were drawn, those of candidates
too; seconds are those of drawing and generating, its share of the batches. p_holm is p, corrected for the
number of rows. The last two are how many times
as many renders, and tokens read and written, a question took as in the baseline."""

EQUAL_SHARE = 0.1
"""Costs that differ by no more than this share of the baseline's count as equal."""

COST_WORDS = {"renders": "pictures drawn", "tokens": "tokens read and written"}

WHOLE, CUT_OFF, NOT_BEGUN = "complete", "unfinished", "not begun"
"""Where a cell may stand; a complete one may have failed questions."""

Row = dict[str, Any]


def sweep_rows(sweep: Sweep, begun: Mapping[str, RunFolder]) -> tuple[list[Row], dict[str, Any]]:
    """Return a row of figures for every cell, and by label what must be said beside them.

    begun: the runs of the cells that have one. Differences are those from the baseline, paired by
    question. RunLogError where a log is damaged.
    """
    sides = {
        cells[0].row: side_of(folders)
        for cells in sweep.rows
        if (folders := _folders(cells, begun))
    }
    base = sides.get(sweep.baseline.row)
    notes: dict[str, list[str]] = {}
    rows = []
    for cells in sweep.rows:
        cell, folders = cells[0], _folders(cells, begun)
        side = sides.get(cell.row)
        row = dict.fromkeys(COLUMNS) | {"label": cell.row, **cell.varied, "status": NOT_BEGUN}
        if side is not None:
            row |= _scores(side) | _cost_row(folders, side.results)
            if len(folders) < len(cells):
                row["status"] = CUT_OFF
            own_notes = notes.setdefault(cell.row, list(side.results["notes"]))
            if cell.config.partial:
                own_notes.append("PARTIAL: only some of the benchmark's questions")
            if base is not None and side is not base:
                difference, reasons = _difference(base, side)
                row |= difference
                own_notes += [f"not comparable with the baseline: {reason}" for reason in reasons]
        rows.append(row)
    add_holm([row for row in rows if row["p"] is not None])
    _set_against(rows, sweep, notes)
    return rows, {label: own_notes for label, own_notes in notes.items() if own_notes}


def _folders(cells: Sequence[Cell], begun: Mapping[str, RunFolder]) -> list[RunFolder]:
    folders = [begun[cell.label] for cell in cells if cell.label in begun]
    return [folder for folder in folders if folder.has_questions]


def _set_against(rows: Sequence[Row], sweep: Sweep, notes: Mapping[str, list[str]]) -> None:
    """Add to every row what a question cost against the baseline, and say whether it is what was meant."""
    base = next(row for row in rows if row["label"] == sweep.baseline.row)
    for row, cells in zip(rows, sweep.rows, strict=True):
        for name in COSTS:
            cost, base_cost = _cost(row, name), _cost(base, name)
            row[f"{name}_of_baseline"] = None if cost is None or not base_cost else cost / base_cost
        for name in cells[0].equal:
            ratio = row[f"{name}_of_baseline"]
            if ratio is not None and row is not base:
                equal = abs(ratio - 1) <= EQUAL_SHARE
                verdict = "equal to the baseline" if equal else "NOT EQUAL to the baseline"
                notes[row["label"]].append(f"{verdict} in {COST_WORDS[name]}: {ratio:.2f} times")


def _cost(row: Row, name: str) -> float | None:
    if name == "renders":
        return cast("float | None", row["renders_per_question"])
    tokens = row["tokens_in_per_question"], row["tokens_out_per_question"]
    return None if None in tokens else sum(tokens)


def _scores(side: Side) -> Row:
    results = side.results
    over, counts = results["official_over_scored"], results["counts"]
    low, high = results["intervals"].get(OFFICIAL) or (None, None)
    return {
        "run": side.name,
        "status": CUT_OFF if counts["active"] else WHOLE,
        "questions": counts["questions"],
        "scored": over["n"],
        "official": over["score"],
        "official_low": low,
        "official_high": high,
        **{name: counts[name] for name in ("answered", "exhausted", "failed", "missing", "active")},
    }


def _difference(base: Side, side: Side) -> tuple[Row, list[str]]:
    """Return the difference of a row from the baseline, and the reasons why the two are not comparable."""
    entry = compare(base, side)["differences"].get(OFFICIAL)
    if entry is None or entry["difference"] is None:
        return {}, ["they have no scored question in common"]
    low, high = entry["interval"] or (None, None)
    return {
        "difference": entry["difference"],
        "difference_low": low,
        "difference_high": high,
        "p": entry["p"],
    }, incomparable(base, side)


def _cost_row(folders: Sequence[RunFolder], results: Mapping[str, Any]) -> Row:
    """Return the average cost of a question, over those with turns."""
    means = results["totals"]["per_question"]
    if means is None:
        return {}
    turns = [line.turn for folder in folders for line in folder.turns() if line.turn]
    number = sum(row["turns"] > 0 for row in results["questions"])
    seconds = results["totals"]["seconds"]
    return {
        **{f"{name}_per_question": value for name, value in means.items()},
        "pictures_per_question": sum(len(turn.views) for turn in turns) / number,
        "seconds_per_question": (seconds["rendering"] + seconds["generating"]) / number,
    }


def side_of(folders: Sequence[RunFolder]) -> Side:
    """Return the runs of a row as one side of a comparison. RunLogError where a log is damaged.

    Of several runs that differ in their seeds, a question counts once for every seed, and questions are
    paired seed by seed; intervals are over scenes, with all that was answered about each.
    """
    results = [_results(folder) for folder in folders]
    subset = {"--subset": folders[0].config.subset}
    name = " ".join(folder.name for folder in folders)
    if len(folders) == 1:
        return Side(name, results[0], subset)
    seeds = [folder.config.seed for folder in folders]
    return Side(name, pooled(dict(zip(seeds, results, strict=True))), subset)


def _results(folder: RunFolder) -> Mapping[str, Any]:
    # results.json may be older than the log where a run was continued and cut off again, and that of
    # an older version does not tell what a question took
    results = folder.results() if is_complete(folder) else None
    if results is not None and "per_question" in results["totals"]:
        return results
    return results_of(folder)


def pooled(by_seed: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the results of runs with different seeds as those of one run, as far as a sweep needs them."""
    runs = by_seed.values()
    rows = [
        {**row, "question_id": f"{row['question_id']} seed {seed}"}
        for seed, results in by_seed.items()
        for row in results["questions"]
    ]
    scored = [row for row in rows if row["score"] is not None]
    figures = summary(
        [Scored(row["type"], row["dataset"], row["scene"], row["score"]) for row in scored]
    )
    calls = sum(results["totals"]["calls"] for results in runs)
    return {
        "official_over_scored": {"score": figures[OFFICIAL], "n": figures["n"]},
        "intervals": figures["intervals"],
        "counts": _summed([results["counts"] for results in runs]),
        "notes": list(dict.fromkeys(note for results in runs for note in results["notes"])),
        "questions": rows,
        "totals": {
            "calls": calls,
            "seconds": _summed([results["totals"]["seconds"] for results in runs]),
            "per_question": per_question([row for row in rows if row["turns"]], calls),
        },
    }


def _summed(counts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    for entry in counts:
        total.update(entry)
    return dict(total)
