"""Figures as a person reads them on a terminal, 80 characters wide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from rich.console import Group
from rich.table import Table

from render_agent.score.causal import WORDS
from render_agent.score.intervals import FEW_SCENES
from render_agent.score.means import MACRO
from render_agent.score.summary import (
    OFFICIAL,
    OFFICIAL_RAW,
    ON_PARSED,
    ON_WORDS,
    asks_vsibench,
    overall_name,
    row_names,
)
from render_agent.tasks.question_types import DIRECTION, DIRECTION_TYPES, ORDER
from render_agent.util.console import plain_table

COUNTS = "answered exhausted failed missing active repaired predictions empty".split()
"""The counts that a caption shows, in this order."""

ALWAYS_SHOWN = ("answered", "failed")
"""Those of them that are shown when they are 0."""

DIFFERENCE = ("", "a", "b", "b − a", "95 % interval", "p", "Holm")
"""The heads of a table of paired differences."""

MOST_CHANGED = 20
"""So many changed questions are listed."""


class Line(NamedTuple):
    """One line of a table of scores; bounds: of the interval."""

    label: str
    number: int | None
    score: float | None
    bounds: list[float] | None = None


def score_table(results: Mapping[str, Any]) -> Table:
    """Return the scores by type, with every named mean below and what they are in the caption."""
    parser = results["parser"]
    by = " by VSI-Bench's definitions" if asks_vsibench(results) else ""
    by = by if parser == OFFICIAL else f" by answers read as {parser} does"
    title = f"Score{by}{'' if results['status'] == 'complete' else ' (PARTIAL)'}"
    heads = ("question type", "n", "score", "95 % interval", "random", "frequency")
    table = plain_table(title, *heads)
    for name, line in _by_type(results).items():
        if name == ORDER:
            table.add_section()
        levels = (results["chance"][baseline].get(name) for baseline in ("random", "frequency"))
        _add(table, line, *(figure(level) for level in levels))
    table.add_section()
    for line in overall_lines(results):
        _add(table, line)
    table.caption = _caption(results)
    if any(results["intervals"].get(name) is None for name in results["types"]):
        table.caption += f"\n- {FEW_SCENES}"
    return table


def score_tables(results: Mapping[str, Any]) -> Group:
    """Return the table of the scores and, where questions have counterparts, that of their pairs below."""
    tables = [score_table(results)]
    if "causal" in results:
        tables.append(causal_table(results["causal"]))
    return Group(*tables)


def causal_table(causal: Mapping[str, Any]) -> Table:
    """Return the table of pairs by change: how answers followed, and why questions have no pair."""
    title = "Pairs: the same question with one thing changed"
    table = plain_table(title, "change", "n", "share", "95 % interval")
    parts = {"all changes": causal, **causal["changes"]}
    for label, part in parts.items() if len(causal["changes"]) != 1 else causal["changes"].items():
        table.add_section()
        table.add_row(label, str(part["n"]), "", "")
        for name, words in WORDS.items():
            if (row := part.get(name)) and row["n"]:
                table.add_row(f"  {words}", str(row["n"]), figure(row["share"]), interval(row["interval"]))  # fmt: skip
        apart = part["difference"]
        table.add_row("  score, changed less original", str(part["n"]), signed(apart["points"]), interval(apart["interval"]))  # fmt: skip
    lines = [
        f"- no pair by {change}: {reason} ({number})"
        for change, reasons in causal["left_out"].items()
        for reason, number in reasons.items()
    ]
    if any(part[name]["interval"] is None for part in parts.values() for name in WORDS if name in part and part[name]["n"]):  # fmt: skip
        lines.append(f"- {FEW_SCENES}")
    table.caption = "\n".join(lines) or None
    return table


def comparison_table(compared: Mapping[str, Any]) -> Table:
    """Return both scores, their difference, its interval and both tests, by mean and type."""
    title = f"b: {compared['b']}, a: {compared['a']}, {compared['n']} questions"
    # where no row has an interval, its columns would only take width from the names
    sure = any(entry["interval"] is not None for entry in compared["differences"].values())
    columns = DIFFERENCE if sure else DIFFERENCE[:4]
    table = plain_table(title, *columns)
    table.add_column("McNemar", justify="right")
    tests, labels = compared["mcnemar"], row_names(compared["differences"])
    for name, label in labels.items():
        entry = compared["differences"][name]
        test = tests.get("choices" if name == OFFICIAL else name)
        cells = (
            _row_name(label),
            *(figure(entry[column]) for column in ("a", "b", "difference")),
            interval(entry["interval"]),
            probability(entry["p"]),
            probability(entry["p_holm"]),
        )
        table.add_row(
            *cells[: len(columns)],
            f"{test['only_a']}:{test['only_b']} {probability(test['p'])}" if test else "",
        )
    table.caption = (
        "McNemar: choices that are right in one run only (a:b) and the exact p, as if"
        f" questions of one scene were independent; in the row {labels.get(OFFICIAL, OFFICIAL)} those of all choices."
    )
    if sure:
        table.caption = (
            "interval and p: jackknife over scenes. Holm: p corrected for the number of rows,"
            f" {labels.get(OFFICIAL, OFFICIAL)} for that of the runs compared. {table.caption}"
        )
    if any(entry["interval"] is None for entry in compared["differences"].values()):
        table.caption += f"\n- {FEW_SCENES}"
    for name, (ours, theirs) in compared.get("options", {}).items():
        table.caption += f"\n- {name.replace('_', '-')}: a {_as_typed(ours)}, b {_as_typed(theirs)}"
    for side, work in compared.get("work", {}).items():
        table.caption += f"\n- {side}, a question took on average {took(work)}" if work else ""
    for side, notes in compared.get("notes", {}).items():
        table.caption += "".join(f"\n- {side}: {note}" for note in notes)
    return table


def compared_beliefs_table(compared: Mapping[str, Any], words: Mapping[str, str]) -> Table:
    """Return the table of differences in beliefs; words: the names of the figures."""
    table = plain_table("Beliefs after the last turn", *DIFFERENCE)
    for name, entry in compared["beliefs"].items():
        table.add_row(words[name], *belief_cells(entry))
    return table


def belief_cells(entry: Mapping[str, Any]) -> list[str]:
    """Return a difference of beliefs as tables have it: a, b, b − a, its interval, p, and p by Holm."""
    digits = 1 if max(abs(entry["a"]), abs(entry["b"])) >= 5 else 2
    low, high = entry["interval"] or (None, None)
    return [
        *(f"{entry[side]:.{digits}f}" for side in ("a", "b")),
        f"{entry['difference']:+.{digits}f}",
        "" if low is None else f"{low:+.{digits}f} … {high:+.{digits}f}",
        probability(entry["p"]),
        probability(entry["p_holm"]),
    ]


def ladder_table(ladder: Mapping[str, Any]) -> Table:
    """Return the table of the ladder of help, by type: the score of every rung and the gain to the next."""
    rungs = [rung["tools"] for rung in ladder["rungs"]]
    table = plain_table(f"Ladder of help, {ladder['n']} questions", "", *rungs)
    for low, high in pairwise(rungs):
        table.add_column(f"{low} → {high}", justify="right")
    for name, label in row_names(ladder["types"]).items():
        row = ladder["types"][name]
        gains = (f"{signed(g['difference'])} ({probability(g['p_holm'])})" for g in row["gains"])
        table.add_row(_row_name(label), *map(figure, row["scores"]), *gains)
    table.caption = (
        "a step: gain, and p by Holm; paired, over scenes (--json and --page have intervals)"
    )
    for rung in ladder["rungs"]:
        table.caption += (
            f"\n- {rung['tools']}, a question took on average {took(rung['work'])}"
            if rung["work"]
            else ""
        )
    return table


def changed_table(compared: Mapping[str, Any]) -> Table:
    """Return the first of the questions that are right in one run and wrong in the other."""
    changed = compared["changed"]
    gained = sum(entry["b"]["score"] > entry["a"]["score"] for entry in changed)
    table = plain_table(
        f"{len(changed)} questions changed sides: {gained} won, {len(changed) - gained} lost"
    )
    for name in ("question", "type", "scene", "truth", "a", "b"):
        table.add_column(name, overflow="fold")
    for entry in changed[:MOST_CHANGED]:
        answers = (entry[side]["answer"] or "–" for side in ("a", "b"))
        table.add_row(
            entry["question_id"], entry["type"], entry["scene"], str(entry["truth"]), *answers
        )
    if len(changed) > MOST_CHANGED:
        table.caption = f"and {len(changed) - MOST_CHANGED} more (--json has all)"
    return table


def figure(score: float | None) -> str:
    """Return a figure with one decimal, a dash for none."""
    return "–" if score is None else f"{score:.1f}"


def interval(bounds: Sequence[float] | None) -> str:
    """Return an interval with one decimal, nothing for none."""
    return "" if bounds is None else f"{bounds[0]:.1f} … {bounds[1]:.1f}"


def signed(points: float | None) -> str:
    """Return a difference with its sign and one decimal, a dash for none."""
    return "–" if points is None else f"{points:+.1f}"


def probability(p: float | None) -> str:
    """Return a p value as one reads it, a dash for none."""
    if p is None:
        return "–"
    return "<.001" if p < 0.001 else f"{p:.3f}"


def _add(table: Table, line: Line, *more: str) -> None:
    number = "" if line.number is None else str(line.number)
    label = line.label.replace(", ", ",\n  ")  # two columns of words would leave none for figures
    table.add_row(label, number, figure(line.score), interval(line.bounds), *more)


def _row_name(name: str) -> str:
    """Return the name of a mean or a type, the kinds of direction indented below their task."""
    return name.replace(f"{DIRECTION}_", "    ") if name in DIRECTION_TYPES else name


def _by_type(results: Mapping[str, Any]) -> dict[str, Line]:
    """Return the line of every type, the kinds of direction below their task, order last."""
    numbers = results["counts"].get("types", {})
    within = results["intervals"]
    types = {
        name: Line(_row_name(name), entry["n"], entry["score"], within.get(name))
        if isinstance(entry, Mapping)
        else Line(_row_name(name), numbers.get(name), entry, within.get(name))
        for name, entry in results["types"].items()
    }
    directions = {name: types[name] for name in DIRECTION_TYPES if name in types}
    lines: dict[str, Line] = {}
    for name, line in types.items():
        if name in directions and DIRECTION not in lines:
            number = sum(line.number or 0 for line in directions.values())
            score, bounds = results["tasks"].get(DIRECTION), within.get(DIRECTION)
            lines |= {DIRECTION: Line(DIRECTION, number, score, bounds), **directions}
        elif name != ORDER:
            lines[name] = line
    return lines | {name: types[name] for name in (ORDER,) if name in types}


def overall_lines(results: Mapping[str, Any]) -> list[Line]:
    """Return a line for every overall figure of some results."""
    macro = OFFICIAL if results["parser"] == OFFICIAL else MACRO
    within, number = results["intervals"], results["n"]
    vsibench = asks_vsibench(results)
    metrics = [
        Line(f"{name}{ON_WORDS}", metric["n"], metric["score"], metric["interval"])
        for name, metric in results.get("metrics", {}).items()
    ]
    lines = metrics + _official(results)
    if macro == MACRO:
        label = f"mean of tasks, {results['parser']}"
        lines.append(Line(label, number, results[MACRO], within.get(MACRO)))
    for name, label in (
        ("without_order", "without appearance order"),
        ("micro", "micro: mean of questions"),
        ("mean_of_types", "mean of types"),
    ):
        if vsibench or name != "without_order":
            lines.append(Line(label, None, results[name], within.get(name)))
    parts = {"debiased": results["debiased"]} if results["debiased"] else {}
    if len(results["datasets"]) > 1:
        parts |= results["datasets"]
    lines += [
        Line(f"{name} alone", part["n"], part[macro], part["intervals"].get(macro))
        for name, part in parts.items()
        if part["n"] < number
    ]
    lines += [
        Line(f"read as {name} does", None, other[MACRO])
        for name, other in results["parsers"].items()
        if vsibench and name != results["parser"]
    ]
    return lines + (mirrored_lines(results["mirrored"]) if "mirrored" in results else [])


def mirrored_lines(mirrored: Mapping[str, Any]) -> list[Line]:
    """Return the lines of `mirrored` in results: mean scores of left/right questions by either truth."""
    lines = [
        Line(
            f"left/right, {truth} truth",
            mirrored["n"],
            mirrored[truth]["micro"],
            mirrored[truth]["intervals"].get("micro"),
        )
        for truth in ("mirrored", "original")
    ]
    turned = mirrored["turned"]
    share = turned["mirrored"]
    return [*lines, Line("turned with the room", turned["n"], share["share"], share["interval"])]


def _official(results: Mapping[str, Any]) -> list[Line]:
    """Return the official figures; those of a run that lacks answers say what they are over."""
    within, name = results["intervals"], overall_name(results)
    if "official_over_scored" not in results:  # a file of predictions, read as it is
        return [Line(f"{name}{ON_WORDS}", results["n"], results[OFFICIAL], within.get(OFFICIAL))]
    over = results["official_over_scored"]
    lacking = results[OFFICIAL] is None and over["score"] is not None
    lines = []
    if OFFICIAL_RAW in results:
        bounds = within.get(OFFICIAL_RAW)
        lines.append(Line(f"{name}{ON_WORDS}", over["n"], results[OFFICIAL_RAW], bounds))
    label = f"{name}{ON_PARSED}{', of those scored' if lacking else ''}"
    lines.append(Line(label, over["n"], over["score"], within.get(OFFICIAL)))
    if lacking:
        missing = results["official_missing_as_zero"]
        lines.append(Line(f"{name}{ON_PARSED}, the others as 0", None, missing))
    return lines


def _caption(results: Mapping[str, Any]) -> str:
    counts = results["counts"]
    statuses = [
        f"{name} {counts[name]}"
        for name in COUNTS
        if counts.get(name) or (name in ALWAYS_SHOWN and name in counts)
    ]
    work, reuse = work_words(results), results.get("reuse")
    kept = [f"kept over the turns: {KEPT.get(reuse, reuse)}"] if reuse else []
    lines = [" · ".join(statuses), *([work] if work else []), *kept]
    return "\n".join([*lines, *(f"- {note}" for note in results["notes"])])


KEPT = {"keys": "keys and values", "vision": "pictures", "none": "nothing", "recompute": "nothing"}
"""What an engine kept, in words."""


def work_words(results: Mapping[str, Any]) -> str | None:
    """Return the average work of a question in words; None where the results lack it."""
    work = results.get("totals", {}).get("per_question")
    return f"a question took on average {took(work)}" if work else None


def _as_typed(value: Any) -> str:
    """Return the value of an option as it would be typed."""
    if value in (None, (), [], ""):
        return "not given"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def took(work: Mapping[str, float]) -> str:
    """Return in words what questions took on average, of `per_question` of results."""
    tokens = f"{work['tokens_in']:,.0f} tokens read, {work['tokens_out']:,.0f} written"
    if not work["tokens_in"]:  # every prompt has tokens
        tokens = "tokens: not reported"
    return f"{work['turns']:.1f} turns, {work['renders']:.1f} pictures drawn, {tokens}"
