"""What the runs of a sweep came to: a row of figures for every cell."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from render_agent.analysis.sweep.grid import is_complete
from render_agent.analysis.sweep.plan import COSTS, Cell, Sweep
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.reading import results_of
from render_agent.runs.log.work import per_question
from render_agent.score.comparison import Side, compare, incomparable
from render_agent.score.means import Scored
from render_agent.score.summary import OFFICIAL, summary
from render_agent.score.tables import figure, interval, signed

COLUMNS = (
    "label",
    "run",
    "status",
    "questions",
    "scored",
    "official",
    "official_low",
    "official_high",
    "difference",
    "difference_low",
    "difference_high",
    "p",
    "answered",
    "exhausted",
    "failed",
    "missing",
    "active",
    "turns_per_question",
    "pictures_per_question",
    "renders_per_question",
    "tokens_in_per_question",
    "tokens_out_per_question",
    "calls_per_question",
    "seconds_per_question",
    "renders_of_baseline",
    "tokens_of_baseline",
)
"""The figures of a row, over the runs of all its seeds. Scores and differences are in points of percent;
pictures are those that the model was shown, renders the distinct ones that were drawn, those of candidates
too; seconds are those of drawing and generating, its share of the batches. The last two are how many times
as many renders, and tokens read and written, a question took as in the baseline."""

EQUAL = 0.1
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
            row |= _scores(side) | _work(folders, side.results)
            if len(folders) < len(cells):
                row["status"] = CUT_OFF
            told = list(side.results["notes"])
            if cell.config.partial:
                told.append("PARTIAL: only some of the benchmark's questions")
            if base is not None and side is not base:
                difference, reasons = _difference(base, side)
                row |= difference
                told += [f"not comparable with the baseline: {reason}" for reason in reasons]
            notes[cell.row] = told
        rows.append(row)
    _set_against(rows, sweep, notes)
    return rows, {label: told for label, told in notes.items() if told}


def _folders(cells: Sequence[Cell], begun: Mapping[str, RunFolder]) -> list[RunFolder]:
    found = [begun[cell.label] for cell in cells if cell.label in begun]
    return [folder for folder in found if folder.has_questions]


def _set_against(rows: Sequence[Row], sweep: Sweep, notes: Mapping[str, list[str]]) -> None:
    """Add to every row what a question cost against the baseline, and say whether it is what was meant."""
    base = next(row for row in rows if row["label"] == sweep.baseline.row)
    for row, cells in zip(rows, sweep.rows, strict=True):
        for name in COSTS:
            cost, its = _cost(row, name), _cost(base, name)
            row[f"{name}_of_baseline"] = None if cost is None or not its else cost / its
        for name in cells[0].equal:
            ratio = row[f"{name}_of_baseline"]
            if ratio is not None and row is not base:
                equal = abs(ratio - 1) <= EQUAL
                words = "equal to the baseline" if equal else "NOT EQUAL to the baseline"
                notes[row["label"]].append(f"{words} in {COST_WORDS[name]}: {ratio:.2f} times")


def _cost(row: Row, name: str) -> float | None:
    if name == "renders":
        return cast("float | None", row["renders_per_question"])
    return _sum(row["tokens_in_per_question"], row["tokens_out_per_question"])


def _scores(side: Side) -> Row:
    found = side.results
    over, counts = found["official_over_scored"], found["counts"]
    low, high = found["intervals"].get(OFFICIAL) or (None, None)
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
    """Return how a cell differs from the baseline, and why that says little where it does."""
    found = compare(base, side)["differences"].get(OFFICIAL)
    if found is None or found["difference"] is None:
        return {}, ["they have no scored question in common"]
    low, high = found["interval"] or (None, None)
    return {
        "difference": found["difference"],
        "difference_low": low,
        "difference_high": high,
        "p": found["p"],
    }, incomparable(base, side)


def _work(folders: Sequence[RunFolder], found: Mapping[str, Any]) -> Row:
    """Return what a question took on average, over those that were asked."""
    means = found["totals"]["per_question"]
    if means is None:
        return {}
    lines = [line for folder in folders for line in folder.lines() if line["error"] is None]
    asked = sum(row["turns"] > 0 for row in found["questions"])
    seconds = found["totals"]["seconds"]
    return {
        **{f"{name}_per_question": value for name, value in means.items()},
        "pictures_per_question": sum(len(line["views"]) for line in lines) / asked,
        "seconds_per_question": (seconds["rendering"] + seconds["generating"]) / asked,
    }


def varied_names(cells: Sequence[Cell]) -> list[str]:
    """Return the options that vary over some cells, in the order in which they come."""
    return list(dict.fromkeys(name for cell in cells for name in cell.varied))


def as_csv(rows: Sequence[Row], varied: Sequence[str]) -> str:
    """Return the rows as CSV, options that vary after the label; what is not known stays empty."""
    text = io.StringIO()
    columns = ["label", *varied, *COLUMNS[1:]]
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


SHORT = ("official", "95 %", "difference", "95 %", "answered", "failed", "turns", "shown", "drawn",
         "read", "written", "seconds")  # fmt: skip
"""The columns that a person reads; those from turns on are of a question on average."""


def words(row: Mapping[str, Any], baseline: str) -> tuple[str, ...]:
    """Return the figures of a row as a person reads them, in the columns of SHORT."""
    if row["questions"] is None:
        return (*("–",) * (len(SHORT) - 1), row["status"])
    active = f" + {row['active']} active" if row["active"] else ""
    return (
        figure(row["official"]),
        interval(_bounds(row, "official")),
        "baseline" if row["label"] == baseline else signed(row["difference"]),
        interval(_bounds(row, "difference")),
        f"{row['answered'] + row['exhausted']} of {row['questions']}",
        f"{row['failed']}{active}",
        figure(row["turns_per_question"]),
        figure(row["pictures_per_question"]),
        figure(row["renders_per_question"]),
        _whole(row["tokens_in_per_question"]),
        _whole(row["tokens_out_per_question"]),
        "–" if row["seconds_per_question"] is None else f"{row['seconds_per_question']:.2f}",
    )


def named(sweep: Sweep, rows: Sequence[Row]) -> tuple[str, list[str]]:
    """Return the head of the first column and what stands in it: values alone where they say it all."""
    cells = [cells[0] for cells in sweep.rows]
    varied = varied_names(cells)
    values = [cell.varied for cell in cells]
    if (
        varied
        and all([*value] == varied for value in values)
        and not any(cell.given for cell in cells)
    ):
        return " · ".join(varied), [" · ".join(value.values()) for value in values]
    return "run", [row["label"] for row in rows]


def title(sweep: Sweep) -> str:
    """Return what stands over the figures of a sweep."""
    partial = any(cell.config.partial for cell in sweep.cells)
    return f"Sweep {sweep.name}{' (PARTIAL)' if partial else ''}"


def as_markdown(sweep: Sweep, rows: Sequence[Row], notes: Mapping[str, Sequence[str]]) -> str:
    """Return the table as Markdown, with what must be said below it."""
    head, names = named(sweep, rows)
    lines = [
        _line([head, *SHORT]),
        "|---" + "|---:" * len(SHORT) + "|",
        *(
            _line([name, *words(row, sweep.baseline.row)])
            for name, row in zip(names, rows, strict=True)
        ),
    ]
    told = [f"- {_cell(line)}" for line in said(rows, notes)]
    return (
        "\n".join([f"# {title(sweep)}", "", *lines, "", *caption(sweep), "", *told]).rstrip() + "\n"
    )


CAPTION = (
    "Scores are official ones in percent, over the questions that are scored; differences are paired by",
    "question with the baseline, in points. Intervals: bootstrap over scenes. Turns, pictures shown and",
    "drawn (those of candidates too), tokens read and written, and seconds of drawing and generating are",
    "those of a question on average.",
)


def caption(sweep: Sweep) -> list[str]:
    """Return what the figures of a sweep are."""
    seeds = max(len(cells) for cells in sweep.rows)
    more = f"A row has {seeds} runs, each with its own seed; questions are paired seed by seed."
    return [*CAPTION, *([more] if seeds > 1 else [])]


def said(rows: Sequence[Row], notes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what must be said beside the figures, each thing once.

    The cells that it is said of stand behind it, unless it is said of all that have figures.
    """
    of: dict[str, list[str]] = {}
    for label, told in notes.items():
        for note in told:
            of.setdefault(note, []).append(label)
    every = sum(row["questions"] is not None for row in rows)
    return [
        note if len(labels) == every else f"{note} ({'; '.join(labels)})"
        for note, labels in of.items()
    ]


def _line(parts: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(part) for part in parts) + " |"


def _bounds(row: Mapping[str, Any], name: str) -> list[float] | None:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return None if low is None else [low, high]


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _cell(word: str) -> str:
    return word.replace("|", "\\|").replace("\n", " ")


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
