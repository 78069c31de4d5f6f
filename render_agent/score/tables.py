"""Tables of scores and comparisons for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from rich.console import Group

from render_agent.score.causal import OUTCOME_LABELS
from render_agent.score.intervals import MIN_SCENES
from render_agent.score.means import MACRO, MEAN_OF_TYPES, MICRO, WITHOUT_ORDER
from render_agent.score.summary import (
    MEAN_NAMES,
    OFFICIAL,
    OFFICIAL_RAW,
    PARSED_ANSWER,
    RAW_ANSWER,
    asks_vsibench,
    overall_name,
    row_names,
)
from render_agent.tasks.question_types import DIRECTION, DIRECTION_TYPES, ORDER
from render_agent.util.console import PlainTable

# count in the results -> label in a caption, in display order
COUNT_LABELS = {
    "answered": "answered",
    "exhausted": "out of turns",
    "failed": "failed",
    "missing": "scan not found",
    "active": "in progress",
    "repaired": "with unreadable replies",
    "restated": "with restated answers",
    "predictions": "predictions",
    "empty": "empty",
}

ALWAYS_SHOWN = ("answered", "failed")  # counts shown even if they are 0

DIFFERENCE = ("", "a", "b", "b − a", "95 % CI", "p", "Holm p")  # heads of a table of differences

MCNEMAR = ("", "n", "right in a only", "right in b only", "p", "Holm p")  # heads

MAX_CHANGED = 20  # changed questions listed


class Line(NamedTuple):
    """A row of a table of scores."""

    label: str
    number: int | None
    """Number of questions."""
    score: float | None
    bounds: list[float] | None = None
    """95 % confidence interval."""


def score_table(results: Mapping[str, Any]) -> PlainTable:
    """Return a table of the scores by type and the aggregate scores. The caption has counts and caveats."""
    parser = results["parser"]
    metric = ", VSI-Bench metrics" if asks_vsibench(results) else ""
    metric = metric if parser == OFFICIAL else f", answers parsed by {parser}"
    title = f"Scores{metric}{'' if results['status'] == 'complete' else ' (PARTIAL)'}"
    heads = ("question type", "n", "score", "95 % CI", "random", "frequency")
    table = PlainTable(title, *heads)
    for name, line in _by_type(results).items():
        if name == ORDER:
            table.add_section()
        levels = (results["chance"][baseline].get(name) for baseline in ("random", "frequency"))
        _add(table, line, *(figure(level) for level in levels))
    table.add_section()
    for line in overall_lines(results):
        _add(table, line)
    missing = [name for name in results["types"] if results["intervals"].get(name) is None]
    caveats = few_scenes_caveats(missing, len(results["types"]))
    baselines = [f"{name}: {note}" for name, note in results.get("baselines", {}).items()]
    notes = _caveats([*results["notes"], *baselines])
    table.caption = "\n".join([*notes, *caveats, *_work_lines(results)])
    return table


def score_tables(results: Mapping[str, Any]) -> Group:
    """Return the table of scores, followed by the table of pairs if there are counterparts."""
    tables = [score_table(results)]
    if "causal" in results:
        tables.append(causal_table(results["causal"]))
    return Group(*tables)


def causal_table(causal: Mapping[str, Any]) -> PlainTable:
    """Return the table of pairs by change. The caption lists skipped questions with the reasons."""
    title = "Pairs: original and changed question"
    table = PlainTable(title, "change", "n", "share", "95 % CI")
    parts = {"all changes": causal, **causal["changes"]}
    for label, part in parts.items() if len(causal["changes"]) != 1 else causal["changes"].items():
        table.add_section()
        table.add_row(label, str(part["n"]), "", "")
        for name, words in OUTCOME_LABELS.items():
            if (row := part.get(name)) and row["n"]:
                table.add_row(f"  {words}", str(row["n"]), figure(row["share"]), interval(row["interval"]))  # fmt: skip
        difference = part["difference"]
        table.add_row("  score, changed − original", str(part["n"]), format_signed(difference["points"]), interval(difference["interval"]))  # fmt: skip
    lines = [
        f"- {number} skipped ({change}): {reason}"
        for change, reasons in causal["left_out"].items()
        for reason, number in reasons.items()
    ]
    rows = [(label, part[name]) for label, part in parts.items() for name in OUTCOME_LABELS if name in part and part[name]["n"]]  # fmt: skip
    missing = dict.fromkeys(label for label, row in rows if row["interval"] is None)
    lines += few_scenes_caveats([*missing], len({label for label, _ in rows}))
    table.caption = "\n".join(lines) or None
    return table


def comparison_table(comparison: Mapping[str, Any]) -> PlainTable:
    """Return a table of both scores, their difference, its confidence interval and its test, by aggregate score and
    type.
    """
    partial = {name: " (PARTIAL)" for name, status in comparison.get("status", {}).items() if status != "complete"}  # fmt: skip
    title = f"b: {comparison['b']}{partial.get('b', '')}, a: {comparison['a']}{partial.get('a', '')}, {comparison['n']} questions"
    # without intervals, omit their columns to leave more width for the names
    differences = comparison["differences"]
    has_interval = any(entry["interval"] is not None for entry in differences.values())
    columns = DIFFERENCE if has_interval else DIFFERENCE[:4]
    table, labels = PlainTable(title, *columns), row_names(differences)
    for name, label in labels.items():
        entry = differences[name]
        cells = (
            _wrap_label(_row_name(label)),
            *(figure(entry[column]) for column in ("a", "b")),
            format_signed(entry["difference"]),
            interval(entry["interval"]),
            probability(entry["p"]),
            probability(entry["p_holm"]),
        )
        table.add_row(*cells[: len(columns)])
    lines = few_scenes_caveats(
        [label for name, label in labels.items() if differences[name]["interval"] is None],
        len(labels),
    )
    if has_interval:
        lines.insert(
            0,
            "CI and p: jackknife over scenes. Holm p: corrected for the number of rows; in row"
            f" '{labels.get(OFFICIAL, OFFICIAL)}' for the number of compared runs.",
        )
    lines += [
        f"- {side}, mean per question: {describe_cost(work)}"
        for side, work in comparison.get("work", {}).items()
        if work
    ]
    table.caption = "\n".join(lines)
    return table


def mcnemar_table(comparison: Mapping[str, Any]) -> PlainTable:
    """Return a table of McNemar's exact tests on multiple-choice questions that only one of two runs answered
    correctly.
    """
    table = PlainTable("McNemar's exact test", *MCNEMAR)
    for name, test in comparison["mcnemar"].items():
        label = "all multiple-choice" if name == "choices" else name
        numbers = (str(test[key]) for key in ("n", "only_a", "only_b"))
        table.add_row(label, *numbers, probability(test["p"]), probability(test["p_holm"]))
    table.caption = "Treats questions about the same scene as independent, unlike the intervals."
    return table


def compared_beliefs_table(comparison: Mapping[str, Any], words: Mapping[str, str]) -> PlainTable:
    """Return the table of differences between beliefs; `words` has the labels of the figures."""
    table = PlainTable("Beliefs after the last turn", *DIFFERENCE)
    for name, entry in comparison["beliefs"].items():
        table.add_row(words[name], *belief_cells(entry))
    return table


def belief_cells(entry: Mapping[str, Any]) -> list[str]:
    """Return the table cells of a difference between beliefs: a, b, b − a, confidence interval, p, corrected p."""
    digits = 1 if max(abs(entry["a"]), abs(entry["b"])) >= 5 else 2
    low, high = entry["interval"] or (None, None)
    return [
        *(f"{entry[side]:.{digits}f}" for side in ("a", "b")),
        f"{entry['difference']:+.{digits}f}",
        "" if low is None else f"{low:+.{digits}f} … {high:+.{digits}f}",
        probability(entry["p"]),
        probability(entry["p_holm"]),
    ]


def ladder_table(ladder: Mapping[str, Any]) -> PlainTable:
    """Return the scores of each tool set by type, with the gains over the previous tool set."""
    rungs = [rung["tools"] for rung in ladder["rungs"]]
    table = PlainTable(f"Scores by tool set, {ladder['n']} questions", "", *rungs)
    for low, high in pairwise(rungs):
        table.add_column(f"{low} → {high}", right=True)
    for name, label in row_names(ladder["types"]).items():
        row = ladder["types"][name]
        gains = (
            f"{format_signed(g['difference'])} ({probability(g['p_holm'])})" for g in row["gains"]
        )
        table.add_row(_wrap_label(_row_name(label)), *map(figure, row["scores"]), *gains)
    table.caption = (
        "→: gain (Holm p), paired, jackknife over scenes; --json and --page include intervals"
    )
    for rung in ladder["rungs"]:
        table.caption += (
            f"\n- {rung['tools']}, mean per question: {describe_cost(rung['work'])}"
            if rung["work"]
            else ""
        )
    return table


def changed_table(comparison: Mapping[str, Any]) -> PlainTable:
    """Return the questions that only one of the runs answered correctly, at most MAX_CHANGED."""
    questions = comparison["changed"]
    num_gained = sum(entry["b"]["score"] > entry["a"]["score"] for entry in questions)
    table = PlainTable(
        f"{len(questions)} changed outcomes: {num_gained} gained, {len(questions) - num_gained} lost"
    )
    for name in ("question", "type", "scene", "ground truth", "a", "b"):
        table.add_column(name)
    for entry in questions[:MAX_CHANGED]:
        answers = (entry[side]["answer"] or "–" for side in ("a", "b"))
        table.add_row(
            entry["question_id"], entry["type"], entry["scene"], str(entry["truth"]), *answers
        )
    if len(questions) > MAX_CHANGED:
        table.caption = f"and {len(questions) - MAX_CHANGED} more (--json lists all)"
    return table


def figure(score: float | None) -> str:
    """Format a score with one decimal; None becomes a dash."""
    return "–" if score is None else f"{score:.1f}"


def interval(bounds: Sequence[float] | None) -> str:
    """Format a confidence interval with one decimal; None becomes an empty string."""
    return "" if bounds is None else f"{bounds[0]:.1f} … {bounds[1]:.1f}"


def format_signed(points: float | None) -> str:
    """Format a difference with its sign and one decimal; None becomes a dash."""
    return "–" if points is None else f"{points:+.1f}"


def probability(p: float | None) -> str:
    """Format a p value; None becomes a dash."""
    if p is None:
        return "–"
    return "<.001" if p < 0.001 else f"{p:.3f}"


def p_value_phrase(p: float) -> str:
    """Format a p value for a sentence."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.{3 if p < 0.1 else 2}f}"


def _add(table: PlainTable, line: Line, *cells: str) -> None:
    number = "" if line.number is None else str(line.number)
    table.add_row(
        _wrap_label(line.label), number, figure(line.score), interval(line.bounds), *cells
    )


def _wrap_label(label: str) -> str:
    """Wrap a label at a comma or parenthesis, to leave enough width for the numbers."""
    return label.replace(", ", ",\n  ").replace(" (", "\n  (")


def _row_name(name: str) -> str:
    """Return the label of an aggregate score or type. Direction types are indented below their task."""
    return name.replace(f"{DIRECTION}_", "    ") if name in DIRECTION_TYPES else name


def _by_type(results: Mapping[str, Any]) -> dict[str, Line]:
    """Return one row per type. Direction types follow their task, and appearance order comes last."""
    counts = results["counts"].get("types", {})
    intervals = results["intervals"]
    types = {
        name: Line(_row_name(name), entry["n"], entry["score"], intervals.get(name))
        if isinstance(entry, Mapping)
        else Line(_row_name(name), counts.get(name), entry, intervals.get(name))
        for name, entry in results["types"].items()
    }
    directions = {name: types[name] for name in DIRECTION_TYPES if name in types}
    lines: dict[str, Line] = {}
    for name, line in types.items():
        if name in directions and DIRECTION not in lines:
            number = sum(line.number or 0 for line in directions.values())
            score, bounds = results["tasks"].get(DIRECTION), intervals.get(DIRECTION)
            lines |= {DIRECTION: Line(DIRECTION, number, score, bounds), **directions}
        elif name != ORDER:
            lines[name] = line
    return lines | {name: types[name] for name in (ORDER,) if name in types}


def overall_lines(results: Mapping[str, Any]) -> list[Line]:
    """Return the rows of all aggregate scores."""
    macro = OFFICIAL if results["parser"] == OFFICIAL else MACRO
    intervals, number = results["intervals"], results["n"]
    vsibench = asks_vsibench(results)
    metrics = [
        Line(f"{name}{RAW_ANSWER}", metric["n"], metric["score"], metric["interval"])
        for name, metric in results.get("metrics", {}).items()
    ]
    lines = metrics + _official(results)
    if macro == MACRO:
        label = f"mean over tasks, {results['parser']}"
        lines.append(Line(label, number, results[MACRO], intervals.get(MACRO)))
    for name in (WITHOUT_ORDER, MICRO, MEAN_OF_TYPES):
        if vsibench or name != WITHOUT_ORDER:
            lines.append(Line(MEAN_NAMES[name], None, results[name], intervals.get(name)))
    parts = {"debiased": results["debiased"]} if results["debiased"] else {}
    if len(results["datasets"]) > 1:
        parts |= results["datasets"]
    lines += [
        Line(f"{name} only", part["n"], part[macro], part["intervals"].get(macro))
        for name, part in parts.items()
        if part["n"] < number
    ]
    lines += [
        Line(f"parsed by {name}", None, scores[MACRO])
        for name, scores in results["parsers"].items()
        if vsibench and name != results["parser"]
    ]
    return lines + (mirrored_lines(results["mirrored"]) if "mirrored" in results else [])


def mirrored_lines(figures: Mapping[str, Any]) -> list[Line]:
    """Return the scores of left/right questions by original and mirrored ground truth."""
    lines = [
        Line(
            f"left/right, {truth} ground truth",
            figures["n"],
            figures[truth]["micro"],
            figures[truth]["intervals"].get("micro"),
        )
        for truth in ("mirrored", "original")
    ]
    changed_truths = figures["turned"]
    share = changed_truths["mirrored"]
    return [
        *lines,
        Line("answers mirrored, too", changed_truths["n"], share["share"], share["interval"]),
    ]


def _official(results: Mapping[str, Any]) -> list[Line]:
    """Return the rows of the official scores; for an incomplete run, over scored questions and with the others as 0."""
    intervals, name = results["intervals"], overall_name(results)
    # Predictions files, whose answers are not parsed, have no such key.
    if "official_over_scored" not in results:
        return [
            Line(f"{name}{RAW_ANSWER}", results["n"], results[OFFICIAL], intervals.get(OFFICIAL))
        ]
    over_scored = results["official_over_scored"]
    is_incomplete = results[OFFICIAL] is None and over_scored["score"] is not None
    label = f"{name}{PARSED_ANSWER}{', over_scored questions only' if is_incomplete else ''}"
    lines = [Line(label, over_scored["n"], over_scored["score"], intervals.get(OFFICIAL))]
    if is_incomplete:
        with_zeros = results["official_missing_as_zero"]
        lines.append(Line(f"{name}{PARSED_ANSWER}, unscored as 0", None, with_zeros))
    if OFFICIAL_RAW in results:
        bounds = intervals.get(OFFICIAL_RAW)
        lines.append(Line(f"{name}{RAW_ANSWER}", over_scored["n"], results[OFFICIAL_RAW], bounds))
    return lines


def few_scenes_caveats(names: Sequence[str], number: int) -> list[str]:
    """Return the caveat of rows without an interval, as a list of at most one line.

    Args:
        names: Names of the rows without an interval.
        number: Number of all rows.
    """
    if not names:
        return []
    if len(names) == number:
        return [f"- no intervals: the questions come from fewer than {MIN_SCENES} scenes"]
    rows = ", ".join(names)
    return [f"- no interval for {rows}: fewer than {MIN_SCENES} scenes"]


def _caveats(notes: Sequence[str]) -> list[str]:
    return [f"- {note}" for note in notes]


def _work_lines(results: Mapping[str, Any]) -> list[str]:
    """Return the number of questions by status, the cost, and the computation reused between turns."""
    counts = results["counts"]
    statuses = [
        f"{counts[name]} {label}"
        for name, label in COUNT_LABELS.items()
        if counts.get(name) or (name in ALWAYS_SHOWN and name in counts)
    ]
    work, reuse = describe_mean_cost(results), results.get("reuse")
    reuse_lines = [REUSE_WORDS.get(reuse, f"reused between turns: {reuse}")] if reuse else []
    return [" · ".join(statuses), *([work] if work else []), *reuse_lines]


# value of an engine's `reuse` -> text
REUSE_WORDS = {
    "keys": "KV cache reused between turns",
    "vision": "image features reused between turns",
    "none": "nothing reused between turns",
    "recompute": "nothing reused between turns",
}


def describe_mean_cost(results: Mapping[str, Any]) -> str | None:
    """Describe the mean cost per question; None if the results have none."""
    work = results.get("totals", {}).get("per_question")
    return f"mean per question: {describe_cost(work)}" if work else None


def option_syntax(value: Any) -> str:
    """Format the value of an option in command-line syntax."""
    if value in (None, (), [], ""):
        return "not set"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def describe_cost(work: Mapping[str, float | None]) -> str:
    """Describe the mean cost per question, from `per_question` of the results."""
    tokens = "tokens: not reported"
    if work["tokens_in"]:  # 0 in runs of older versions; every prompt has tokens
        tokens = f"{work['tokens_in']:,.0f} input tokens, {work['tokens_out']:,.0f} output tokens"
    usd = work.get("cost_usd")
    cost = "" if usd is None else f", {dollars(usd)}"
    return f"{work['turns']:.1f} turns, {work['renders']:.1f} images rendered, {tokens}{cost}"


def dollars(usd: float) -> str:
    """Format an amount in US dollars with cents; below ten cents, with two significant digits."""
    return f"${usd:,.2f}" if usd >= 0.1 or not usd else f"${usd:.2g}"
