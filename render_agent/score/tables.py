"""Tables of scores and comparisons for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from render_agent.dialogue.state import STATUS_LABELS
from render_agent.score.dialogues.reached_views import MEASURES
from render_agent.score.intervals import MIN_SCENES, method_words
from render_agent.score.means import MACRO, MEAN_OF_TYPES, MICRO, WITHOUT_ORDER
from render_agent.score.summary import (
    MEAN_NAMES,
    OFFICIAL,
    OFFICIAL_RAW,
    asks_vsibench,
    headline,
    lenient_line,
    main_mean,
    row_names,
)
from render_agent.tasks.built_in_types import DIRECTION
from render_agent.tasks.question_types import (
    DIRECTION_TYPES,
    ORDER,
    answer_form_of,
    type_label,
)
from render_agent.util.console import PlainTable

# count in the results -> label in a caption, in display order
COUNT_LABELS: Mapping[str, str] = {
    **{str(status): label for status, label in STATUS_LABELS.items()},
    "repaired": "with unreadable replies",
    "restated": "with restated answers",
    "predictions": "predictions",
    "empty": "empty",
}

ALWAYS_SHOWN = ("answered", "failed")  # counts shown even if they are 0

DIFFERENCE = ("", "a", "b", "b − a", "95 % CI", "p", "Holm p")  # heads of a table of differences

MCNEMAR = ("", "n", "right in a only", "right in b only", "p", "Holm p")  # heads

NO_INTERVAL = f"< {MIN_SCENES} scenes"  # in place of an interval

MAX_CHANGED = 20  # changed questions listed


class Line(NamedTuple):
    label: str
    number: int | None
    """Number of questions."""
    score: float | None
    interval: str = ""
    """95 % confidence interval, or the reason why there is none; empty if it is not computed."""
    name: str = ""
    """Name of its chance levels."""


def score_table(results: Mapping[str, Any], *, every: bool = False) -> PlainTable:
    """Return a table of the scores by type and the score of the run; the caption has counts and caveats.

    `every` adds all other aggregate scores.
    """
    parser = results["parser"]
    read_by = "" if parser == OFFICIAL else f", answers parsed by {parser}"
    title = f"Scores{read_by}{'' if results['status'] == 'complete' else ' (PARTIAL)'}"
    heads = ("question type", "n", "score", "95 % CI", "random", "frequency")
    table = PlainTable(title, *heads)
    for line in type_lines(results):
        if line.name == ORDER:
            table.add_section()
        _add(table, line, results["chance"])
    table.add_section()
    for line in overall_lines(results, every=every):
        _add(table, line, results["chance"])
    lenient = None if every else lenient_line(results)
    baselines = [f"{name}: {note}" for name, note in results.get("baselines", {}).items()]
    notes = [f"- {note}" for note in (*results["notes"], *baselines)]
    table.caption = "\n".join([*([lenient] if lenient else []), *notes, *_work_lines(results)])
    return table


def view_table(views: Mapping[str, Any]) -> PlainTable:
    """Return the table of measures of reached views."""
    table = PlainTable("Reached views", "", "n", "mean", "95 % CI")
    for name, measure in MEASURES.items():
        if entry := views.get(name):
            digits = 1 if measure.is_share else 2
            low, high = entry["interval"] or (None, None)
            interval = NO_INTERVAL if low is None else f"{low:.{digits}f} … {high:.{digits}f}"
            table.add_row(measure.label, str(entry["n"]), f"{entry['mean']:.{digits}f}", interval)
    return table


def comparison_table(comparison: Mapping[str, Any]) -> PlainTable:
    """Return a table of both scores, their difference, its confidence interval and its test, by aggregate score and
    type.
    """
    partial = {name: " (PARTIAL)" for name, status in comparison.get("status", {}).items() if status != "complete"}  # fmt: skip
    title = f"b: {comparison['b']}{partial.get('b', '')}, a: {comparison['a']}{partial.get('a', '')}, {comparison['n']} questions"
    differences = comparison["differences"]
    table, labels = PlainTable(title, *DIFFERENCE), row_names(differences)
    for name, label in labels.items():
        entry = differences[name]
        table.add_row(
            label,
            *(figure(entry[column]) for column in ("a", "b")),
            format_signed(entry["difference"]),
            interval_cell(entry["interval"]),
            probability(entry["p"]),
            probability(entry["p_holm"]),
        )
    lines = [
        f"CI and p: {method_words()}. Holm p: corrected for the number of types; in row"
        f" '{labels[OFFICIAL_RAW]}' for the number of compared runs."
    ]
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
        label = "all multiple-choice" if name == "choices" else type_label(name)
        numbers = (str(test[key]) for key in ("n", "only_a", "only_b"))
        table.add_row(label, *numbers, probability(test["p"]), probability(test["p_holm"]))
    table.caption = "Treats questions about the same scene as independent, unlike the intervals."
    return table


def differences_table(
    title: str, differences: Mapping[str, Any], words: Mapping[str, str]
) -> PlainTable:
    """Return the table of differences between figures; `words` has their labels."""
    table = PlainTable(title, *DIFFERENCE)
    for name, entry in differences.items():
        table.add_row(words[name], *difference_cells(entry))
    return table


def difference_cells(entry: Mapping[str, Any]) -> list[str]:
    """Return the table cells of a difference between figures: a, b, b − a, confidence interval, p, corrected p."""
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
        table.add_row(label, *map(figure, row["scores"]), *gains)
    table.caption = (
        f"→: gain (Holm p), paired, {method_words()}; --json and --page include intervals"
    )
    for rung in ladder["rungs"]:
        table.caption += (
            f"\n- {rung['tools']}, mean per question: {describe_cost(rung['work'])}"
            if rung["work"]
            else ""
        )
    return table


def changed_table(comparison: Mapping[str, Any]) -> PlainTable:
    """Return the questions that score at least 50 % in only one of the runs, at most MAX_CHANGED."""
    questions = comparison["changed"]
    num_gained = sum(entry["b"]["score"] > entry["a"]["score"] for entry in questions)
    table = PlainTable(
        f"Score of at least 50 % in one run only: {num_gained} gained, {len(questions) - num_gained} lost"
    )
    for name in ("question", "type", "scene", "ground truth", "a", "b"):
        table.add_column(name)
    for entry in questions[:MAX_CHANGED]:
        answers = (_changed_answer(entry, side) for side in ("a", "b"))
        table.add_row(
            entry["question_id"],
            type_label(entry["type"]),
            entry["scene"],
            str(entry["truth"]),
            *answers,
        )
    if len(questions) > MAX_CHANGED:
        table.caption = f"and {len(questions) - MAX_CHANGED} more (--json lists all)"
    return table


def _changed_answer(entry: Mapping[str, Any], side: str) -> str:
    """Return the answer of a run to a changed question, with its score unless it is a choice."""
    answer, score = entry[side]["answer"] or "–", entry[side]["score"]
    is_choice = answer_form_of(entry["type"]) == "letter"
    return answer if is_choice else f"{answer} ({100 * score:.0f} %)"


def figure(score: float | None) -> str:
    """Format a score with one decimal; None becomes a dash."""
    return "–" if score is None else f"{score:.1f}"


def interval(bounds: Sequence[float] | None) -> str:
    """Format a confidence interval with one decimal; None becomes an empty string."""
    return "" if bounds is None else f"{bounds[0]:.1f} … {bounds[1]:.1f}"


def interval_cell(bounds: Sequence[float] | None) -> str:
    """Format a confidence interval; None becomes the reason why there is none."""
    return NO_INTERVAL if bounds is None else interval(bounds)


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


def _add(table: PlainTable, line: Line, chance: Mapping[str, Mapping[str, float | None]]) -> None:
    number = "" if line.number is None else str(line.number)
    levels = [figure(levels.get(line.name)) if line.name else "" for levels in chance.values()]
    table.add_row(line.label, number, figure(line.score), line.interval, *levels)


def type_lines(results: Mapping[str, Any]) -> list[Line]:
    """Return one row per type. Direction types follow their task, and appearance order comes last."""
    counts, intervals = results["counts"].get("types", {}), results["intervals"]
    types = {}
    for name, entry in results["types"].items():
        if not isinstance(entry, Mapping):  # of a file of predictions
            entry = {"n": counts.get(name), "score": entry}
        bounds = interval_cell(intervals.get(name))
        types[name] = Line(type_label(name), entry["n"], entry["score"], bounds, name)
    directions = {name: types[name] for name in DIRECTION_TYPES if name in types}
    lines: dict[str, Line] = {}
    for name, line in types.items():
        if name in directions and DIRECTION not in lines:
            number = sum(line.number or 0 for line in directions.values())
            score, bounds = results["tasks"].get(DIRECTION), intervals.get(DIRECTION)
            task = Line(type_label(DIRECTION), number, score, interval_cell(bounds), DIRECTION)
            lines |= {DIRECTION: task, **directions}
        elif name != ORDER:
            lines[name] = line
    return [*lines.values(), *(types[name] for name in (ORDER,) if name in types)]


def overall_lines(results: Mapping[str, Any], *, every: bool = True) -> list[Line]:
    """Return the row of the score and those of named metrics, or all aggregate scores."""
    main = headline(results)
    is_incomplete = "failed" in results["counts"] and results[OFFICIAL] is None
    label = f"{main.name}{', scored questions only' if is_incomplete else ''}"
    lines = [Line(label, main.n, main.score, interval_cell(main.bounds), MACRO)]
    lines += [
        Line(name, metric["n"], metric["score"], interval_cell(metric["interval"]))
        for name, metric in results.get("metrics", {}).items()
    ]
    return [
        *lines,
        *(_other_lines(results, main.n) if every else []),
        *(mirrored_lines(results["mirrored"]) if "mirrored" in results else []),
    ]


def _other_lines(results: Mapping[str, Any], number: int) -> list[Line]:
    """Return the rows of the aggregate scores behind the score of a run."""
    intervals, key, is_vsibench = (
        results["intervals"],
        main_mean(results["parser"]),
        asks_vsibench(results),
    )
    scores = dict.fromkeys(MEAN_NAMES) | {
        name: results[name] for name in (WITHOUT_ORDER, MICRO, MEAN_OF_TYPES)
    }
    scores[OFFICIAL] = results.get("official_over_scored", {"score": results[OFFICIAL]})["score"]
    if not is_vsibench:
        del scores[WITHOUT_ORDER]
    lines = [
        Line(MEAN_NAMES[name], number, score, interval_cell(intervals.get(name)))
        for name, score in scores.items()
    ]
    if results[OFFICIAL] is None and "official_missing_as_zero" in results:
        label = f"{MEAN_NAMES[OFFICIAL]}, unscored as 0"
        lines.insert(1, Line(label, None, results["official_missing_as_zero"]))
    parts = {"debiased": results["debiased"]} if results["debiased"] else {}
    if len(results["datasets"]) > 1:
        parts |= results["datasets"]
    lines += [
        Line(f"{name} only", part["n"], part[key], interval_cell(part["intervals"].get(key)))
        for name, part in parts.items()
        if part["n"] < number
    ]
    return lines + [
        Line(f"parsed by {name}", number, scores[MACRO])
        for name, scores in results["parsers"].items()
        if is_vsibench and name != results["parser"]
    ]


def mirrored_lines(figures: Mapping[str, Any]) -> list[Line]:
    """Return the scores of left/right questions by original and mirrored ground truth."""
    lines = [
        Line(f"left/right, {truth} ground truth", figures["n"], part[MICRO], interval_cell(part["intervals"].get(MICRO)))
        for truth, part in ((truth, figures[truth]) for truth in ("mirrored", "original"))
    ]  # fmt: skip
    turned = figures["turned"]
    share, bounds = turned["mirrored"]["share"], turned["mirrored"]["interval"]
    return [*lines, Line("answers mirrored, too", turned["n"], share, interval_cell(bounds))]


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
